"""Rules of style that a linter does not know (CONTRIBUTING.md has them in words).

A rule is a function from one source file to its breaches. Each is tested twice: against the tree,
where it must find none, and against a planted breach, where it must find exactly one.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.plain_words import LITERARY_WORDS, OPENINGS, is_riddle, words_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "placet"
APPLICATIONS = sorted(ROOT.glob("plugins/placet-*/src/placet_*"))
IMPURE_PARTS = frozenset({"disk", "frontend", "placet_bench"})
"""Packages of a plug-in that do more than decide."""

PURE_PACKAGES = frozenset({"schemas", "kernel", "domains"})

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

# The files that may be longer, and why one file reads better than two.
LONGER_FILES: dict[str, str] = {
    "kernel/kernel.py": "the class that loops embed: every way into the kernel on one page",
    "schemas/log/record.py": "every type of record of a log on one page",
    "kernel/state/draft.py": "the class that rules call: every name for rules on one page",
    "runtime/orchestrator.py": "the class that users import: every public name on one page",
    "placet_tools/frontend/gate.py": "the class that programs call: every public name on one page",
}

# Functions that are longer than `FUNCTION_LINES_MAX`, and why.
LONGER_FUNCTIONS: dict[str, str] = {
    "_plain_decision": "the stages of a group inlined: a call for each costs a tenth of a step",
    "decide_plain": "the same: it is the function that `_plain_decision` returns",
    "chat": "its length is that of its options: a typer command declares each",
    "verify": "its length is that of its options",
}

# Largest number of docstrings of a package that match a pattern of `plain_words`. It may only fall.
RIDDLES_MAX: dict[str, int] = {}

# The same of comments and messages. One is a negation that the parser of designs reads.
PROSE_RIDDLES_MAX: dict[str, int] = {"placet_design": 1}

# Largest number of attributes and arguments with an unwanted word. It may only fall.
ATTRIBUTE_WORDS_MAX: dict[str, int] = {}

# `disk/root.py` writes below folders that it holds open, for agents; the rest is `whole_file`.
FILE_MAKERS = frozenset({"stores/files.py", "placet_files/disk/root.py"})
# A draft, the help of a command, and the time stamp of an entity.
WRITTEN_TO = frozenset({"draft", "formatter", "rows", "grave", "row"})

# Classes that are a base of one class here, and exist for others than us.
PUBLIC_BASES: dict[str, str] = {
    "HideFields": "a visibility policy for the domains of users",
    "KnownOnly": "a visibility policy for the domains of users",
    "_BatchOptions": "the optional keys of a TypedDict, which Python 3.11 needs in a base",
}

# Class names of the protocols that a compatibility layer or the design domain implements.
PROTOCOL_NAMES = frozenset({"Action", "Executor", "Intent", "Outcome", "ToolUnregistered"})

# Names that hold a word of the list and are terms of the field where they stand.
PLAIN_NAMES: frozenset[str] = frozenset({"stand_by"})

# Files that write or mark up texts by themselves, each through the functions of printable.py.
ESCAPING: dict[str, str] = {
    "schemas/printable.py": "the functions themselves",
    "cli/terminal.py": "what a command prints goes through it",
    "cli/progress.py": "a bar with the words of the command itself",
    "cli/commands/gate.py": "a line of bytes for each line",
    "cli/commands/log.py": "an array that may be longer than memory",
    "frontends/render.py": "a conversation, colored",
    "server/player_page.py": "a whole page in an attribute",
    "stores/snapshots/writer.py": "a process that its parent reads",
    "stores/sqlite/locks.py": "the same",
    "testing/hash_order_property.py": "the same",
}
WRITERS = frozenset({"sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer", "html.escape"})

VAGUE_NAMES = frozenset({"common", "helper", "helpers", "manager", "misc", "util", "utils"})
IMPURE_BUILTINS = frozenset(
    {"__import__", "breakpoint", "eval", "exec", "hash", "id", "input", "open", "print"}
)

FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _parsed(text: str) -> ast.Module:
    """Parse a file once for all rules."""
    return ast.parse(text)


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Walk a tree once for all rules."""
    return tuple(ast.walk(tree))


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """Release the trees, which have a million nodes, after the last rule.

    Each later collection of garbage in this worker would visit them.
    """
    yield
    for cached in (package_sources, _nodes, _parsed):
        cached.cache_clear()


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file of the package; `path` is relative to it."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return _nodes(self.tree)

    @property
    def is_pure(self) -> bool:
        room, part, *_ = (*self.path.parts, "")
        is_rules = room.startswith("placet_") and not {room, part} & IMPURE_PARTS
        return is_rules or room in PURE_PACKAGES

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.nodes if isinstance(node, FUNCTION_NODES))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))

    def docstrings(self) -> Iterator[str]:
        nodes = (ast.Module, ast.ClassDef, *FUNCTION_NODES)
        for node in self.nodes:
            if isinstance(node, nodes) and (docstring := ast.get_docstring(node)):
                yield docstring


