"""Routes of the server's own state: liveness, readiness, and Prometheus metrics."""

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import PlainTextResponse, Response

from placet.kernel.kernel import Kernel
from placet.schemas.codec import to_json
from placet.server.context import context_of
from placet.server.http.problems import Problem
from placet.server.openapi import answers

router = APIRouter(tags=["health"])

_ANSWER_SECONDS_MAX: Final = 2.0
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", summary="Liveness", responses=answers(200, "Health"))
async def healthz(_request: Request) -> Response:
    """Report liveness. Restart the server if this does not answer."""
    return Response(b'{"status":"ok"}', media_type="application/json")


@router.get("/readyz", summary="Readiness", responses=answers(200, "Health", 503))
async def readyz(request: Request) -> Response:
    """Return whether to send it work: not as it opens or drains, nor once a store has failed."""
    context = context_of(request)
    if context.is_draining:
        raise Problem("unavailable", "the server is shutting down", headers={"retry-after": "1"})
    if not context.worlds.is_open:
        raise Problem("unavailable", "no world is open yet", headers={"retry-after": "1"})
    try:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            for _, world in context.worlds.all():
                await world.query(_nothing)
    except TimeoutError:
        raise Problem("unavailable", "a world does not answer in time") from None
    return Response(to_json({"status": "ok"}), media_type="application/json")


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=PlainTextResponse,
    responses=answers(200, "", 401, 403, 404, 422),
)
async def metrics(
    request: Request, world: Annotated[str | None, Query(max_length=128)] = None
) -> Response:
    """Return the metrics of a world, at most a second old; the operator's, unless opened."""
    context = context_of(request)
    if not context.config.metrics_open:
        context.operator(request)
    asked = context.world(world) if world else context.worlds.first
    return Response(await context.metrics.text(asked), media_type=_METRICS_TYPE)


def _nothing(_kernel: Kernel) -> None:
    """Look at nothing: that it comes back says that the world decides and its store writes."""
