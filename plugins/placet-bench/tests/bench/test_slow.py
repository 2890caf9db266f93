"""The benchmark of slow agents holds its bars in short cells, which depend on their seed alone."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "bench_slow.py"
FAST, SECONDS = (5, 0.1), 6.0


@pytest.fixture(scope="module")
def slow():
    spec = importlib.util.spec_from_file_location("bench_slow", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_slow"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["bench_slow"]


def rows(slow: ModuleType, act: str, thought_s: float = 0.05) -> dict[str, dict[str, float]]:
    seconds = SECONDS if thought_s < 1 else 40.0
    found = slow.rows_of(act, slow.Shape(thought_s, *FAST, seconds), 1)
    return {row["remedy"]: row for row in found}


@pytest.mark.parametrize("thought_s", [0.05, 2.0])
def test_a_slow_agent_wins_by_each_remedy_and_the_fast_keep_their_part(slow, thought_s):
    row = rows(slow, "act", thought_s)
    assert row["today"]["admitted"] <= 0.2 * row["today"]["tries"]
    named = row["if_unchanged"]
    assert named["admitted"] == named["tries"] >= 18
    assert named["most"] == 1
    for remedy, share, keep in (("lease 0.5", 0.5, 50), ("lease 0.1", 0.1, 85)):
        leased = row[remedy]
        assert leased["most"] <= 4
        assert leased["admitted"] >= 2
        assert leased["leased"] <= share + 0.05
        assert leased["keep"] >= keep


def test_an_interaction_that_judges_again_needs_no_remedy(slow):
    row = rows(slow, "use")
    assert list(row) == ["today"]
    assert row["today"]["admitted"] == row["today"]["tries"] > 100


def test_a_lease_helps_where_the_condition_itself_changes(slow):
    row = rows(slow, "take")
    assert row["if_unchanged"]["admitted"] == row["today"]["admitted"]
    for remedy, share in (("lease 0.5", 0.5), ("lease 0.1", 0.1)):
        leased = row[remedy]
        assert leased["most"] <= 4 < row["today"]["most"]
        assert leased["leased"] <= share + 0.05


def test_an_honest_agent_comes_through_among_abusers(slow):
    shape = slow.Shape(0.05, 3, 0.1, 60.0)
    (row,) = slow.rows_of("act", shape, 1, ["lease 0.5"], abusers=20)
    assert row["remedy"] == "lease 0.5, 20 abusers"
    two_losses_s, ticket_s = 0.2, 20  # the lease of one abuser, and the rest after it
    assert row["wait"] <= (two_losses_s + ticket_s) / shape.thought_s
    assert row["admitted"] >= 3
    assert row["keep"] >= 50


def test_the_rows_are_printed_and_written(slow, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(slow, "SHAPES", [slow.Shape(0.05, 2, 0.1, 1.0)])
    target = tmp_path / "rows.json"
    monkeypatch.setattr(
        sys, "argv", ["bench_slow.py", "--acts", "use", "--seeds", "2", "--to", str(target)]
    )
    slow.main()
    (row,) = json.loads(target.read_text("utf-8"))["rows"]
    assert len(row["seeds"]) == 2
    assert "use   0.05 s, 2 fast, 20/s" in capsys.readouterr().out