def file_is_short(source: Source) -> Iterator[str]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES_MAX and source.path.as_posix() not in LONGER_FILES:
        yield f"{lines} lines, at most {FILE_LINES_MAX}: split it, or list it with the reason"


def functions_are_short(source: Source) -> Iterator[str]:
    for function in source.functions():
        first = function.body[0]
        docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0
        lines = (function.end_lineno or 0) - function.lineno + 1 - docstring
        if lines > FUNCTION_LINES_MAX and function.name not in LONGER_FUNCTIONS:
            yield f"{function.name}: {lines} lines, at most {FUNCTION_LINES_MAX}"


def names_are_plain(source: Source) -> Iterator[str]:
    """Check the names of the module, its classes and functions, and their parameters."""
    for name in (source.path.stem, *_defined_names(source.tree)):
        for word in sorted(words_of(name) & LITERARY_WORDS):
            if name not in PLAIN_NAMES:
                yield f"{name}: '{word}' is no term of the field"


def _defined_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


def docstrings_open_with_a_verb(source: Source) -> Iterator[str]:
    for docstring in source.docstrings():
        if opening := OPENINGS.match(docstring):
            yield f"a docstring opens with {opening[0]!r}: {docstring.splitlines()[0]}"


def file_name_says_something(source: Source) -> Iterator[str]:
    words = {word for part in source.path.with_suffix("").parts for word in part.split("_")}
    for vague in sorted(words & VAGUE_NAMES):
        yield f"'{vague}' says nothing: name the noun it holds"


