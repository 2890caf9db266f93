"""Each container that lives as long as a world or a server has a bound, or a reason for none."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Final

from placet.schemas.limits import HttpLimits, Limits, ObserverLimits
from tests.architecture.bounds import BOUNDS, EXEMPT

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "placet"
PAGE: Final = ROOT / "docs" / "reference" / "limits.md"
ROOMS: Final = ("actors", "agents", "frontends", "kernel/ledger", "runtime", "server")

CONTAINERS: Final = frozenset(
    {"dict", "list", "set", "deque", "defaultdict", "Counter", "OrderedDict", "WeakSet"}
    | {"WeakKeyDictionary", "WeakValueDictionary", "Queue"}
)
DISPLAYS: Final = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_DEFAULTS: Final = {
    field.name: field.default
    for kind in (Limits, HttpLimits, ObserverLimits)
    for field in fields(kind)
}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call):
        return isinstance(value, DISPLAYS)
    factories = [k.value for k in value.keywords if k.arg == "default_factory"]
    made = _name(value.func.value) if isinstance(value.func, ast.Subscript) else _name(value.func)
    return made in CONTAINERS or any(_name(factory) in CONTAINERS for factory in factories)


def _fields_of(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of the containers that the objects of a class have."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and _is_container(part.value):
            yield _name(part.target)
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            for step in ast.walk(part):
                targets = step.targets if isinstance(step, ast.Assign) else ()
                targets = [step.target] if isinstance(step, ast.AnnAssign) else targets
                for target in targets:
                    is_own = isinstance(target, ast.Attribute) and _name(target.value) == "self"
                    if is_own and _is_container(step.value):  # type: ignore[attr-defined]  # has one
                        yield _name(target)


def containers_in(text: str) -> list[str]:
    """Return `Class.field` of each container of a module's objects, and `field` of its own."""
    tree = ast.parse(text)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = [f"{node.name}.{name}" for node in classes for name in _fields_of(node)]
    for part in tree.body:
        targets = part.targets if isinstance(part, ast.Assign) else ()
        targets = [part.target] if isinstance(part, ast.AnnAssign) else targets
        value = part.value if isinstance(part, ast.Assign | ast.AnnAssign) else None
        is_fixed = "Final" in ast.unparse(part) or "TypeAlias" in ast.unparse(part)
        if _is_container(value) and not is_fixed:
            found += [_name(one) for one in targets if not _name(one).startswith("__")]
    return found


def test_each_container_has_a_bound_or_a_reason_for_none():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{name}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for name in containers_in(path.read_text("utf-8"))
    }
    listed = Counter(name for bound in BOUNDS for name in bound.fields)
    listed.update(name for names in EXEMPT.values() for name in names)
    assert [name for name, count in listed.items() if count > 1] == [], "listed twice"
    assert sorted(found - set(listed)) == [], "say in bounds.py how it is bounded, or why not"
    assert sorted(set(listed) - found) == [], "no such container"


def test_a_planted_container_is_found():
    text = (
        "kept: dict[str, int] = {}\n"
        "FIXED: Final = {}\n"
        "class A:\n"
        "    many: list[int] = field(default_factory=list)\n"
        "    def __init__(self):\n"
        "        self._kept: deque[int] = deque()\n"
        "        self.one = 1\n"
        "        if True:\n"
        "            self.some = defaultdict(list)\n"
        "            local = []\n"
    )
    assert containers_in(text) == ["A.many", "A._kept", "A.some", "kept"]


def _shown(name: str) -> str:
    """Return the value of a limit or a constant, as the page shows it."""
    module, _, constant = name.rpartition(":")
    value = getattr(import_module(module), constant) if module else _DEFAULTS[name]
    assert isinstance(value, int), f"{name} is no number"
    mebibytes, rest = divmod(value, 1024 * 1024)
    in_bytes = "bytes" in name.lower()
    if in_bytes and mebibytes and not rest:
        text = f"{mebibytes:,} MiB"
    elif in_bytes and not value % 1024:
        text = f"{value // 1024:,} KiB"
    else:
        text = f"{value:,}" + (" bytes" if in_bytes else "")
    text = text.replace(",", " ")
    return text if module else f"{text} (`{name}`)"


def table() -> str:
    """Return the table of the page."""
    rows = [("what clients can fill", "in number", "in bytes", "of one", "beyond it")]
    rows += [("---",) * 5]
    rows += [(bound.holds, *bound[2:]) for bound in BOUNDS]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(re.sub(r"\{([\w.:]+)\}", lambda m: _shown(m[1]), line) for line in lines)


def test_the_page_of_limits_has_the_table_of_the_code():
    assert table() in PAGE.read_text("utf-8"), f"put this table into {PAGE.name}:\n{table()}"
