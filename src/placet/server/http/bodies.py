"""Reads the JSON body of a request within its bounds of bytes, time and media type.

The framework would buffer a body of any size before a route sees it; these functions count the
bytes as they arrive and stop at the bound.
"""

import asyncio
from collections.abc import Mapping

from starlette.requests import Request

from placet.schemas.codec import Json, from_json
from placet.schemas.json_value import format_value
from placet.schemas.limits import HttpLimits
from placet.server.http.problems import Problem


async def read_body(request: Request, limits: HttpLimits) -> bytes:
    """Return the bytes of a JSON body, bounded in size and in time.

    Raises:
        Problem: The body has another media type, is too large, or does not arrive in time.
    """
    _check_media_type(request.headers)
    bytes_max = limits.body_bytes_max
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > bytes_max:
        raise _too_large(bytes_max)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds_max):
            is_at_end = False
            while not is_at_end:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem("body_late", "the connection closed before the end of the body")
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                chunks.append(chunk)
                is_at_end = not message.get("more_body", False)
    except TimeoutError:
        raise Problem(
            "body_late", f"the body took longer than {limits.body_seconds_max} s"
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_document(
    request: Request, limits: HttpLimits, *, is_optional: bool = False
) -> dict[str, Json]:
    """Return the JSON object in the body of a request.

    Args:
        request: The request whose body is read.
        limits: Bounds of the body.
        is_optional: A missing body is read as an empty object.

    Raises:
        Problem: The body is not a JSON object.
    """
    if is_optional and request.headers.get("content-length") == "0":
        return {}  # of whatever media type: `curl -d ""` calls nothing a form
    body = await read_body(request, limits)
    if not body:
        if is_optional:
            return {}
        raise Problem("request_invalid", "the body is empty; it must be a JSON object")
    try:
        value = from_json(body)
    except ValueError as error:
        raise Problem("request_invalid", f"the body must be JSON: {error}") from None
    if type(value) is not dict:
        raise Problem("request_invalid", f"the body must be an object, got {format_value(value)}")
    return value


def _check_media_type(headers: Mapping[str, str]) -> None:
    media_type = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise Problem(
            "media_type_unsupported",
            f"the body must be JSON: send `Content-Type: application/json`, not {media_type!r:.80}",
        )


def _too_large(bytes_max: int) -> Problem:
    # The rest of the body stays unread in the socket, where it would be parsed as the next request.
    return Problem(
        "body_too_large",
        f"the body is larger than {bytes_max} bytes; split the batch",
        headers={"connection": "close"},
    )
