"""`placet new domain`: the files it writes work, and it overwrites no file."""

import os
import subprocess
import sys
import tomllib

import pytest

from placet.kernel import Kernel
from placet.plugins.domains import find_domain
from tests.cli.command_line import as_lines, run_process

FILES = [
    "README.md",
    "garden_shed.py",
    "pyproject.toml",
    "scenario.toml",
    "tests/test_garden_shed.py",
]


@pytest.fixture
def folder(placet):
    """A folder with the starter in it."""
    into = placet.folder / "shed"
    assert placet("new", "domain", "garden_shed", "--into", str(into)).code == 0
    return into


def written(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_the_files_are_written_and_listed(placet):
    outcome = placet("new", "domain", "garden_shed", "--json")
    made = placet.folder / "placet-garden-shed"
    assert outcome.code == 0
    assert outcome.json() == {
        "folder": "placet-garden-shed",
        "files": [
            f"placet-garden-shed/{name}"
            for name in ("pyproject.toml", "README.md", "scenario.toml", *FILES[1:2], *FILES[-1:])
        ],
        "domain": "garden_shed:GardenShed",
    }
    assert written(made) == FILES
    assert "$" not in "".join((made / name).read_text() for name in FILES)


def test_the_next_steps_are_printed(placet):
    lines = placet("new", "domain", "garden").out.splitlines()
    assert lines[0] == "The domain garden is in placet-garden. Next:"
    assert "  pip install -e '.[test]'" in lines, "pytest is no dependency of placet"
    assert "  placet gate --domain garden:Garden" in lines


def test_its_entry_point_finds_the_domain(folder, monkeypatch):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    monkeypatch.chdir(folder)
    [(name, spec)] = project["entry-points"]["placet.domains"].items()
    domain = find_domain(spec)()
    assert name == domain.name == "garden_shed"
    Kernel(domain)
    with pytest.raises(ValueError, match="capacity must be a positive int, got 0"):
        find_domain(spec)(capacity=0)
    del sys.modules["garden_shed"]


def test_the_gate_runs_the_new_domain(folder):
    add = {
        "kind": "garden_shed.Add",
        "payload": {"jar": "plums", "amount": 3},
        "agent_id": "ann",
        "req_id": "1",
        "context_seq": 0,
        "priority": 1,
        "schema_version": "1.0.0",
    }
    outcome = run_process(
        *("gate", "--domain", "garden_shed:GardenShed"),
        folder=folder,
        stdin=as_lines({"register": "ann"}, add),
    )
    assert outcome.code == 0, outcome.err
    assert '"admitted":true' in outcome.out.splitlines()[1]


def test_a_scenario_of_the_new_domain_runs(folder):
    outcome = run_process("run", "scenario.toml", "--json", folder=folder)
    assert outcome.code == 0, outcome.err
    report = outcome.json()
    assert report["intents"] == {"submitted": 50, "admitted": 10, "refused": 40}
    assert report["refusals"] == {"domain/garden_shed.full": 40}
    assert report["verified"]


def checked(*command, folder):
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "-p no:schemathesis -p no:cacheprovider"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_its_tests_pass_and_can_fail(folder):
    done = checked("pytest", "-q", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "22 passed" in done.stdout
    module = folder / "garden_shed.py"
    lawful = module.read_text()
    module.write_text(lawful.replace("if left < 0:", "if left == -7:"))
    done = checked("pytest", "-q", "-x", folder=folder)
    assert done.returncode == 1
    assert "garden_shed.too_few" in done.stdout


def test_the_generated_files_pass_lint_and_format(placet):
    placet("new", "domain", "shed", "--into", "shed")
    for command in (("ruff", "check", "--isolated"), ("ruff", "format", "--isolated", "--check")):
        more = ("--line-length", "100", "--no-cache", ".")
        outcome = checked(*command, *more, folder=placet.folder / "shed")
        assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Garden", "must be a lower-case Python identifier"),
        ("my-garden", "must be a lower-case Python identifier"),
        ("class", "must be a lower-case Python identifier"),
        ("gärten", "must be a lower-case Python identifier"),
        ("../garden", "must be a lower-case Python identifier"),
        ("garden_", "must neither begin nor end with '_'"),
        ("gar__den", "must neither begin nor end with '_'"),
        ("g" * 41, "must be at most 40 characters"),
        ("random", "is the name of a module that the domain would hide"),
        ("placet", "is the name of a module that the domain would hide"),
        ("world", "is the name of a domain that is installed"),
    ],
)
def test_an_invalid_name_is_refused(placet, name, problem):
    outcome = placet("new", "domain", name)
    assert outcome.code == 2
    assert problem in outcome.err
    assert list(placet.folder.iterdir()) == []


@pytest.mark.parametrize(("group", "command"), [("new", "domain"), ("token", "new")])
def test_a_group_without_a_command_shows_its_help(placet, group, command):
    outcome = placet(group)
    assert (outcome.code, outcome.err) == (2, "")
    assert outcome.out == placet(group, "--help").out
    assert f"\n  {command} " in outcome.out


def test_no_existing_file_is_overwritten(placet, folder):
    (folder / "README.md").write_text("mine")
    (folder / "garden_shed.py").unlink()
    outcome = placet("new", "domain", "garden_shed", "--into", str(folder))
    assert outcome.code == 1
    assert "README.md, " in outcome.err
    assert "would be overwritten; nothing was written" in outcome.err
    assert (folder / "README.md").read_text() == "mine"
    assert not (folder / "garden_shed.py").exists()


def test_a_folder_with_other_files_is_accepted(placet):
    (placet.folder / "notes.txt").write_text("mine")
    assert placet("new", "domain", "garden", "--into", ".").code == 0
    assert (placet.folder / "garden.py").exists()


def test_a_folder_that_cannot_be_created_is_an_error(placet):
    (placet.folder / "file").write_text("")
    outcome = placet("new", "domain", "garden", "--into", "file/deep")
    assert outcome.code == 1
    assert "cannot be written into file/deep" in outcome.err
