"""`shed_lowest`: a higher priority displaces a lower one, whose batch is refused as `shed`."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.overload import Overload
from placet.actors.admission.shed_queue import SheddingQueue
from placet.actors.mailbox import MailboxFull
from placet.actors.queued_batch import QueuedBatch
from placet.runtime.world import WorldRuntime
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import RefusalCode
from tests.actors.admission.fake_admission import FakeAdmission
from tests.actors.parts import add, intent, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, turns

if TYPE_CHECKING:
    import asyncio

    from placet.schemas.verdict import Verdict

MS = 1_000_000


def shedding_world(**options: Any) -> Any:
    """Open a world whose queue has three places, unless said otherwise."""
    limits = {"mailbox_batches_max": 3, **options.pop("limits", {})}
    return open_world(backpressure="shed_lowest", limits=limits, **options)


def post(
    world: WorldRuntime, req_id: str, priority: int, agent_id: str = "alice"
) -> "asyncio.Future[Verdict]":
    batch = [add(req_id, agent_id=agent_id, priority=priority)]
    return world.actor.post_batch(batch, agent_id)


def outcomes(answers: Sequence["asyncio.Future[Verdict]"]) -> list[str]:
    """Return the outcome of each: `waits`, `admitted`, or the code of its refusal."""
    return [
        "waits"
        if not answer.done()
        else "admitted"
        if answer.result().admitted
        else answer.result().codes[0]
        for answer in answers
    ]


# Who is shed, and what it is told


@in_virtual_time
async def test_the_lowest_priority_is_shed_with_a_reason_and_retry_after():
    async with shedding_world() as world:
        await world.actor.pause()
        answers = [post(world, f"r{priority}", priority) for priority in (50, 10, 30)]
        high = post(world, "high", 40)
        assert outcomes([*answers, high]) == ["waits", "shed", "waits", "waits"]
        refusal = answers[1].result().refusals[0]
        assert refusal.message == (
            "the batch was shed: one of higher priority than its 10 came while mailbox_batches was "
            "3, the limit is 3; retry in 0.05 s"
        )
        assert refusal.retry_after == 0.05
        assert refusal.details == {
            "signal": "mailbox_batches",
            "value": 3,
            "limit": 3,
            "priority": 10,
        }
        await world.actor.resume()
        await turns()
        assert outcomes([*answers, high]) == ["admitted", "shed", "admitted", "admitted"]


@in_virtual_time
async def test_a_shed_batch_leaves_no_trace_and_may_be_resubmitted_with_its_req_id():
    async with shedding_world() as world:
        await world.actor.pause()
        low = post(world, "low", 1)
        others = [post(world, f"r{number}", 50) for number in range(3)]
        assert outcomes([low, *others]) == ["shed", "waits", "waits", "waits"]
        await world.actor.resume()
        await turns()
        assert not any(b"low" in record for _, record in world.log.read())
        assert world.kernel.verdict_of("alice", "low") is None
        assert world.counters.refusals["admission", "shed"] == 1
        again = await post(world, "low", 1)
        assert (again.admitted, again.replayed) == (True, False)


@in_virtual_time
async def test_an_equal_priority_is_refused_and_displaces_no_batch():
    async with shedding_world() as world:
        await world.actor.pause()
        answers = [post(world, f"r{number}", 20) for number in range(3)]
        for priority in (20, 19):
            refusal = post(world, "late", priority, "bob").result().refusals[0]
            assert refusal.code == "queue_full"
            assert refusal.details == {"signal": "mailbox_batches", "value": 3, "limit": 3}
        assert outcomes(answers) == ["waits"] * 3


@in_virtual_time
async def test_of_equal_priorities_the_youngest_of_the_largest_owner_is_shed():
    async with shedding_world(limits={"mailbox_batches_max": 5}) as world:
        await world.actor.pause()
        flood = [post(world, f"a{number}", 10) for number in range(3)]
        modest = [post(world, f"b{number}", 10, "bob") for number in range(2)]
        urgent = [post(world, f"u{number}", 90, "bob") for number in range(2)]
        assert outcomes(flood) == ["waits", "waits", "shed"]
        assert outcomes(modest) == ["waits", "shed"]  # both had two then, and alice just lost one
        assert outcomes(urgent) == ["waits", "waits"]


@in_virtual_time
async def test_batches_of_the_operator_count_for_the_agents_they_name():
    async with shedding_world() as world:
        await world.actor.pause()
        names = ["alice", "alice", "bob"]
        answers = [
            world.actor.post_batch([add(f"r{n}", agent_id=name)], OPERATOR)
            for n, name in enumerate(names)
        ]
        post(world, "urgent", 80)
        assert outcomes(answers) == ["waits", "shed", "waits"]


@in_virtual_time
async def test_shedding_keeps_the_order_of_an_agents_remaining_batches():
    limits = {"mailbox_batches_max": 8, "group_batches_max": 1}
    async with shedding_world(limits=limits) as world:
        answers = []
        for number in range(60):
            answers.append(post(world, f"r{number}", (number * 37) % 101))
            if number % 7 == 0:
                await turns(1)
        await turns()
        admitted = [answer.result().seq for answer in answers if answer.result().admitted]
        assert admitted == sorted(admitted)  # type: ignore[type-var]
        assert {"admitted", "shed", "queue_full"} == set(outcomes(answers))


@in_virtual_time
async def test_a_canceled_batch_is_shed_without_an_answer():
    async with shedding_world() as world:
        await world.actor.pause()
        gone = [post(world, f"r{number}", 5) for number in range(3)][-1]
        gone.cancel()
        assert outcomes([post(world, "high", 50)]) == ["waits"]
        assert world.counters.refusals["admission", "shed"] == 0


# Priorities are those that the order goes by


@in_virtual_time
async def test_a_priority_above_the_agents_cap_sheds_no_batch():
    async with shedding_world(agents=()) as world:
        for name, cap in (("alice", 20), ("bob", 100)):
            await world.actor.command(
                lambda kernel, name=name, cap=cap: kernel.register_agent(name, priority_max=cap)
            )
        await world.actor.pause()
        answers = [post(world, f"r{number}", 20, "bob") for number in range(3)]
        assert outcomes([post(world, "late", 100)]) == ["queue_full"]
        for_alice = world.actor.post_batch([add("late", priority=100)], OPERATOR)
        assert outcomes([for_alice]) == ["queue_full"]
        assert outcomes([post(world, "late", 100, "bob")]) == ["waits"]
        assert outcomes(answers).count("shed") == 1


@in_virtual_time
async def test_naming_another_agent_does_not_raise_the_cap():
    """The kernel would refuse the batch later, but it would have displaced another by then."""
    for limits in ({"mailbox_batches_max": 3}, {"mailbox_batches_max": 9, "mailbox_bytes_max": 80}):
        async with shedding_world(agents=("bob",), limits=limits) as world:
            await world.actor.command(
                lambda kernel: kernel.register_agent("mallory", priority_max=5)
            )
            await world.actor.pause()
            answers = [post(world, f"r{number}", 10, "bob") for number in range(3)]
            forged = [add("forged", agent_id="bob", priority=100)]
            assert outcomes([world.actor.post_batch(forged, "mallory")]) == ["queue_full"]
            assert outcomes(answers) == ["waits"] * 3


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "text",
        [],
        [None],
        [{"priority": "high"}],
        [{"priority": True}],
        [{}] * 600,
        {"intents": 7},
        {"intents": [{"priority": 1.5}]},
        {"priority": 90},
    ],
    ids=repr,
)
@in_virtual_time
async def test_every_batch_submitted_under_load_is_answered(raw):
    async with shedding_world() as world:
        await world.actor.pause()
        for number in range(3):
            post(world, f"r{number}", 10)
        verdict = await world.actor.post_batch(raw, "alice")
        assert verdict.refusals[0].stage.value in {"admission", "structure"}


@in_virtual_time
async def test_a_claim_no_higher_than_the_lowest_rank_is_refused_unchecked():
    async with shedding_world() as world:
        await world.actor.pause()
        for number in range(3):
            post(world, f"r{number}", 10)
        for raw in ([intent("Nonsense", priority=10)], {"intents": [intent("Nonsense")]}):
            assert (await world.actor.post_batch(raw, "alice")).codes == ("queue_full",)
        raw = [intent("Nonsense", priority=11)]
        assert (await world.actor.post_batch(raw, "alice")).codes == ("kind_unknown",)


# Each signal


@in_virtual_time
async def test_as_many_batches_are_shed_as_bytes_are_needed_or_none():
    limits = {"mailbox_bytes_max": 400, "mailbox_batches_max": 99}
    async with shedding_world(limits=limits) as world:
        await world.actor.pause()
        low = [post(world, f"low-{number}" + "x" * 60, 10) for number in range(2)]
        middle = [post(world, f"mid-{number}" + "x" * 60, 50) for number in range(2)]
        wide = [add("wide", priority=40), add("wider" + "x" * 100, priority=0)]
        asked = world.actor.post_batch([*wide, add("y" * 110), add("z" * 110)], "alice")
        refusal = asked.result().refusals[0]
        assert (refusal.code, refusal.details["signal"]) == ("queue_full", "mailbox_bytes")
        assert outcomes([*low, *middle]) == ["waits"] * 4  # even all of the lower are not enough
        fits = world.actor.post_batch([add("a" * 100, priority=40)], "alice")
        assert outcomes([fits, *low, *middle]) == ["waits", "waits", "shed", "waits", "waits"]
        above_all = [add(f"{n}" + "v" * 100, priority=60) for n in range(5)]
        whole = world.actor.post_batch(above_all, "alice")
        assert outcomes([whole]) == ["waits"]  # alone, and so as large as it likes
        assert len(world.actor) == 1


@in_virtual_time
async def test_under_the_age_signal_a_higher_batch_displaces_a_lower_one():
    clock = HandClock(1)
    limits = {"mailbox_age_ms_max": 100, "mailbox_batches_max": 99}
    async with shedding_world(time=clock, limits=limits) as world:
        await world.actor.pause()
        answers = [post(world, "old", 10), post(world, "young", 5)]
        clock.forward(200 * MS)
        high, low = post(world, "high", 50), post(world, "low", 5)
        assert outcomes([*answers, high, low]) == ["waits", "shed", "waits", "overloaded"]
        details = answers[1].result().refusals[0].details
        assert (details["signal"], details["value"], details["limit"]) == (
            "mailbox_age_ms",
            200,
            100,
        )


@in_virtual_time
async def test_under_a_lag_with_an_empty_queue_every_batch_is_refused():
    clock = HandClock(1)
    async with shedding_world(time=clock) as world:
        world.actor._ingress._control.note_lag(2 * SECOND_NS, clock.monotonic_ns())
        refusal = post(world, "high", 100).result().refusals[0]
        assert (refusal.code, refusal.details["signal"]) == ("overloaded", "loop_lag_ms")


@in_virtual_time
async def test_held_batches_of_a_stepped_world_can_be_shed():
    async with shedding_world(clock="stepped") as world:
        answers = [post(world, f"r{priority}", priority) for priority in (1, 2, 3, 4)]
        assert outcomes(answers) == ["shed", "waits", "waits", "waits"]
        dry = await world.actor.post_batch([add("dry", priority=0)], "alice", dry_run=True)
        assert dry.admitted  # it is not for the step, and takes no place from what is
        verdicts = await world.actor.step(1)
        assert [verdict.admitted for verdict in verdicts] == [False, True, True, True]


# Fair shares, and what ages


@in_virtual_time
async def test_a_batch_displaces_none_of_an_owner_with_fewer_batches():
    async with shedding_world(limits={"mailbox_batches_max": 5}) as world:
        await world.actor.pause()
        modest = [post(world, "b", 10, "bob")]
        urgent = [post(world, f"u{number}", 90) for number in range(4)]
        assert outcomes([post(world, "u4", 91)]) == ["queue_full"]
        assert outcomes([*modest, *urgent]) == ["waits"] * 5
        assert outcomes([post(world, "b2", 20, "bob")]) == ["waits"]  # for its own
        assert outcomes(modest) == ["shed"]


@in_virtual_time
async def test_a_refused_agent_ages_and_is_served_within_a_hundred_groups():
    """Three places, one batch a group, and always as many as may of higher priority."""
    limits = {"mailbox_batches_max": 3, "group_batches_max": 1}
    names = [f"urgent_{number}" for number in range(4)]
    async with shedding_world(agents=("alice", *names), limits=limits) as world:
        waited = []
        start = 0
        answer = post(world, "low-0", 0)
        for group in range(1, 600):
            for name in names:
                post(world, f"{name}-{group}", 90, name)
            if answer.done() and answer.result().admitted:
                waited.append(group - start)
                start = group
            if answer.done():
                answer = post(world, f"low-{group}", 0)
            await turns(1)
        assert len(waited) >= 5
        assert max(waited) <= 100
        assert min(waited) >= 80  # else priority would mean nothing


# The queue by itself, against a list that is searched from end to end


def waiting_of(number: int, owner: str, size: int, priority: int) -> QueuedBatch:
    batch = CheckedBatch()
    batch.submitter, batch.agents, batch.encoded = owner, (owner,), b"." * size
    batch.priority, batch.intents = priority, ()
    reply: Any = number
    return QueuedBatch(batch, reply, number, None, number)


POSTS = st.tuples(
    st.just("post"), st.sampled_from("abc"), st.sampled_from([0, 1, 1, 2, 5]), st.integers(0, 3)
)
TAKES = st.tuples(st.just("take"), st.integers(0, 2), st.just(0), st.just(0))
OPERATIONS = st.lists(st.one_of(POSTS, POSTS, POSTS, POSTS, TAKES), min_size=6, max_size=60)


COUNT_MAX, BYTES_MAX = 6, 12


class Searched:
    """A model of the queue that searches a list: the rule without any index."""

    def __init__(self) -> None:
        self.waiting: list[QueuedBatch] = []
        self.ranks: dict[QueuedBatch, int] = {}
        self.lost_at: dict[str, int] = {}
        self.groups = 0

    def rank(self, waiting: QueuedBatch) -> int:
        return waiting.batch.priority - self.lost_at.get(waiting.batch.submitter, self.groups)

    def sort(self) -> None:
        """Set the present rank of every batch without one."""
        for waiting in self.waiting:
            self.ranks.setdefault(waiting, self.rank(waiting))

    def fits(self, new: QueuedBatch, left: Sequence[QueuedBatch]) -> bool:
        size = sum(len(w.batch.encoded) for w in [*left, new])
        return not left or (len(left) < COUNT_MAX and size <= BYTES_MAX)

    def lowest(self) -> list[QueuedBatch]:
        least = min(self.ranks[w] for w in self.waiting)
        return [w for w in self.waiting if self.ranks[w] == least]

    def is_rightly_shed(self, victim: QueuedBatch) -> bool:
        rank = self.lowest()
        own = [w for w in rank if w.batch.submitter == victim.batch.submitter]
        most = max(Counter(w.batch.submitter for w in rank).values())
        return victim is own[-1] and len(own) == most

    def may_be_refused(self, new: QueuedBatch) -> bool:
        """Nothing is lower, or not enough; or the owner that would lose has fewer."""
        kept = [w for w in self.waiting if self.ranks[w] >= self.rank(new)]
        count = Counter(w.batch.submitter for w in self.waiting)
        most = Counter(w.batch.submitter for w in self.lowest())
        ages = [owner for owner, has in most.items() if has == max(most.values())]
        has_fewer = [owner for owner in ages if count[owner] < count[new.batch.submitter]]
        if has_fewer:
            return True
        return len(kept) == len(self.waiting) or not self.fits(new, kept)

    def leave(self, victim: QueuedBatch) -> None:
        self.waiting = [w for w in self.waiting if w is not victim]


@given(OPERATIONS)
def test_shedding_equals_a_search_of_the_whole_queue(operations):
    """Law: each owner's order is kept; victims follow the rule, and are no more than needed."""
    shed: list[QueuedBatch] = []
    queue = SheddingQueue(Limits(mailbox_batches_max=COUNT_MAX, mailbox_bytes_max=BYTES_MAX))
    queue.admission = FakeAdmission(shed.append)
    model = Searched()
    for number, (what, argument, size, priority) in enumerate(operations):
        if what == "take":
            taken_by_both(queue, model, argument)
        else:
            shed.clear()
            offered(queue, model, waiting_of(number, argument, size, priority), shed)
        assert {*queue.replies()} == {waiting.reply for waiting in model.waiting}
        assert queue.oldest is (model.waiting[0] if model.waiting else None)
        statistics = queue.statistics()
        assert statistics.waiting_bytes == sum(len(w.batch.encoded) for w in model.waiting)
        assert statistics.waiting == len(queue) == len(model.waiting)
    assert queue.take_all() == model.waiting
    assert not queue._ranks
    assert not len(queue._ages)
    assert not len(queue._fair)


