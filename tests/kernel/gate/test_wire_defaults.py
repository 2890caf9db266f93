"""Fields that a client may leave out: filled in at the edges, required by the kernel itself."""

import copy
from typing import Any

import pytest

from placet.kernel import Domain, Kernel, Kind
from placet.kernel.gate.wire_defaults import with_defaults, with_ints, with_req_ids
from placet.schemas.identity import OPERATOR
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.verdict import Verdict
from tests.kernel.builders import add, kernel_of

BARE: dict[str, Any] = {"kind": "Add", "payload": {"amount": 1}, "req_id": "r"}
FULL = {
    **BARE,
    "agent_id": "alice",
    "context_seq": 7,
    "priority": 10,
    "schema_version": SCHEMA_VERSION,
}


@pytest.mark.parametrize(
    ("raw", "filled"),
    [
        (BARE, FULL),
        ([BARE, {**BARE, "priority": 3}], [FULL, {**FULL, "priority": 3}]),
        ({"intents": [BARE], "dry_run": True}, {"intents": [FULL], "dry_run": True}),
        ([{**BARE, "agent_id": None}], [{**FULL, "agent_id": None}]),
        ([BARE, 3], [FULL, 3]),
    ],
)
def test_missing_fields_get_defaults_in_a_copy(raw, filled):
    before = copy.deepcopy(raw)
    assert with_defaults(raw, "alice", 7, 512) == filled
    assert raw == before


@pytest.mark.parametrize(
    "raw", [FULL, [FULL], {"intents": [FULL]}, {"intents": 3}, 3, None, [], [1]]
)
def test_a_batch_without_missing_fields_is_returned_as_it_is(raw):
    assert with_defaults(raw, "alice", 7, 512) is raw
    assert with_req_ids(raw, "key", 512) is raw


def test_a_batch_that_is_too_long_is_not_copied():
    raw = [BARE] * 3
    assert with_defaults(raw, "alice", 7, 2) is raw


def test_the_operator_must_name_the_agent():
    filled: Any = with_defaults(BARE, OPERATOR, 7, 512)
    assert set(FULL) - set(filled) == {"agent_id"}


def test_an_idempotency_key_numbers_the_intents_of_a_batch():
    bare = {"kind": "Add"}
    named = {"kind": "Add", "req_id": "mine"}
    assert with_req_ids(bare, "key", 512) == {"kind": "Add", "req_id": "key"}
    assert with_req_ids([bare], "key", 512) == [{"kind": "Add", "req_id": "key"}]
    several: Any = with_req_ids({"intents": [bare, named, bare]}, "key", 512)
    assert [i["req_id"] for i in several["intents"]] == ["key:0", "mine", "key:2"]


def test_one_refusal_names_all_missing_fields_of_an_intent():
    verdict: Any = kernel_of().check([{"kind": "Add", "payload": {"amount": 1}}, add("r"), {}])
    first, last = verdict.refusals
    assert (first.code, first.index, first.at) == ("field_missing", 0, "/intents/0/agent_id")
    assert first.details["missing"] == [
        "agent_id",
        "req_id",
        "context_seq",
        "priority",
        "schema_version",
    ]
    assert "fields 'agent_id', 'req_id', 'context_seq', 'priority'" in first.message
    assert (last.index, last.details["missing"][0]) == (2, "kind")


def test_the_kernel_fills_in_only_when_it_is_asked_to():
    kernel = kernel_of()
    assert not hasattr(kernel.check(BARE, "alice"), "intents")
    batch: Any = kernel.check(BARE, "alice", fill_missing=True)
    (filled,) = batch.intents
    assert (filled["agent_id"], filled["context_seq"]) == ("alice", kernel.seq)
    still: Any = kernel.check({"kind": "Add", "payload": {"amount": 1}}, "alice", fill_missing=True)
    assert still.refusals[0].details["missing"] == ["req_id"]


