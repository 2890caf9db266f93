"""A priority bucket: the owner with the most batches loses its youngest."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.actors.admission.shed_queue import PriorityBucket
from placet.actors.queued_batch import QueuedBatch
from tests.actors.admission.test_fair_queue import waiting_of
from tests.levels import examples

STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc")),
    st.tuples(st.just("take"), st.sampled_from("abc")),
    st.tuples(st.just("shed"), st.just("")),
    st.tuples(st.just("ask"), st.just("")),
)


@settings(max_examples=examples(500))
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_the_largest_owner_loses_its_youngest_batch(steps):
    rank, waits = PriorityBucket(), list[QueuedBatch]()
    for what, owner in steps:
        counts = Counter(one.owner for one in waits)
        own = [one for one in waits if one.owner == owner]
        if what == "add":
            waiting = waiting_of(owner, len(waits) + 1)
            waiting.owner = owner
            waits.append(waiting)
            rank.add(waiting)
        elif what == "take" and own:
            waits.remove(own[0])
            assert rank.remove_oldest(own[0]) is (not waits)
        elif what == "shed" and waits:
            shed = rank.pop_lowest()
            assert counts[shed.owner] == max(counts.values())
            assert shed is [one for one in waits if one.owner == shed.owner][-1]
            waits.remove(shed)
        elif what == "ask" and waits:
            assert counts[rank.owner_of_most] == max(counts.values())
        assert rank.size == sum(len(one.batch.encoded) for one in waits)
        assert bool(rank) is bool(waits)


def test_of_equal_owners_the_last_to_reach_the_number_loses():
    rank = PriorityBucket()
    for owner in "abba":
        waiting = waiting_of(owner)
        waiting.owner = owner
        rank.add(waiting)
    assert [rank.pop_lowest().owner for _ in range(4)] == ["a", "b", "a", "b"]
