"""The bundled scenario `rush`, and the fairness statistics of its report."""

import asyncio
import json
from collections import Counter
from itertools import pairwise
from random import Random
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Simulation
from placet.cli.commands.run_session import report_lines
from placet.cli.terminal import plain_lines
from placet.history.reader import check_integrity
from placet.kernel import Domain, Field, Kind, Table
from placet.scenarios import load
from placet.scenarios.fairness import AgentPair, FairnessStats, jain, lottery_jain_index
from placet.scenarios.kernel_runner import KernelRunner
from placet.scenarios.report import RunReport
from placet.scenarios.setup import prepare
from placet.schemas.refusal import Refusal, Stage
from placet.schemas.verdict import Verdict
from placet.stores.url import open_event_log
from tests.kernel.builders import intent
from tests.scenarios.actors import by_actors


def run(store: str = "memory://", **changed: Any) -> RunReport:
    overrides = [f"{key.replace('__', '.')}={value}" for key, value in changed.items()]
    return asyncio.run(by_actors(load("rush", overrides=overrides), store=store).run())


# The scenario


def test_a_rush_is_identical_in_memory_and_on_disk(tmp_path):
    store = f"sqlite:///{tmp_path}/rush.db"
    small: dict[str, Any] = {"agents__guest__count": 60, "ticks": 10}
    reports = [run(**small), run(store, **small), run(**small)]
    assert len({report.digest for report in reports}) == 1
    assert len({json.dumps(report.fairness.as_dict(60)) for report in reports}) == 1
    verified = check_integrity(open_event_log(store))
    assert (verified.is_ok, verified.digest) == (True, reports[0].digest)
    assert run(seed=2, **small).digest != reports[0].digest


@pytest.mark.soak
def test_each_contested_object_is_won_in_each_group():
    report = run()
    scenario = report.scenario
    assert scenario.agents_count == 2000
    assert report.fairness.wins.total() == 20 * scenario.ticks / 2
    assert set(report.refusals) == {"domain/conflict"}
    figures = report.fairness.as_dict(2000)
    assert figures["jain_decided"] > 0.99
    assert figures["jain_wins"] == pytest.approx(figures["jain_wins_of_a_lottery"], rel=0.15)


@pytest.mark.slow
def test_wins_of_a_rush_are_distributed_like_a_lottery():
    """Chi-square over 40 agents and 400 wins; the seed is fixed, so it is the same every time.

    A gate that favored the lowest name, index or the first to come would be far out of it.
    """
    report = run(agents__guest__count=40, objects__prize__count=1, ticks=800)
    wins = report.fairness.wins
    expected = wins.total() / 40
    assert wins.total() == 400
    statistic = sum((wins[f"guest_{n}"] - expected) ** 2 / expected for n in range(1, 41))
    # Wilson and Hilferty: the cube root of a chi-square over its degrees is about normal.
    degrees = 39
    normal = NormalDist(1 - 2 / (9 * degrees), (2 / (9 * degrees)) ** 0.5)
    assert 0.001 < normal.cdf((statistic / degrees) ** (1 / 3)) < 0.999


def test_the_report_shows_contention():
    report = run(agents__guest__count=30, objects__prize__count=1, ticks=20)
    text = "\n".join(plain_lines(report_lines(report, None, "")))
    assert "contention" in text
    assert "10 won, 30 agents took part" in text
    assert "decided batches 0.99" in text or "decided batches 1.000" in text
    (loser, winner), count = report.fairness.top_pairs()[0]
    assert f"{loser} to {winner} {count} times" in text


# The figures


def lost(agent_id: str, winner: str, resource: str = "lamp") -> tuple[list[Any], Verdict]:
    details = {"winner": winner, "resource": resource}
    refusal = Refusal("conflict", "taken", Stage.DOMAIN, index=0, details=details)
    return [intent("Grab", agent_id=agent_id)], Verdict("", False, None, 0, 0.0, (refusal,))


def test_a_win_counts_once_per_group():
    contests = FairnessStats()
    for _ in range(2):
        contests.begin_group()
        for loser in ("bob", "cid", "dan"):
            contests.count(*lost(loser, "ann"))
        contests.count(*lost("bob", "dan", "chair"))
    assert contests.wins == {"ann": 2, "dan": 2}
    assert contests.entered == {"ann", "bob", "cid", "dan"}
    assert contests.top_pairs() == [
        (AgentPair("bob", "ann"), 2),
        (AgentPair("bob", "dan"), 2),
        (AgentPair("cid", "ann"), 2),
    ]
    assert contests.as_dict(4)["jain_wins"] == 0.5


