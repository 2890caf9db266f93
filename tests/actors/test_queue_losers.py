"""Who lost and since when: bounded, and by recency."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.aging import AgeTracker


def test_who_comes_again_is_remembered_however_many_come_once():
    losers = AgeTracker(100)
    losers.note("patient", 3)
    for number in range(1_000):
        losers.note(f"stranger_{number}", number)
        assert len(losers) <= 100
        if number % 40 == 0:
            assert losers.since("patient") == 3
    assert losers.since("stranger_999") == 999
    assert losers.since("stranger_100") is None


def test_the_first_loss_counts_until_it_is_forgotten():
    losers = AgeTracker(4)
    losers.note("a", 1)
    losers.note("a", 2)
    assert losers.since("a") == 1
    losers.forget("a")
    losers.forget("nobody")
    assert losers.since("a") is None
    losers.note("a", 5)
    losers.clear()
    assert (losers.since("a"), len(losers)) == (None, 0)


def test_who_was_of_the_earlier_generation_is_forgotten_in_both():
    losers = AgeTracker(4)
    for name in "abc":
        losers.note(name, 1)
    assert losers.since("a") == 1  # of the earlier, and kept again
    losers.forget("a")
    assert losers.since("a") is None


OPERATIONS = st.lists(st.tuples(st.sampled_from(["note", "since", "forget"]), st.integers(0, 12)))


@given(OPERATIONS, st.integers(2, 10))
def test_at_least_the_latest_half_are_remembered_and_nobody_else_is_made_up(operations, count_max):
    """Law: of an unbounded book in order of use, it keeps the latest half, and may keep more."""
    losers, book = AgeTracker(count_max), OrderedDict[str, int]()
    for group, (what, number) in enumerate(operations):
        name = str(number)
        recent = [*book][-(count_max // 2) :]
        if what == "forget":
            losers.forget(name)
            book.pop(name, None)
        elif what == "since":
            since = losers.since(name)
            assert since is None or since == book[name]
            assert name not in recent or since == book[name]
            if since is None:
                book.pop(name, None)
            else:
                book.move_to_end(name)
        else:
            if losers.since(name) is None:
                book.pop(name, None)
            losers.note(name, group)
            book.setdefault(name, group)
            book.move_to_end(name)
        assert len(losers) <= count_max
