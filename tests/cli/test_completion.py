"""What a shell completes, what a person sees on a terminal, and the list of scenarios."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from placet.cli import pager
from placet.cli.app import run_command
from placet.cli.terminal import ColoredLine, TextTable, say_lines
from placet.scenarios import bundled
from tests.cli.command_line import PLACET


def completed(capsys, monkeypatch, *words):
    """Return what bash offers after these words; the last one is incomplete."""
    monkeypatch.setenv("_PLACET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(["placet", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        run_command([])
    return capsys.readouterr().out.split()


def test_scenarios_and_domains_are_completed(town, capsys, monkeypatch):
    assert completed(capsys, monkeypatch, "run", "t") == ["town"]
    assert completed(capsys, monkeypatch, "kinds", "--domain", "wor") == ["world"]
    assert completed(capsys, monkeypatch, "export", "x", "--table", "re") == ["refusals"]


@pytest.mark.parametrize("command", [("log", "town.db", "--agent"), ("explain", "town.db")])
def test_agents_of_a_store_are_completed(town, capsys, monkeypatch, command):
    found = completed(capsys, monkeypatch, *command, "folk_1")
    assert "folk_1" in found
    assert all(name.startswith("folk_1") for name in found)


def test_kinds_of_a_store_are_completed(town, capsys, monkeypatch):
    found = completed(capsys, monkeypatch, "log", "town.db", "--kind", "M")
    assert found == ["Move"]


def test_store_that_cannot_be_read_completes_nothing(town, capsys, monkeypatch):
    assert completed(capsys, monkeypatch, "log", "none.db", "--agent", "f") == []
    (town.folder / "bad.db").write_text("not a log")
    assert completed(capsys, monkeypatch, "log", "bad.db", "--agent", "f") == []


def test_scenarios_are_listed(placet):
    outcome = placet("scenarios")
    assert outcome.code == 0
    for name in bundled():
        assert f"\n{name} " in outcome.out
    assert [s["name"] for s in placet("scenarios", "--json").json()] == list(bundled())


TABLE = TextTable([("a\x1b[31m", "12", "word " * 12), ("b", "3")], ("name", "count", "note"))


def test_table_is_plain_in_a_pipe(capsys):
    say_lines(
        [TextTable([("a", "1"), ("long", "22")], ("name", "count")), ColoredLine("end", "red")]
    )
    assert capsys.readouterr().out == "  name  count\n  a     1\n  long  22\nend\n"


@pytest.mark.parametrize("columns", [40, 120])
def test_table_is_colored_and_as_wide_as_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say_lines([TABLE, ColoredLine("end", "red")])
    out = capsys.readouterr().out
    assert "\x1b[1;36m" in out
    assert "a\\x1b[31m" in out
    assert out.endswith("\x1b[31mend\x1b[0m\n")
    monkeypatch.setenv("NO_COLOR", "1")
    say_lines([TABLE, ColoredLine("end", "red")])
    out = capsys.readouterr().out
    assert not re.search(r"\x1b\[[\d;]*3\d", out), "a color"
    lines = re.sub(r"\x1b\[[\d;]*m", "", out).splitlines()
    assert max(map(len, lines)) <= columns
    assert (len(lines) == 4) == (columns == 120)


def test_log_on_a_terminal_goes_through_the_pager(town, monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    monkeypatch.setenv("PAGER", f"tee {seen}")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run_command(["log", "town.db"]) == 0
    lines = seen.read_text().splitlines()
    assert lines[0].split() == ["record", "seq", "time", "what"]
    assert len(lines) > 100


def test_pager_that_is_quit_early_is_no_error(monkeypatch):
    monkeypatch.setenv("PAGER", "head -n 1")
    stdout = io.StringIO()
    monkeypatch.setattr(stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", stdout)
    with pager.paged():
        for number in range(100_000):
            sys.stdout.write(f"line {number}\n")
    assert sys.stdout is stdout


def test_log_filters_and_rounds_for_people(town):
    lines = town("log", "town.db", "--kind", "Move", "--agent", "folk_1").out.splitlines()[1:]
    assert lines
    assert all("folk_1:" in line and "Move" in line for line in lines)
    numbers = list(lines[0].split("[")[1].split("]")[0].split(","))
    assert all(len(part.replace(".", "").lstrip("-0")) <= 6 for part in numbers)
    exact = town("log", "town.db", "--kind", "Move", "--agent", "folk_1", "--json").json()
    longest = max(len(str(x)) for x in exact[0]["intents"][0]["payload"]["to"])
    assert longest > 10
    assert town("log", "town.db", "--grep", "[").code == 2
    assert town("log", "town.db", "--from", "9", "--to", "3").code == 2


def test_long_read_shows_a_bar_on_a_terminal_and_ends_with_it(town, monkeypatch):
    from placet.cli import progress
    from placet.stores.reading import log_to_read

    shown: list[object] = []

    class Bar:
        def __init__(self, *description):
            shown.append(description)

        def __enter__(self):
            return shown.append

        def __exit__(self, *_):
            shown.append("end")

    monkeypatch.setattr(progress, "progress_bar", Bar)
    monkeypatch.setattr(progress, "_QUICK_S", -1.0)
    monkeypatch.setattr(progress, "_REPORTED_RECORDS", 50)
    plain = list(progress.with_bar(log_to_read("town.db"), "verify").read())
    assert shown == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    log = progress.with_bar(log_to_read("town.db"), "verify")
    assert list(log.read()) == plain
    assert shown[0] == ("verify", len(plain), "records")
    assert shown[1:-1] == [*range(50, len(plain), 50)]
    assert shown[-1] == "end"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_itself_offers_scenarios_domains_agents_and_kinds(town, monkeypatch):
    monkeypatch.setenv("_PLACET_COMPLETE", "source_bash")
    script = subprocess.run([*PLACET], capture_output=True, text=True, check=True).stdout
    monkeypatch.delenv("_PLACET_COMPLETE")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    lines = {
        "placet sweep to": "town",
        "placet run ru": "rush",
        "placet kinds --domain wor": "world",
        "placet log town.db --agent folk_12": "folk_12",
        "placet explain town.db folk_12": "folk_12",
        "placet fork town.db new.db --drop-agent folk_12": "folk_12",
        "placet effects town.db --kind Mo": "Move",
    }
    for line in lines:
        script += f"COMP_WORDS=({line}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        script += '_placet_completion placet; echo "${COMPREPLY[*]}"\n'
    shown = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, cwd=town.folder
    )
    assert dict(zip(lines, shown.stdout.splitlines(), strict=True)) == lines
