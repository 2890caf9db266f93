"""Scenarios on clocks that run by themselves: all agents act once per tick, also under dilation."""

import asyncio
from typing import Any

import pytest

from placet.cli.commands.run_session import report_lines
from placet.cli.terminal import plain_lines
from placet.history.reader import check_integrity
from placet.scenarios import ScenarioError, load
from placet.scenarios.report import RunReport
from placet.scenarios.resume import find_run
from placet.stores.url import open_event_log
from tests.scenarios.actors import by_actors

GUESTS, TICKS = 300, 4


def run(store: str = "memory://", **changed: Any) -> RunReport:
    some = {"agents__guest__count": GUESTS, "ticks": TICKS, "tick_s": 0.02, **changed}
    overrides = [f"{key.replace('__', '.')}={value}" for key, value in some.items()]
    return asyncio.run(by_actors(load("rush", overrides=overrides), store=store).run())


def test_dilated_time_refuses_nothing_for_load(tmp_path):
    store = f"sqlite:///{tmp_path}/rush.db"
    report = run(store, clock="realtime", backpressure="dilate", dilation_wait_ms=1)
    assert report.ticks == TICKS
    assert GUESTS < report.batches <= GUESTS * TICKS
    assert report.admitted >= 20
    assert not [key for key in report.refusals if key.startswith("door/")]
    assert report.time["factor_lowest"] < 1.0
    assert report.as_dict()["time"]["behind_s"] > 0
    (line,) = [
        line for line in plain_lines(report_lines(report, None, "")) if line.startswith("  time")
    ]
    assert "of real time at the slowest" in line
    assert check_integrity(open_event_log(store)).is_ok


def test_all_agents_act_in_each_realtime_tick():
    report = run(clock="realtime", tick_s=0.05)
    assert report.ticks == TICKS
    assert report.time == {"clock": "realtime", "asleep": 0, "late": 0}
    assert report.seconds > (TICKS - 1) * 0.05
    assert not any(
        line.startswith("  time") for line in plain_lines(report_lines(report, None, ""))
    )


def test_a_realtime_run_is_stopped_between_two_ticks():
    asked: list[int] = []
    scenario = load("rush", overrides=["agents.guest.count=5", "clock=realtime", "tick_s=0.01"])
    runner = by_actors(scenario, on_tick=asked.append, is_stopped=lambda: len(asked) >= 3)
    report = asyncio.run(runner.run())
    assert report.is_stopped
    assert report.ticks in {3, 4}


def test_a_next_event_run_is_fast_and_reproducible():
    few: dict[str, Any] = {"clock": "next_event", "agents__guest__count": 60}
    reports = [run(tick_s=1000.0, **few) for _ in range(2)]
    assert reports[0].digest == reports[1].digest
    assert reports[0].sim_time == (TICKS - 1) * 1000.0
    assert reports[0].admitted == reports[1].admitted >= 20
    assert run(seed=2, **few).digest != reports[0].digest


CHASE = """
class Chase:
    def __init__(self, member, scenario, intent):
        self.intent, self.name = intent, member.agent_id
        self.ahead = f"a_{int(self.name[2:]) - 1}"

    def propose(self, view):
        agents = view.state["world.agents"]
        x = agents[self.name]["position"][0]
        leads = self.ahead not in agents or agents[self.ahead]["position"][0] % 3 == 2
        return [self.intent("Move", to=[x + 1, 0])] if leads else []
"""


@pytest.mark.parametrize("asked_max", range(1, 12))
def test_a_stopped_next_event_run_resumes_to_the_same_end(tmp_path, monkeypatch, asked_max):
    (tmp_path / "chasing.py").write_text(CHASE)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "chase.toml"
    group = "[agents.a]\ncount = 4\npolicy = 'chasing:Chase'\nattributes = { position = [0, 0] }\n"
    path.write_text(f"ticks = 9\nclock = 'next_event'\n{group}")
    scenario, store = load(path), f"sqlite:///{tmp_path}/chase.db"
    whole = asyncio.run(by_actors(scenario).run())
    asked = iter(range(1_000))
    stopped = by_actors(scenario, store=store, is_stopped=lambda: next(asked) >= asked_max)
    report = asyncio.run(stopped.run())
    for ticks in (report.ticks, 9):
        again = asyncio.run(by_actors(scenario, store=store, is_resumed=True).run())
        assert again.resumed_at == ticks
        assert (again.digest, again.seq, not again.refusals) == (whole.digest, whole.seq, True)
    begun = find_run(open_event_log(store))
    assert begun is not None
    assert begun.is_finished


def test_dilation_of_a_stepped_scenario_is_refused():
    with pytest.raises(ScenarioError, match="it needs clock='realtime'"):
        run(backpressure="dilate")
