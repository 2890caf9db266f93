"""Responses with a JSON body."""

from collections.abc import Mapping

from starlette.responses import Response

from placet.schemas.codec import Json, to_json


def json_response(
    value: Json, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response with a plain value, or its JSON in bytes, as its body."""
    body = value if isinstance(value, bytes) else to_json(value)
    return Response(body, status, dict(headers or {}), "application/json")
