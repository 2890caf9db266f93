"""The application: its routes, its lifespan, and what every request is wrapped in."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from placet.kernel.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.entry_points import ROUTES, Plugin, PluginBroken, plugins
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.plugins import default_domain, find_domain
from placet.runtime.registry_json import registry_json
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.identity import OPERATOR
from placet.server import dashboard
from placet.server.config import ServeConfig
from placet.server.context import RequestContext
from placet.server.credentials import Credentials, KnownToken, hash_of, new_token
from placet.server.http import problems
from placet.server.http.head_requests import HeadRequests
from placet.server.http.lean_route import LeanRouteMiddleware
from placet.server.http.request_id import HEADER, RequestId
from placet.server.openapi import build_document
from placet.server.routes import agents, batches, health, stream
from placet.server.routes import state as reading
from placet.server.worlds import Worlds

_PREFIX = "/api/v1"
_DESCRIPTION = (
    "Agents propose batches of intents, one gate decides, and every decision has a reason."
)


def build_app(
    domain: Domain | Sequence[Domain] | str | None,
    config: OrchestratorConfig,
    credentials: Credentials | None,
    serve: ServeConfig | None,
) -> FastAPI:
    """Build the application from its parts; `create_app` makes them."""
    serve = serve or ServeConfig()
    domains = _domains(domain)
    operator_token = None
    if credentials is None:
        operator_token = new_token()
        credentials = Credentials([KnownToken(OPERATOR, hash_of(operator_token))])
    context = RequestContext(
        Worlds(Orchestrator(domains, config), serve.limits), serve, credentials
    )
    app = FastAPI(
        title="placet",
        version=_version(),
        description=_DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.context = context
    app.state.operator_token = operator_token
    app.state.schemas = {}
    app.state.kinds = cache(
        lambda: {"domains": registry_json(domains), "limits": asdict(config.kernel_config().limits)}
    )
    lean = app.state.lean_routers = [batches.direct]
    # Within all others. It reads the list at the first request: a plug-in can add to it.
    app.add_middleware(LeanRouteMiddleware, routers=lean, prefix=_PREFIX)
    _wrap(app, serve)
    for part in (*lean, batches.router, agents.router, reading.router, stream.router):
        app.include_router(part, prefix=_PREFIX)
    for plugin in plugins(ROUTES).values():
        _add_plugin(app, plugin)
    app.include_router(health.router)
    if serve.dashboard:
        app.include_router(dashboard.router)
    _describe_by(app, domains)
    return app


def _add_plugin(app: FastAPI, plugin: Plugin) -> None:
    """Add a plug-in's routes; a broken one is reported, and the others are served."""
    try:
        routes = plugin.load()
        if not callable(routes):
            raise PluginBroken(f"{plugin} is no function of an application, got {routes!r:.80}")
    except PluginBroken as error:
        config = app.state.context.worlds.first.config
        WorldLogger(config.log_format, config.log_level, config.world).warning(str(error))
        return
    router = routes(app)
    if router is not None:
        app.include_router(router, prefix=_PREFIX)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: RequestContext = app.state.context
    await context.worlds.open()
    try:
        yield
    finally:
        context.is_draining = True
        await context.worlds.close()


def _wrap(app: FastAPI, serve: ServeConfig) -> None:
    app.add_exception_handler(problems.Problem, problems.on_problem)
    app.add_exception_handler(PlacetError, problems.on_placet_error)
    app.add_exception_handler(HTTPException, problems.on_http_error)
    app.add_exception_handler(RequestValidationError, problems.on_invalid)
    app.add_exception_handler(WebSocketRequestValidationError, problems.on_invalid_handshake)
    app.add_exception_handler(Exception, problems.on_fault)
    if serve.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", HEADER],
            expose_headers=["retry-after", HEADER],
        )
    app.add_middleware(HeadRequests)
    app.add_middleware(RequestId)


def _describe_by(app: FastAPI, domains: Sequence[Domain]) -> None:
    """Make the framework's `/openapi.json` return our document, built on the first request."""

    def document() -> dict[str, Json]:
        if app.openapi_schema is None:
            app.openapi_schema = build_document(app, domains, app.state.schemas)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the framework's documented way


def _domains(domain: Domain | Sequence[Domain] | str | None) -> list[Domain]:
    if domain is None:
        return [default_domain()]
    if isinstance(domain, str):
        return [find_domain(domain)()]
    return [domain] if isinstance(domain, Domain) else list(domain)


def _version() -> str:
    try:
        return version("placet")
    except PackageNotFoundError:
        return "0"
