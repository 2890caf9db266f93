"""Responses with a JSON body."""

from collections.abc import Mapping

from starlette.responses import Response

from placet.schemas.codec import Json, to_json


def json_response(
    value: Json, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build a response with a plain value as its JSON body."""
    return Response(to_json(value), status, dict(headers or {}), "application/json")
