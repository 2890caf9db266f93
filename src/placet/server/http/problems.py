"""Errors without a verdict: problem documents (RFC 9457), one table of them."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from placet.schemas.codec import Json, to_json
from placet.schemas.errors import (
    AgentError,
    ClosedError,
    IntentError,
    OwnerError,
    PlacetError,
    PositionError,
    ReadOnlyError,
    StoreError,
    TimeStalledError,
    ValidationError,
)
from placet.schemas.portable_error import PortableError
from placet.server.http.request_id import HEADER, KEY

MEDIA_TYPE: Final = "application/problem+json"
_POLICY_VIOLATION: Final = 1008
"""Code with which a WebSocket is closed."""

STATUS_OF_PROBLEM: Final[Mapping[str, HTTPStatus]] = {
    "request_malformed": HTTPStatus.BAD_REQUEST,
    "unauthenticated": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "body_late": HTTPStatus.REQUEST_TIMEOUT,
    "conflict": HTTPStatus.CONFLICT,
    "gone": HTTPStatus.GONE,
    "body_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "media_type_unsupported": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "expectation_failed": HTTPStatus.EXPECTATION_FAILED,
    "request_invalid": HTTPStatus.UNPROCESSABLE_ENTITY,
    "version_required": HTTPStatus.PRECONDITION_REQUIRED,
    "busy": HTTPStatus.TOO_MANY_REQUESTS,
    "head_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "internal": HTTPStatus.INTERNAL_SERVER_ERROR,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
}

PROBLEM_OF_STATUS: Final = {int(status): code for code, status in STATUS_OF_PROBLEM.items()}
"""Status -> the one code of problems with it."""

STORE_FAILED: Final = (
    "the store cannot be read or written now; try again later, or ask the operator"
)
"""Detail for a caller without the operator's token: the error itself names the store."""

_NO_POSITION: Final = "the log of this world has no such seq, record or tick"

_READ_ONLY: Final = "this world is open read-only here; ask the operator where it is written"

_PROBLEM_OF: Final[Mapping[type[PlacetError], str]] = {
    OwnerError: "conflict",
    AgentError: "request_invalid",
    IntentError: "request_invalid",
    ValidationError: "request_invalid",
    ClosedError: "unavailable",
    PositionError: "not_found",
    ReadOnlyError: "forbidden",
    StoreError: "unavailable",
    TimeStalledError: "unavailable",
}


class Problem(PortableError):  # noqa: N818  # RFC 9457's word
    """An error that a route raises: a request without a verdict, answered by a problem document.

    Args:
        code: One of `STATUS_OF_PROBLEM`.
        detail: Failed check, expected value, actual value, and the remedy.
        operator_detail: Detail for the operator's token instead, such as where the store is; None
            for the same detail.
        headers: Additional headers of the response.
        more: Additional members of the document.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        operator_detail: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Json,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.operator_detail = operator_detail
        self.headers = headers
        self.more = more

    def document(self, *, is_operator: bool = False) -> dict[str, Json]:
        """Return the problem document (RFC 9457)."""
        detail = (self.operator_detail if is_operator else None) or self.detail
        return _members(STATUS_OF_PROBLEM[self.code], self.code, detail, self.more)

    def response(self, *, is_operator: bool = False) -> Response:
        """Return the response with the problem document (RFC 9457)."""
        status = STATUS_OF_PROBLEM[self.code]
        return _response(status, self.document(is_operator=is_operator), self.headers)


def code_of_status(status: int) -> str:
    """Return the code of the problem with a status; `request_invalid` for a status of none."""
    return PROBLEM_OF_STATUS.get(status, "request_invalid")


def busy(detail: str, seconds: float) -> Problem:
    """Return the problem of a caller that may send the request again after some seconds."""
    headers = {"retry-after": str(max(ceil(seconds), 1))}
    return Problem("busy", detail, headers=headers, retry_after=seconds)


def _document(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    return _response(status, _members(status, code, detail, {}), headers)


def _members(status: int, code: str, detail: str, more: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "type": f"urn:placet:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "code": code,
        **more,
    }


def _response(
    status: int, document: Mapping[str, Json], headers: Mapping[str, str] | None
) -> Response:
    return Response(to_json(document), int(status), dict(headers or {}), MEDIA_TYPE)


def problem_of(error: PlacetError) -> Problem:
    """Convert an exception of a world to the problem to answer with."""
    for kind in type(error).__mro__:
        code = _PROBLEM_OF.get(kind)
        if code is not None:
            headers = {"retry-after": "1"} if code == "unavailable" else None
            codes: dict[str, Json] = {} if error.code is None else {"refusal": error.code}
            if isinstance(error, PositionError):
                return Problem(code, _NO_POSITION, operator_detail=str(error))
            if not isinstance(error, StoreError):
                return Problem(code, str(error), headers=headers, **codes)
            detail = _READ_ONLY if isinstance(error, ReadOnlyError) else STORE_FAILED
            return Problem(code, detail, operator_detail=str(error), headers=headers, **codes)
    return Problem("internal", "the request could not be carried out; the server's log says why")


async def on_placet_error(request: Request, error: Exception) -> Response:
    """Return the response to a `Problem`, or to an exception of a world (a Starlette handler)."""
    assert isinstance(error, Problem | PlacetError), "registered for errors of placet"
    problem = error if isinstance(error, Problem) else problem_of(error)
    is_operator = problem.operator_detail and request.app.state.context.is_operator(request)
    return problem.response(is_operator=bool(is_operator))


async def on_http_error(request: Request, error: Exception) -> Response:
    """Return the response to an error of Starlette, such as an unknown path or method."""
    assert isinstance(error, HTTPException), "registered for errors of the framework"
    code = code_of_status(error.status_code)
    headers = dict(error.headers or {})
    if "Allow" in headers:  # in the order of a set
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:  # the framework's detail is the phrase alone
        detail = f"there is no path {request.url.path!r}; /openapi.json lists all paths"
    return _document(error.status_code, code, detail, headers)


async def deny(socket: WebSocket, problem: Problem) -> None:
    """Refuse a WebSocket handshake with a problem document, or with a close code."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(problem.response())
    else:
        await socket.close(_POLICY_VIOLATION, problem.code)


async def on_fault(request: Request, _error: Exception) -> Response:
    """Return the response 500 to an unexpected exception, which the server logs."""
    request_id: bytes | None = request.scope.get(KEY)
    headers = None if request_id is None else {HEADER: request_id.decode()}
    detail = "the server failed on this request; its log says why"
    return _document(500, "internal", detail, headers)
