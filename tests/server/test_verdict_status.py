"""One table defines the HTTP status of a verdict; code, docs and tests read it."""

import math
from pathlib import Path

import pytest

from placet.runtime.verdict_json import verdict_line
from placet.schemas.codec import canonical, from_json, to_json
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.server.http.verdict_status import (
    retry_after,
    status_of,
    status_table,
)
from placet.server.openapi import VERDICT_ANSWERS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http_api.md"

# Written out once more, from the specification: 409 stale and reused, 429 quota, 503 load, 422
# malformed, 404 unknown, 403 forbidden.
EXPECTED = {
    "queue_full": 503,
    "overloaded": 503,
    "shed": 503,
    "timeout": 503,
    "ingress_rate_exceeded": 429,
    "log_rate_exceeded": 429,
    "unauthorized": 403,
    "batch_empty": 422,
    "batch_too_large": 413,
    "field_missing": 422,
    "field_invalid": 422,
    "field_unknown": 422,
    "version_unsupported": 422,
    "kind_unknown": 422,
    "payload_invalid": 422,
    "payload_too_large": 413,
    "agent_unknown": 404,
    "agent_suspended": 403,
    "agent_not_yours": 403,
    "permission_denied": 403,
    "req_id_reused": 409,
    "req_id_too_old": 409,
    "context_from_future": 409,
    "expired": 409,
    "stale_context": 409,
    "condition_failed": 409,
    "context_too_old": 409,
    "quota_exceeded": 429,
    "batch_exceeds_burst": 422,
    "work_exceeded": 422,
    "executor_busy": 503,
    "schedule_full": 503,
    "sim_time_too_far": 422,
    "conflict": 409,
    "invariant_violated": 422,
    "rule_error": 500,
    "leased": 409,
    "lease_unknown": 404,
    "lease_refused": 409,
    "budget_exceeded": 429,
    "tool_unregistered": 422,
}


def verdict(code: str = "", retry: float | None = None, stage: Stage | None = None) -> Verdict:
    refusals: tuple[Refusal, ...] = ()
    if code:
        refusals = (Refusal(code, "no", stage or STAGE_OF[code], retry_after=retry),)
    return Verdict("b1", not code, None, 0, 0.0, refusals)


@pytest.mark.parametrize("code", list(RefusalCode))
def test_every_code_has_the_status_of_the_specification(code):
    assert status_of(verdict(code)) == EXPECTED[code]


def test_an_admitted_batch_is_200_and_a_scheduled_one_202():
    admitted = verdict()
    assert status_of(admitted) == 200
    admitted.scheduled = True
    assert status_of(admitted) == 202


def test_work_that_fits_after_a_wait_is_429_and_work_that_never_fits_is_422():
    assert status_of(verdict("work_exceeded", retry=2.0)) == 429
    assert status_of(verdict("work_exceeded")) == 422


def test_a_code_of_a_domain_has_the_status_of_its_stage():
    assert status_of(verdict("world.out_of_bounds", stage=Stage.DOMAIN)) == 422


def test_every_code_is_in_the_table():
    rows = status_table()
    assert [code for _, code, _ in rows[2:-1]] == list(STAGE_OF)
    assert {code: status for _, code, status in rows[2:-1]} == EXPECTED


def test_the_docs_page_has_the_table():
    page = PAGE.read_text(encoding="utf-8")
    for stage, code, status in status_table():
        assert f"| {stage} | `{code}` | {status} |" in page


def test_the_document_declares_every_status():
    assert {status for _, _, status in status_table()} <= set(VERDICT_ANSWERS)


@pytest.mark.parametrize("seconds", [None, 0.01, 0.5, 1.0, 1.2, 59.7, 1e9])
@pytest.mark.parametrize("code", ["quota_exceeded", "queue_full", "executor_busy", "shed"])
def test_retry_after_is_rounded_up_to_whole_seconds(code, seconds):
    told = retry_after(verdict(code, seconds))
    assert told is not None
    assert told == str(min(math.ceil(seconds or 1), 86_400))
    assert int(told) >= min(seconds or 0, 86_400)


@pytest.mark.parametrize("code", ["stale_context", "batch_exceeds_burst", "field_invalid"])
def test_retry_after_is_absent_when_waiting_does_not_help(code):
    assert retry_after(verdict(code, 5.0)) is None
    assert retry_after(verdict()) is None


def test_the_text_of_a_verdict_has_the_message_of_the_rule():
    verdict = Verdict("b1", True, 2, 2, 0.0)
    encoded = canonical([["alice", name, "Add", {"amount": 1}, 10] for name in ("r1", "r2")])
    verdict.attach(["r1", "r2"], encoded, [1, 2])
    verdict._outputs = {1: {"found": 3}}
    line = verdict_line(verdict)
    assert line == to_json(verdict.as_dict())
    first, second = from_json(line)["results"]
    assert "output" not in first
    assert second["output"] == {"found": 3}
