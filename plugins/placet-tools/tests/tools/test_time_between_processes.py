"""Quotas, windows and holds go on by the real time in which no process has the log open."""

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.tools.shop import QUIET

from placet import OrchestratorConfig
from placet.domains.approvals import Approvals
from placet.history.explain import explain
from placet.history.verify_log import verify_log
from placet.stores.reading import log_to_read
from placet.stores.url import open_event_log
from placet_tools import Gate, Tools
from placet_tools.frontend.catch_up import SKIP_SECONDS_MAX, catch_up

POLICY = {
    "defaults": {"unlisted": "allow", "approve_from": "high"},
    "tools": {"pay": {"at_most": [{"n": 1, "within": "1d"}]}},
}


def desk() -> Tools:
    tools = Tools("desk")

    @tools.tool(quota={"rate": 0.001, "burst": 1})
    def order(item: str) -> str:
        return item

    @tools.tool()
    def pay(to: str) -> str:
        return to

    @tools.tool(risk="high")
    def drop(table: str) -> str:
        return table

    return tools


class Wall:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.later = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.later


@pytest.fixture
def wall(monkeypatch):
    wall = Wall()

    async def by_wall(world, domain, recorder):
        await catch_up(world, domain, recorder, wall)

    monkeypatch.setattr("placet_tools.frontend.gate.catch_up", by_wall)
    return wall


def gate_on(path: Path, **options) -> Gate:
    return Gate(desk(), store=f"sqlite:///{path}", policy=POLICY, config=QUIET, **options)


async def test_a_quota_a_window_and_a_denial_end_while_no_process_runs(log, wall):
    async with gate_on(log) as gate:
        assert (await gate.call("order", item="chair")).status == "done"
        assert (await gate.call("pay", to="bob")).status == "done"
        held = await gate.call("drop", key="d1", table="a")
        await gate.decide(held.approval, "deny", by="ann")
        assert (await gate.call("drop", key="d2", table="b")).status == "held"
    async with gate_on(log) as gate:
        assert (await gate.call("order", item="desk")).codes == ("quota_exceeded",)
        assert (await gate.call("pay", to="eve")).codes == ("desk.at_most_reached",)
    wall.later = timedelta(minutes=61)
    async with gate_on(log) as gate:
        assert (await gate.call("order", item="desk")).status == "done"
        assert (await gate.call("pay", to="eve")).codes == ("desk.at_most_reached",)
        assert (await gate.outcome("d2")).status == "expired"
        assert (await gate.call("drop", key="d3", table="a")).status == "held"
    wall.later = timedelta(hours=25)
    async with gate_on(log) as gate:
        assert (await gate.call("pay", to="eve")).status == "done"
        assert 25 * 3_600 <= gate.world.sim_time < 25 * 3_600 + 600
    with closing(open_event_log(f"sqlite:///{log}")) as written:
        verify_log(written, [desk().domain(policy=POLICY), Approvals()])


async def test_a_wall_clock_that_was_set_wrong_moves_time_neither_back_nor_far(log, wall):
    async with gate_on(log) as gate:
        await gate.call("pay", to="bob")
    wall.later = timedelta(days=-400)
    async with gate_on(log) as gate:
        assert gate.world.sim_time < 600
    wall.later = timedelta(days=5_000)
    async with gate_on(log) as gate:
        assert gate.world.sim_time < SKIP_SECONDS_MAX + 600


async def test_time_that_the_host_steps_is_not_moved(log, wall):
    config = OrchestratorConfig(log_level="critical", clock="stepped")
    for days in (0, 9):
        wall.later = timedelta(days=days)
        async with Gate(desk(), store=f"sqlite:///{log}", config=config) as gate:
            assert gate.world.sim_time == 0.0


async def test_an_auditor_reads_on_which_day_a_person_decided(log, wall):
    wall.later = datetime(2031, 5, 4, 12, tzinfo=UTC) - datetime.now(UTC)
    async with gate_on(log) as gate:
        held = await gate.call("drop", key="d1", table="a")
        await gate.decide(held.approval, "approve", by="ann")
    with closing(log_to_read(f"sqlite:///{log}")) as written:
        explained = explain(written, "agent", "d1", [desk().domain(policy=POLICY), Approvals()])
    decided = next(note for note in explained.notes if "'ann' decided 'approve'" in note)
    assert ", 2031-05-04 12:0" in decided


def test_two_processes_one_after_the_other(tmp_path):
    """A script that is started for each task is not refused for ever."""
    script = tmp_path / "task.py"
    script.write_text(
        """
import json, sys
from datetime import UTC, datetime, timedelta
from placet import OrchestratorConfig
from placet_tools import Gate, Tools
from placet_tools.frontend import catch_up, gate as module

tools = Tools("desk")

@tools.tool(quota={"rate": 0.001, "burst": 1})
def order(item: str) -> str:
    return item

real, later = catch_up.catch_up, timedelta(seconds=float(sys.argv[1]))

async def by_wall(world, domain, recorder):  # the machine is off for so long
    await real(world, domain, recorder, lambda: datetime.now(UTC) + later)

module.catch_up = by_wall
config = OrchestratorConfig(log_level="critical")
with Gate(tools, store="sqlite:///desk.db", config=config) as open_gate:
    print(json.dumps(open_gate.call("order", item=sys.argv[1]).status))
"""
    )
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, str(script), later], cwd=tmp_path, check=True, capture_output=True
            ).stdout
        )
        for later in ("0", "1", "3600")
    ]
    assert found == ["done", "refused", "done"]
