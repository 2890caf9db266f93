"""The debts of dry runs, refused and repeated batches: charged afterwards, at a rate (G12)."""

import asyncio
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.debts import DebtMeter
from placet.schemas.limits import REFUSED_INTENT_WORK, SECOND_NS
from placet.schemas.refusal import Stage
from placet.stores.memory import MemoryEventLog
from tests.actors.parts import add, intent, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, turns

RATE, BURST = 1_000, 4_000
"""Log bytes of one agent's refused batches, in these worlds."""

ASKS = st.lists(st.tuples(st.integers(0, SECOND_NS), st.integers(1, 3_000)), max_size=30)


@given(
    asks=ASKS,
    rate=st.integers(1, 5_000),
    burst=st.integers(1, 5_000),
    world_rate=st.integers(1, 9_000),
    world_burst=st.integers(1, 9_000),
)
def test_no_window_exceeds_burst_and_rate_by_more_than_its_last_amount(
    asks, rate, burst, world_rate, world_burst
):
    """An agent that waits as it is told keeps to its rate, and its wait is the shortest."""
    meter = DebtMeter(rate, burst, world_rate, world_burst, 100)
    used: list[tuple[int, int]] = []
    now = 0
    for pause, amount in asks:
        now += pause
        wait = meter.wait_ns("alice", now)
        total, is_over = 0, False
        for then, part in reversed(used):
            total += part
            is_over = is_over or total > burst + Fraction(now - then, -(-SECOND_NS // rate))
        assert not is_over or wait > 0
        if wait:
            tats = meter.tats.copy()
            assert meter.wait_ns("alice", now + wait - 1) == 1
            assert meter.wait_ns("alice", now + wait) == 0
            meter.tats = tats  # an agent without a debt is forgotten
            continue
        meter.charge("alice", amount, now)
        used.append((now, amount))


def test_the_total_rate_refuses_agents_in_debt_only():
    meter = DebtMeter(100, 100, 100, 100, 10)
    for name in ("alice", "bob", "carol"):
        meter.charge(name, 90, SECOND_NS)
    assert meter.wait_ns("alice", SECOND_NS) == 90 * 10**7  # until it owes nothing
    assert meter.wait_ns("dave", SECOND_NS) == 0


def test_the_number_of_debtors_is_bounded():
    meter = DebtMeter(1, 1, 1, 1, 3)
    for number in range(100):
        meter.charge(f"agent {number}", 10, SECOND_NS)
    assert list(meter.tats) == ["agent 97", "agent 98", "agent 99"]


def stale(number: int, agent_id: str = "alice") -> list[dict[str, object]]:
    """A batch of some 300 bytes whose refusal is final, so that the log keeps it."""
    payload = {"thing": "x" * 200}
    return [intent("Look", payload, f"stale:{number}", agent_id=agent_id, context_seq=10**9)]


def size_of(log: MemoryEventLog) -> int:
    return sum(len(data) for _, data in log.read())


def limits() -> dict[str, int]:
    return {"refused_bytes_per_second_max": RATE, "refused_bytes_burst_max": BURST}


@in_virtual_time
async def test_an_agent_that_loops_on_final_refusals_adds_bytes_to_the_log_at_a_rate():
    clock, log = HandClock(SECOND_NS), MemoryEventLog()
    async with open_world(time=clock, log=log, limits=limits()) as world:
        before = size_of(log)
        codes: list[str] = []
        largest = 0
        for number in range(200):
            size = size_of(log)
            verdict = await world.actor.post_batch(stale(number), "alice")
            codes += verdict.codes
            largest = max(largest, size_of(log) - size)
            if verdict.codes == ("log_rate_exceeded",):
                assert size_of(log) == size  # it leaves no record
                assert verdict.refusals[0].retry_after is not None
            clock.forward(SECOND_NS // 100)
        assert {"context_from_future", "log_rate_exceeded"} == set(codes)
        assert size_of(log) - before <= BURST + 2 * RATE + largest
        # An agent whose batches pass is not concerned, and the debtor passes after its wait.
        assert (await world.actor.post_batch([add("b", agent_id="bob")], "bob")).admitted
        refused = await world.actor.post_batch([add("a")], "alice")
        clock.forward(round((refused.refusals[0].retry_after or 0) * SECOND_NS))
        assert (await world.actor.post_batch([add("a")], "alice")).admitted


@in_virtual_time
async def test_an_agent_exceeds_its_rate_by_its_queued_batches_at_most():
    clock, log = HandClock(SECOND_NS), MemoryEventLog()
    async with open_world(time=clock, log=log, limits=limits()) as world:
        await world.actor.pause()
        many = [world.actor.post_batch(stale(number), "alice") for number in range(50)]
        await world.actor.resume()
        assert {verdict.codes for verdict in await asyncio.gather(*many)} == {
            ("context_from_future",)
        }
        assert (await world.actor.post_batch(stale(99), "alice")).codes == ("log_rate_exceeded",)


@in_virtual_time
async def test_dry_runs_are_limited_at_their_work_and_other_batches_of_the_agent_with_them():
    clock = HandClock(SECOND_NS)
    rates = {"unpaid_work_per_second_max": 100, "unpaid_work_burst_max": 20}
    async with open_world(time=clock, limits=rates) as world:
        rehearsal = {"intents": [add("r")], "dry_run": True}
        answers = [await world.actor.post_batch(rehearsal, "alice") for _ in range(6)]
        assert [answer.admitted for answer in answers] == [True] * 5 + [False]
        (refusal,) = answers[-1].refusals
        assert (refusal.code, refusal.stage) == ("work_exceeded", Stage.QUOTA)
        assert refusal.retry_after == 0.05
        assert answers[-1].dry_run
        assert (await world.actor.post_batch([add("a")], "alice")).codes == ("work_exceeded",)
        assert world.counters.refusals["quota", "work_exceeded"] == 1
        assert (await world.actor.post_batch(rehearsal, "operator")).codes == ("work_exceeded",)
        assert (await world.actor.post_batch([add("b", agent_id="bob")], "bob")).admitted
        clock.forward(SECOND_NS // 20)
        assert (await world.actor.post_batch([add("a")], "alice")).admitted


@in_virtual_time
async def test_an_agent_that_repeats_one_admitted_batch_is_limited_at_its_work():
    rates = {"unpaid_work_per_second_max": 100, "unpaid_work_burst_max": 20}
    async with open_world(time=HandClock(SECOND_NS), limits=rates) as world:
        verdicts = [await world.actor.post_batch([add("r")], "alice") for _ in range(7)]
        assert [verdict.replayed for verdict in verdicts] == [False] + [True] * 5 + [False]
        assert verdicts[-1].codes == ("work_exceeded",)


@in_virtual_time
async def test_an_agent_that_loops_on_structure_refusals_is_limited_by_its_intents():
    """An invalid batch of many intents uses up the burst sooner than a batch of one."""
    rates = {"unpaid_work_per_second_max": 100, "unpaid_work_burst_max": 20 * REFUSED_INTENT_WORK}
    invalid = [add(f"a{number}") for number in range(9)] + [{"no": "intent"}]
    async with open_world(
        time=HandClock(SECOND_NS), agents=("alice", "bob", "carol", "dave"), limits=rates
    ) as world:
        for raw, submitter, passed in (
            (invalid, "alice", 3),
            ({"intents": invalid}, "bob", 3),
            ({"no": "intent"}, "carol", 21),
            ([], "dave", 21),
            (invalid, "operator", 30),  # it answers for no agent
        ):
            codes = [(await world.actor.post_batch(raw, submitter)).codes for _ in range(30)]
            assert codes.count(("work_exceeded",)) == 30 - passed


@in_virtual_time
async def test_a_world_in_simulated_time_has_no_rate_of_real_time():
    rates = {**limits(), "unpaid_work_per_second_max": 1, "unpaid_work_burst_max": 1}
    async with open_world(clock="stepped", limits=rates) as world:
        for _ in range(40):
            assert (await world.actor.post_batch([{}], "alice")).codes == ("field_missing",)
        for number in range(40):
            late = world.actor.post_batch(stale(number), "alice")
            await turns()
            await world.actor.step(0)
            assert (await late).codes == ("context_from_future",)
