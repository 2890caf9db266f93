"""`placet new`: write a small plug-in that works and has tests."""

import os
import sys
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from shlex import quote
from string import Template
from typing import Annotated, Final

import typer

from placet.cli.command_table import APPLICATION, CommandGroup
from placet.cli.terminal import CommandError, Output, show_help_alone, with_json
from placet.plugins.domains import domain_names
from placet.stores.files import write_whole

NAME_CHARS_MAX: Final = 40

STARTER: Final = {
    "pyproject.toml.tmpl": "pyproject.toml",
    "README.md.tmpl": "README.md",
    "scenario.toml.tmpl": "scenario.toml",
    "module.py.tmpl": "$name.py",
    "test.py.tmpl": "tests/test_$name.py",
}
"""Template -> the file that is made of it."""

_TAKEN: Final = frozenset({"hypothesis", "placet", "pydantic", "pytest", "tests"})
"""Modules that the starter itself imports, and its folder of tests: they cannot be its name."""

new: Final = typer.Typer(name="new", cls=CommandGroup, **APPLICATION)


@new.callback(invoke_without_command=True)
def begin(context: typer.Context) -> None:
    """Create a plug-in from a template."""
    show_help_alone(context)


@new.command()
@with_json
def domain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the domain, such as garden.")
    ],
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the new files.", show_default="placet-NAME"),
    ] = None,
) -> Output:
    """Write a small domain: a module, its tests, a scenario and a pyproject.toml.

    No file is overwritten, and nothing is installed.
    """
    _check_name(name)
    project = name.replace("_", "-")
    folder = Path(f"placet-{project}") if into is None else into
    class_name = "".join(word.capitalize() for word in name.split("_"))
    words = {"name": name, "class_name": class_name, "project_name": project}
    made = {folder / Template(path).substitute(words): text for path, text in _filled(words)}
    _write(folder, made)
    spec = f"{name}:{class_name}"
    lines = (
        f"The domain {name} is in {folder}. Next:",
        f"  cd {quote(str(folder))}",
        "  pip install -e '.[test]'",
        "  python -m pytest",
        f"  placet gate --domain {spec}",
        "  placet run scenario.toml",
    )
    return Output({"folder": str(folder), "files": [*map(str, made)], "domain": spec}, lines)


def _check_name(name: str) -> None:
    """Refuse what cannot be the name of a domain and of its module.

    Raises:
        BadParameter: The name is no lower-case identifier, or is taken.
    """
    problem = ""
    if not (name.isascii() and name.isidentifier() and name == name.lower()) or iskeyword(name):
        problem = "must be a lower-case Python identifier, such as garden"
    elif name.startswith("_") or name.endswith("_") or "__" in name:
        problem = "must neither begin nor end with '_', nor hold '__': kinds are named after it"
    elif len(name) > NAME_CHARS_MAX:
        problem = f"must be at most {NAME_CHARS_MAX} characters"
    elif name in _TAKEN or name in sys.stdlib_module_names:
        problem = "is the name of a module that the domain would hide; choose another"
    elif name in domain_names():
        problem = "is the name of a domain that is installed; choose another"
    if problem:
        raise typer.BadParameter(f"NAME {problem}, got {name!r}")


def _filled(words: dict[str, str]) -> list[tuple[str, str]]:
    starter = files("placet.cli") / "plugin_template"
    return [
        (path, Template((starter / source).read_text("utf-8")).substitute(words))
        for source, path in STARTER.items()
    ]


def _write(folder: Path, made: dict[Path, str]) -> None:
    """Write all files, or none; a file that has the same text already stays.

    Raises:
        CommandError: Another file is there already, or a folder cannot be made.
    """
    left = {path for path, text in made.items() if _is_written(path, text)}
    there = [str(path) for path in made if os.path.lexists(path)]
    if len(there) > len(left):
        raise CommandError(
            f"{', '.join(there)} would be overwritten; nothing was written; choose another folder "
            "with --into"
        )
    try:
        for path, text in made.items():
            if path in left:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), is_new=True)
    except OSError as error:
        raise CommandError(f"the domain cannot be written into {folder}: {error}") from error


def _is_written(path: Path, text: str) -> bool:
    """Return whether a file is there as it would be written, as after a kill in between."""
    try:
        return not path.is_symlink() and path.read_bytes() == text.encode()
    except OSError:
        return False
