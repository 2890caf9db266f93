"""Questions about a run in PostgreSQL have the answers of the same run in a file."""

import pyarrow.parquet as pq
import pytest

from placet import Log
from placet.cli.app import run_command
from placet.lab import compare, turning_point
from placet.stores.url import open_event_log
from placet.sweeps.errors import LabError
from placet.tables.parts import read_collected
from placet.tables.table import ArrowTable
from tests.lab.coin import TOML, any_heads
from tests.postgres.server import Server

SECRET = "tr0ub4dor"


@pytest.fixture(scope="module")
def runs(postgres, tmp_path_factory):
    """The same run on a server that requires a password, and in a file."""
    folder = tmp_path_factory.mktemp("coin")
    with Server(postgres.programs, password=SECRET) as server:
        url, file = server.url(password=SECRET), f"{folder}/coin.db"
        (folder / "coin.toml").write_text(TOML)
        for store in (url, file):
            assert run_command(["run", f"{folder}/coin.toml", "--store", store]) == 0
        yield url, file


def digests_of(folder):
    return {
        path.name: ArrowTable(path.stem, pq.read_table(path)).digest()
        for path in folder.glob("*.parquet")
    }


def test_the_rows_are_those_of_the_file(runs, tmp_path, capsys):
    for number, store in enumerate(runs):
        assert run_command(["export", store, "--to", str(tmp_path / f"rows{number}")]) == 0
        collected = ["--agents", "side", "--to", str(tmp_path / f"collected{number}")]
        assert run_command(["collect", store, *collected]) == 0
        assert run_command(["report", store, "--to", str(tmp_path / f"{number}.html")]) == 0
    first, second = (digests_of(tmp_path / f"rows{number}") for number in range(2))
    assert first == second
    assert len(first) == 8
    agents = [read_collected(tmp_path / f"collected{n}")["agents"].digest() for n in range(2)]
    assert agents[0] == agents[1]
    assert SECRET not in "".join(capsys.readouterr())
    assert SECRET.encode() not in (tmp_path / "0.html").read_bytes()


def test_the_turning_point_and_the_comparison_are_those_of_the_file(runs):
    stored, filed = (turning_point(s, any_heads, every=4, seeds=12) for s in runs)
    assert stored.points == filed.points
    assert SECRET not in stored.store
    assert compare(*runs).is_equal
    with Log(runs[0]) as log:
        assert SECRET not in repr(log)


def test_a_log_that_a_session_writes_is_refused_until_it_ends(runs):
    writer = open_event_log(runs[0])
    writer.open()
    try:
        with pytest.raises(LabError, match=r"is written by 'placet writer .*: wait until the run"):
            turning_point(runs[0], any_heads, every=4, seeds=12)
    finally:
        writer.close()
    turning_point(runs[0], any_heads, every=8, seeds=4)
