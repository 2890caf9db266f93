"""Routes of the server's own state: liveness, readiness, and Prometheus metrics."""

from typing import Annotated, Final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from placet.schemas.codec import Json
from placet.server.context import context_of
from placet.server.http.parameters import Fields
from placet.server.http.problems import STORE_FAILED, Problem
from placet.server.http.routing import Routes

table = Routes("health", prefix="")

_LOST: Final = "this process cannot open its store any more; ask the operator"
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricsQuery(Fields, frozen=True):
    """The query parameters of `metrics`."""

    world: Annotated[str, Meta(max_length=128)] | None = None


@table.on("GET", "/healthz", "Liveness", "Health", 503, is_hot=True, is_read=False)
async def healthz(request: Request) -> Json:
    """Report liveness. Restart the server if this does not answer, or answers 503.

    Only the operator's token gets the cause of a 503, because it names the store.
    """
    lost = context_of(request).worlds.lost()
    if lost is not None:
        raise Problem("unavailable", _LOST, operator_detail=lost)
    return {"status": "ok"}


@table.on("GET", "/readyz", "Readiness", "Readiness", 503, is_hot=True, is_read=False)
async def readyz(request: Request) -> Json:
    """Report readiness: whether each world could decide and write a batch now.

    The check is at most a second old. Only the operator's token gets the cause of a 503, because
    it names the store.

    `head` is the hash of the latest record of the configured world's log: a log that does not
    contain it was cut off.
    """
    context = context_of(request)
    if context.is_draining:
        raise Problem("unavailable", "the server is shutting down", headers={"retry-after": "1"})
    if not context.worlds.is_open:
        raise Problem("unavailable", "no world is open yet", headers={"retry-after": "1"})
    why = await context.worlds.why_not_ready()
    if why is not None:
        headers = {"retry-after": "1"}
        raise Problem("unavailable", STORE_FAILED, operator_detail=why, headers=headers)
    return {"status": "ok", "head": context.worlds.first.head}


@table.on("GET", "/metrics", "Prometheus metrics", "text/plain", 401, 403, 404)
async def metrics(request: Request, query: MetricsQuery) -> Response:
    """Return the Prometheus metrics of a world, at most a second old.

    They need the operator's token, or of the configured world none if `metrics_open` is set.
    """
    context = context_of(request)
    orchestrator = context.worlds.first
    is_other = query.world not in {None, "", orchestrator.config.world}
    if is_other or not context.config.metrics_open:
        context.operator(request)
    if is_other:
        _, orchestrator = context.enter(request, str(query.world))
    return Response(await context.metrics.text(orchestrator), media_type=_METRICS_TYPE)
