"""Fair queuing: no owner starves, each owner's order is kept, and shares differ by little."""

import sys
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.actors.admission.fair_queue import FairQueue
from placet.actors.admission.queue import BatchQueue
from placet.actors.mailbox import MailboxFull
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits

GROUP = 4


def waiting_of(owner: str, intents: int = 1, number: int = 0) -> QueuedBatch:
    batch = CheckedBatch()
    one: Any = {}
    batch.submitter, batch.agents, batch.intents = owner, (owner,), (one,) * intents
    batch.encoded = b"." * intents
    reply: Any = number
    return QueuedBatch(batch, reply, number, None, number)


def queue_of(**limits: int) -> BatchQueue:
    return BatchQueue(Limits(**{"group_batches_max": GROUP, **limits}))


def put(queue: BatchQueue, waiting: QueuedBatch) -> QueuedBatch:
    queue.post_nowait(waiting, len(waiting.batch.encoded))
    return waiting


def owners(taken: list[QueuedBatch]) -> str:
    return "".join(waiting.batch.submitter for waiting in taken)


# Turns by themselves


@pytest.mark.parametrize(
    ("came", "given"),
    [
        ("aaaabc", "abcaaa"),
        ("aabbcc", "abcabc"),
        ("abcabc", "abcabc"),
        ("ccba", "cbac"),
        ("aaaa", "aaaa"),
        ("", ""),
    ],
)
def test_owners_are_served_in_turn_in_order_of_arrival(came, given):
    turns = FairQueue()
    for owner in came:
        turns.add(waiting_of(owner))
    assert owners([turns.pop() for _ in came]) == given
    assert not turns.lanes
    assert not turns._schedule


def test_a_share_is_counted_in_intents_not_in_batches():
    turns = FairQueue()
    for _ in range(40):
        turns.add(waiting_of("a", 8))
        turns.add(waiting_of("b", 1))
    taken = Counter(turns.pop().batch.submitter for _ in range(36))
    assert taken == {"a": 4, "b": 32}


def test_an_owner_that_returns_gets_no_additional_turn():
    """One batch of eight at a time against a flood of ones: half, not eight of nine."""
    turns = FairQueue()
    for _ in range(200):
        turns.add(waiting_of("flood"))
    intents: Counter[str] = Counter()
    for _ in range(90):
        if not turns.count_of("a"):
            turns.add(waiting_of("a", 8))
        waiting = turns.pop()
        intents[waiting.batch.submitter] += len(waiting.batch.intents)
    assert abs(intents["a"] - intents["flood"]) <= 8


def test_a_batch_of_the_operator_is_queued_under_the_agent_it_names():
    turns = FairQueue()
    for _ in range(3):
        waiting = waiting_of("a")
        waiting.batch.submitter = OPERATOR
        turns.add(waiting)
    turns.add(waiting_of("b"))
    assert [turns.pop().batch.agents[0] for _ in range(4)] == ["a", "b", "a", "a"]


def test_owners_whose_batches_were_discarded_are_dropped():
    turns = FairQueue()
    kept = waiting_of("kept")
    turns.add(kept)
    for number in range(1000):
        gone = waiting_of(f"agent_{number}")
        turns.add(gone)
        turns.discard(gone)
    assert len(turns._schedule) == len(turns.lanes) < 100
    assert turns.pop() is kept


def test_owners_that_were_served_once_are_dropped():
    turns = FairQueue()
    for number in range(1000):
        turns.add(waiting_of(f"agent_{number}"))
        turns.add(waiting_of("flood", 2))
        assert turns.pop() is not None
    assert turns.count_of("flood") > 300
    assert len(turns.lanes) < 2 * len(turns) + 100
    while len(turns):
        turns.pop()
    assert not turns.lanes


def test_an_owner_without_batches_keeps_its_virtual_finish_time():
    turns = FairQueue()
    for owner, intents in (("a", 9), ("b", 1), ("b", 1), ("b", 1)):
        turns.add(waiting_of(owner, intents))
    assert owners([turns.pop()]) == "a"
    turns.add(waiting_of("a"))
    assert owners([turns.pop() for _ in range(4)]) == "bbba"


def test_dropping_owners_keeps_those_with_unfinished_shares():
    turns = FairQueue()
    turns.add(waiting_of("a", 500))
    for number in range(200):
        turns.add(waiting_of(f"agent_{number}"))
        assert turns.pop().owner != f"agent_{number}"
    assert turns.lanes["a"].finish == 500
    turns.add(waiting_of("a"))
    turns.add(waiting_of("late", 1))
    assert owners([turns.pop() for _ in range(3)]) == "agent_199latea"


