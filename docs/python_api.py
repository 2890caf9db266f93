"""The Python API: which modules and names are public, and the pages of the site about them.

    ./dev python -m docs.python_api      # writes docs/reference/python_api.md, the list of names

Nothing is listed by hand. The public names of a package are those of its `__all__`; where a page of
the documentation imports a name from a module without `__all__`, that name is public too.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "python_api.md"

_CODE: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OURS: Final = re.compile(r"placet(_\w+)?(\.|$)")


@dataclass(frozen=True, slots=True)
class Name:
    """A public name of a module."""

    module: str
    name: str

    @property
    def value(self) -> Any:  # noqa: ANN401  # a class, a function, a constant
        """Return the object."""
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def summary(self) -> str:
        """Return the first line of its docstring; an empty text for a constant without one."""
        if inspect.isroutine(self.value) or inspect.isclass(self.value):
            return (inspect.getdoc(self.value) or "").partition("\n\n")[0].replace("\n", " ")
        return _text_of_constant(self.module, self.name).partition("\n\n")[0].replace("\n", " ")


def _source(module: ModuleType) -> Path:
    assert module.__file__
    return Path(module.__file__)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_source(importlib.import_module(module)).read_text(encoding="utf-8"))


def _text_of_constant(module: str, name: str) -> str:
    """Return the docstring below a constant, in the module that defines it."""
    body = _tree(module).body
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        match node, after:
            case ast.ImportFrom(module=str() as origin), _:
                if name in {alias.name for alias in node.names}:
                    return _text_of_constant(origin, name)
            case (
                ast.AnnAssign(target=ast.Name(id=found)) | ast.Assign(targets=[ast.Name(id=found)]),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ) if found == name:
                return inspect.cleandoc(text)
    return ""


def texts_below(module: str, cls: str) -> dict[str, str]:
    """Return the docstring below each constant of a class, such as the members of an enum."""
    found = {}
    (node,) = (n for n in _tree(module).body if isinstance(n, ast.ClassDef) and n.name == cls)
    for before, after in pairwise(node.body):
        match before, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


def _pages() -> Iterator[Path]:
    for pattern in ("*.md", "docs/**/*.md", "plugins/*/docs/*.md"):
        yield from sorted(path for path in ROOT.glob(pattern) if path != PAGE)


def imports_of_docs() -> Iterator[tuple[str, str]]:
    """Yield each module and name of ours that an executed block of a page imports."""
    for page in _pages():
        for code in _CODE.findall(page.read_text(encoding="utf-8")):
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.ImportFrom) and _OURS.match(node.module or ""):
                    yield from ((node.module or "", alias.name) for alias in node.names)


def _modules_with_all() -> Iterator[str]:
    """Yield the packages with an `__all__`, and the other modules with one that a page names."""
    pages = "".join(page.read_text(encoding="utf-8") for page in _pages())
    for root in (ROOT / "src", *sorted(ROOT.glob("plugins/*/src"))):
        for path in sorted(root.rglob("*.py")):
            if re.search(r"^__all__ = \[", path.read_text(encoding="utf-8"), re.MULTILINE):
                parts = path.relative_to(root).with_suffix("").parts
                module = ".".join(parts).removesuffix(".__init__")
                if path.stem == "__init__" or re.search(rf"\b{re.escape(module)}\b", pages):
                    yield module


@cache
def public_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of each module, in the order of the modules' names."""
    exported = {name: {*importlib.import_module(name).__all__} for name in _modules_with_all()}
    values = {(n, id(Name(m, n).value)) for m, names in exported.items() for n in names}
    imported: dict[str, set[str]] = {}
    for module, name in imports_of_docs():
        if module not in exported and (name, id(Name(module, name).value)) not in values:
            imported.setdefault(module, set()).add(name)
    return {
        module: tuple(sorted(names - {"__version__"}))
        for module, names in sorted((exported | imported).items())
    }


@cache
def homes() -> dict[tuple[str, int], str]:
    """Return the module on whose page a name is described: the one with the fewest dots."""
    found: dict[tuple[str, int], str] = {}
    for module in sorted(public_names(), key=lambda module: (module.count("."), module)):
        for name in public_names()[module]:
            found.setdefault((name, id(Name(module, name).value)), module)
    return found


def home_of(name: Name) -> str:
    """Return the module on whose page a name is described."""
    return homes()[name.name, id(name.value)]


# ---------------------------------------------------------------- pages


def pages() -> dict[str, str]:
    """Return the page of each module by its path on the site, for mkdocstrings to fill in."""
    return {f"api/{module}.md": _page(module, names) for module, names in public_names().items()}


def _page(module: str, names: tuple[str, ...]) -> str:
    text = inspect.getdoc(importlib.import_module(module)) or ""
    here = [name for name in names if home_of(Name(module, name)) == module]
    elsewhere = [
        f"- [`{name}`][{home_of(Name(module, name))}.{name}]: {Name(module, name).summary}"
        for name in names
        if name not in here
    ]
    parts = [f"# {module}", text, *(f"::: {module}.{name}" for name in here)]
    if elsewhere:
        parts.insert(2, "Also exported here:\n\n" + "\n".join(elsewhere))
    return "\n\n".join(parts) + "\n"


def page_of_source(path: PurePosixPath) -> str | None:
    """Return the page on the site of a module, by the path of its file; None if it has none."""
    parts = path.with_suffix("").parts
    module = ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")
    return f"api/{module}.md" if module in public_names() else None


def file_of(module: str) -> str:
    """Return the path of a module's file from the folder of the list of names."""
    return f"../../{_source(importlib.import_module(module)).relative_to(ROOT).as_posix()}"


def list_of_names() -> str:
    """Return the page docs/reference/python_api.md: every public name and its first line."""
    parts = [
        "# Python API",
        (
            "The public names, by the module from which to import them: those of each package's "
            "`__all__`, and the others that a page of this documentation imports. Every other "
            "name may change without notice. `help(NAME)` prints the whole docstring; the site, "
            "`./dev python -m docs.site`, has a page for each module.\n\n"
            "This page is generated: `./dev python -m docs.python_api`."
        ),
    ]
    for module, names in public_names().items():
        rows = [
            f"| `{name}` | {Name(module, name).summary.replace('|', chr(92) + '|')} |"
            for name in names
        ]
        table = "\n".join(["| name | what it is |", "|---|---|", *rows])
        parts.append(f"## [{module}]({file_of(module)})\n\n{table}")
    return "\n\n".join(parts) + "\n"


def undocumented() -> list[str]:
    """Return a line for each public name, or public method of one, that has no docstring."""
    found = []
    for module, names in public_names().items():
        for name in (Name(module, name) for name in names):
            if not name.summary:
                found.append(f"{module}.{name.name} has no docstring")
            if inspect.isclass(name.value):
                found += [f"{module}.{name.name}.{m} has no docstring" for m in _silent(name.value)]
    return found


def _silent(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class of ours without a docstring."""
    for owner in cls.__mro__:
        if _OURS.match(owner.__module__) and not owner.__module__.startswith("placet.testing.con"):
            for name, member in vars(owner).items():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                is_method = not name.startswith("_") and inspect.isroutine(function)
                if is_method and not inspect.getdoc(getattr(cls, name)):
                    yield name


if __name__ == "__main__":
    PAGE.write_text(list_of_names(), encoding="utf-8")
