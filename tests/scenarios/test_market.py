"""The scenario `market` shows how many acts slow agents get among fast ones, with each remedy."""

from typing import Any

import pytest

from placet.cli.commands.run_session import report_lines
from placet.cli.terminal import plain_lines
from placet.history.verify_log import verify_log
from placet.runtime import world_time
from placet.scenarios import ScenarioError, load
from placet.scenarios.builtin.market import Market
from placet.scenarios.report import RunReport
from placet.stores.url import open_event_log
from tests.actors.virtual_time import LoopClock, in_virtual_time
from tests.scenarios.actors import by_actors

TICKS = 120


def loop_clock(_start_ns: int) -> LoopClock:
    return LoopClock()


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch):
    """Let the realtime clock of a world be that of the loop, so that no test waits."""
    monkeypatch.setattr(world_time, "RealtimeClock", loop_clock)


async def run(store: str = "memory://", **changed: Any) -> RunReport:
    overrides = [f"{key.replace('__', '.')}={value}" for key, value in changed.items()]
    scenario = load("market", overrides=[f"ticks={TICKS}", *overrides])
    return await by_actors(scenario, store=store).run()


@in_virtual_time
async def test_slow_traders_win_nothing_without_a_remedy():
    report = await run()
    assert report.acts["slow"].submitted >= 16
    assert report.acts["slow"].admitted == 0
    assert report.acts["fast"].admitted >= 0.9 * report.acts["fast"].submitted


@in_virtual_time
async def test_slow_traders_win_each_act_by_what_they_depend_on():
    for remedy in ("revalidate", "if_unchanged"):
        report = await run(settings__slow=remedy)
        assert report.acts["slow"].admitted == report.acts["slow"].submitted >= 16, remedy
        assert report.acts["fast"].admitted >= 0.9 * report.acts["fast"].submitted, remedy


@in_virtual_time
async def test_slow_traders_win_with_leases_for_the_share_that_the_world_sets():
    kept = {}
    for share in (0.5, 0.1):
        report = await run(settings__slow="lease", leases__share=share)
        assert report.acts["slow"].admitted == report.acts["slow"].submitted >= 2
        kept[share] = report.acts["fast"].admitted / report.acts["fast"].submitted
    assert 0.4 <= kept[0.5] < kept[0.1]
    assert kept[0.1] >= 0.75


@in_virtual_time
async def test_the_log_of_a_market_is_verified(tmp_path):
    store = f"sqlite:///{tmp_path}/market.db"
    await run(store, settings__slow="lease", ticks=60)
    report = verify_log(open_event_log(store), [Market(slow="lease")])
    assert report.integrity.is_ok
    assert not report.unverified
    assert report.batches > 50


@in_virtual_time
async def test_the_report_has_the_acts_of_each_cohort():
    report = await run(ticks=30)
    shown = report.as_dict()["acts"]
    assert list(shown["slow"]) == ["submitted", "admitted"]
    lines = plain_lines(report_lines(report, None, ""))
    (line,) = [line for line in lines if line.startswith("  acts")]
    fast, slow = report.acts["fast"], report.acts["slow"]
    assert line.split(maxsplit=1)[1] == (
        f"fast {fast.admitted} of {fast.submitted}, slow 0 of {slow.submitted} admitted"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("settings.slow=leese", "there is no remedy 'leese'; did you mean 'lease'"),
        ("settings.stalls=0", "stalls must be at least 1, got 0"),
        ("agents.slow.options={ tick = 3 }", "the one option is ticks, .*'tick'"),
        ("agents.slow.options.ticks=0", "an integer from 1, got 0"),
        ("agents.fast.options.ticks=1", "market:Fast has no options"),
        ("clock=stepped", "leases need clock='realtime'"),
        ("agents.slow.permissions=['placet.leese']", "did you mean 'placet.lease'"),
    ],
)
@in_virtual_time
async def test_a_wrong_market_is_refused(override, message):
    with pytest.raises(ScenarioError, match=message):
        await by_actors(load("market", overrides=[override])).run()