OFFERS = st.tuples(st.just("add"), st.sampled_from("abcde"), st.sampled_from([1, 1, 1, 2, 9]))
POPS = st.tuples(st.just("pop"), st.just(""), st.just(0))
DISCARDS = st.tuples(st.just("discard"), st.just(""), st.integers(0, 40))


def offers(owner: str, size: int, count: int = 1) -> list[tuple[str, str, int]]:
    return [("add", owner, size)] * count


POP = ("pop", "", 0)


@given(st.lists(st.one_of(OFFERS, OFFERS, OFFERS, POPS, POPS, DISCARDS), max_size=120))
@example([*offers("a", 9, 4), *offers("b", 1, 4), *[POP] * 8])
@example([*offers("b", 1, 2), POP, *[*offers("a", 9), POP] * 9])  # comes and goes
def test_no_owner_is_served_much_more_than_another_with_queued_batches(operations):
    """Law (start-time fair queuing): shares of two backlogged owners differ by two batches."""
    turns = FairQueue()
    lanes: dict[str, deque[QueuedBatch]] = {owner: deque() for owner in "abcde"}
    since: dict[str, Counter[str]] = {}  # what everybody was given since an owner has waited
    for what, owner, size in operations:
        waiting = [one for lane in lanes.values() for one in lane]
        assert len(turns) == len(waiting)
        if what == "add":
            if not lanes[owner]:
                since[owner] = Counter()
            lanes[owner].append(waiting_of(owner, size))
            turns.add(lanes[owner][-1])
        elif what == "pop" and waiting:
            taken = turns.pop()
            name = taken.batch.submitter
            assert taken is lanes[name].popleft()
            for other, lane in lanes.items():
                if lane or other == name:
                    since[other][name] += len(taken.batch.intents)
            for other, parts in since.items():
                if lanes[other]:
                    assert parts[name] - parts[other] <= 9 + 9
        elif waiting:
            victim = waiting[size % len(waiting)]
            lanes[victim.batch.submitter].remove(victim)
            turns.discard(victim)


# The queue


def test_few_batches_are_taken_in_order_of_arrival():
    queue = queue_of()
    for owner in "aaaaabaaaac":
        put(queue, waiting_of(owner))
    assert owners(queue.take(3)) == "aaa"
    assert owners(queue.take(3)) == "aab"
    assert not len(queue._fair)  # nothing was sorted


def test_many_batches_are_served_fairly_until_the_queue_is_empty():
    queue = queue_of()
    for owner in "a" * 30 + "b" * 2 + "c":
        put(queue, waiting_of(owner))
    assert owners(queue.take(GROUP)) == "abca"
    put(queue, waiting_of("d"))
    assert owners(queue.take(GROUP)) == "bdaa"
    assert owners(queue.take(99, 10**9)) == "a" * 26
    assert (len(queue), queue.statistics().waiting_bytes) == (0, 0)
    for owner in "aab":
        put(queue, waiting_of(owner))
    assert owners(queue.take(GROUP)) == "aab"


MANY = [f"agent_{number}" for number in range(10 * GROUP)]


def crowd(intents: int = 1) -> tuple[BatchQueue, list[QueuedBatch]]:
    """Return a queue in which many owners have one batch each, all of one size."""
    queue = queue_of()
    return queue, [put(queue, waiting_of(owner, intents, n)) for n, owner in enumerate(MANY)]


def test_many_owners_with_one_batch_each_are_served_in_order_of_arrival():
    queue, came = crowd()
    for turn in range(50):
        taken = queue.take(GROUP)
        assert taken == came[turn * GROUP :][:GROUP]
        came += [put(queue, waiting_of(waiting.batch.submitter)) for waiting in taken]
    assert not len(queue._fair)  # nothing was sorted


def test_the_first_owner_with_two_batches_starts_fair_queuing():
    queue, came = crowd()
    assert queue.take(GROUP) == came[:GROUP]
    for _ in range(20):
        put(queue, waiting_of("flood"))
    late = put(queue, waiting_of("late"))
    taken = [queue.take(1)[0] for _ in range(38)]
    assert taken[:36] == came[GROUP:]
    assert taken[36].batch.submitter == "flood"
    assert taken[37] is late


def test_a_larger_batch_gets_no_larger_share():
    queue, _ = crowd()
    put(queue, waiting_of("large", 8))
    intents: Counter[str] = Counter()
    for _ in range(10 * len(MANY)):
        (taken,) = queue.take(1)
        owner, size = taken.batch.submitter, len(taken.batch.intents)
        intents[owner] += size
        put(queue, waiting_of(owner, size))
    assert abs(intents["large"] - intents[MANY[0]]) <= 8


