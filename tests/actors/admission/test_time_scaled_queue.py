"""`dilate`: simulated time slows under load, so that no batch is refused, and recovers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.time_scaled_queue import DilatingQueue, Dilation
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Verifier
from placet.kernel.state.draft import Draft
from placet.runtime.clock import DilatedClock
from placet.runtime.world import WorldRuntime
from placet.schemas.limits import SECOND_NS
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import add, open_world
from tests.actors.virtual_time import VirtualTimeLoop, in_virtual_time, turns
from tests.kernel.domains import Lab

if TYPE_CHECKING:
    from placet.schemas.verdict import Verdict

MS = 1_000_000
WORK_S = 0.01
"""Time to decide a batch in these tests: a hundred batches a second."""

AGENTS = tuple(f"agent_{number}" for number in range(20))


class Laborious(Lab):
    """A lab domain whose clock advances with each decision."""

    def on_batch(self, draft: Draft) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.seconds += WORK_S


@asynccontextmanager
async def dilated_world(**options: Any) -> AsyncIterator[WorldRuntime]:
    async with open_world(backpressure="dilate", domain=Laborious(), **options) as world:
        yield world


def clock_of(world: WorldRuntime) -> DilatedClock:
    clock = world.clock
    assert isinstance(clock, DilatedClock)
    return clock


async def offer(world: WorldRuntime, agent_id: str, seconds: int, every_ms: int) -> list["Verdict"]:
    """Submit a batch every so many simulated milliseconds, and await the verdicts at the end."""
    began_ns = world.clock.now_ns()
    answers = []
    for number in range(seconds * 1000 // every_ms):
        await world.timers.sleep_until(began_ns + number * every_ms * MS)
        answers.append(
            world.actor.post_batch([add(f"{agent_id}:{number}", agent_id=agent_id)], agent_id)
        )
    return [await answer for answer in answers]


async def offer_all(world: WorldRuntime, seconds: int, every_ms: int) -> list["Verdict"]:
    """Run 20 agents that each submit one batch per `every_ms` simulated milliseconds."""
    offers = [offer(world, agent_id, seconds, every_ms) for agent_id in AGENTS]
    return [verdict for part in await asyncio.gather(*offers) for verdict in part]


async def watched(world: WorldRuntime, seconds: float) -> list[float]:
    """Sample the factor ten times per real second."""
    factors = []
    for _ in range(round(seconds * 10)):
        await asyncio.sleep(0.1)
        factors.append(clock_of(world).dilation.factor)
    return factors


# The whole of it


@in_virtual_time
async def test_five_times_the_capacity_is_all_admitted_in_five_times_the_time():
    """Ten simulated seconds of 500 batches each take fifty real seconds at 100 decisions/s."""
    loop = asyncio.get_running_loop()
    async with dilated_world(agents=AGENTS) as world:
        began_s, began_ns = loop.time(), world.clock.now_ns()
        watching = asyncio.create_task(watched(world, 35))
        verdicts = await offer_all(world, seconds=10, every_ms=40)
        assert len(verdicts) == 5000
        assert all(verdict.admitted for verdict in verdicts)
        assert loop.time() - began_s == pytest.approx(50, rel=0.03)
        assert world.clock.now_ns() - began_ns == pytest.approx(10 * SECOND_NS, rel=0.05)
        settled = (await watching)[30:]  # from the third second on
        assert min(settled) > 0.17
        assert max(settled) < 0.23
        assert sum(settled) / len(settled) == pytest.approx(0.2, rel=0.02)
        told = world.statistics()["time"]
        assert told["behind_s"] == pytest.approx(40, rel=0.03)
        assert told["factor_lowest"] < 0.2

        await asyncio.sleep(1)  # it recovers within a second, and runs as the machine does
        assert world.statistics()["time"]["factor"] == 1.0
        then_s, then_ns = loop.time(), world.clock.now_ns()
        await asyncio.sleep(7)
        assert world.clock.now_ns() - then_ns == round((loop.time() - then_s) * SECOND_NS)


@in_virtual_time
async def test_a_run_in_slowed_time_replays_and_verifies():
    async with dilated_world(agents=AGENTS, quotas={"Add": {"rate": 20, "burst": 2}}) as world:
        verdicts = await offer_all(world, seconds=2, every_ms=40)
        assert clock_of(world).dilation.lowest < 0.5
        assert any(verdict.codes == ("quota_exceeded",) for verdict in verdicts)
        records = [record for _, record in world.log.read()]
        digest = world.kernel.digest()
    replayer, again = Replayer(), Verifier([Laborious()])
    for record in records:
        replayer.apply(record)
        again.apply(record)  # raises at the first that comes out otherwise
    assert replayer.state.digest().hex() == digest
    assert again.state.digest().hex() == digest


@in_virtual_time
async def test_below_the_capacity_time_runs_in_real_time():
    async with dilated_world(agents=AGENTS) as world:
        watching = asyncio.create_task(watched(world, 4))
        verdicts = await offer_all(world, seconds=5, every_ms=250)  # 80 a second
        assert all(verdict.admitted for verdict in verdicts)
        factors = await watching
        assert min(factors) > 0.6  # all post at once: a crowd of 20, four times a second
        assert sum(factors) / len(factors) > 0.85


@in_virtual_time
async def test_an_idle_world_sets_no_timer_and_is_not_slowed():
    async with dilated_world() as world:
        assert (await world.actor.post_batch([add("one")], "alice")).admitted
        await turns()
        mailbox = world.actor._mailbox
        assert isinstance(mailbox, DilatingQueue)
        assert mailbox._report_timer is None
        before = world.clock.now_ns()
        await asyncio.sleep(100)
        assert world.clock.now_ns() - before == 100 * SECOND_NS
        assert (await world.actor.post_batch([add("two")], "alice")).admitted
        assert clock_of(world).dilation.lowest == 1.0


@in_virtual_time
async def test_a_late_cycle_does_not_change_the_measured_pace():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    async with open_world(backpressure="dilate") as world:
        one = world.actor.post_batch([add("one")], "alice")
        loop.seconds += 0.09
        assert (await one).admitted
        crowd = [world.actor.post_batch([add(f"r{number}")], "alice") for number in range(40)]
        loop.seconds += 0.02
        assert all([(await answer).admitted for answer in crowd])
        assert clock_of(world).dilation.lowest == 1.0


@in_virtual_time
async def test_the_factor_has_a_minimum_and_a_full_wait_queue_refuses():
    """Slowing time cannot throttle a submitter in real time; the bounds still hold."""
    limits = {"mailbox_batches_max": 50, "wait_queue_batches_max": 300}
    async with dilated_world(limits=limits, dilation_factor_min=0.25) as world:
        posted = [
            world.actor.post_batch([add(f"r{number}", agent_id=name)], name)
            for number in range(300)
            for name in ("alice", "bob")
        ]
        factors = await watched(world, 2)
        assert min(factors) == pytest.approx(0.25)
        refused = [answer for answer in [await one for one in posted] if not answer.admitted]
        assert {answer.codes for answer in refused} == {("queue_full",)}
        signals = {answer.refusals[0].details["signal"] for answer in refused}
        assert signals == {"wait_queue_batches_of_submitter"}
        assert len(posted) - len(refused) == 250  # 50, and two thirds of the line


@in_virtual_time
async def test_a_hanging_store_slows_time():
    log = SlowLog()
    async with dilated_world(log=log, limits={"groups_in_flight_max": 1}) as world:
        log.hold()
        posted = [world.actor.post_batch([add("first")], "alice")]
        await log.began()
        posted.append(world.actor.post_batch([add("second")], "alice"))
        await turns()  # and then the orchestrator waits for room
        factors = []
        for number in range(30):
            posted.append(world.actor.post_batch([add(f"r{number}")], "alice"))
            factors += await watched(world, 0.1)
        assert factors[0] == 1.0
        assert factors[-1] < 0.06
        log.release()
        assert all([(await one).admitted for one in posted])
        assert (await watched(world, 1))[-1] == 1.0


@in_virtual_time
async def test_a_pause_does_not_slow_time():
    async with dilated_world() as world:
        await world.actor.pause()
        posted = [world.actor.post_batch([add(f"r{number}")], "alice") for number in range(5)]
        assert set(await watched(world, 3)) == {1.0}
        posted.append(world.actor.post_batch([add("late")], "alice"))
        assert set(await watched(world, 1)) == {1.0}
        await world.actor.resume()
        await turns()
        assert clock_of(world).dilation.lowest == 1.0
        assert all([(await one).admitted for one in posted])


# Deadlines and quotas, in simulated time


@in_virtual_time
async def test_deadlines_are_in_simulated_time_in_both_queues():
    loop = asyncio.get_running_loop()
    for mailbox_batches_max in (1, 100):  # in line; in the queue
        limits = {"mailbox_batches_max": mailbox_batches_max, "group_batches_max": 1}
        async with dilated_world(limits=limits, dilation_factor_min=0.1) as world:
            await asyncio.sleep(100)  # a deadline counts from the post, not from the beginning
            flood = [world.actor.post_batch([add(f"r{number}")], "alice") for number in range(90)]
            await asyncio.sleep(0.3)  # it is slow by now
            began_s = loop.time()
            batch = {"intents": [add("patient")], "valid_for_s": 0.4}
            patient = world.actor.post_batch(batch, "alice")
            batch = {"intents": [add("hasty")], "valid_for_s": 0.02}
            hasty = world.actor.post_batch(batch, "alice")
            assert (await patient).admitted
            assert loop.time() - began_s > 0.5  # longer than it was valid for, by the machine's
            refusal = (await hasty).refusals[0]
            assert refusal.code == "timeout"
            assert 0.02 <= refusal.details["value"] < 0.4
            assert all([(await one).admitted for one in flood])


@in_virtual_time
async def test_a_timeout_in_the_wait_queue_is_answered_when_due():
    loop = asyncio.get_running_loop()
    limits = {"mailbox_batches_max": 1, "group_batches_max": 1}
    async with dilated_world(limits=limits, dilation_factor_min=0.1) as world:
        flood = [world.actor.post_batch([add(f"r{number}")], "alice") for number in range(500)]
        await asyncio.sleep(1)
        assert clock_of(world).dilation.factor == pytest.approx(0.1)
        began_ns, began_s = world.clock.now_ns(), loop.time()
        batch = {"intents": [add("hasty")], "valid_for_s": 0.2}
        assert (await world.actor.post_batch(batch, "alice")).codes == ("timeout",)
        assert world.clock.now_ns() - began_ns == pytest.approx(0.2 * SECOND_NS, abs=5 * MS)
        assert loop.time() - began_s == pytest.approx(2.0, abs=0.05)
        assert all([(await one).admitted for one in flood])


@in_virtual_time
async def test_a_quota_is_exact_in_simulated_time():
    """Beside a flood that slows time, an agent that obeys `retry_after` gets exactly its rate."""
    quotas = {"Add": {"rate": 10, "burst": 2}}
    agents = ("meek", *AGENTS)
    async with open_world(backpressure="dilate", domain=Laborious(), agents=agents) as world:
        await world.actor.command(
            lambda kernel: kernel.register_agent("slow", quotas=quotas)  # its own quota
        )
        load = [asyncio.create_task(offer(world, name, 6, 80)) for name in AGENTS]
        admitted: list[float] = []
        number, ends_ns = 0, world.clock.now_ns() + 5 * SECOND_NS
        while world.clock.now_ns() < ends_ns:
            number += 1
            verdict = await world.actor.post_batch([add(f"q{number}", agent_id="slow")], "slow")
            if verdict.admitted:
                admitted.append(verdict.sim_time)
                continue
            assert verdict.codes == ("quota_exceeded",)
            retry_after = verdict.refusals[0].retry_after
            assert retry_after is not None
            due_ns = round((verdict.sim_time + retry_after) * SECOND_NS)
            await world.timers.sleep_until(due_ns)
        assert clock_of(world).dilation.lowest < 0.6
        for first in range(len(admitted)):
            for last in range(first, len(admitted)):
                span_s = admitted[last] - admitted[first]
                assert last - first + 1 <= 2 + 10 * span_s + 1e-6
        assert len(admitted) >= 30
        await asyncio.gather(*load)


# The factor


@given(
    waits=st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 10**9)), max_size=60),
    wait_ms=st.integers(1, 10_000),
    factor_min=st.floats(0.001, 1.0),
)
def test_the_factor_stays_within_bounds_and_approaches_its_target(waits, wait_ms, factor_min):
    dilation = Dilation(wait_ms, factor_min)
    for wait_ns, elapsed_ns in waits:
        before = dilation.factor
        wanted = max(factor_min, min(1.0, wait_ms * MS / max(wait_ns, 1)))
        after = dilation.follow(wait_ns, elapsed_ns)
        assert min(before, wanted) <= after + 1e-9
        assert after <= max(before, wanted)
        assert factor_min <= after + 1e-9
        assert dilation.lowest <= after


def test_the_factor_recovers_to_exactly_one():
    dilation = Dilation()
    dilation.follow(5 * SECOND_NS, SECOND_NS)
    assert dilation.factor == pytest.approx(0.05)
    for _ in range(50):
        dilation.follow(0, 10 * MS)
    assert dilation.factor == 1.0


def test_take_change_reports_halving_doubling_and_recovery():
    dilation, told = Dilation(), []
    for wait_ms in (150, 180, 250, 240, 900, 600, 400, 350, 90, 90):
        dilation.follow(wait_ms * MS, 1000 * SECOND_NS)
        if dilation.take_change():
            told.append(round(dilation.factor, 2))
    assert told == [0.4, 0.11, 0.25, 1.0]


@pytest.mark.parametrize("wait_ms", [0, -1, 1.5, True, "100"])
def test_an_invalid_wait_is_an_error(wait_ms):
    with pytest.raises(ValueError, match="dilation_wait_ms must be an int >= 1"):
        Dilation(wait_ms)


@pytest.mark.parametrize("factor_min", [0, -0.1, 1.01, True, float("nan")])
def test_an_invalid_factor_is_an_error(factor_min):
    with pytest.raises(ValueError, match="dilation_factor_min must be above 0 and <= 1"):
        Dilation(factor_min=factor_min)
