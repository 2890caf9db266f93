"""The application: its routes, its lifespan, and what every request is wrapped in."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeAlias

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import default_domain, find_domain, make_domain
from placet.plugins.entry_points import ROUTES, Plugin, PluginBroken, plugins
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.runtime.registry_json import registry_json
from placet.runtime.telemetry.world_logger import WorldLogger
from placet.schemas.approval import Approval
from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError
from placet.schemas.limits import HttpLimits
from placet.server import client
from placet.server.approvals.channels import channels_of
from placet.server.approvals.deciders import notice_json
from placet.server.approvals.notices import Notices
from placet.server.config import ServeConfig
from placet.server.context import RequestContext
from placet.server.credentials import Credentials, new_operator
from placet.server.dashboard.routes import dashboard_routes
from placet.server.history.controls import Controls
from placet.server.history.timelines import Source, Timelines
from placet.server.http import problems
from placet.server.http.fair_share import FairShare
from placet.server.http.request_id import HEADER, RequestId
from placet.server.openapi import build_document
from placet.server.people import check_people
from placet.server.roles import check_claimants, check_claimed_worlds
from placet.server.routes import (
    agents,
    approvals,
    batch_socket,
    batches,
    health,
    history,
    state,
    stream,
)
from placet.server.worlds import Worlds
from placet.stores.url import file_of, is_lasting

Handler: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


def build_app(
    domain: Domain | Sequence[Domain] | str | Orchestrator | None,
    config: OrchestratorConfig | None,
    credentials: Credentials | None,
    serve: ServeConfig | None,
) -> Starlette:
    """Build the Starlette application of one world; `create_app` calls this with its arguments."""
    serve = serve or ServeConfig()
    world = _world(domain, config)
    domains, config = world.domains, world.config
    operator_token = None
    if credentials is None:
        credentials, operator_token = new_operator()
    app = Starlette(
        middleware=list(middleware(serve, credentials)),
        exception_handlers=problem_handlers(),
        lifespan=_lifespan,
    )
    app.state.context = RequestContext(Worlds(world, serve), serve, credentials)
    app.state.notices = _notices(app.state.context)
    app.state.timelines = _timelines(app.state.context.worlds, serve.limits)
    check_claimants(serve.claims, credentials.submitters)
    roles = {role for one in domains for role in one.roles}
    check_people(serve.people, credentials.submitters, roles)
    app.state.operator_token = operator_token
    app.state.kinds = cache(
        lambda: {"domains": registry_json(domains), "limits": asdict(config.kernel_config().limits)}
    )
    describe(app, domains, config.limits.batch_intents_max)
    app.router.routes += _routes(app, serve)
    return app


def describe(app: Starlette, domains: Sequence[Domain], intents_max: int) -> None:
    """Set the document of the routes of an application; it is made when it is first requested.

    Args:
        app: The application; a plug-in adds schemas to `app.state.schemas`.
        domains: Domains, whose kinds define the schemas of intents.
        intents_max: Most intents of a batch.
    """
    app.state.schemas = {}
    app.state.openapi = cache(
        lambda: build_document(app.routes, domains, app.state.schemas, _version(), intents_max)
    )
    app.state.openapi_text = cache(lambda: to_json(app.state.openapi()))


def _notices(context: RequestContext) -> Notices:
    """Return what sends notices of the new requests for approval of all worlds."""

    async def describe(name: str, world: Orchestrator, approval: Approval) -> Json:
        now = world.sim_time
        return await world.query(
            lambda kernel: notice_json(context, name, kernel.ledger, approval, now)
        )

    worlds = context.worlds
    channels = channels_of(context.config.approvals, os.environ)
    notices = Notices(channels, worlds.find, describe)
    worlds.on_opened.append(notices.follow)
    return notices


def _timelines(worlds: Worlds, limits: HttpLimits) -> Timelines:
    """Return the time lines of open worlds."""

    def find(name: str) -> Source | None:
        world = worlds.find(name)
        if world is None:
            return None
        log = world.store.log
        return Source(log, world.domains, str(file_of(log) or log.url) if is_lasting(log) else None)

    def controls(name: str) -> Controls:
        world = worlds.find(name)
        return Controls() if world is None or world.config.read_only else _controls_of(world)

    timelines = Timelines(
        find,
        lambda: [name for name, _ in worlds.all()],
        worlds.is_used,
        controls,
        is_live=True,
        limits=limits,
    )
    worlds.is_fork = timelines.is_fork
    return timelines


def _controls_of(world: Orchestrator) -> Controls:
    """Return the control of an open world; the routes of worlds and agents carry it out."""
    commands = ["pause", "suspend"]
    if world.config.clock == "stepped":
        commands.append("step")
    if any(domain.name == approvals.DOMAIN for domain in world.domains):
        commands.append("approvals")
    return Controls(commands, world.is_paused)


def _routes(app: Starlette, serve: ServeConfig) -> list[BaseRoute]:
    """Return all routes, those first that are asked most: they are tried in order."""
    tables = (
        *(batches.table, state.table, health.table, history.table),
        *(approvals.table, agents.table),
    )
    routes: list[BaseRoute] = [route for table in tables for route in table.routes()]
    routes += [stream.route, batch_socket.route]
    for plugin in plugins(ROUTES).values():
        routes += _routes_of(plugin, app)
    routes.sort(key=lambda route: not getattr(route, "is_hot", False))
    routes += [DOCUMENT_ROUTE, client.route]
    return [*routes, *dashboard_routes()] if serve.dashboard else routes


def _routes_of(plugin: Plugin, app: Starlette) -> list[BaseRoute]:
    """Return a plug-in's routes; a broken one is reported, and the others are served."""
    try:
        function = plugin.load()
        if not callable(function):
            raise PluginBroken(f"{plugin} is no function of an application, got {function!r:.80}")
        routes = function(app)
        if not isinstance(routes, list) or not all(
            isinstance(route, BaseRoute) for route in routes
        ):
            raise PluginBroken(
                f"{plugin} must return a list of Starlette routes, got {routes!r:.80}"
            )
    except PluginBroken as error:
        config = app.state.context.worlds.first.config
        WorldLogger(config.log_format, config.log_level, config.world).warning(str(error))
        return []
    return routes


