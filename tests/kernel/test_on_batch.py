"""`on_batch`: runs once per batch, after its rules, and not for a refused batch."""

from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, Kind, refuse
from placet.schemas.identity import Ref
from tests.kernel.builders import intent

NOTES = "book.notes"


class Write(TypedDict):
    to: str
    text: str


def write(draft, intent):
    to, text = intent["payload"]["to"], intent["payload"]["text"]
    if text == "never":
        return refuse("never", "not this")
    if text == "gone":
        draft.delete(NOTES, to)
    elif draft.exists(NOTES, to):
        draft.put(NOTES, to, "text", text)
    else:
        draft.create(NOTES, to, {"text": text})
    return None


class Book(Domain):
    """Counts its batches, and keeps what each replaced."""

    name, version, kinds = "book", "1", [Kind("Write", Write, write)]

    def __init__(self):
        self.fails = False

    def on_open(self, draft):
        draft.create("book.about", "book", {"batches": 0, "replaced": ()})

    def on_batch(self, draft):
        replaced = tuple(step for step in draft.previous_values())
        draft.put("book.about", "book", "batches", draft.get("book.about", "book", "batches") + 1)
        draft.put("book.about", "book", "replaced", replaced)
        if self.fails:
            raise ZeroDivisionError


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def kernel(book):
    kernel = Kernel(book)
    kernel.register_agent("alice")
    return kernel


def propose(kernel, *notes):
    first = kernel.record_count
    intents = [
        intent("Write", {"to": to, "text": text}, f"r{first}.{n}")
        for n, (to, text) in enumerate(notes)
    ]
    return kernel.decide(intents)


def about(kernel):
    return kernel.state["book.about"]["book"]


def test_on_batch_runs_once_per_batch(kernel):
    propose(kernel, ("a", "1"), ("b", "2"), ("a", "3"))
    propose(kernel, ("a", "4"))
    assert about(kernel)["batches"] == 2


def test_previous_values_are_in_order_without_creations_and_deletions(kernel):
    propose(kernel, ("a", "1"), ("a", "2"), ("b", "3"), ("b", "gone"))
    assert about(kernel)["replaced"] == ((NOTES, "a", "text", "1"),)
    propose(kernel, ("a", "5"), ("a", "6"))
    assert [old for *_, old in about(kernel)["replaced"]] == ["2", "5"]


@settings(max_examples=60, deadline=None)
@given(
    before=st.sets(st.sampled_from("abc")),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["text", "gone"]))),
)
def test_created_and_deleted_entities_are_the_difference_of_the_states(before, steps):
    """Law: the entities before, without the deleted and with the created, are those after."""

    class Witness(Book):
        seen: tuple[list[Ref], list[Ref]] = ([], [])

        def on_batch(self, draft):
            self.seen = draft.created_and_deleted()

    domain = Witness()
    kernel = Kernel(domain)
    kernel.register_agent("alice")
    propose(kernel, *[(to, "old") for to in sorted(before)])
    there, possible = set(before), [("z", "text")]
    for to, text in steps:
        if text == "text" or to in there:  # none is deleted that is not there
            possible.append((to, text))
            (there.add if text == "text" else there.discard)(to)
    assert propose(kernel, *possible).admitted
    created, deleted = ({ref.entity for ref in refs} for refs in domain.seen)
    after = set(kernel.state[NOTES])
    assert (before - deleted) | created == after
    # No more than that: one that is in both was deleted, and created again.
    assert deleted <= before
    assert created & before <= deleted
    assert {to for to, _ in possible} >= created | deleted


def test_a_new_field_has_no_previous_value():
    class Page(Book):
        def on_batch(self, draft):
            if draft.get("book.about", "book", "color") is None:
                draft.put("book.about", "book", "color", "red")
                [*_, last] = draft.previous_values()
                draft.put("book.about", "book", "replaced", last)

    kernel = Kernel(Page())
    kernel.register_agent("alice")
    propose(kernel, ("a", "1"))
    assert about(kernel)["replaced"] == ("book.about", "book", "color", None)


def test_on_batch_does_not_run_for_a_refused_batch(kernel):
    assert not propose(kernel, ("a", "1"), ("b", "never")).admitted
    assert about(kernel)["batches"] == 0


def test_an_on_batch_that_raises_refuses_its_batch_and_is_reported(kernel, book):
    faults = []
    kernel.rules.on_fault = lambda where, error: faults.append((where, type(error).__name__))
    book.fails = True
    before = kernel.digest()
    verdict = propose(kernel, ("a", "1"))
    assert verdict.codes == ("rule_error",)
    assert kernel.digest() == before
    assert faults == [("on_batch of book", "ZeroDivisionError")]


def test_on_batch_is_optional():
    class Plain(Domain):
        name, version, kinds = "plain", "1", (Kind("Write", Write, write),)

    kernel = Kernel(Plain())
    assert kernel.registry.with_on_batch == ()
    Plain().on_batch(kernel._draft)


def test_worlds_of_the_same_kinds_share_a_validator_and_of_others_do_not():
    one, same = Kernel(Book()), Kernel(Book())
    assert one._structure._validate == same._structure._validate

    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    class Odd(Domain):
        name, version = "odd", "1"
        kinds = (Kind("Write", Annotated[Write, Unhashable(), AfterValidator(dict)], write),)

    odd = Kernel(Odd())
    odd.register_agent("alice")
    assert propose(odd, ("a", "1")).admitted
