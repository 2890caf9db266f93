"""Commands on a log with tables and column batches print counts, however many rows there are."""

import json

import pytest

from tests.cli.command_line import CommandLine
from tests.kernel.columns.test_columns_of_drafts import ticking
from tests.lab.columns import write_columns, write_log

ROWS = 300


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The path of a log of column batches of many rows."""
    path = tmp_path_factory.mktemp("columns") / "lab.db"
    write_columns(path, n=ROWS)
    return path


@pytest.fixture
def cli(capsys, tmp_path):
    """The command line."""
    return CommandLine(capsys, tmp_path)


def test_log_has_a_line_of_counts_for_each_column_batch(cli, path):
    done = cli("log", str(path))
    assert done.code == 0
    lines = done.out.splitlines()
    assert f"lab.agents {ROWS} rows, agents birds:0..{ROWS - 1}" in done.out
    assert "lab.cells 9 rows" in done.out
    batches = [line for line in lines if " columns " in line]
    assert len(batches) == 12
    assert f"Settle:0 Settle {ROWS} rows - " in done.out
    assert max(map(len, lines)) < 200
    taken = [line for line in batches if " stale_context" in line]
    assert taken
    assert all(line.split()[1] == "-" for line in taken)


def test_log_names_the_columns_that_a_tick_wrote(cli, tmp_path):
    _, records = ticking(lambda draft: draft.columns("sky.birds").set("age", 7, [3]))
    write_log(tmp_path / "sky.db", records)
    done = cli("log", str(tmp_path / "sky.db"))
    assert "0 entities changed; columns sky.birds/age changed" in done.out


def test_log_as_json_holds_no_rows(cli, path):
    done = cli("log", "--json", str(path))
    records = json.loads(done.out)
    columns = [record for record in records if record["type"] == "columns"]
    assert {record["rows"] for record in columns} == {ROWS, ROWS // 2}
    assert all(sum(r["refusals"].values()) == r["refused"] for r in columns)
    made = [record for record in records if record["type"] == "table_made"]
    assert [record["count"] for record in made] == [9, ROWS]
    assert max(len(json.dumps(record)) for record in [*columns, *made]) < 2_000


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("verify",),
        ("effects",),
        ("explain", "birds:1", "own:1"),
        ("log", "--from", "9", "--to", "12"),
        ("log", "--grep", "Settle"),
    ],
)
def test_commands_read_the_log(cli, path, arguments):
    name, *more = arguments
    done = cli(name, str(path), *more)
    assert done.code == 0, done.err
    assert len(done.out) < 5_000


def test_report_counts_the_rows(cli, path):
    done = cli("report", str(path), "--to", str(cli.folder / "page.html"))
    assert done.code == 0, done.err
    page = (cli.folder / "page.html").read_text()
    assert "lab.agents" in page
    assert "domain/conflict" in page
    assert len(page) < 200_000


def test_export_and_collect_write_the_rows(cli, path):
    done = cli("export", str(path), "--to", str(cli.folder / "tables"))
    assert done.code == 0, done.err
    agents = str(cli.folder / "collected")
    world = "money=mean(lab.agents/money)"
    done = cli("collect", str(path), "--agents", "position", "--world", world, "--to", agents)
    assert done.code == 0, done.err


def test_a_fork_and_a_pack_keep_the_tables(cli, path):
    forked, packed = cli.folder / "fork.db", cli.folder / "a.pack"
    assert cli("fork", str(path), str(forked), "--at", "9").code == 0
    assert cli("pack", str(path), str(packed)).code == 0
    assert cli("replay", str(packed)).out == cli("replay", str(path)).out
