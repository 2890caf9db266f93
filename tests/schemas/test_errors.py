"""The documented exceptions: one for each kind of refusal, and their attributes."""

from operator import delitem, setitem
from types import MappingProxyType
from typing import Any

import pytest

from placet.schemas.codec import freeze
from placet.schemas.errors import (
    AgentError,
    BackpressureError,
    ClosedError,
    DuplicateRequestError,
    IntentError,
    PermissionDeniedError,
    PlacetError,
    QuotaExceededError,
    StaleContextError,
    StoreError,
    ValidationError,
    advice_on,
    describe_error,
    error_of,
    error_type,
)
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

SHOWN: Any = MappingProxyType({"a": 1})
"""The fields of an entity, as a rule and a view show them."""

TYPE_OF_STAGE: dict[Stage, type[PlacetError]] = {
    Stage.ADMISSION: BackpressureError,
    Stage.STRUCTURE: IntentError,
    Stage.AGENT: AgentError,
    Stage.DEDUP: DuplicateRequestError,
    Stage.STALENESS: StaleContextError,
    Stage.QUOTA: QuotaExceededError,
    Stage.BACKPRESSURE: BackpressureError,
    Stage.DOMAIN: ValidationError,
}
PERMISSIONS = {RefusalCode.UNAUTHORIZED, RefusalCode.PERMISSION_DENIED}


def verdict_of(*refusals):
    return Verdict("b1", admitted=False, seq=None, current_seq=42, sim_time=1.0, refusals=refusals)


def refusal(code, **fields):
    return Refusal(str(code), f"because of {code}", STAGE_OF.get(code, Stage.DOMAIN), **fields)


@pytest.mark.parametrize("code", RefusalCode)
def test_each_code_has_its_exception(code):
    error = error_of(verdict_of(refusal(code)))
    expected = PermissionDeniedError if code in PERMISSIONS else TYPE_OF_STAGE[STAGE_OF[code]]
    assert type(error) is expected is error_type(refusal(code))
    assert isinstance(error, PlacetError)
    assert error.code == code
    assert str(error) == f"because of {code} ({code})"


def test_a_code_of_a_domain_is_a_validation_error():
    assert type(error_of(verdict_of(refusal("world.out_of_bounds")))) is ValidationError


def test_a_structure_error_is_a_value_error():
    assert issubclass(IntentError, ValueError)


def test_an_error_has_the_verdict_and_the_number_of_further_refusals():
    verdict = verdict_of(refusal("conflict"), refusal("rule_error"), refusal("lab.odd"))
    error = error_of(verdict)
    assert list(error.refusals) == list(verdict.refusals)
    assert error.verdict is verdict
    assert str(error) == "because of conflict (conflict, and 2 more)"
    placed = error_of(verdict_of(refusal("conflict", at="/intents/1")))
    assert str(placed) == "because of conflict (conflict at /intents/1)"


def test_a_stale_context_error_has_both_seqs_and_the_changes():
    changed = ({"entity": "a", "seq": 7, "by": "bob", "now": None},)
    found = refusal("stale_context", changed=changed, details={"context_seq": 5})
    error = error_of(verdict_of(found))
    assert isinstance(error, StaleContextError)
    assert (error.current_seq, error.context_seq, error.changed) == (42, 5, changed)
    repeated = error_of(verdict_of(refusal("stale_context")))
    assert isinstance(repeated, StaleContextError)
    assert repeated.context_seq is None


def test_a_quota_error_has_agent_kind_and_retry_after():
    details = {"agent_id": "alice", "kind": "Speak"}
    error = error_of(verdict_of(refusal("quota_exceeded", retry_after=0.5, details=details)))
    assert isinstance(error, QuotaExceededError)
    assert (error.agent_id, error.kind, error.retry_after) == ("alice", "Speak", 0.5)
    never = error_of(verdict_of(refusal("batch_exceeds_burst")))
    assert isinstance(never, QuotaExceededError)
    assert never.retry_after is None


@pytest.mark.parametrize("code", ["queue_full", "executor_busy"])
def test_a_backpressure_error_has_reason_and_retry_after(code):
    error = error_of(verdict_of(refusal(code, retry_after=2.0)))
    assert isinstance(error, BackpressureError)
    assert (error.reason, error.retry_after) == (code, 2.0)


def test_an_error_without_a_batch_has_no_refusals():
    store = StoreError("torn", store="town.db", seq=7)
    assert (store.store, store.seq, store.code, store.refusals) == ("town.db", 7, None, ())
    assert StoreError("gone").seq is None
    assert ClosedError("closed").verdict is None


def test_an_error_whose_text_raises_is_described_by_its_type():
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe_error(MuteError()).startswith("MuteError")


@pytest.mark.parametrize(
    "write",
    [
        lambda: freeze([1]).append(2),
        lambda: setitem(freeze([1]), 0, 2),
        lambda: setitem(SHOWN, "a", 2),
        lambda: delitem(SHOWN, "a"),
        lambda: SHOWN.update(a=2),
    ],
)
def test_a_write_into_a_value_of_a_state_is_described_with_the_way_to_do_it(write):
    with pytest.raises((TypeError, AttributeError)) as caught:
        write()
    assert describe_error(caught.value).endswith("by draft.put, or propose it in an intent")


@pytest.mark.parametrize("error", [AttributeError("a"), TypeError("b"), KeyError("c")])
def test_another_error_is_described_without_advice(error):
    assert advice_on(error) == ""
    assert describe_error(error) == f"{type(error).__name__}: {error}"


def test_an_error_without_a_text_is_described_by_its_type():
    assert describe_error(ValueError()) == "ValueError"