@pytest.mark.parametrize(
    "form", [lambda one: one, lambda one: [one], lambda one: {"intents": [one]}]
)
def test_a_whole_float_is_an_int_where_it_was_refused(form):
    at = [f"/intents/0/{place}" for place in ("payload/n/1", "payload/x", "payload")]
    raw = form({"priority": 3.0, "context_seq": 1.0, "payload": {"n": [1.0, 2.5, 2.0], "m": 5.0}})
    before = copy.deepcopy(raw)
    whole = with_ints(raw, at)
    assert repr(whole) == repr(
        form({"priority": 3, "context_seq": 1, "payload": {"n": [1, 2.5, 2], "m": 5.0}})
    )
    assert repr(raw) == repr(before)


@pytest.mark.parametrize("value", [1.5, 1e300, -(2.0**63), "3.0", True, None, {}, [], 3])
def test_other_values_stay_as_they_are(value):
    for raw in (value, [{"n": value}], {"intents": value}, {"intents": [{"n": value}]}):
        assert with_ints(raw, ["/intents/0/n", "/intents/0", "", "/intents"]) is raw


def test_a_place_counts_for_all_intents_of_its_kind():
    raw = [{"kind": kind, "payload": {"n": 1.0}} for kind in ("A", "B", "A", ["A"])]
    whole = [
        {"kind": kind, "payload": {"n": n}} for kind, n in zip("ABA", (1, 1.0, 1), strict=True)
    ]
    assert repr(with_ints(raw, ["/intents/0/payload/n"])) == repr([*whole, raw[3]])


def test_more_whole_floats_than_refusals_are_listed_are_taken():
    kernel = kernel_of()
    amounts = [{"amount": 1.0}] * 512
    batch = [{**add(f"r{n}"), "priority": 1.0, "payload": p} for n, p in enumerate(amounts)]
    assert isinstance(kernel.check(batch), Verdict)
    assert not isinstance(kernel.check(batch, fill_missing=True), Verdict)


def test_whole_floats_of_a_kind_beyond_the_listed_refusals_are_taken():
    kernel = kernel_of()
    kinds = ["Add"] * 40 + ["Take"]
    batch = [{**add(f"r{n}"), "kind": k, "payload": {"amount": 1.0}} for n, k in enumerate(kinds)]
    assert not isinstance(kernel.check(batch, fill_missing=True), Verdict)


class ManyKinds(Domain):
    """A domain of four kinds with an int each."""

    name, version = "many", "1"
    kinds = tuple(Kind(f"Add{n}", dict[str, int], lambda _draft, _intent: None) for n in range(4))


@pytest.mark.parametrize(("count", "is_taken"), [(3, True), (4, False)])
def test_whole_floats_of_more_kinds_than_passes_are_named(count, is_taken):
    kernel = Kernel([ManyKinds()])
    kernel.register_agent("alice")
    kinds = [f"Add{n}" for n in range(count) for _ in range(40)]
    batch = [{**add(f"r{n}"), "kind": k, "payload": {"n": 1.0}} for n, k in enumerate(kinds)]
    checked = kernel.check(batch, fill_missing=True)
    assert isinstance(checked, Verdict) is not is_taken
    if isinstance(checked, Verdict):
        assert {batch[one.index or 0]["kind"] for one in checked.refusals} == {"Add3"}


def test_the_kernel_takes_whole_floats_at_an_edge_alone():
    kernel = kernel_of()
    one = {**add("r", 2), "priority": 10.0, "payload": {"amount": 2.0}}
    refused = kernel.check([one])
    assert isinstance(refused, Verdict)
    at = [refusal.at for refusal in refused.refusals]
    assert at == ["/intents/0/priority", "/intents/0/payload/amount"]
    checked = kernel.check([one], fill_missing=True)
    assert kernel.decide(checked).admitted
    again = kernel.decide([add("r", 2)])
    assert again.admitted
    assert again.replayed
