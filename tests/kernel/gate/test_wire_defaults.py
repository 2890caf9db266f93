"""Fields that a client may leave out: filled in at the edges, required by the kernel itself."""

import copy
from typing import Any

import pytest

from placet.kernel.gate.wire_defaults import with_defaults, with_req_ids
from placet.schemas.identity import OPERATOR
from placet.schemas.intent import SCHEMA_VERSION
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