def module_states_its_rules(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield "no module docstring: its rules, and its place on the path of a batch"


def nothing_is_left_for_later(source: Source) -> Iterator[str]:
    for mark in re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", source.text):
        yield f"{mark}: do it, or open an issue"


def pure_package_calls_nothing_impure(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    for node in source.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in IMPURE_BUILTINS
        ):
            yield f"line {node.lineno}: {node.func.id}() differs between runs"


def pure_package_does_not_wait(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    for node in source.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"line {node.lineno}: waits"


def pure_package_iterates_no_set(source: Source) -> Iterator[str]:
    """Find iterations over literal sets; runs with several PYTHONHASHSEED find the others."""
    if not source.is_pure:
        return
    for node in source.nodes:
        if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            yield f"line {node.iter.lineno}: the order of a set differs between runs: sort it"


def output_is_escaped(source: Source) -> Iterator[str]:
    """Find texts that leave without `schemas/printable.py`: HTML, and what commands write."""
    path = source.path.as_posix()
    if path in ESCAPING:
        return
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module in {"html", "rich.console"}:
            yield f"line {node.lineno}: {node.module}; see placet.schemas.printable"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in WRITERS:
            yield f"line {node.lineno}: {ast.unparse(node)}; call say or notify of cli.terminal"


def python_starts_on_a_safe_path(source: Source) -> Iterator[str]:
    """Find Python processes that import modules which lie in the current folder."""
    for node in source.nodes:
        if not isinstance(node, ast.List | ast.Tuple | ast.Call):
            continue
        words = [ast.unparse(word) for word in getattr(node, "elts", getattr(node, "args", []))]
        for first, second in pairwise([*words, ""]):
            if first == "sys.executable" and second not in {"'-P'", "'-I'"}:
                yield f"line {node.lineno}: start it with -P, or a msgspec.py found here is run"


def files_are_made_in_one_place(source: Source) -> Iterator[str]:
    """Find files that are made without `stores/files.py`; its drafts are written anywhere."""
    path = source.path.as_posix()
    if path in FILE_MAKERS or path.startswith("placet_bench/"):
        return
    for node in source.nodes:
        if not isinstance(node, ast.Attribute):
            continue
        is_write = node.attr in {"write_text", "write_bytes", "touch", "mkstemp"}
        written_to = ast.unparse(node.value)
        if ast.unparse(node) == "os.O_CREAT" or (is_write and written_to not in WRITTEN_TO):
            yield f"line {node.lineno}: {ast.unparse(node)}; see placet.stores.files"


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


Rule = Callable[[Source], Iterator[str]]
LONG_FUNCTION = '"""M."""\ndef f():\n' + "    x = 1\n" * FUNCTION_LINES_MAX
# Each rule with the smallest file that breaks it.
RULES: list[tuple[Rule, str, str]] = [
    (file_is_short, "kernel/commit/commit.py", '"""M."""\n' + "x = 1\n" * FILE_LINES_MAX),
    (functions_are_short, "kernel/commit/commit.py", LONG_FUNCTION),
    (names_are_plain, "actors/desk.py", '"""M."""'),
    (names_are_plain, "actors/agent.py", '"""M."""\nclass ModelClerk: ...'),
    (names_are_plain, "actors/agent.py", '"""M."""\ndef f(placing): ...'),
    (docstrings_open_with_a_verb, "actors/agent.py", '"""M."""\ndef f():\n    """Give it."""'),
    (file_name_says_something, "kernel/apply_utils.py", ""),
    (file_name_says_something, "runtime/common/clock.py", ""),
    (module_states_its_rules, "kernel/commit/commit.py", "x = 1"),
    (nothing_is_left_for_later, "kernel/commit/commit.py", "# TODO: later"),
    (pure_package_calls_nothing_impure, "kernel/commit/commit.py", "x = hash('a')"),
    (pure_package_calls_nothing_impure, "domains/world/rules.py", "x = open('a')"),
    (pure_package_does_not_wait, "schemas/batch.py", "async def f(): ..."),
    (pure_package_iterates_no_set, "kernel/decide/order.py", "x = [y for y in {1, 2}]"),
    (pure_package_iterates_no_set, "kernel/decide/order.py", "for y in set(z): ..."),
    (files_are_made_in_one_place, "lab/log.py", "path.write_text(page)"),
    (files_are_made_in_one_place, "lab/log.py", "os.open(path, os.O_CREAT)"),
    (output_is_escaped, "lab/log.py", "from html import escape"),
    (output_is_escaped, "cli/commands/run.py", "sys.stdout.write(name)"),
    (python_starts_on_a_safe_path, "cli/watch.py", "run([sys.executable, '-m', 'placet'])"),
    (python_starts_on_a_safe_path, "cli/watch.py", "run(sys.executable)"),
]


@cache
def package_sources() -> list[Source]:
    """Read placet by paths within it, and each application by paths that begin with its name."""
    folders = [(PACKAGE, PACKAGE), *((folder.parent, folder) for folder in APPLICATIONS)]
    return [
        Source(path.relative_to(base), path.read_text(encoding="utf-8"))
        for base, folder in folders
        for path in sorted(folder.rglob("*.py"))
    ]


@pytest.mark.parametrize(
    "rule", dict.fromkeys(rule for rule, *_ in RULES), ids=lambda r: r.__name__
)
def test_the_package_keeps_the_rule(rule):
    breaches = [f"{s.path}: {breach}" for s in package_sources() for breach in rule(s)]
    assert breaches == []


def riddles_by_package(sources: Iterable[Source]) -> Counter[str]:
    """Count the docstrings of each package that match a pattern of literary English."""
    riddles: Counter[str] = Counter()
    for source in sources:
        riddles[source.path.parts[0]] += sum(map(is_riddle, source.docstrings()))
    return riddles


def test_riddles_of_a_package_only_become_fewer():
    riddles = riddles_by_package(package_sources())
    assert not riddles - Counter(RIDDLES_MAX), "write plainly; the numbers may only fall"


def prose_riddles_by_package(sources: Iterable[Source]) -> Counter[str]:
    """Count the comments and the messages of each package that match such a pattern."""
    riddles: Counter[str] = Counter()
    for source in sources:
        comments = re.findall(r"(?:^|\s)#\s(.*)", source.text)
        messages = [
            part.value
            for node in source.nodes
            if isinstance(node, ast.Raise | ast.Call)
            for part in ast.walk(node)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        riddles[source.path.parts[0]] += sum(map(is_riddle, {*comments, *messages}))
    return riddles


def test_riddles_in_comments_and_messages_only_become_fewer():
    riddles = prose_riddles_by_package(package_sources())
    assert not riddles - Counter(PROSE_RIDDLES_MAX), "write plainly; the numbers may only fall"


def attribute_words(sources: Iterable[Source]) -> Counter[str]:
    """Count the attributes and keyword arguments with a word of the list, by package."""
    found = {
        (source.path.parts[0], name)
        for source in sources
        for node in source.nodes
        for name in [getattr(node, "attr", None) or getattr(node, "arg", None) or ""]
        if isinstance(node, ast.Attribute | ast.keyword | ast.arg)
        and words_of(name) & LITERARY_WORDS
        and name not in PLAIN_NAMES
    }
    return Counter(package for package, _ in found)


def test_attributes_with_unwanted_words_only_become_fewer():
    found = attribute_words(package_sources())
    assert not found - Counter(ATTRIBUTE_WORDS_MAX), "name it plainly; the numbers may only fall"


def classes_by_public_name(sources: Iterable[Source]) -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(source.path.as_posix())
    return modules


def imported_names(source: Source) -> dict[str, str]:
    """Return the module of each name that a file imports from one."""
    return {
        alias.asname or alias.name: node.module or ""
        for node in source.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_two_classes_have_a_base_of_the_http_server():
    subclasses = [
        node.name
        for source in package_sources()
        for node in source.classes()
        for base in map(ast.unparse, node.bases)
        if base.startswith("uvicorn.") or imported_names(source).get(base, "").startswith("uvicorn")
    ]
    assert subclasses == ["BoundedConnection", "StreamProtocol"]


def test_a_public_class_name_stands_in_one_module():
    classes = classes_by_public_name(package_sources())
    homonyms = {name: paths for name, paths in classes.items() if len(paths) > 1}
    assert {name: homonyms[name] for name in homonyms.keys() - PROTOCOL_NAMES} == {}


def mixins_used_once(sources: Sequence[Source]) -> list[str]:
    """Return the classes that exist only to be a base of one other class.

    A class that is named outside of base lists (made, annotated, matched) is more than a mixin.
    """
    bases: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    defined: set[str] = set()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                if not names or not {"Protocol", "ABC"} & set(names):
                    defined.add(node.name)
                bases.update(names)
                uses.subtract(names)
            elif isinstance(node, ast.Name | ast.Attribute):
                uses[node.id if isinstance(node, ast.Name) else node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                uses.update(re.findall(r"\w+", node.value) if len(node.value) < 100 else ())
    mixins = {name for name in defined if bases[name] == 1 and uses[name] <= 0}
    return sorted(mixins - PUBLIC_BASES.keys())


def test_no_class_is_a_mixin_of_one_class():
    assert mixins_used_once(package_sources()) == []


def test_a_planted_mixin_homonym_and_riddle_are_seen():
    text = '"""M."""\nclass Once: ...\nclass Whole(Once):\n    """What is of nobody."""\n'
    planted = Source(Path("actors/agent.py"), text)
    assert mixins_used_once([planted]) == ["Once"]
    assert len(classes_by_public_name([planted, planted])["Whole"]) == 2
    assert riddles_by_package([planted])["actors"] == 1
    text = "f(voice=1)  # whoever comes\nraise E('somebody waits')\nself.alarm = 'nobody'\n"
    planted = Source(Path("actors/agent.py"), text)
    assert prose_riddles_by_package([planted])["actors"] == 2
    assert attribute_words([planted])["actors"] == 2


@pytest.mark.parametrize(("rule", "path", "text"), RULES, ids=lambda v: getattr(v, "__name__", ""))
def test_a_planted_breach_is_seen(rule, path, text):
    assert len(list(rule(Source(Path(path), text)))) == 1


def test_the_limits_themselves_are_allowed():
    just_short = Source(Path("kernel/commit/commit.py"), LONG_FUNCTION.rsplit("    x", 1)[0])
    assert list(functions_are_short(just_short)) == []
    outside = Source(Path("runtime/clock.py"), "for y in set(z): print(hash(y))")
    assert list(pure_package_calls_nothing_impure(outside)) == []
    assert list(pure_package_iterates_no_set(outside)) == []


# A test that opens with one of these words, or contains one of the others, hides its subject.
VAGUE_TEST_NAMES = re.compile(
    r"test_(?!what_if_)(?:it|so|what|where|who|whoever)_"
    r"|_(?:anybody|everybody|nobody|otherwise|somebody|told|whatever|whoever)(?:_|$)"
)


def vague_test_names(text: str) -> list[str]:
    return [name for name in re.findall(r"def (test_\w+)", text) if VAGUE_TEST_NAMES.search(name)]


def test_tests_are_named_plainly():
    files = sorted(
        path for base in ("tests", "plugins") for path in (ROOT / base).rglob("test_*.py")
    )
    texts = [(path, path.read_text(encoding="utf-8")) for path in files]
    assert {str(path): names for path, text in texts if (names := vague_test_names(text))} == {}
    assert vague_test_names("def " + "test_it_is_told(): ...") == ["test_it_is_told"]


def test_no_file_names_the_host_of_a_package_registry():
    names = ("py" + "pi", "pythonhosted", "npm" + "js", "crates")
    pattern = re.compile(rf"\b(?:{'|'.join(names)})\.(?:org|com|io)\b")
    folders = [".ci", "benchmarks", "docs", "examples", "plugins", "src", "tests"]
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
