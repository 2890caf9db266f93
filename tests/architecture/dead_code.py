"""A finder of names and modules that no code of the distributions uses.

A name is a function, class, method or constant. Code uses a name where another definition has it:
as a name of the module, by an import, as an attribute, or in a string. Methods are compared by
name alone, so that a homonym of another class may hide a dead one.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*(?:\[.*\])?(?: \| None)?")
PLAIN_DECORATORS: Final = frozenset(
    {"abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod"}
    | {"contextmanager", "dataclass", "final", "lru_cache", "overload", "override", "property"}
    | {"runtime_checkable", "staticmethod", "total_ordering"}
)
"""Decorators that do not register what they decorate; any other one counts as a use."""

PLAIN_BASES: Final = frozenset(
    {"ABC", "Enum", "Exception", "Generic", "IntEnum", "Mapping", "NamedTuple", "Protocol"}
    | {"Sequence", "StrEnum", "TypedDict", "dict", "int", "list", "str", "tuple", "object"}
)
"""Bases that call none but dunder methods; any other base of a library may call each method."""

CODE: Final = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@dataclass(eq=False)
class Definition:
    """A name that a module or a class defines.

    Attributes:
        module: Dotted name of the module.
        name: The name, after that of its class and a dot if it is a method.
        is_method: Whether a class has it.
        is_registered: Whether a decorator may keep it.
    """

    module: str
    name: str
    is_method: bool = False
    is_registered: bool = False

    def __str__(self) -> str:
        return f"{self.module}: {self.name}"

    @property
    def word(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass
class Module:
    """The definitions of a module, and the names that it uses, each with the definition around it.

    Attributes:
        uses: Definitions around a use, by `.name` for an attribute, `module:name` for an import or
            a name of the module, and the text of a string.
    """

    name: str
    definitions: list[Definition] = field(default_factory=list)
    uses: dict[str, list[frozenset[Definition]]] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    bases: dict[str, set[str]] = field(default_factory=dict)


class _Reader(ast.NodeVisitor):
    def __init__(self, name: str, is_package: bool) -> None:
        self.module = Module(name)
        self._package = name if is_package else name.rpartition(".")[0]
        self._around: list[Definition] = []
        self._in_class = ""

    def _use(self, key: str) -> None:
        self.module.uses.setdefault(key, []).append(frozenset(self._around))

    def _define(self, name: str) -> Definition:
        is_method = bool(self._in_class)
        full = f"{self._in_class}.{name}" if is_method else name
        definition = Definition(self.module.name, full, is_method)
        self.module.definitions.append(definition)
        return definition

    def _enter(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, in_class: str
    ) -> None:
        is_named = not self._around or self._in_class
        outer = self._in_class
        if is_named:
            definition = self._define(node.name)
            decorators = {_last_name(one) for one in node.decorator_list}
            definition.is_registered = not decorators <= PLAIN_DECORATORS
            self._around.append(definition)
            if isinstance(node, ast.ClassDef):
                self.module.bases[node.name] = {_last_name(base) for base in node.bases}
        self._in_class = in_class
        self.generic_visit(node)
        self._in_class = outer
        if is_named:
            self._around.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node, "")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node, "")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node, "" if self._around else node.name)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assign(node, [node.target])

    def _assign(self, node: ast.AST, targets: list[ast.expr]) -> None:
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if self._around or not names:
            self.generic_visit(node)
            return
        if names == ["__all__"]:
            self.module.exported |= set(IDENTIFIER.findall(ast.unparse(node)))
            return
        self._around.append(self._define(names[0]))
        self.generic_visit(node)
        self._around.pop()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._use(f"{self.module.name}:{node.id}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Store):
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"cls", "self"}
            owner = self._class_name() if is_own else ""
            self._use(f"{owner}.{node.attr}")
        self.generic_visit(node)

    def _class_name(self) -> str:
        return self._around[0].name if self._around else ""

    def visit_Import(self, node: ast.Import) -> None:
        self.module.whole |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = node.module or ""
        if node.level:
            origin = ".".join(filter(None, (self._package, origin)))
        self.module.imports.add(origin)
        for alias in node.names:
            self.module.whole.add(f"{origin}.{alias.name}")
            is_export = self._package == self.module.name and not self._around
            if is_export:  # a package that hands a name on does not use it
                self._around.append(self._define(alias.asname or alias.name))
            self._use(f"{origin}:{alias.name}")
            if is_export:
                self._around.pop()

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and REFERENCE.fullmatch(node.value):
            for word in IDENTIFIER.findall(node.value):
                self._use(f"'{word}'")
            self.module.imports.add(node.value.partition(":")[0])

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring uses no name
            self.generic_visit(node)


def _last_name(node: ast.expr) -> str:
    """Return the last name of a decorator or a base, without its arguments and parameters."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def read_module(name: str, text: str, *, is_package: bool = False) -> Module:
    """Return the definitions and uses of a module."""
    reader = _Reader(name, is_package)
    reader.visit(ast.parse(text))
    return reader.module