def test_among_owners_with_one_batch_each_the_age_signal_is_their_own():
    queue, came = crowd()
    queue.take(GROUP)
    assert queue.oldest_for(MANY[-1]) is came[-1]
    assert queue.oldest_for(MANY[0]) is None
    assert queue.oldest_for(OPERATOR) is came[GROUP]
    assert queue.oldest is came[GROUP]
    while queue.take(GROUP):
        pass
    last = put(queue, waiting_of("a"))
    assert queue.oldest_for("b") is last  # few again


def test_a_crowd_of_few_batches_that_do_much_work_is_served_fairly():
    """Where a group has one intent, four groups in order of arrival are four batches."""
    queue = BatchQueue(Limits())
    for _ in range(20):
        put(queue, waiting_of("flood"))
    put(queue, waiting_of("ann"))
    assert owners(queue.take(32, 1) + queue.take(32, 1)) == "floodann"
    queue.take_all()
    for _ in range(20):
        put(queue, waiting_of("flood"))
    put(queue, waiting_of("ann"))
    assert owners(queue.take(32, 500)) == "flood" * 20 + "ann"  # ordinary intents


def test_judging_shares_starts_fair_queuing():
    queue = queue_of(mailbox_batches_max=2 * len(MANY))
    for owner in MANY:
        put(queue, waiting_of(owner))
    queue.take(1)
    for _ in range(10):
        assert queue.beyond_share("flood") is None
        put(queue, waiting_of("flood"))
    put(queue, waiting_of("new"))
    assert owners(queue.take(len(MANY) + 1)) == "".join(MANY[1:]) + "floodnew"
    queue.take_all()
    few = [put(queue, waiting_of(owner)) for owner in MANY[: len(MANY) // 2]]
    assert queue.take(len(few)) == few


COMING = st.tuples(st.sampled_from("abcdefghijklmnopqrst"), st.sampled_from([1] * 9 + [2]))


@given(st.lists(st.one_of(COMING, COMING, COMING, st.integers(1, 6)), max_size=200))
def test_every_batch_is_taken_once_and_in_its_owners_order(operations):
    """Law: holds in both modes of the queue, and across changes between them."""
    queue = BatchQueue(Limits(group_batches_max=1))
    lanes: dict[str, deque[QueuedBatch]] = {}
    for operation in operations:
        if isinstance(operation, tuple):
            waiting = put(queue, waiting_of(*operation))
            lanes.setdefault(waiting.batch.submitter, deque()).append(waiting)
        else:
            for taken in queue.take(operation):
                assert taken is lanes[taken.batch.submitter].popleft()
        left = [waiting for lane in lanes.values() for waiting in lane]
        assert len(queue) == len(left)
        assert queue.statistics().waiting_bytes == sum(len(one.batch.intents) for one in left)
        for waiting in left:
            oldest = queue.oldest_for(waiting.batch.submitter)
            assert oldest is None or oldest in left
    assert len(list(iter(lambda: queue.take(1), []))) == sum(len(lane) for lane in lanes.values())


def test_taking_all_at_once_keeps_the_order_of_arrival():
    queue = queue_of()
    came = [put(queue, waiting_of(owner)) for owner in "a" * 30 + "bc" * 3]
    first = queue.take(GROUP)
    assert owners(first) == "abca"
    assert queue.take(99) == [one for one in came if one not in first]
    assert (len(queue), queue.statistics().waiting_bytes) == (0, 0)


def test_a_paused_queue_gives_out_no_batches_of_the_fair_queue():
    queue = queue_of()
    for _ in range(30):
        put(queue, waiting_of("a"))
    queue.pause()
    assert queue.take(GROUP) == []
    assert len(queue.take_all()) == 30


def test_a_submitter_of_a_crowd_may_queue_as_many_batches_as_it_leaves_free():
    queue = queue_of(mailbox_batches_max=20)
    while queue.beyond_share("a") is None:
        put(queue, waiting_of("a"))
    load = queue.beyond_share("a")
    assert load is not None
    assert load[1:4] == ("mailbox_batches_of_agent", 10, 10)
    while queue.beyond_share("b") is None:
        put(queue, waiting_of("b"))
    assert queue._fair.count_of("b") == 5
    assert queue.beyond_share("c") is None
    assert queue.beyond_share(OPERATOR) is None


def test_a_submitter_of_a_crowd_may_queue_as_many_bytes_as_it_leaves_free():
    queue = queue_of(mailbox_bytes_max=400)
    while queue.beyond_share("a") is None:
        put(queue, waiting_of("a", 40))
    load = queue.beyond_share("a")
    assert load is not None
    assert load[1:4] == ("mailbox_bytes_of_agent", 200, 200)
    assert queue.beyond_share("b") is None


def test_batches_of_the_fair_queue_count_for_both_bounds():
    for bound in ({"mailbox_batches_max": 20}, {"mailbox_bytes_max": 20}):
        queue = queue_of(**bound)
        for _ in range(20):
            put(queue, waiting_of("a"))
        assert len(queue.take(2)) == 2
        assert len(queue._fair) == 18
        put(queue, waiting_of("b"))
        put(queue, waiting_of("b"))
        with pytest.raises(MailboxFull):
            put(queue, waiting_of("c"))
        assert queue.statistics().most_waiting == 20


def test_batches_that_fit_into_one_group_are_no_crowd():
    queue = queue_of(mailbox_batches_max=GROUP)
    for _ in range(GROUP):
        assert queue.beyond_share("a") is None
        put(queue, waiting_of("a"))
    with pytest.raises(MailboxFull):
        put(queue, waiting_of("a"))


def test_the_age_of_other_owners_batches_is_no_load_signal_in_a_fair_queue():
    queue = queue_of()
    first = put(queue, waiting_of("a", number=7))
    assert queue.oldest_for("b") is queue.oldest_for("a") is first
    for _ in range(30):
        put(queue, waiting_of("a"))
    put(queue, waiting_of("b", number=9))
    queue.take(1)
    assert queue.oldest_for("c") is None
    assert queue.oldest_for("b") is not None
    assert queue.oldest_for("b") is queue.oldest_for(OPERATOR)  # whose turn it is
    assert queue.oldest is queue.oldest_for("a")  # of all


QUEUED = st.tuples(st.just("put"), st.sampled_from("aaaaabcd"), st.integers(1, 3))
TAKEN = st.tuples(st.just("take"), st.just(""), st.integers(1, GROUP))


@given(st.lists(st.one_of(QUEUED, QUEUED, QUEUED, TAKEN), max_size=150), st.integers(8, 60))
@example([("put", "a", 1)] * 20 + [("take", "", 1), ("put", "b", 1)] * 60, 60)  # comes and goes
def test_every_queued_batch_is_decided_within_a_bound(operations, places):
    """Law: bounds hold, each owner's order is kept, and a flood overtakes no owner."""
    queue = queue_of(mailbox_batches_max=places, mailbox_bytes_max=3 * places)
    lanes: dict[str, deque[QueuedBatch]] = {owner: deque() for owner in "abcd"}
    passed: Counter[QueuedBatch] = Counter()
    for what, owner, size in operations:
        if what == "put":
            waiting = waiting_of(owner, size)
            load = queue.beyond_share(owner)
            try:
                if load is None:
                    lanes[owner].append(put(queue, waiting))
            except MailboxFull:
                assert len(queue) == places or queue._bytes + size > 3 * places
        else:
            for taken in queue.take(size):
                assert taken is lanes[taken.batch.submitter].popleft()
                for lane in lanes.values():
                    passed.update(list(lane)[:1])
        held = [one for lane in lanes.values() for one in lane]
        assert len(queue) == len(held) <= places
        assert queue.statistics().waiting_bytes == sum(len(w.batch.encoded) for w in held)
        # Who heads its own: what waited in order of coming, then three batches of each other one.
        assert all(passed[one] <= 4 * GROUP + 3 * 3 * 3 for one in held)


def test_the_oldest_batch_may_be_read_from_another_thread():
    """A thread reads the metrics while the event loop queues and takes batches."""
    queue = queue_of(mailbox_batches_max=10_000)
    for number in range(2_000):
        put(queue, waiting_of(f"a{number % 700}", number=number))
    interval, is_over = sys.getswitchinterval(), False

    def read() -> int:
        reads = 0
        while not is_over:
            _ = queue.oldest
            reads += 1
        return reads

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            for number in range(400):
                for _ in range(32):
                    put(queue, waiting_of(f"b{number}", number=number))
                queue.take(32)
            is_over = True
            assert reading.result() > 0
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("take", [lambda queue: queue.take(GROUP), BatchQueue.take_all])
def test_batches_put_back_count_in_the_bytes_of_the_queue(take):
    queue = queue_of(mailbox_bytes_max=40)
    for owner in "abcd":
        put(queue, waiting_of(owner, 10))
    taken = queue.take(GROUP)
    queue.put_back(taken[1:])
    assert queue.statistics().waiting_bytes == 30
    with pytest.raises(MailboxFull):
        put(queue, waiting_of("a", 11))
    assert take(queue) == taken[1:]
    assert (len(queue), queue.statistics().waiting_bytes) == (0, 0)
