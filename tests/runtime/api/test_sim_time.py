"""Simulated time of an orchestrator: `sim_time`, `wait_until`, `step`, and dilation."""

import asyncio
import itertools
import json
import math

import pytest

from placet import ClosedError, Orchestrator, OrchestratorConfig
from placet.runtime.clock import DilatedClock


def quiet(**options: object) -> OrchestratorConfig:
    return OrchestratorConfig(log_level="critical", **options)  # type: ignore[arg-type]  # any of its own


async def test_sleeping_tasks_wake_when_a_stepped_world_reaches_their_time():
    async with Orchestrator(config=quiet(clock="stepped")) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        woken: list[tuple[str, float]] = []

        async def host() -> None:
            await world.wait_until(2.5)
            woken.append(("host", world.sim_time))

        async def policy() -> None:
            for _ in range(3):
                await ann.sleep(1.0)
                woken.append(("ann", world.sim_time))

        tasks = [asyncio.create_task(host()), asyncio.create_task(policy())]
        for _ in range(6):
            await asyncio.sleep(0)
            await world.step(0.5)
        await asyncio.gather(*tasks)
        assert woken == [("ann", 1.0), ("ann", 2.0), ("host", 2.5), ("ann", 3.0)]


@pytest.mark.parametrize("laps", range(5))
async def test_canceled_step_wakes_sleeping_tasks_if_it_moved_time(laps):
    async with Orchestrator(config=quiet(clock="stepped")) as world:
        sleeping = asyncio.create_task(world.wait_until(1.0))
        await asyncio.sleep(0)
        stepping = asyncio.create_task(world.step(1.0))
        for _ in range(laps):
            await asyncio.sleep(0)
        stepping.cancel()
        await asyncio.gather(stepping, return_exceptions=True)
        await world.digest()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sleeping.done() == (world.sim_time == 1.0)
        await world.step(1.0)
        await sleeping


async def test_sleep_in_a_realtime_world_waits_for_the_clock():
    async with Orchestrator(config=quiet()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        then = world.sim_time + 0.02
        await ann.sleep_until(then)
        assert world.sim_time >= then
        await world.wait_until(then)  # it has passed


async def test_waiters_get_closed_error_when_the_world_closes():
    async with Orchestrator(config=quiet()) as world:
        waiting = asyncio.create_task(world.wait_until(1e6))
        await asyncio.sleep(0)
    with pytest.raises(ClosedError, match="its time has ended"):
        await waiting


@pytest.mark.parametrize("moment", [math.nan, math.inf, 1e300])
async def test_time_that_is_not_finite_or_too_late_is_refused(moment):
    async with Orchestrator(config=quiet()) as world:
        with pytest.raises(ValueError, match="a moment must be seconds below"):
            await world.wait_until(moment)


@pytest.mark.parametrize("dt", [-1.0, math.nan, math.inf])
async def test_negative_or_infinite_step_is_refused(dt):
    async with Orchestrator(config=quiet(clock="stepped")) as world:
        with pytest.raises(ValueError, match="dt must be a finite number"):
            await world.step(dt)


async def test_step_past_the_end_of_time_is_refused_and_the_world_continues():
    async with Orchestrator(config=quiet(clock="stepped")) as world:
        await world.step(4.6e9)
        with pytest.raises(
            ValueError, match=r"time ends at 4\.61169e\+09 s, a step of 4600000000\.0"
        ):
            await world.step(4.6e9)
        await world.step(1.0)
        assert world.sim_time == 4.6e9 + 1


async def test_sleep_past_the_end_of_time_is_refused():
    async with Orchestrator(config=quiet(clock="next_event")) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await ann.sleep(4.6e9)
        with pytest.raises(ValueError, match="a moment must be seconds below"):
            await ann.sleep(4.6e9)
        assert world.sim_time == 4.6e9


@pytest.mark.parametrize("clock", ["stepped"])
def test_dilation_requires_the_realtime_clock(clock):
    with pytest.raises(ValueError, match="it needs clock='realtime', got 'stepped'"):
        OrchestratorConfig(clock=clock, backpressure="dilate")


def test_dilation_settings_are_checked_under_every_policy():
    with pytest.raises(ValueError, match="dilation_factor_min"):
        OrchestratorConfig(dilation_factor_min=0.0)
    with pytest.raises(ValueError, match="dilation_wait_ms"):
        OrchestratorConfig(dilation_wait_ms=0)


async def test_dilation_factor_is_in_statistics_and_metrics():
    async with Orchestrator(config=quiet(backpressure="dilate")) as world:
        clock = world._open.clock
        assert isinstance(clock, DilatedClock)
        assert world.statistics()["time"]["factor"] == 1.0
        for _ in range(50):
            await asyncio.sleep(0.001)
            clock.follow(10**9)
        time = world.statistics()["time"]
        assert time["clock"] == "realtime"
        assert time["factor"] < 0.9
        assert time["behind_s"] > 0
        sample = world.metrics_registry.get_sample_value("placet_time_dilation")
        assert sample == pytest.approx(time["factor"], abs=1e-6)
    async with Orchestrator(config=quiet()) as world:
        assert world.statistics()["time"] == {"clock": "realtime", "asleep": 0, "late": 0}
        assert world.metrics_registry.get_sample_value("placet_time_dilation") == 1.0


async def test_changes_of_the_dilation_factor_are_logged(capsys):
    config = OrchestratorConfig(backpressure="dilate", log_level="info", log_format="json")
    async with Orchestrator(config=config) as world:
        clock = world._open.clock
        assert isinstance(clock, DilatedClock)
        # A fake of the machine's clock, within this second.
        times = itertools.count(clock.monotonic_ns(), 5_000_000)
        now_ns = next(times)
        clock.monotonic_ns = lambda: now_ns
        clock.follow(0)
        for wait_ns in (10**9, 0):
            while not 0.1001 > clock.dilation.factor >= 0.1 and wait_ns:
                now_ns = next(times)
                clock.follow(wait_ns)
            while clock.dilation.factor < 1.0 and not wait_ns:
                now_ns = next(times)
                clock.follow(wait_ns)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    levels = [(line["level"], line["factor"]) for line in lines if line["event"] == "time dilation"]
    assert levels == [
        ("warning", pytest.approx(0.4, abs=0.15)),
        ("info", 1.0),
    ]  # at most one line a second
