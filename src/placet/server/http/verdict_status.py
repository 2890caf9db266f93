"""From a verdict to its HTTP status, by the table of `kernel/gate/__init__.py`.

The first refusal decides, because all refusals of a verdict are of one stage.
"""

from http import HTTPStatus
from math import ceil
from typing import Final

from placet.kernel.gate import STATUS_OF, STATUS_OF_DOMAIN_CODE
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

ADMITTED: Final = HTTPStatus.OK
SCHEDULED: Final = HTTPStatus.ACCEPTED

_MEANS_LATER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_RETRY_AFTER_S_MAX: Final = 86_400


def status_of_refusal(refusal: Refusal) -> HTTPStatus:
    """Return the HTTP status for the first refusal of a verdict."""
    if refusal.code == RefusalCode.WORK_EXCEEDED and refusal.retry_after is not None:
        return HTTPStatus.TOO_MANY_REQUESTS
    return HTTPStatus(STATUS_OF.get(refusal.code, STATUS_OF_DOMAIN_CODE))


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
    """Return `(stage, code, status)` for every verdict of the gate, in order of precedence."""
    return [
        ("", "admitted", int(ADMITTED)),
        ("", "scheduled", int(SCHEDULED)),
        *((STAGE_OF[code].value, code, status) for code, status in STATUS_OF.items()),
        (Stage.DOMAIN.value, "<domain>.<code>", STATUS_OF_DOMAIN_CODE),
    ]
