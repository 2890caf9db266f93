"""Selects the files that travel to the workers: modules of the current folder.

Installed packages do not travel: each worker compares the versions and the bytes of placet and of
the packages of the scenario's modules with the driver's.
"""

import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from placet.scenarios.on_ray.errors import RayUnusable
from placet.scenarios.on_ray.modules import is_installed, local_modules


@dataclass(frozen=True, slots=True)
class Staged:
    """The files for the workers, and the code that they must have installed.

    Attributes:
        files: Path below the job's folder -> the file here.
        expected: As in `problem_here`.
    """

    files: Mapping[str, Path]
    expected: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Copy the files into a folder."""
        for path, source in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def stage_modules(named: Iterable[ModuleType]) -> Staged:
    """Return the files of modules, and the code that must be installed where they are imported.

    The modules of the current folder that are loaded here go along.

    Args:
        named: The modules of a run's domain, policies and functions.

    Raises:
        RayUnusable: An installed module has no version that could be compared.
    """
    named = set(named)
    here = Path.cwd()
    beside = (m for m in list(sys.modules.values()) if _is_below(m, here) and not is_installed(m))
    travelling = [m for m in local_modules([*named, *beside]) if not is_installed(m)]
    files = {path: source for module in travelling for path, source in _files_of(module)}
    packages = {"placet"} | {m.__name__.partition(".")[0] for m in named if is_installed(m)}
    described = {name: _described(name) for name in sorted(packages - sys.stdlib_module_names)}
    modules = tuple(sorted(module.__name__ for module in named if module.__name__ != "__main__"))
    digest = sha256(repr((described, modules)).encode()).hexdigest()
    expected = {"packages": described, "modules": modules, "hash": digest}
    return Staged(files, expected)


def _files_of(module: ModuleType) -> Iterable[tuple[str, Path]]:
    """Yield the file of a module and those of the packages that it is in, by path of import."""
    parts = module.__name__.split(".")
    for count in range(1, len(parts) + 1):
        loaded = sys.modules.get(".".join(parts[:count]))
        source = getattr(loaded, "__file__", None)
        if source is None:  # a namespace package
            continue
        path = Path(source)
        name = "/".join(parts[:count])
        yield (f"{name}/__init__.py" if path.name == "__init__.py" else f"{name}.py"), path


def _is_below(module: ModuleType, folder: Path) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and module.__name__ != "__main__" and Path(path).is_relative_to(folder)


def _described(package: str) -> tuple[str, dict[str, str]]:
    """Return the version of an installed package, and a hash of each of its Python files."""
    source = getattr(import_module(package), "__file__", None)
    try:
        number = version(package)
    except PackageNotFoundError:
        raise RayUnusable(
            f"the package {package!r} has no installed version that workers could compare; install "
            "it, here and there, or move its modules below the current folder"
        ) from None
    root = Path(source or "").parent
    paths = sorted(root.rglob("*.py")) if source and Path(source).name == "__init__.py" else []
    return number, {
        str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest()[:16] for path in paths
    }
