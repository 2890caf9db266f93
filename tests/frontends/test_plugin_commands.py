"""Commands of plug-ins: found by entry points, loaded when called; a broken one breaks no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from placet.plugins.entry_points import PluginBroken, plugins
from tests.cli.command_line import run_process

MODULES = {
    "kindly": "import typer\napp = typer.Typer()\n\n@app.command()\ndef greet(name: str) -> None:\n"
    "    print('hello', name)\n",
    "plain": "def wave(times: int = 1) -> int:\n    print('wave', times)\n    return times\n",
    "broken": "import nothing_of_this_name\n",
    "empty": "number = 1\n",
}
ENTRIES = """[placet.commands]
greet = kindly:app
wave = plain:wave
fault = broken:run
gone = plain:gone
number = empty:number
run = plain:wave
"""


def install(folder: Path, entries: str = ENTRIES, name: str = "guest") -> None:
    """Put a distribution into a folder, as an installer would."""
    for module, text in MODULES.items():
        (folder / f"{module}.py").write_text(text)
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(entries)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for module in MODULES:
        sys.modules.pop(module, None)


def test_an_application_and_a_function_are_commands(installed, placet):
    assert placet("greet", "ann").out == "hello ann\n"
    waved = placet("wave", "--times", "3")
    assert (waved.out, waved.code) == ("wave 3\n", 3)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fault", "'fault' of guest (broken:run) cannot be loaded: No module named"),
        ("gone", "'gone' of guest (plain:gone) cannot be loaded: plain has no 'gone'"),
        ("number", "'number' of guest (empty:number) is no command: expected a typer.Typer"),
    ],
)
def test_a_broken_plugin_is_reported_in_one_line(installed, placet, name, why):
    outcome = placet(name)
    assert outcome.code == 1
    assert why in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_broken_plugin_breaks_no_other(installed, placet):
    assert placet("wave").out == "wave 1\n"
    assert placet("kinds", "--domain", "world", "--json").code == 0


def test_a_plugin_does_not_replace_a_command_of_placet(installed, placet):
    outcome = placet("run", "--help")
    assert "SCENARIO" in outcome.out


def test_help_lists_plugins_without_loading_them(installed, placet):
    outcome = placet("--help")
    assert "greet," in outcome.out
    assert "fault" in outcome.out
    assert "kindly" not in sys.modules


def test_help_of_placet_does_not_load_the_agent_layer():
    listing = (
        "import sys; from placet.cli.app import run_command; run_command(['--help']); "
        "print(*[one for one in sys.modules if one.startswith('placet.agents')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    assert "chat" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


def test_a_plugin_name_used_twice_is_resolved_by_the_installer(installed, monkeypatch):
    other = installed / "other"
    other.mkdir()
    install(other, "[placet.commands]\ngreet = plain:wave\n", "another")
    monkeypatch.syspath_prepend(str(other))
    assert str(plugins("placet.commands")["greet"]) == "'greet' of another (plain:wave)"


def test_a_module_that_raises_is_a_broken_plugin(installed):
    (installed / "broken.py").write_text("raise RuntimeError('at import')\n")
    with pytest.raises(PluginBroken, match="at import"):
        plugins("placet.commands")["fault"].load()


def test_chat_and_mcp_come_with_placet(tmp_path):
    listed = run_process("--help", folder=tmp_path).out.splitlines()[-1]
    assert {"chat", "mcp"} <= set(listed.strip().split(", "))
