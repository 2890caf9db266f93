"""The HTTP server: any world over HTTP and WebSocket, with the gate's codes (extra `serve`).

A request is authenticated, its body decoded once by the strict codec, and submitted to the world as
a batch; the verdict's JSON is that of `placet gate`, and its status comes from one table
(`verdict_status.py`). Other errors are problem documents of RFC 9457 (`problems.py`).

    app.py: the application. listener.py: its socket and process. context.py: callers, worlds.
    routes/: batches, agents, state, events, kinds, streams, health, as tables of http/routing.py.
    openapi.py: the document made from these tables. streams.py: what open streams share.
    dashboard/: the pages for people.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.errors import PlacetError
from placet.schemas.keywords import explain_keywords
from placet.server.credentials import Credentials

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from placet.server.config import ServeConfig


class ExtraMissing(PlacetError, ImportError):  # noqa: N818  # the name states the fault
    """The error of a server whose optional packages (extra `serve`) are not installed."""


@explain_keywords
def create_app(
    domain: Domain | Sequence[Domain] | str | Orchestrator | None = None,
    config: OrchestratorConfig | None = None,
    *,
    credentials: Credentials | None = None,
    serve: "ServeConfig | None" = None,
) -> "Starlette":
    """Build the ASGI application of one world; its lifespan opens and closes the world.

    Args:
        domain: A domain, several, the name of an installed domain, or `module:Class`. Or a world
            that the program has opened, such as that of a gate of tools: the application serves
            it in the same event loop, and does not close it.
        config: Configuration of the world; None for the configuration of an open world.
        credentials: The known tokens. None creates a token of the operator, which is stored only
            in `app.state.operator_token`.
        serve: Configuration of the server; None for the defaults.

    Raises:
        ExtraMissing: `starlette` is not installed.
        DomainNotFound, ValueError: The domain or the configuration is invalid, or an open world
            has another configuration.
    """
    try:
        from placet.server.app import build_app  # noqa: PLC0415  # the extra
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"the HTTP server needs {error.name}, which is not installed: "
            "pip install '.[serve]' in a clone of placet"
        ) from error
    return build_app(domain, config, credentials, serve)
