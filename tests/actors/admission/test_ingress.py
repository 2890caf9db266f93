"""The admission stage: every code with its message and details; refusals leave no trace."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from placet.actors.admission.ingress import SubmissionRates
from placet.actors.admission.overload import (
    CACHED_USES_MAX,
    AdmissionControl,
    DrainRate,
    Overload,
    shed,
    timed_out,
    unauthorized,
)
from placet.runtime.pending_verdict import PendingVerdict
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import BackpressureError, PermissionDeniedError, error_of
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from tests.actors.parts import Named, add, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, turns

MS = 1_000_000
DOOR_CODES = {code for code, stage in STAGE_OF.items() if stage is Stage.ADMISSION}


async def posted(
    world: WorldRuntime,
    *,
    req_id: str = "late",
    valid_for_s: float | None = None,
    identity: Named | None = None,
    dry_run: bool = False,
) -> Verdict:
    batch = {"intents": [add(req_id)], "valid_for_s": valid_for_s, "dry_run": dry_run}
    return await world.actor.post_batch(batch, "alice", identity=identity)


def fill(world: WorldRuntime, count: int, **fields: object) -> list["asyncio.Future[Verdict]"]:
    return [
        world.actor.post_batch([add(f"fill-{number}", **fields)], "bob" if fields else "alice")
        for number in range(count)
    ]


# The situations, one for each row of the table below. Each gives the refused verdict.


async def queue_full_by_count(world: WorldRuntime, clock: HandClock) -> Verdict:
    fill(world, 4)
    return await posted(world)


async def queue_full_by_bytes(world: WorldRuntime, clock: HandClock) -> Verdict:
    world.actor.post_batch([add(f"wide-{number}" + "x" * 100) for number in range(4)], "alice")
    return await posted(world)


async def overloaded_by_age(world: WorldRuntime, clock: HandClock) -> Verdict:
    fill(world, 1)
    clock.forward(5001 * MS)
    return await posted(world)


async def overloaded_by_lag(world: WorldRuntime, clock: HandClock) -> Verdict:
    fill(world, 1)
    clock.forward(1500 * MS)  # the loop is busy elsewhere
    await turns()
    return await posted(world)


async def ingress_rate_exceeded(world: WorldRuntime, clock: HandClock) -> Verdict:
    for _ in range(3):
        assert (await world.actor.post_batch([], "alice")).codes == ("batch_empty",)
    return await posted(world)


async def log_rate_exceeded(world: WorldRuntime, clock: HandClock) -> Verdict:
    refused = await world.actor.post_batch([add("odd", context_seq=999)], "alice")
    assert refused.codes == ("context_from_future",)  # which the log keeps
    return await posted(world)


async def timed_out_in_the_queue(world: WorldRuntime, clock: HandClock) -> Verdict:
    late = asyncio.ensure_future(posted(world, valid_for_s=0.25))
    await asyncio.sleep(0)
    clock.forward(300 * MS)
    return await late


async def shed_by_close(world: WorldRuntime, clock: HandClock) -> Verdict:
    late = asyncio.ensure_future(posted(world))
    await turns()
    await world.stop()
    return await late


async def handle_of_a_removed_agent(world: WorldRuntime, clock: HandClock) -> Verdict:
    return await posted(world, identity=Named("alice", 7))


Situation = Callable[[WorldRuntime, HandClock], Awaitable[Verdict]]

TABLE: list[tuple[Situation, str, str, dict[str, object], float | None]] = [
    (
        queue_full_by_count,
        "queue_full",
        "the queue is full: mailbox_batches is 4, the limit is 4; retry in 0.05 s",
        {"signal": "mailbox_batches", "value": 4, "limit": 4},
        0.05,
    ),
    (
        queue_full_by_bytes,
        "queue_full",
        "the queue is full: mailbox_bytes is 544, the limit is 520; retry in 0.05 s",
        {"signal": "mailbox_bytes", "value": 544, "limit": 520},
        0.05,
    ),
    (
        overloaded_by_age,
        "overloaded",
        "the system is overloaded: mailbox_age_ms is 5001, the limit is 5000; retry in 5.00 s",
        {"signal": "mailbox_age_ms", "value": 5001, "limit": 5000},
        5.001,
    ),
    (
        overloaded_by_lag,
        "overloaded",
        "the system is overloaded: loop_lag_ms is 1500, the limit is 1000; retry in 1.50 s",
        {"signal": "loop_lag_ms", "value": 1500, "limit": 1000},
        1.501,
    ),
    (
        ingress_rate_exceeded,
        "ingress_rate_exceeded",
        "submitter 'alice' exceeds 100/s (burst 3); retry in 0.0100 s",
        {"signal": "attempts_per_second", "limit": 100},
        0.01,
    ),
    (
        log_rate_exceeded,
        "log_rate_exceeded",
        (
            "the refused batches of 'alice' may add 100 bytes/s to the log (burst 50), those of "
            "all agents 8388608; retry in 1.6100 s"
        ),
        {"agent_id": "alice", "signal": "refused_bytes_per_second", "limit": 100},
        1.61,
    ),
    (
        timed_out_in_the_queue,
        "timeout",
        "the batch waited 0.300 s and was valid for 0.250 s; nothing was done, submit it again",
        {"signal": "waited_s", "value": 0.3, "limit": 0.25},
        None,
    ),
    (
        shed_by_close,
        "shed",
        "the batch was not decided: the world was closed; submit it again later",
        {},
        None,
    ),
    (
        handle_of_a_removed_agent,
        "unauthorized",
        (
            "this handle of agent 'alice' is no longer valid: the agent was removed; register it "
            "and use the new handle"
        ),
        {"agent_id": "alice"},
        None,
    ),
]

SETTINGS: dict[Situation, dict[str, Any]] = {
    queue_full_by_count: {"limits": {"mailbox_batches_max": 4}},
    queue_full_by_bytes: {"limits": {"mailbox_bytes_max": 520}},
    ingress_rate_exceeded: {"limits": {"ingress_rate_per_second_max": 100, "ingress_burst_max": 3}},
    log_rate_exceeded: {
        "limits": {"refused_bytes_per_second_max": 100, "refused_bytes_burst_max": 50}
    },
    shed_by_close: {"time": None, "clock": "stepped"},
}


def test_every_code_of_the_admission_stage_has_a_row():
    assert {code for _, code, *_ in TABLE} == DOOR_CODES


@pytest.mark.parametrize(
    ("situation", "code", "message", "details", "retry_after"),
    TABLE,
    ids=[situation.__name__ for situation, *_ in TABLE],
)
@in_virtual_time
async def test_admission_refuses(situation, code, message, details, retry_after):
    clock = HandClock(SECOND_NS)
    async with open_world(**{"time": clock, **SETTINGS.get(situation, {})}) as world:
        verdict = await situation(world, clock)
        assert not verdict.admitted
        refusal = verdict.refusals[0]
        assert (refusal.stage, refusal.code, refusal.message) == (Stage.ADMISSION, code, message)
        assert (refusal.details, refusal.retry_after) == (details, retry_after)
        assert (refusal.index, refusal.req_id, verdict.durability) == (None, None, "none")
        error = error_of(verdict)
        expected = PermissionDeniedError if code == "unauthorized" else BackpressureError
        assert type(error) is expected
        assert world.counters.refusals[("admission", code)] == 1


async def shed_from_a_paused_world(world: WorldRuntime, clock: HandClock) -> Verdict:
    await world.actor.pause()
    late = asyncio.ensure_future(posted(world))
    await turns()
    await world.stop()
    return await late


TRIED = [row[0] for row in TABLE if row[0] is not shed_by_close] + [shed_from_a_paused_world]
"""Load on the held queue; dry runs are answered at once and not held."""


@pytest.mark.parametrize("situation", TRIED, ids=lambda situation: situation.__name__)
@in_virtual_time
async def test_a_rejected_dry_run_is_marked_and_not_counted(situation, monkeypatch):
    monkeypatch.setitem(situation.__globals__, "posted", partial(posted, dry_run=True))
    clock = HandClock(SECOND_NS)
    async with open_world(**{"time": clock, **SETTINGS.get(situation, {})}) as world:
        verdict = await situation(world, clock)
        assert (verdict.admitted, verdict.dry_run) == (False, True)
        assert verdict.refusals[0].stage == Stage.ADMISSION
        assert not world.counters.refusals["admission", verdict.refusals[0].code]


@in_virtual_time
async def test_a_dry_run_under_load_gets_no_cached_answer():
    async with open_world(time=HandClock(SECOND_NS), limits={"mailbox_batches_max": 1}) as world:
        fill(world, 1)
        first, tried, second = [await posted(world, dry_run=dry) for dry in (False, True, False)]
        asked = await world.actor.post_batch([add("late")], "alice", dry_run=True)
        assert [one.dry_run for one in (first, tried, second, asked)] == [False, True, False, True]
        assert second is first
        assert world.counters.refusals["admission", "queue_full"] == 2


@pytest.mark.parametrize("situation", [row[0] for row in TABLE], ids=lambda row: row.__name__)
@in_virtual_time
async def test_an_admission_refusal_leaves_no_record_and_no_digest_change(situation):
    """Nothing of the batch `late` is in the log, in the ledger or in the state (G6)."""
    clock = HandClock(SECOND_NS)
    async with open_world(**{"time": clock, **SETTINGS.get(situation, {})}) as world:
        await situation(world, clock)
        await turns()
        assert world.kernel.verdict_of("alice", "late") is None
        assert not any(b"late" in record for _, record in world.log.read())
        before = world.kernel.digest(), world.kernel.world_digest(), world.kernel.record_count
        load = Overload(RefusalCode.QUEUE_FULL, "mailbox_batches", 1, 1)
        full = world.actor.refuse(AdmissionControl(Limits()).refusal(load, 0, 0))
        assert not full.admitted
        after = world.kernel.digest(), world.kernel.world_digest(), world.kernel.record_count
        assert before == after


@in_virtual_time
async def test_a_batch_refused_at_admission_may_be_resubmitted_with_its_req_id():
    clock = HandClock()
    async with open_world(time=clock, limits={"mailbox_batches_max": 1}) as world:
        fill(world, 1)
        assert (await posted(world)).codes == ("queue_full",)
        await turns()
        again = await posted(world)
        assert again.admitted
        assert not again.replayed


# The door by itself: exactness of what it tells, at the nanosecond.


class Doorway:
    """Load signals and submission rates, with defaults for what a test does not set."""

    def __init__(self, **limits: int) -> None:
        self.door = AdmissionControl(Limits(**limits))
        self.rates = SubmissionRates(Limits(**limits))

    def check(
        self, now_ns: int, waiting: int = 0, oldest_ns: int | None = None, who: str = "a"
    ) -> Refusal | None:
        load = self.door.load(now_ns, waiting, oldest_ns)
        if load is not None:
            return self.door.refusal(load, now_ns, 0)
        return self.rates.charge(who, now_ns)


def test_retry_after_is_sufficient_and_tight():
    doorway = Doorway(ingress_rate_per_second_max=7, ingress_burst_max=3)
    now_ns = 10**15
    passed = 0
    for _ in range(50):
        refusal = doorway.check(now_ns)
        if refusal is None:
            passed += 1
            continue
        assert refusal.retry_after is not None
        wait_ns = round(refusal.retry_after * SECOND_NS)
        assert doorway.check(now_ns + wait_ns - 1) is not None
        now_ns += wait_ns
        assert doorway.check(now_ns) is None
        passed += 1
    elapsed_s = (now_ns - 10**15) / SECOND_NS
    assert passed <= 3 + 7 * elapsed_s + 1


def test_submission_rates_are_per_submitter_and_bounded():
    doorway = Doorway(ingress_rate_per_second_max=1, ingress_burst_max=1, ingress_submitters_max=2)
    assert doorway.check(0, who="a") is None
    assert doorway.check(0, who="a") is not None
    assert doorway.check(0, who="b") is None
    assert doorway.check(0, who="c") is None  # the third: the oldest is forgotten
    assert list(doorway.rates.tats) == ["b", "c"]
    assert doorway.check(0, who="a") is None


def test_a_submitter_that_keeps_submitting_gets_no_new_burst_from_others_that_come_and_go():
    doorway = Doorway(ingress_rate_per_second_max=1, ingress_burst_max=3, ingress_submitters_max=2)
    for other in ("b", "c", "d"):
        assert doorway.check(0, who="a") is None
        assert doorway.check(0, who=other) is None
    assert doorway.check(0, who="a") is not None


def test_a_submitter_that_is_refused_all_the_time_gets_no_new_burst_while_others_come():
    doorway = Doorway(ingress_rate_per_second_max=1, ingress_burst_max=1, ingress_submitters_max=2)
    assert doorway.check(0, who="a") is None
    for number in range(10):
        assert doorway.check(number, who="a") is not None
        assert doorway.check(number, who=f"new_{number}") is None


def test_a_lag_counts_for_as_long_as_it_lasted():
    doorway = Doorway(loop_lag_ms_max=100)
    doorway.door.note_lag(100 * MS, 1000 * MS)
    assert doorway.check(1000 * MS) is None  # at the limit is not over it
    doorway.door.note_lag(250 * MS, 1000 * MS)
    refusal = doorway.check(1100 * MS)
    assert refusal is not None
    assert refusal.retry_after == pytest.approx(0.151)
    assert doorway.check(1249 * MS) is not None
    assert doorway.check(1250 * MS) is None
    doorway.door.note_lag(250 * MS, 2000 * MS)
    doorway.door.note_lag(1 * MS, 2001 * MS)  # the next turn came in time
    assert doorway.check(2001 * MS) is None


@pytest.mark.parametrize(
    ("waiting", "oldest_ns", "code"),
    [
        (9, None, None),
        (10, None, RefusalCode.QUEUE_FULL),
        (9, 5000 * MS, None),
        (9, 5000 * MS - 1, RefusalCode.OVERLOADED),
        (10, 0, RefusalCode.QUEUE_FULL),  # the first of the table wins
    ],
)
def test_limits_are_inclusive_and_checked_in_order(waiting, oldest_ns, code):
    doorway = Doorway(mailbox_batches_max=10, mailbox_age_ms_max=5000)
    refusal = doorway.check(10_000 * MS, waiting, oldest_ns)
    assert (None if refusal is None else refusal.code) == code


def test_a_refusal_without_a_signal_has_a_message():
    assert "0.002 s" in timed_out(2 * MS, 1 * MS).message
    assert "why not" in shed("why not").message
    assert unauthorized("zoe").details == {"agent_id": "zoe"}


# When to come again


def test_retry_times_are_spaced_by_the_drain_rate():
    pace = DrainRate()
    now_ns, decided = 10 * SECOND_NS, 100
    pace.next_ns(now_ns, decided, 0)
    now_ns += 100 * MS  # 50 batches in 100 ms: one in 2 ms
    told = [pace.next_ns(now_ns, decided + 50, 50 * MS) for _ in range(4)]
    assert told == [50 * MS + CACHED_USES_MAX * 2 * MS * place for place in range(4)]


def test_retry_times_end_soon_after_the_load():
    pace = DrainRate()
    told = [pace.next_ns(SECOND_NS, 0, 50 * MS) for _ in range(2000)]
    assert min(told) == 50 * MS
    assert max(told) <= 50 * MS + 2 * SECOND_NS
    assert (
        len(set(told)) == 2 * SECOND_NS // (CACHED_USES_MAX * MS) + 1
    )  # all that there is room for
    assert told.count(50 * MS) > 5  # from the beginning again


def test_time_without_refusals_does_not_change_the_drain_rate():
    pace = DrainRate()
    pace.next_ns(SECOND_NS, 0, 0)
    pace.next_ns(100 * SECOND_NS, 10**6, 0)  # a million batches since, mostly while idle
    assert pace.next_ns(100 * SECOND_NS, 10**6, 0) == CACHED_USES_MAX * MS  # the first guess


@in_virtual_time
async def test_refusals_at_one_moment_get_spread_retry_times():
    async with open_world(limits={"mailbox_batches_max": 1}) as world:
        fill(world, 1)
        told = [(await posted(world)).refusals[0].retry_after for _ in range(160)]
        assert len(set(told)) == 160 // CACHED_USES_MAX


@in_virtual_time
async def test_a_cached_refusal_is_valid_for_its_last_receiver():
    clock = HandClock(SECOND_NS)
    async with open_world(time=clock, limits={"mailbox_batches_max": 1}) as world:
        fill(world, 1)
        first, second = await posted(world), await posted(world)
        assert second is first  # it is of no batch
        clock.forward(2 * MS)
        later = await posted(world)
        assert later is not first
        await turns()
        fill(world, 1, agent_id="bob")
        assert (await posted(world)).current_seq == first.current_seq + 1
        assert world.counters.refusals["admission", "queue_full"] == 4


# A ticket


@in_virtual_time
async def test_a_cached_refusal_is_not_shared_between_limits():
    async with open_world() as world:
        ingress = world.actor._ingress
        loads = [Overload(RefusalCode.QUEUE_FULL, "mailbox_batches_of_agent", 5, n) for n in (5, 4)]
        answers = [
            ingress._rejected_at_ingress(ingress._mailbox, load, 1).result() for load in loads
        ]
        assert [answer.refusals[0].details["limit"] for answer in answers] == [5, 4]


@in_virtual_time
async def test_a_pending_verdict_has_its_verdict_once_decided():
    async with open_world() as world:
        ticket = PendingVerdict(world.actor.post_batch([add("r")], "alice"), False)
        withdrawn = PendingVerdict(world.actor.post_batch([add("w")], "alice"), False)
        assert [ticket.verdict] == [None]
        assert withdrawn.cancel()
        verdict = await ticket
        assert ticket.verdict is verdict
        assert withdrawn.verdict is None


@in_virtual_time
async def test_canceling_one_waiter_of_a_pending_verdict_leaves_the_others():
    async with open_world(clock="stepped") as world:
        ticket, withdrawn = (
            PendingVerdict(world.actor.post_batch([add(r)], "alice"), False) for r in "rw"
        )
        first, second, third = (asyncio.ensure_future(_awaited(ticket)) for _ in range(3))
        lost = asyncio.ensure_future(_awaited(withdrawn))
        await asyncio.sleep(0)
        first.cancel()
        assert withdrawn.cancel()
        await asyncio.wait([first, lost])
        assert first.cancelled()
        assert lost.cancelled()
        assert not ticket.done()
        await world.actor.step(1)
        assert (await second, await third) == (ticket.verdict, ticket.verdict)


def test_a_pending_verdict_belongs_to_its_event_loop():
    there = asyncio.new_event_loop()
    ticket = PendingVerdict(there.create_future(), False)
    with pytest.raises(RuntimeError, match=r"awaited in <.* submitted in <"):
        asyncio.run(_awaited(ticket))
    there.close()


async def _awaited(ticket: PendingVerdict) -> Verdict:
    return await ticket
