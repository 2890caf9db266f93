"""The age tracker of `shed_lowest`: bounded by recency."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.shed_queue import AgeTracker


def test_a_returning_owner_is_remembered_among_many_that_appear_once():
    ages = AgeTracker(100)
    ages.note("patient", 3)
    for number in range(1_000):
        ages.note(f"stranger_{number}", number)
        assert len(ages) <= 100
        if number % 40 == 0:
            assert ages.since("patient") == 3
    assert ages.since("stranger_999") == 999
    assert ages.since("stranger_100") is None


def test_the_first_loss_counts_until_it_is_forgotten():
    ages = AgeTracker(4)
    ages.note("a", 1)
    ages.note("a", 2)
    assert ages.since("a") == 1
    ages.forget("a")
    ages.forget("nobody")
    assert ages.since("a") is None
    ages.note("a", 5)
    ages.clear()
    assert (ages.since("a"), len(ages)) == (None, 0)


def test_forget_removes_an_owner_from_both_generations():
    ages = AgeTracker(4)
    for name in "abc":
        ages.note(name, 1)
    assert ages.since("a") == 1  # of the earlier, and kept again
    ages.forget("a")
    assert ages.since("a") is None


OPERATIONS = st.lists(st.tuples(st.sampled_from(["note", "since", "forget"]), st.integers(0, 12)))


@given(OPERATIONS, st.integers(2, 10))
def test_at_least_the_most_recent_half_is_remembered(operations, count_max):
    """Law: of an unbounded record in order of use, it keeps the latest half, and may keep more."""
    ages, book = AgeTracker(count_max), OrderedDict[str, int]()
    for group, (what, number) in enumerate(operations):
        name = str(number)
        recent = [*book][-(count_max // 2) :]
        if what == "forget":
            ages.forget(name)
            book.pop(name, None)
        elif what == "since":
            since = ages.since(name)
            assert since is None or since == book[name]
            assert name not in recent or since == book[name]
            if since is None:
                book.pop(name, None)
            else:
                book.move_to_end(name)
        else:
            if ages.since(name) is None:
                book.pop(name, None)
            ages.note(name, group)
            book.setdefault(name, group)
            book.move_to_end(name)
        assert len(ages) <= count_max
