"""A rule may check what its whole batch did, and may pin the draws of the intents after it."""

import pytest
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, Kind, refuse
from placet.schemas.foreseen import FieldChange
from tests.kernel.builders import intent


class Number(TypedDict):
    number: int


class Key(TypedDict):
    key: str


def _expect(draft, intent):
    expected = intent["payload"]["number"]

    def check(preview):
        if expected < 0:
            raise ZeroDivisionError
        numbers = [change.new for change in preview.changes if change.field == "number"]
        return None if numbers == [expected] else refuse("other", f"got {numbers}", at="/number")

    draft.check_changes(check)


def _put(draft, intent):
    draft.put("box.boxes", "box", "number", intent["payload"]["number"])


def _pin(draft, intent):
    draft.pin_draws(intent["payload"]["key"])


def _roll(draft, intent):
    draft.put("box.boxes", "box", "number", draft.randint_below(2**60, "die"))


class Box(Domain):
    name, version = "box", "1"
    kinds = (
        Kind("Expect", Number, _expect),
        Kind("Put", Number, _put),
        Kind("Pin", Key, _pin),
        Kind("Roll", Key, _roll),
    )

    def on_open(self, draft):
        draft.create("box.boxes", "box", {"number": 0})

    def on_batch(self, draft):
        draft.put("box.boxes", "box", "last", draft.agent_id)


@pytest.fixture
def kernel():
    kernel = Kernel(Box())
    kernel.register_agent("alice")
    return kernel


def expect(number, req_id="e"):
    return intent("Expect", {"number": number}, req_id)


def put(number, req_id="p"):
    return intent("Put", {"number": number}, req_id)


def test_a_check_sees_the_whole_batch_wherever_its_intent_is(kernel):
    assert kernel.decide([expect(5, "1"), put(4, "2"), put(5, "3")]).admitted
    verdict = kernel.decide([put(6, "4"), expect(5, "5"), put(7, "6")])
    [refusal] = verdict.refusals
    assert (refusal.code, refusal.index, refusal.at) == (
        "box.other",
        1,
        "/intents/1/payload/number",
    )
    assert kernel.state["box.boxes"]["box"]["number"] == 5


def test_a_check_that_raises_refuses_its_batch(kernel):
    verdict = kernel.decide([expect(-1), put(1)])
    assert (list(verdict.codes), verdict.refusals[0].index) == (["rule_error"], 0)
    assert kernel.decide([put(1, "q")]).admitted, "a check is of its batch alone"


def test_a_group_checks_each_of_its_batches(kernel):
    group = [expect(5, "1"), put(5, "2"), expect(6, "3")]
    codes = [verdict.codes for verdict in kernel.decide_group([[one] for one in group])]
    assert sorted(codes) == [(), ("box.other",), ("box.other",)]


def test_an_admitted_batch_shows_its_changes_if_that_is_asked_for(kernel):
    batch = kernel.check([put(5)])
    batch.shows_changes = True
    assert kernel.decide(batch).diff == (
        FieldChange("box.boxes", "box", "number", "replace", 0, 5),
        FieldChange("box.boxes", "box", "last", "add", None, "alice"),
    )
    assert kernel.decide([put(6, "q")]).diff == ()


def roll(kernel, key, number, now, rolls=1, **options):
    intents = [intent("Pin", {"key": key}, f"{number}.k")] if key else []
    intents += [intent("Roll", {"key": ""}, f"{number}.{n}") for n in range(rolls)]
    verdict = kernel.decide({"intents": intents, **options}, now)
    assert verdict.admitted
    return verdict


def rolled(kernel, *arguments):
    roll(kernel, *arguments)
    return kernel.state["box.boxes"]["box"]["number"]


def test_pinned_draws_are_the_same_at_any_moment_and_of_one_batch(kernel):
    [shown, _] = roll(kernel, "a", 0, 0.0, dry_run=True).diff
    assert shown.op == "replace", "the value is definite"
    drawn = rolled(kernel, "a", 1, 7.0)
    assert drawn == shown.new == rolled(kernel, "a", 2, 8.0)
    others = [
        rolled(kernel, "b", 3, 8.0),
        rolled(kernel, "a", 4, 8.0, 2),
        rolled(kernel, "", 5, 8.0),
        rolled(kernel, "", 6, 9.0),
    ]
    assert len({drawn, *others}) == 5, "another key, place or moment draws another number"