async def _openapi(request: Request) -> Response:
    return Response(request.app.state.openapi_text(), media_type="application/json")


DOCUMENT_ROUTE: Final = Route("/openapi.json", _openapi)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    context: RequestContext = app.state.context
    notices: Notices = app.state.notices
    notices.start()
    try:
        await context.worlds.open()
    except BaseException:
        await notices.close()
        raise
    try:
        names = [*(name for name, _ in context.worlds.all()), *context.worlds.unopened]
        check_claimed_worlds(context.config.claims, names)
        yield
    finally:
        context.drain()
        await notices.close()
        timelines: Timelines = app.state.timelines
        await to_thread.run_sync(timelines.close)
        await context.worlds.close()


def problem_handlers() -> dict[type[Exception], Handler]:
    """Return the handlers of exceptions: every error is answered by a problem document."""
    return {
        problems.Problem: problems.on_placet_error,
        PlacetError: problems.on_placet_error,
        HTTPException: problems.on_http_error,
        Exception: problems.on_fault,
    }


def middleware(serve: ServeConfig, credentials: Credentials) -> Iterator[Middleware]:
    """Yield what requests pass, the outermost first."""
    yield Middleware(RequestId)
    if serve.cors_origins:
        yield Middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "idempotency-key", HEADER],
            expose_headers=["retry-after", "idempotency-window", HEADER],
        )
    yield Middleware(FairShare, credentials, serve.limits)


def _world(
    domain: Domain | Sequence[Domain] | str | Orchestrator | None, config: OrchestratorConfig | None
) -> Orchestrator:
    """Return the configured world, which may be open already."""
    if not isinstance(domain, Orchestrator):
        return Orchestrator(_domains(domain), config or OrchestratorConfig())
    if config is not None and config != domain.config:
        raise ValueError("the world is open with another configuration; leave out `config`")
    return domain


def _domains(domain: Domain | Sequence[Domain] | str | None) -> list[Domain]:
    if domain is None:
        return [default_domain()]
    if isinstance(domain, str):
        return [make_domain(domain, find_domain(domain))]
    return [domain] if isinstance(domain, Domain) else list(domain)


def _version() -> str:
    try:
        return version("placet")
    except PackageNotFoundError:
        return "0"
