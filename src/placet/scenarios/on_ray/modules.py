"""The modules that a run executes: those of its domain and policies, and their local imports."""

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType


def modules_of(targets: Iterable[object], specs: Iterable[str]) -> set[ModuleType]:
    """Return the loaded modules of functions and classes, and of names `module:attribute`."""
    names = {getattr(target, "__module__", None) or type(target).__module__ for target in targets}
    names |= {spec.partition(":")[0] for spec in specs if ":" in spec}
    return {sys.modules[name] for name in names if name in sys.modules}


def local_modules(modules: Iterable[ModuleType]) -> list[ModuleType]:
    """Return modules, and the modules of the same folders that they import, directly or not.

    Installed packages are left out, because they are known by their version.
    """
    found: dict[str, ModuleType] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = file_of_module(module)
        if module.__name__ in found or path is None:
            continue
        found[module.__name__] = module
        if not is_installed(module):
            imported = _imported_by(module, path)
            waiting += [other for other in imported if not is_installed(other)]
    return [found[name] for name in sorted(found)]


def file_of_module(module: ModuleType) -> Path | None:
    """Return the source file of a module; None if it has none."""
    path = getattr(module, "__file__", None)
    return Path(path) if path is not None and path.endswith(".py") else None


def is_installed(module: ModuleType) -> bool:
    """Return whether a module is placet's own, of the standard library, or of a package."""
    top = module.__name__.partition(".")[0]
    path = file_of_module(module)
    return (
        top == "placet"
        or top in sys.stdlib_module_names
        or path is None
        or bool({"site-packages", "dist-packages"} & set(path.parts))
    )


def _imported_by(module: ModuleType, path: Path) -> Iterator[ModuleType]:
    """Yield the loaded modules that a module's import statements name."""
    package = module.__name__ if path.name == "__init__.py" else module.__name__.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return (sys.modules[name] for name in sorted(names) if name in sys.modules)
