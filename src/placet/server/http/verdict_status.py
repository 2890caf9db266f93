"""From a verdict to its HTTP status: one table, which code, docs and tests read.

The first refusal decides, because all refusals of a verdict are of one stage. A stage has a status,
and some codes have their own, because a client reacts differently to them.
"""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final

from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

ADMITTED: Final = HTTPStatus.OK
SCHEDULED: Final = HTTPStatus.ACCEPTED

STATUS_OF_STAGE: Final[Mapping[Stage, HTTPStatus]] = {
    Stage.ADMISSION: HTTPStatus.SERVICE_UNAVAILABLE,
    Stage.STRUCTURE: HTTPStatus.UNPROCESSABLE_ENTITY,
    Stage.AGENT: HTTPStatus.FORBIDDEN,
    Stage.DEDUP: HTTPStatus.CONFLICT,
    Stage.STALENESS: HTTPStatus.CONFLICT,
    Stage.QUOTA: HTTPStatus.TOO_MANY_REQUESTS,
    Stage.BACKPRESSURE: HTTPStatus.SERVICE_UNAVAILABLE,
    Stage.DOMAIN: HTTPStatus.UNPROCESSABLE_ENTITY,
}

STATUS_OF_CODE: Final[Mapping[str, HTTPStatus]] = {
    RefusalCode.INGRESS_RATE_EXCEEDED: HTTPStatus.TOO_MANY_REQUESTS,
    RefusalCode.LOG_RATE_EXCEEDED: HTTPStatus.TOO_MANY_REQUESTS,
    RefusalCode.UNAUTHORIZED: HTTPStatus.FORBIDDEN,
    RefusalCode.BATCH_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    RefusalCode.PAYLOAD_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    RefusalCode.AGENT_UNKNOWN: HTTPStatus.NOT_FOUND,
    # Waiting never helps, and clients repeat a 429 by themselves.
    RefusalCode.BATCH_EXCEEDS_BURST: HTTPStatus.UNPROCESSABLE_ENTITY,
    # Of a batch that is too large by itself; where waiting helps it is 429.
    RefusalCode.WORK_EXCEEDED: HTTPStatus.UNPROCESSABLE_ENTITY,
    # The request asks for too much, and the world is not busy.
    RefusalCode.SIM_TIME_TOO_FAR: HTTPStatus.UNPROCESSABLE_ENTITY,
    RefusalCode.CONFLICT: HTTPStatus.CONFLICT,
    # The rule's fault and not the client's; the answer stays what it is.
    RefusalCode.RULE_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}

_MEANS_LATER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_RETRY_AFTER_S_MAX: Final = 86_400


def status_of_refusal(refusal: Refusal) -> HTTPStatus:
    """Return the HTTP status for the first refusal of a verdict."""
    if refusal.code == RefusalCode.WORK_EXCEEDED and refusal.retry_after is not None:
        return HTTPStatus.TOO_MANY_REQUESTS
    return STATUS_OF_CODE.get(refusal.code) or STATUS_OF_STAGE[refusal.stage]


def status_of(verdict: Verdict) -> HTTPStatus:
    """Return the HTTP status of a verdict."""
    if verdict.admitted:
        return SCHEDULED if verdict.scheduled else ADMITTED
    return status_of_refusal(verdict.refusals[0])


def retry_after(verdict: Verdict) -> str | None:
    """Return the value of the header `Retry-After` for a verdict: whole seconds, rounded up.

    None if the status is not one that asks to retry later.

    The refusal's `retry_after` is exact; if it has none, the header is 1 second.
    """
    if verdict.admitted or status_of(verdict) not in _MEANS_LATER:
        return None
    seconds = verdict.refusals[0].retry_after or 1.0
    return str(min(ceil(seconds), _RETRY_AFTER_S_MAX))


def status_table() -> list[tuple[str, str, int]]:
    """Return `(stage, code, status)` for every answer of the gate, in order of precedence."""
    rows = [
        ("", "admitted", int(ADMITTED)),
        ("", "scheduled", int(SCHEDULED)),
        *(
            (stage.value, code, int(STATUS_OF_CODE.get(code) or STATUS_OF_STAGE[stage]))
            for code, stage in STAGE_OF.items()
        ),
    ]
    return [*rows, (Stage.DOMAIN.value, "<domain>.<code>", int(STATUS_OF_STAGE[Stage.DOMAIN]))]
