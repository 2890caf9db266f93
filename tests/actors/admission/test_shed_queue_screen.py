"""`shed_lowest`: a batch is refused before its check unless it claims a rank that displaces."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from placet.actors.admission.overload import Overload
from placet.actors.admission.shed_queue import AgeTracker, SheddingQueue
from placet.actors.mailbox import MailboxFull
from placet.actors.queued_batch import QueuedBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits
from placet.schemas.refusal import RefusalCode
from tests.actors.admission.fake_admission import FakeAdmission

PLACES, GROUP = 60, 16
SIZE = 10


@dataclass
class CountingQueue:
    """Posts as the ingress does, without checks, and counts."""

    bytes_max: int = 10**6
    caps: dict[str, int] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        limits = Limits(
            mailbox_batches_max=PLACES, group_batches_max=GROUP, mailbox_bytes_max=self.bytes_max
        )
        self.queue = SheddingQueue(limits)
        self.queue.admission = FakeAdmission(lambda waiting: self.count.update(["shed"]))
        self.queue.admission.caps = self.caps

    def load(self, submitter: str) -> Overload | None:
        if len(self.queue) >= PLACES:
            return Overload(RefusalCode.QUEUE_FULL, "mailbox_batches", PLACES, PLACES)
        return self.queue.beyond_share(submitter) if len(self.queue) > GROUP else None

    def post(self, submitter: str, priority: int, size: int = SIZE) -> str | None:
        """Return the signal for which a batch was refused; None if it waits."""
        load = self.load(submitter)
        if load is not None:
            reason = self.queue.screen(load, [{"priority": priority}], submitter)
            if reason is not None:
                return reason.signal
        self.count["checked"] += 1
        waiting = waiting_of(submitter, priority, size)
        if load is None:
            try:
                self.queue.post_nowait(waiting, size)
            except MailboxFull as full:
                load = Overload(RefusalCode.QUEUE_FULL, full.signal, full.value, full.limit)
            else:
                return None
        reason = self.queue.enqueue_under_load(waiting, load)
        return None if reason is None else reason.signal

    def take(self, count: int = GROUP) -> None:
        self.count["decided"] += len(self.queue.take(count))


def waiting_of(owner: str, priority: int, size: int) -> QueuedBatch:
    batch = CheckedBatch()
    batch.submitter, batch.agents, batch.encoded = owner, (owner,), b"." * size
    batch.priority, batch.intents = priority, ()
    reply: Any = None
    return QueuedBatch(batch, reply, 0, None, 0)


def full_queue(priority: int = 50, **options: Any) -> CountingQueue:
    """Return a queue full of batches of one priority, which has refused one more of them."""
    full = CountingQueue(**options)
    for number in range(PLACES):
        assert full.post(f"agent_{number}", priority) is None
    assert full.post("other", priority) == "mailbox_batches"
    return full


def test_a_priority_above_the_agents_cap_is_refused_after_the_check():
    full = full_queue()
    full.caps["boaster"] = 5
    checked = full.count["checked"]
    assert full.post("boaster", 100) == "mailbox_batches"
    assert full.count["checked"] == checked + 1  # the cap of its agents is known by then
    assert full.count["shed"] == 0


def test_a_batch_claims_the_priority_of_its_highest_intent():
    is_outranked = full_queue(50).queue.is_outranked
    assert is_outranked is not None
    for claims, expected in (
        ((0,), True),
        ((50, 50), True),
        ((0, 50), True),
        ((0, 51), False),
        ((51, 0), False),
        ((0, 0, 100), False),
        ((0, "high"), False),
        ((None,), False),
        ((0.5, 0), False),
    ):
        batch = [{"priority": claim} for claim in claims]
        for raw in (batch, {"intents": batch}):
            assert is_outranked(raw, "late") is expected
    odds: tuple[Any, ...] = ([], {}, [{}], [1], None, 7, "text", {"intents": {}}, {"priority": 100})
    for odd in odds:
        assert not is_outranked(odd, "late")
    assert is_outranked({"priority": 0}, "late")  # a batch of one
    assert not is_outranked([{"priority": 0}], OPERATOR)  # it speaks for other agents


def test_a_full_queue_refuses_claims_up_to_its_lowest_rank_until_a_batch_leaves():
    full = CountingQueue()
    for number in range(PLACES):
        assert full.post(f"agent_{number}", 50) is None
    is_outranked = full.queue.is_outranked
    assert is_outranked is not None
    assert not is_outranked([{"priority": 50}], "late")
    assert full.post("other", 50) == "mailbox_batches"
    assert is_outranked([{"priority": 50}], "late")
    assert not is_outranked([{"priority": 51}], "late")
    full.take()
    assert not is_outranked([{"priority": 50}], "later")


def test_after_several_were_shed_for_one_batch_there_is_room_for_their_priority():
    full = full_queue(50, bytes_max=PLACES * SIZE)
    is_outranked = full.queue.is_outranked
    assert is_outranked is not None
    assert is_outranked([{"priority": 50}], "late")
    assert full.post("large", 90, 3 * SIZE) is None
    assert len(full.queue) == PLACES - 2
    assert not is_outranked([{"priority": 50}], "late")


def test_a_batch_is_screened_by_its_claimed_priority():
    queue = full_queue(50).queue
    load = Overload(RefusalCode.QUEUE_FULL, "mailbox_batches", PLACES, PLACES)
    high, low = [{"priority": 100}], [{"priority": 0}]
    assert queue.screen(load, low, "late") is load
    assert queue.screen(load, high, "late") is None
    high[0]["priority"] = 0  # changed by its owner, and submitted again
    assert queue.screen(load, high, "late") is load


def test_batches_of_the_operator_age_with_the_agent_that_they_name():
    full = full_queue(100)
    raw = [{"priority": 0, "agent_id": "low"}]
    names = iter(range(10**6))
    for _ in range(150):
        while full.post(f"new_{next(names)}", 90) is None:
            pass
        load = full.load(OPERATOR)
        assert load is not None
        if full.queue.screen(load, raw, OPERATOR) is None:
            return
        assert full.queue._ages.since(OPERATOR) is None
        assert full.queue._ages.since("low") is not None
        full.take()
    raise AssertionError("its rank never rose above the lowest")


def test_an_age_of_the_earlier_generation_still_counts():
    for look in ("screen", "rank"):
        queue, ages = full_queue(50).queue, AgeTracker(4)
        queue._ages, queue._groups, queue._outranked = ages, 50, 35 - 50 - 1
        for name, group in (("patient", 10), ("other", 50), ("another", 50)):
            ages.note(name, group)
        assert "patient" in ages.earlier
        assert queue.is_outranked is not None
        if look == "screen":
            assert not queue.is_outranked([{"priority": 0}], "patient")
            assert queue.is_outranked([{"priority": 0}], "stranger")
        else:
            assert queue._since("patient") == 10
            assert queue._since("stranger") == 50
