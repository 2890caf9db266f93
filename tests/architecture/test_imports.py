"""The import contracts of pyproject.toml hold, and each of them can fail."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from placet.cli.command_table import COMMANDS

ROOT = Path(__file__).parents[2]

# What a user of the library does not pay for: the terminal, every extra, and what only few need, or
# only an open world. A tenth of a second for one of them is no bug that any other test would see.
NOT_WITH_THE_LIBRARY = frozenset(
    {
        "anyio.to_process",
        "dbos",
        "starlette",
        "hypothesis",
        "importlib.metadata",
        "numpy",
        "pandas",
        "pettingzoo",
        "polars",
        "prometheus_client",
        "psycopg",
        "pyarrow",
        "pydantic",
        "pydantic_core",
        "pytest",
        "ray",
        "rich",
        "sqlite3",
        "structlog",
        "tomllib",
        "typer",
    }
)

# What help does not wait for: whoever asks what a command takes has not called it yet.
NOT_WITH_HELP = (NOT_WITH_THE_LIBRARY - {"tomllib", "typer"}) | {
    "placet.agents",
    "placet.domains",
    "placet.lab",
    "placet.sweeps",
    "placet_bench",
    "placet_design",
    "placet_files",
    "placet_program",
    "placet_tools",
    "placet.server.app",
    "placet.scenarios",
    "placet.tables",
    "placet.testing",
    "starlette",
    "uvicorn",
    "uvloop",
    "websockets",
}


def check_contracts(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts over the tree at `root`."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    config = str(root / "pyproject.toml")
    return subprocess.run(
        [sys.executable, "-c", command, "--no-logo", "--no-cache", "--config", config],
        cwd=root / "src",  # the first place where the package is looked for
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_stairs_go_one_way():
    outcome = check_contracts(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


PLANTED = [
    ("schemas", "import placet.kernel", "Imports go one way"),
    ("kernel", "import placet.actors", "Imports go one way"),
    ("actors", "import placet.runtime", "Imports go one way"),
    ("testing", "import placet.sweeps", "Imports go one way"),
    ("runtime", "import placet.scenarios", "Imports go one way"),
    ("tables", "import placet.lab", "Imports go one way"),
    ("scenarios", "import placet.lab", "Imports go one way"),
    ("scenarios", "import placet.agents", "Imports go one way"),
    ("agents", "import placet.server", "Imports go one way"),
    ("server", "import placet.cli", "Imports go one way"),
    ("cli", "import placet.frontends", "Imports go one way"),
    ("attic", "", "Imports go one way"),
    ("lab", "import placet", "No floor imports the face"),
    ("domains/world", "import placet.actors", "Domains import kernel and schemas only"),
    ("kernel", "import placet.domains.world", "Domains are loaded by name"),
    ("runtime", "import placet.domains.world", "Domains are loaded by name"),
    ("domains/other", "import placet.domains.world", "Domains do not know each other"),
    ("agents", "import placet.runtime.world", "Agents ask an open world by its port"),
    ("cli", "import placet.agents", "Only frontends know the agents"),
    ("kernel", "import time", "know no clock"),
    ("domains/world", "from random import choice", "know no clock"),
    ("actors", "import rich", "Only the command line knows the terminal"),
    ("runtime", "import placet.testing", "Nothing of the library imports the property tests"),
    ("stores", "import placet.history", "Imports go one way"),
    ("history", "import placet.runtime", "Imports go one way"),
    ("sweeps", "import placet.lab", "Imports go one way"),
    ("lab", "import placet.server", "Imports go one way"),
    ("frontends", "import placet_design", "Nothing of placet knows an application"),
    ("runtime", "import placet_bench", "Nothing of placet knows an application"),
]
"""A package, a line of a module in it, and the contract that the module breaks."""


@pytest.fixture(scope="module")
def breaches(tmp_path_factory) -> dict[str, str]:
    """The report about a tree with all planted modules at once, by the contract."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for number, (room, line, _) in enumerate(PLANTED):
        folder = root / "src" / "placet" / room
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        (folder / f"planted_{number}.py").write_text(f'"""Planted."""\n\n{line}\n')
    outcome = check_contracts(root)
    assert outcome.returncode == 1, outcome.stdout + outcome.stderr
    # A name that is longer than a line is wrapped; a line of dashes follows it.
    broken = outcome.stdout.partition("Broken contracts")[2]
    names = list(re.finditer(r"\n\n((?:\S.*\n)+?)-+\n\n", broken))
    ends = [*(name.start() for name in names[1:]), len(broken)]
    return {
        " ".join(name[1].split()): broken[name.end() : end]
        for name, end in zip(names, ends, strict=True)
    }


@pytest.mark.parametrize(("number", "contract"), [(n, row[2]) for n, row in enumerate(PLANTED)])
def test_a_planted_import_breaks_its_contract(breaches, number, contract):
    room, line, _ = PLANTED[number]
    (found,) = [text for name, text in breaches.items() if contract in name]
    module = f"placet.{room.replace('/', '.')}"
    assert (f"{module}.planted_{number} -> " if line else module) in found


def loaded_by(program: str) -> set[str]:
    """Return the modules that a program loads, without those that a new interpreter loads.

    Args:
        program: One line. What it prints itself must end with its line.
    """
    listing = (
        f"import sys; before = {{*sys.modules}}; {program}; print(*({{*sys.modules}} - before))"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return set(outcome.stdout.splitlines()[-1].split())


def test_the_library_loads_no_terminal_no_extra_and_no_rare_module():
    # structlog loads rich, for its console renderer: the library loads structlog when it logs.
    # `Simulation` and the readers of logs load their modules when they are named.
    loaded = loaded_by("import placet")
    assert {"placet.runtime.orchestrator", "placet.scenarios"} & loaded == {
        "placet.runtime.orchestrator"
    }
    assert NOT_WITH_THE_LIBRARY & loaded == set()


def test_the_first_kind_loads_pydantic_before_there_is_a_loop_to_hold_up():
    loaded = loaded_by("from placet import Kind; Kind('Pass', dict, lambda draft, intent: None)")
    assert {"pydantic.type_adapter", "pydantic._internal._generate_schema"} <= loaded


def loaded_by_commands(*command_lines: str) -> set[str]:
    """Return the modules loaded by command lines, run in sequence in one process."""
    lines = [line.split() for line in command_lines]
    program = "from placet.cli.app import run_command"
    return loaded_by(f"{program}; assert not any([run_command(line) for line in {lines}])")


def module_of(command: str) -> str:
    return f"placet.cli.commands.{command.replace('-', '_')}"


def test_the_list_of_commands_loads_none_of_them():
    loaded = loaded_by_commands("--help")
    assert {"typer", "placet.cli.command_table"} <= loaded
    assert {module_of(name) for name in COMMANDS} & loaded == set()
    # The guests on the list are found by their entry points.
    assert (NOT_WITH_HELP | {"tomllib"}) & loaded == {"importlib.metadata"}


def test_help_of_a_command_does_not_load_its_implementation():
    loaded = loaded_by_commands(
        *(f"{name} --help" for name in [*COMMANDS, "token new", "new domain"])
    )
    assert {module_of(name) for name in COMMANDS} <= loaded
    assert NOT_WITH_HELP & loaded == set()
