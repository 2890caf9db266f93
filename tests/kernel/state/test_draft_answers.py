"""Answers of rules to their submitter: in the verdict, in the log, and from read-only kinds."""

from collections.abc import Callable, Mapping

import pytest
from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Kernel, Kind
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.log.record import AdmittedWithOutput, decode_record, record_as_dict, record_type

COUNT = ("clerk.books", "count", "value")


class Nothing(TypedDict):
    pass


def add(draft: Draft, _intent: Intent) -> None:
    draft.put(*COUNT, draft.get(*COUNT) + 1)


def tell(draft: Draft, _intent: Intent) -> None:
    draft.answer({"count": draft.get(*COUNT), "seen": [1, 2]})


class Counters(Domain):
    name = "clerk"
    version = "1"

    def __init__(self, tell_rule: object = tell) -> None:
        self.kinds = (
            Kind("Add", Nothing, add),
            Kind("Tell", Nothing, tell_rule, risk="read"),  # type: ignore[arg-type]  # a test's own
        )

    def on_open(self, draft: Draft) -> None:
        draft.create("clerk.books", "count", {"value": 0})


def world(records: list[bytes], domain: Domain | None = None) -> Kernel:
    kernel = Kernel(domain or Counters(), sink=records.append)
    kernel.register_agent("ann")
    return kernel


def batch(*kinds: str) -> list[Mapping[str, Json]]:
    return [
        {
            "kind": kind,
            "payload": {},
            "agent_id": "ann",
            "req_id": f"{kind}-{n}",
            "context_seq": 0,
            "priority": 0,
            "schema_version": "1.0.0",
        }
        for n, kind in enumerate(kinds)
    ]


def test_an_answer_reads_the_changes_of_earlier_intents_of_the_batch() -> None:
    verdict = world([]).decide(batch("Tell", "Add", "Tell"))
    assert [result.output for result in verdict.results] == [
        {"count": 0, "seen": (1, 2)},
        None,
        {"count": 1, "seen": (1, 2)},
    ]
    told = [result.as_dict() for result in verdict.results]
    assert told[2]["output"] == {"count": 1, "seen": [1, 2]}
    assert "output" not in told[1], "a result that told nothing is as it always was"


def test_a_dry_run_answers_and_leaves_no_trace() -> None:
    records: list[bytes] = []
    kernel = world(records)
    before = kernel.digest(), len(records)
    verdict = kernel.decide({"intents": batch("Add", "Tell"), "dry_run": True})
    assert verdict.results[1].output == {"count": 1, "seen": (1, 2)}
    assert (kernel.digest(), len(records)) == before


def test_the_log_keeps_the_answer_and_verify_decides_it_again() -> None:
    records: list[bytes] = []
    kernel = world(records)
    kernel.decide(batch("Add", "Tell"))
    record = decode_record(records[-1])
    assert isinstance(record, AdmittedWithOutput)
    assert record_type(record) == "batch"
    assert record_as_dict(record)["answers"] == [(1, {"count": 1, "seen": [1, 2]})]
    assert folded(records).state.digest().hex() == kernel.digest()


def test_verify_names_an_answer_that_differs() -> None:
    records: list[bytes] = []
    world(records).decide(batch("Add", "Tell"))

    def tell_otherwise(draft: Draft, _intent: Intent) -> None:
        draft.answer("nothing")

    same, other = Verifier([Counters()]), Verifier([Counters(tell_otherwise)])
    for data in records[:-1]:
        same.apply(data)
        other.apply(data)
    same.apply(records[-1])
    with pytest.raises(DecisionMismatch) as raised:
        other.apply(records[-1])
    assert raised.value.difference.part == "an answer"


def test_verify_compares_the_answers_of_all_intents() -> None:
    records: list[bytes] = []
    world(records).decide(batch("Tell", "Add", "Tell"))

    def answer_the_second_differently(draft: Draft, intent: Intent) -> None:
        tell(draft, intent) if draft.get(*COUNT) == 0 else draft.answer("nothing")

    verifier = Verifier([Counters(answer_the_second_differently)])
    for data in records[:-1]:
        verifier.apply(data)
    with pytest.raises(DecisionMismatch) as raised:
        verifier.apply(records[-1])
    difference = raised.value.difference
    assert (difference.part, difference.decided) == ("an answer", "nothing")


def test_a_read_kind_that_changes_state_is_refused() -> None:
    kernel = world([], Counters(tell_rule=add))
    before = kernel.digest()
    verdict = kernel.decide(batch("Tell"))
    assert verdict.codes == ("rule_error",)
    assert kernel.digest() == before


class Shelf(Domain):
    """One entity with two fields, and every way to change it."""

    name = "shelf"
    version = "1"

    def __init__(self, rule: Callable[[Draft], None]) -> None:
        def act(draft: Draft, _intent: Intent) -> None:
            rule(draft)

        self.kinds = (Kind("Act", Nothing, act),)

    def on_open(self, draft: Draft) -> None:
        draft.create("shelf.books", "a", {"title": "A", "pages": 1})
        draft.create("shelf.books", "empty")
        draft.create("shelf.books", "sized", {"size": [1, 0.0]})


def remade(draft: Draft) -> None:
    draft.delete("shelf.books", "a")
    draft.create("shelf.books", "a", {"title": "Z", "year": 2})


def made_and_unmade(draft: Draft) -> None:
    draft.create("shelf.books", "b", {"title": "B"})
    draft.delete("shelf.books", "b")


def remade_empty(draft: Draft) -> None:
    draft.delete("shelf.books", "empty")
    draft.create("shelf.books", "empty")
    draft.create("shelf.books", "b")
    draft.delete("shelf.books", "b")


def put_twice(draft: Draft) -> None:
    draft.put("shelf.books", "a", "pages", 2)
    draft.put("shelf.books", "a", "pages", 3)
    draft.put("shelf.books", "a", "title", "A")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (put_twice, [("shelf.books/a/pages", "replace", 1, 3)]),
        (
            remade,
            [
                ("shelf.books/a/pages", "remove", 1, None),
                ("shelf.books/a/title", "replace", "A", "Z"),
                ("shelf.books/a/year", "add", None, 2),
            ],
        ),
        (made_and_unmade, []),
        (
            lambda draft: draft.create("shelf.books", "c"),
            [("shelf.books/c", "add", None, None)],
        ),
        (
            lambda draft: draft.delete("shelf.books", "empty"),
            [("shelf.books/empty", "remove", None, None)],
        ),
        (remade_empty, []),
        (
            lambda draft: draft.put("shelf.books", "sized", "size", [True, -0.0]),
            [("shelf.books/sized/size", "replace", (1, 0.0), (True, -0.0))],
        ),
        (
            lambda draft: draft.create("shelf.books", "c", {"title": "C"}),
            [("shelf.books/c/title", "add", None, "C")],
        ),
        (
            lambda draft: draft.delete("shelf.books", "a"),
            [
                ("shelf.books/a/pages", "remove", 1, None),
                ("shelf.books/a/title", "remove", "A", None),
            ],
        ),
    ],
)
def test_a_dry_run_previews_the_changes(
    rule: Callable[[Draft], None], expected: list[tuple[str, str, Json, Json]]
) -> None:
    kernel = world([], Shelf(rule))
    before = kernel.digest()
    verdict = kernel.decide({"intents": batch("Act"), "dry_run": True})
    assert [(one.path, one.op, one.old, one.new) for one in verdict.diff] == expected
    assert "diff" not in verdict.as_dict(), "it may hold what the submitter may not see"
    assert kernel.digest() == before
    assert kernel.decide(batch("Act")).diff == ()
