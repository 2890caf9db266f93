"""Routes whose functions are called with the parts of their path and the request, and no more.

The framework finds a route by trying one after another, wraps its response three times, and reads
parameters by their annotations: a seventh of the cost of a plan. A function that reads only its
path needs none of that. So routes of a `LeanRoute` class are found and called by the innermost
middleware, and the framework describes them like all others.

It answers them too, where more is to be done than that: where a query came, for which the function
may have a default; where the application is mounted in another; where telemetry wants to know the
route. A dependency would not be called: one of a route or its router is refused as it is made, one
of an application or an inclusion cannot be seen here.
"""

from collections.abc import Callable, Coroutine, Iterable
from re import Pattern
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from placet.schemas.errors import PlacetError
from placet.server.http.problems import Problem


class LeanRoute(APIRoute):
    """A route that can be answered directly: its path is text, and a query has defaults."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Return what answers a request of this route where the framework found it.

        Raises:
            TypeError: The route asks for more, which would not be looked at.
        """
        if _reads_more(self.dependant):
            raise TypeError(f"{self.path} reads more than its path; it cannot be answered directly")
        return super().get_route_handler()


class LeanRouteMiddleware:
    """Middleware that answers requests of direct routes, and passes on all others.

    Args:
        app: What answers the others.
        routers: Those with direct routes; what else they have is left to the framework.
        prefix: Of their paths.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter], prefix: str) -> None:
        self._app = app
        self._ways = [
            _Way(compile_path(prefix + route.path)[0], method, route)
            for router in routers
            for route in router.routes
            if isinstance(route, LeanRoute)
            for method in route.methods or ()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if (
            scope["type"] == "http"
            and not scope["query_string"]
            and not scope.get("root_path")
            and "fastapi.telemetry" not in scope
        ):
            method, path = scope["method"], scope["path"]
            for way in self._ways:
                if way.method == method and (found := way.pattern.match(path)):
                    scope["path_params"] = found.groupdict()
                    scope["route"], scope["endpoint"] = way.route, way.route.endpoint
                    await _answer(scope, receive, send)
                    return
        await self._app(scope, receive, send)


class _Way(NamedTuple):
    """How a request comes to a direct route."""

    pattern: Pattern[str]
    method: str
    route: LeanRoute


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request by the function of its route, or as the application answers its errors."""
    try:
        request = Request(scope, receive, send)
        response: Response = await scope["endpoint"](request=request, **scope["path_params"])
    except (Problem, PlacetError, HTTPException) as error:
        await _answer_error(error, scope, receive, send)
    else:
        await response(scope, receive, send)


async def _answer_error(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    async def raising(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    known = scope["app"].exception_handlers
    handlers = {kind: known[kind] for kind in known if kind not in {500, Exception}}
    await ExceptionMiddleware(raising, handlers)(scope, receive, send)


def _reads_more(parameters: Dependant) -> bool:
    return bool(
        parameters.dependencies
        or parameters.header_params
        or parameters.cookie_params
        or parameters.body_params
        or any(one.field_info.is_required() for one in parameters.query_params)
        or any(one.field_info.annotation is not str for one in parameters.path_params)
    )