def test_an_admission_refusal_does_not_count_as_decided():
    contests = FairnessStats()
    refusal = Refusal("queue_full", "full", Stage.ADMISSION)
    batch: list[Any] = [intent("Grab", agent_id="ann")]
    contests.count(batch, Verdict("", False, None, 0, 0.0, (refusal,)))
    assert not contests.decided
    contests.count(batch, Verdict("", True, 1, 1, 0.0, ()))
    assert contests.decided == {"ann": 1}


def test_a_run_without_contests_has_figures():
    figures = FairnessStats().as_dict(0)
    assert figures["jain_wins"] is figures["jain_decided"] is None
    assert figures["jain_wins_of_a_lottery"] is None
    assert figures["lost_to"] == []


def test_counted_pairs_are_bounded(monkeypatch):
    monkeypatch.setattr("placet.scenarios.fairness.PAIRS_MAX", 2)
    contests = FairnessStats()
    for loser in ("bob", "cid", "dan", "bob"):
        contests.count(*lost(loser, "ann"))
    assert contests.pairs == {("bob", "ann"): 2, ("cid", "ann"): 1}


@pytest.mark.parametrize(
    ("parts", "count", "index"),
    [([3, 3, 3], 3, 1.0), ([5], 4, 0.25), ([1, 1], 4, 0.5), ([], 4, None), ([4, 2], 2, 0.9)],
)
def test_the_fairness_index_of_given_parts(parts, count, index):
    assert jain(parts, count) == (None if index is None else pytest.approx(index))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20), st.integers(1, 9))
def test_the_index_is_between_one_nth_and_one_at_any_scale(parts, scale):
    index = jain(parts, len(parts))
    assert index is not None
    assert 1 / len(parts) - 1e-9 <= index <= 1 + 1e-9
    assert jain([part * scale for part in parts], len(parts)) == pytest.approx(index)


def test_the_index_of_a_lottery_approaches_one_with_more_wins():
    indices = [lottery_jain_index(wins, 50) or 0.0 for wins in (1, 10, 100, 1000, 100_000)]
    assert indices[0] == pytest.approx(1 / 50)
    assert all(one < other for one, other in pairwise(indices))
    assert indices[-1] > 0.999
    assert lottery_jain_index(0, 50) is None


def test_the_expected_index_of_a_lottery_equals_a_simulated_one():
    chance, mean = Random(1), 0.0
    for _ in range(200):
        wins = Counter(chance.randrange(20) for _ in range(60))
        mean += (jain(wins.values(), 20) or 0.0) / 200
    assert mean == pytest.approx(lottery_jain_index(60, 20), rel=0.03)


# Populations


def test_the_fairness_of_members_counts_rows_and_contests():
    scenario = load("segregation", overrides=["ticks=6"])
    seen: list[Any] = []
    runner = KernelRunner(prepare(scenario, store="memory://"))
    count_columns = runner.report.fairness.count_columns

    def counted(verdict: Any, count: int) -> None:
        seen.append(verdict)
        count_columns(verdict, count)

    runner.report.fairness.count_columns = counted  # type: ignore[method-assign]
    for _ in range(scenario.ticks):
        runner.tick()
    rows = Counter(int(number) for verdict in seen for number in verdict.numbers)
    wins = Counter(
        winner for verdict in seen for winner in {int(one) for one in verdict.winners if one >= 0}
    )
    losers = {
        int(number)
        for verdict in seen
        for number, winner in zip(verdict.numbers, verdict.winners, strict=True)
        if winner >= 0
    }
    assert wins
    assert runner.report.fairness.as_dict(320) == {
        "jain_decided": round(jain(rows.values(), 320) or 0, 4),
        "contests": wins.total(),
        "contestants": len(losers | set(wins)),
        "jain_wins": round(jain(wins.values(), len(losers | set(wins))) or 0, 4),
        "jain_wins_of_a_lottery": round(
            lottery_jain_index(wins.total(), len(losers | set(wins))) or 0, 4
        ),
        "lost_to": [],
    }
    assert runner.report.as_dict()["fairness"] == runner.report.fairness.as_dict(320)


def test_rows_that_never_reached_the_gate_are_not_decided():
    class Beds(Domain):
        name, version = "beds", "1"
        tables = (Table("beds.plants", {"high": Field("i4")}),)
        kinds = (
            Kind(
                "Grow",
                {"to": Field("i4", low=0)},
                rows=lambda rows: rows.write("high", rows.payload["to"]),
                table="beds.plants",
            ),
        )

    simulation = Simulation(
        Beds(),
        populations={"plants": (4, "beds.plants", lambda view: {"Grow": {"to": [1, -1, 2, 3]}})},
    )
    report = simulation.run(ticks=3)
    assert report.fairness.members["plants"].decided.tolist() == [3, 0, 3, 3]
