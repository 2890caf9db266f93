"""`shed_lowest` under lasting overload: the last places are for who stands high enough."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from placet.actors.admission.overload import Overload
from placet.actors.admission.queue import QueuedBatch
from placet.actors.admission.shed_queue import AgeTracker, SheddingQueue, _Floor
from placet.actors.mailbox import MailboxFull
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import Limits
from placet.schemas.refusal import RefusalCode

PLACES, GROUP = 60, 16
OPEN_TO_ALL = PLACES - GROUP - GROUP // 4
SIZE = 10


@dataclass
class Desk:
    """Posts as the intake does, without checks, and counts."""

    bytes_max: int = 10**6
    caps: dict[str, int] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    decided: Counter[int] = field(default_factory=Counter)
    decided_of: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        limits = Limits(
            mailbox_batches_max=PLACES, group_batches_max=GROUP, mailbox_bytes_max=self.bytes_max
        )
        self.queue = SheddingQueue(
            limits,
            lambda batch: min(batch.priority, self.caps.get(batch.agents[0], 100)),
            lambda submitter: 100,
            lambda waiting, priority, load: self.count.update(["shed"]),
        )

    def load(self, submitter: str) -> Overload | None:
        if len(self.queue) >= PLACES:
            return Overload(RefusalCode.QUEUE_FULL, "mailbox_batches", PLACES, PLACES)
        return self.queue.beyond_share(submitter) if len(self.queue) > GROUP else None

    def post(self, submitter: str, priority: int, size: int = SIZE) -> str | None:
        """Give the signal for which a batch was refused; None if it waits."""
        load = self.load(submitter)
        if load is not None:
            reason = self.queue.turn_away(load, [{"priority": priority}], submitter)
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
        reason = self.queue.place(waiting, load)
        return None if reason is None else reason.signal

    def take(self, count: int = GROUP) -> None:
        for waiting in self.queue.take(count):
            self.count["decided"] += 1
            self.decided[waiting.batch.priority] += 1
            self.decided_of[waiting.batch.submitter] += 1


def waiting_of(owner: str, priority: int, size: int) -> QueuedBatch:
    batch = CheckedBatch()
    batch.submitter, batch.agents, batch.encoded = owner, (owner,), b"." * size
    batch.priority, batch.intents = priority, ()
    reply: Any = None
    return QueuedBatch(batch, reply, 0, None, 0)


def flood(desk: Desk, chance: Random, priorities: tuple[int, ...], groups: int = 200) -> None:
    """Offer five times what is decided, from a hundred agents."""
    for _ in range(groups):
        for _ in range(5 * GROUP):
            desk.post(f"agent_{chance.randrange(100)}", chance.choice(priorities))
        desk.take()


def floored() -> Desk:
    """Give a desk after a flood of priorities up to 70, of which a group was just taken."""
    desk = Desk()
    flood(desk, Random(3), (10, 30, 50, 70))
    assert desk.queue._floor.rank > 30
    return desk


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("priorities", [(10, 30, 50, 70), tuple(range(0, 100, 10)), (50,)])
def test_under_lasting_overload_little_is_checked_in_vain(priorities, seed):
    """Without the floor 1.0 to 1.4 are shed for each that is decided; with none to spare 0.1."""
    desk = Desk()
    flood(desk, Random(seed), priorities, 100)
    desk.count.clear()
    flood(desk, Random(seed + 100), priorities)
    assert desk.count["shed"] < 0.07 * desk.count["decided"]
    assert desk.count["decided"] == 200 * GROUP  # nor does any group go short


def test_the_floor_leaves_the_places_to_the_highest():
    """Of four priorities in equal parts, five times too much: the highest get nearly all."""
    desk = Desk()
    flood(desk, Random(5), (10, 30, 50, 70), 400)
    assert desk.decided[70] > 0.85 * desk.count["decided"]
    assert desk.decided[10] + desk.decided[30] < 0.1 * desk.count["decided"]


def test_nobody_is_below_the_floor_for_ever():
    desk, chance = Desk(), Random(6)
    for _ in range(1_000):
        for number in range(5 * GROUP):
            desk.post(f"agent_{chance.randrange(100)}", 90)
            if number % 16 == 0:
                desk.post("patient", 0)
        desk.take()
    assert desk.decided_of["patient"] >= 9


def test_who_is_below_the_floor_is_told_which_places_are_taken():
    desk = floored()
    while len(desk.queue) < OPEN_TO_ALL:
        assert desk.post(f"agent_{len(desk.queue)}", 0) is None
    load = desk.load("late")
    assert load is not None
    assert load[1:4] == ("mailbox_batches_open_to_all", OPEN_TO_ALL, OPEN_TO_ALL)
    assert desk.post("late", 0) == "mailbox_batches_open_to_all"
    shed = desk.count["shed"]
    assert desk.post("other", 100) is None
    assert desk.count["shed"] == shed  # there is a place


def test_a_priority_that_the_agent_may_not_have_gets_no_kept_place():
    desk = floored()
    while len(desk.queue) < OPEN_TO_ALL:
        desk.post(f"agent_{len(desk.queue)}", 0)
    desk.caps["boaster"] = 5
    checked = desk.count["checked"]
    assert desk.post("boaster", 100) == "mailbox_batches_open_to_all"
    assert desk.count["checked"] == checked + 1  # what it may have is known by then


def test_a_batch_claims_what_the_highest_of_its_intents_does():
    desk = floored()
    is_below, rank = desk.queue.is_beneath, desk.queue._floor.rank
    assert is_below is not None
    for claims, is_beneath in (
        ((0,), True),
        ((rank - 1, rank - 1), True),
        ((0, rank - 1), True),
        ((0, rank), False),
        ((rank, 0), False),
        ((0, 0, 100), False),
        ((0, "high"), False),
        ((None,), False),
        ((0.5, 0), False),
    ):
        batch = [{"priority": claim} for claim in claims]
        for raw in (batch, {"intents": batch}):
            assert is_below(raw, "late") is is_beneath
    odds: tuple[Any, ...] = ([], {}, [{}], [1], None, 7, "text", {"intents": {}}, {"priority": 100})
    for odd in odds:
        assert not is_below(odd, "late")
    assert is_below({"priority": 0}, "late")  # a batch of one
    assert not is_below([{"priority": 0}], OPERATOR)  # who speaks for others


def test_of_a_full_queue_no_more_is_looked_for_in_what_is_no_higher_than_its_lowest():
    desk = Desk()
    for number in range(PLACES):
        assert desk.post(f"agent_{number}", 50) is None
    is_below = desk.queue.is_beneath
    assert is_below is not None
    assert not is_below([{"priority": 50}], "late")
    assert desk.post("other", 50) == "mailbox_batches"
    assert is_below([{"priority": 50}], "late")
    assert not is_below([{"priority": 51}], "late")
    desk.take()
    assert not is_below([{"priority": 50}], "later")


def test_where_several_are_shed_for_one_there_is_room_for_as_low_as_they_were():
    desk = Desk(bytes_max=PLACES * SIZE)
    for number in range(PLACES):
        assert desk.post(f"agent_{number}", 50) is None
    assert desk.post("other", 50) == "mailbox_batches"
    is_below = desk.queue.is_beneath
    assert is_below is not None
    assert is_below([{"priority": 50}], "late")
    assert desk.post("large", 90, 3 * SIZE) is None
    assert len(desk.queue) == PLACES - 2
    assert not is_below([{"priority": 50}], "late")


def test_what_was_looked_at_is_taken_for_no_other_batch():
    desk = floored()
    while len(desk.queue) < OPEN_TO_ALL:
        desk.post(f"agent_{len(desk.queue)}", 0)
    queue, load = desk.queue, desk.queue._kept
    high, low = [{"priority": 100}], [{"priority": 0}]
    assert queue.is_beneath is not None
    assert not queue.is_beneath(high, "late")
    assert queue.turn_away(load, low, "late") is load
    assert not queue.is_beneath(high, "late")
    assert queue.turn_away(load, high, "late") is None
    high[0]["priority"] = 0  # and is offered again
    assert queue.turn_away(load, high, "late") is load


def test_a_kept_place_is_for_nobody_beyond_its_share():
    desk = floored()
    signals = [desk.post("greedy", 80) for _ in range(PLACES)]
    checked, waiting = desk.count["checked"], len(desk.queue)
    assert signals[-1] == "mailbox_batches_of_agent"
    assert OPEN_TO_ALL <= waiting < PLACES
    assert desk.post("greedy", 80) == "mailbox_batches_of_agent"
    assert desk.count["checked"] == checked
    # A stepped world judges once more when a batch is checked.
    load = desk.queue.place(waiting_of("greedy", 80, SIZE), desk.queue._kept)
    assert load is not None
    assert load.signal == "mailbox_batches_of_agent"


def test_a_kept_place_for_many_bytes_costs_who_is_lower():
    desk = floored()
    while len(desk.queue) < OPEN_TO_ALL:
        desk.post(f"agent_{len(desk.queue)}", 0)
    desk.queue._bytes_max = desk.queue._bytes + 3 * SIZE
    shed = desk.count["shed"]
    assert desk.post("large", 100, 5 * SIZE) is None
    assert desk.count["shed"] == shed + 2


@pytest.mark.parametrize("count", [PLACES, GROUP])
def test_the_floor_goes_with_the_load(count):
    """All of a group that leaves less than the open places waiting, or nothing at all."""
    desk = floored()
    for _ in range(3):
        desk.take(count)
    desk.take(count)
    assert desk.queue._floor.rank == 0
    names = iter(range(10**6))
    while len(desk.queue) < PLACES:
        assert desk.post(f"new_{next(names)}", 0) is None


def test_the_floor_falls_where_nothing_is_shed_and_places_stay_free():
    desk = floored()
    chance, ranks = Random(7), [desk.queue._floor.rank]
    for _ in range(80):
        while len(desk.queue) < OPEN_TO_ALL + 1:
            if desk.post(f"agent_{chance.randrange(100)}", 0) is not None:
                desk.post(f"agent_{chance.randrange(100)}", 100)
        desk.take()
        ranks.append(desk.queue._floor.rank)
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[-1] == 0


def test_the_floor_rises_with_ages_where_many_lose():
    """Of 50 agents for each place of a group, those who are served are aged beyond 100."""
    desk, chance = Desk(), Random(1)
    for turn in range(500):
        for n in range(5 * GROUP):
            agent = (turn * 5 * GROUP + n) % (100 * GROUP)
            desk.post(f"agent_{agent}", chance.randrange(0, 101, 10))
        desk.take()
        if turn == 200:
            desk.count.clear()
    assert desk.queue._floor.rank > 100
    assert desk.count["shed"] < 0.2 * desk.count["decided"]


def test_what_the_operator_posts_ages_with_the_agent_it_speaks_for():
    desk = floored()
    names = iter(range(10**6))
    for _ in range(150):
        while desk.post(f"new_{next(names)}", 100) is None:
            pass
        raw = [{"priority": 0, "agent_id": "low"}]
        load = desk.load(OPERATOR)
        assert load is not None
        if desk.queue.turn_away(load, raw, OPERATOR) is None:
            return
        assert desk.queue._ages.since(OPERATOR) is None
        assert desk.queue._ages.since("low") is not None
        desk.take()
    pytest.fail("it never stood high enough")


def test_the_floor_rises_while_none_of_the_places_to_spare_is_free():
    floor = _Floor(spare=4)
    floor.move(taken=16, free=0, places=PLACES)
    assert floor.rank == 0  # a queue that is full sheds nobody by that
    floor.shed = 8
    floor.move(taken=16, free=0, places=PLACES)
    assert floor.rank == 7
    for free, rank in ((0, 9), (3, 10), (4, 9), (PLACES, 0)):
        floor.move(taken=16, free=free, places=PLACES)
        assert floor.rank == rank


def test_who_lost_before_many_others_did_has_not_lost_its_age():
    for look in ("first", "last"):
        desk = floored()
        queue, ages = desk.queue, AgeTracker(4)
        queue._ages, queue._groups, queue._beneath = ages, 50, 35 - 50 - 1
        for name, group in (("patient", 10), ("other", 50), ("another", 50)):
            ages.note(name, group)
        assert "patient" in ages.earlier
        assert queue.is_beneath is not None
        if look == "first":
            assert not queue.is_beneath([{"priority": 0}], "patient")
            assert queue.is_beneath([{"priority": 0}], "stranger")
        else:
            assert queue._since("patient") == 10
            assert queue._since("stranger") == 50