def modules_below(base: Path, folder: Path) -> Iterator[Module]:
    """Read the modules of a folder, named relative to `base`."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield read_module(name, path.read_text("utf-8"), is_package=is_package)


def words_in_code(text: str) -> set[str]:
    """Return the identifiers in the code blocks and the inline code of a page."""
    return {word for code in CODE.findall(text) for word in IDENTIFIER.findall(code)}


def dead_names(
    modules: Iterable[Module], users: Iterable[Module], public: frozenset[str]
) -> list[Definition]:
    """Return the definitions of modules that neither modules nor users use, sorted.

    A use inside a dead definition does not count, nor does a definition's use of itself.
    """
    product = list(modules)
    uses: dict[str, list[frozenset[Definition]]] = {}
    for module in [*product, *users]:
        for key, around in module.uses.items():
            uses.setdefault(key, []).extend(around)
    bases = {name: own for module in product for name, own in module.bases.items()}
    candidates = [
        one
        for module in product
        for one in module.definitions
        if one.word not in public and not one.word.startswith(("__", "_repr_"))
        if not one.is_registered and not _is_override(one, bases)
    ]
    whole = {name for module in [*product, *users] for name in module.whole}
    relatives = _relatives(bases)
    dead: set[Definition] = set()
    while new := {
        one
        for one in candidates
        if one not in dead and not _is_used(one, uses, dead, whole, relatives)
    }:
        dead |= new
    return sorted(dead, key=str)


def _relatives(bases: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the classes above and below each class, and the class itself."""
    above: dict[str, set[str]] = {}
    for name in bases:
        pending, seen = [name], set[str]()
        while pending:
            base = pending.pop()
            if base not in seen:
                seen.add(base)
                pending.extend(bases.get(base, ()))
        above[name] = seen
    related = {name: set(found) for name, found in above.items()}
    for name, found in above.items():
        for base in found:
            related.setdefault(base, set()).add(name)
    return related


def _is_override(one: Definition, bases: dict[str, set[str]]) -> bool:
    """Return whether a method may be called by a class of a library that its class extends."""
    pending = [one.name.partition(".")[0]] if one.is_method else []
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in bases and name not in PLAIN_BASES:
            return not name.endswith("Error")
        pending.extend(bases.get(name, ()))
    return False


def _is_used(
    one: Definition,
    uses: dict[str, list[frozenset[Definition]]],
    dead: set[Definition],
    whole: set[str],
    relatives: dict[str, set[str]],
) -> bool:
    keys = [f"'{one.word}'", f"{one.module}:{one.word}"]
    if one.is_method or one.module in whole:
        related = relatives.get(one.name.partition(".")[0], set()) if one.is_method else set()
        keys += [f"{owner}.{one.word}" for owner in {"", *related}]
    return any(
        one not in around and dead.isdisjoint(around)
        for key in keys
        for around in uses.get(key, ())
    )


def unimported(
    modules: Iterable[Module], users: Iterable[Module], started: frozenset[str]
) -> list[str]:
    """Return the modules that no other module, user or entry point imports."""
    product = list(modules)
    imported = {
        name for module in [*product, *users] for name in module.imports | module.whole
    } | started
    return sorted(
        module.name
        for module in product
        if module.name not in imported
        and not any(name.startswith(f"{module.name}.") for name in imported)
    )
