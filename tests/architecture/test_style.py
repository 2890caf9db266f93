"""The house rules that a linter does not know, as tests (CONTRIBUTING.md says them in words).

A rule is a function from one source file to its breaches, so that each is tested twice: against
the tree, where it must be silent, and against a planted breach, where it must not.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "placet"
PURE_ROOMS = frozenset({"schemas", "kernel", "domains"})

FILE_LINES_MAX = 410
FUNCTION_LINES_MAX = 60
PUBLIC_METHODS_MAX = 9

# The classes that may be wider, how wide, and why.
WIDER_CLASSES = {
    "Session": (13, "the public face of a conversation: its names are the specification's"),
    "World": (10, "the port of the agent layer: what a conversation asks of an open world"),
    "Orchestrator": (28, "the public face: its names are the specification's, each one line"),
    "Kernel": (17, "the synchronous face: its names are the specification's, each one line"),
    "Domain": (12, "the port by which a guest enters: every hook but its kinds has a default"),
    "State": (14, "the tree: half is reading, half is for the drafts and folds that write it"),
    "StateManager": (26, "seed 000: the names are its, and the log beside them"),
    "SqliteEventLog": (10, "the port of a log, and `begin` for a fork of a compacted one"),
    "Draft": (15, "what rules may read and write: the port of a domain dictates it"),
}
VAGUE_NAMES = frozenset({"common", "helper", "helpers", "manager", "misc", "util", "utils"})
IMPURE_BUILTINS = frozenset(
    {"__import__", "breakpoint", "eval", "exec", "hash", "id", "input", "open", "print"}
)

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file of the package; `path` is relative to it."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_pure(self) -> bool:
        return self.path.parts[0] in PURE_ROOMS

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, FUNCTION_NODES))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def file_is_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines, at most {FILE_LINES_MAX}: split it by noun"


def functions_are_short(source: Source) -> Iterator[str]:
    for function in source.functions():
        first = function.body[0]
        docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0
        lines = (function.end_lineno or 0) - function.lineno + 1 - docstring
        if lines > FUNCTION_LINES_MAX:
            yield f"{function.name}: {lines} lines, at most {FUNCTION_LINES_MAX}"


def classes_are_narrow(source: Source) -> Iterator[str]:
    for node in source.classes():
        methods = {
            method.name
            for method in node.body
            if isinstance(method, FUNCTION_NODES)
            and not method.name.startswith("_")
            and not any("property" in ast.unparse(d) for d in method.decorator_list)
        }
        allowed, _why = WIDER_CLASSES.get(node.name, (PUBLIC_METHODS_MAX, ""))
        if len(methods) > allowed:
            yield f"{node.name}: {len(methods)} public methods, at most {allowed}"


def name_is_the_fields_word(source: Source) -> Iterator[str]:
    words = {word for part in source.path.with_suffix("").parts for word in part.split("_")}
    for vague in sorted(words & VAGUE_NAMES):
        yield f"'{vague}' says nothing: name the noun it holds"


def module_states_its_rules(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield "no module docstring: its rules, and its place on the path of a batch"


def nothing_is_left_for_later(source: Source) -> Iterator[str]:
    for mark in re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", source.text):
        yield f"{mark}: do it, or open an issue"


def pure_room_calls_nothing_impure(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_BUILTINS
        ):
            yield f"line {node.lineno}: {node.func.id}() differs between runs"


def pure_room_does_not_wait(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"line {node.lineno}: waits"


def pure_room_iterates_no_set(source: Source) -> Iterator[str]:
    """Catch what is plainly a set; runs under several PYTHONHASHSEED catch the others."""
    if not source.is_pure:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            yield f"line {node.iter.lineno}: the order of a set differs between runs: sort it"


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


Rule = Callable[[Source], Iterator[str]]
LONG_FUNCTION = '"""M."""\ndef f():\n' + "    x = 1\n" * FUNCTION_LINES_MAX
WIDE_CLASS = '"""M."""\nclass C:\n' + "".join(
    f"    def m{index}(self): ...\n" for index in range(PUBLIC_METHODS_MAX + 1)
)

# Each rule with the smallest file that breaks it.
RULES: list[tuple[Rule, str, str]] = [
    (file_is_short, "kernel/commit/commit.py", '"""M."""\n' + "x = 1\n" * FILE_LINES_MAX),
    (functions_are_short, "kernel/commit/commit.py", LONG_FUNCTION),
    (classes_are_narrow, "kernel/commit/commit.py", WIDE_CLASS),
    (name_is_the_fields_word, "kernel/apply_utils.py", ""),
    (name_is_the_fields_word, "runtime/common/clock.py", ""),
    (module_states_its_rules, "kernel/commit/commit.py", "x = 1"),
    (nothing_is_left_for_later, "kernel/commit/commit.py", "# TODO: later"),
    (pure_room_calls_nothing_impure, "kernel/commit/commit.py", "x = hash('a')"),
    (pure_room_calls_nothing_impure, "domains/world/rules.py", "x = open('a')"),
    (pure_room_does_not_wait, "schemas/batch.py", "async def f(): ..."),
    (pure_room_iterates_no_set, "kernel/order.py", "x = [y for y in {1, 2}]"),
    (pure_room_iterates_no_set, "kernel/order.py", "for y in set(z): ..."),
]


def package_sources() -> list[Source]:
    return [
        Source(path.relative_to(PACKAGE), path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


@pytest.mark.parametrize(
    "rule", dict.fromkeys(rule for rule, *_ in RULES), ids=lambda r: r.__name__
)
def test_the_package_keeps_the_rule(rule):
    breaches = [f"{s.path}: {breach}" for s in package_sources() for breach in rule(s)]
    assert breaches == []


@pytest.mark.parametrize(("rule", "path", "text"), RULES, ids=lambda v: getattr(v, "__name__", ""))
def test_a_planted_breach_is_seen(rule, path, text):
    assert len(list(rule(Source(Path(path), text)))) == 1


def test_the_limits_themselves_are_allowed():
    just_short = Source(Path("kernel/commit/commit.py"), LONG_FUNCTION.rsplit("    x", 1)[0])
    assert list(functions_are_short(just_short)) == []
    outside = Source(Path("runtime/clock.py"), "for y in set(z): print(hash(y))")
    assert list(pure_room_calls_nothing_impure(outside)) == []
    assert list(pure_room_iterates_no_set(outside)) == []


def test_no_file_names_the_host_of_a_package_registry():
    names = ("py" + "pi", "pythonhosted", "npm" + "js", "crates")
    pattern = re.compile(rf"\b(?:{'|'.join(names)})\.(?:org|com|io)\b")
    folders = [".ci", "benchmarks", "docs", "examples", "src", "tests"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    files += [ROOT / ".ci" / "run", ROOT / "dev", ROOT / "pyproject.toml", *ROOT.glob("*.md")]
    named = [
        str(path.relative_to(ROOT))
        for path in files
        if path.is_file()
        and path.suffix != ".pyc"
        and pattern.search(path.read_text("utf-8", "replace"))
    ]
    assert named == []