def taken_by_both(queue: SheddingQueue, model: Searched, count: int) -> None:
    if any(waiting in model.ranks for waiting in model.waiting):
        model.sort()  # once some wait in turns, the others do from the next turn on
    taken = queue.take(count)
    assert len(taken) == min(count, len(model.waiting))
    for waiting in taken:
        own = [w for w in model.waiting if w.batch.submitter == waiting.batch.submitter]
        assert waiting is own[0]
        model.leave(waiting)
    if model.lost_at:
        model.groups += bool(taken)
        for waiting in taken:
            model.lost_at.pop(waiting.batch.submitter, None)
        if not model.waiting:
            model.lost_at.clear()


def offered(
    queue: SheddingQueue, model: Searched, new: QueuedBatch, shed: list[QueuedBatch]
) -> None:
    """Offer one more batch to both, and check what happened."""
    try:
        queue.post_nowait(new, len(new.batch.encoded))
    except MailboxFull as full:
        assert not model.fits(new, model.waiting)
        model.sort()
        load = Overload(RefusalCode.QUEUE_FULL, full.signal, full.value, full.limit)
        if queue.enqueue_under_load(new, load) is not None:
            assert not shed
            assert model.may_be_refused(new)
            model.lost_at.setdefault(new.batch.submitter, model.groups)
            return
        rank = model.rank(new)
        for victim in shed:
            assert not model.fits(new, model.waiting)
            assert model.ranks[victim] < rank
            assert model.is_rightly_shed(victim)
            model.lost_at.setdefault(victim.batch.submitter, model.groups)
            model.leave(victim)
        assert shed
    assert model.fits(new, model.waiting)
    model.waiting.append(new)
