"""`placet serve`: a world over HTTP and WebSocket."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from placet.cli.commands.config import ConfigOption, read_settings
from placet.cli.stores import TakeOver
from placet.cli.terminal import (
    AsJson,
    CommandError,
    notify,
    say_json,
)
from placet.cli.world_options import DomainOption, SetOption, StoreOption, list_overrides
from placet.kernel.plugin.domain import Domain
from placet.server import create_app
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials
from placet.server.settings import ServerSettings
from placet.stores.gc_tuning import tune_gc
from placet.stores.postgres.address import shown_url

if TYPE_CHECKING:
    from starlette.applications import Starlette


_Host: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Address to listen on; any other than 127.0.0.1 needs tokens."),
]
_Port: TypeAlias = Annotated[
    int | None, typer.Option(help="Port to listen on; 0 chooses a free one.")
]
_Tokens: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Token file; `placet token new` makes its entries."),
]
_Anchors: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Append the head of the log's chain to a file, for `placet verify --anchors`.",
    ),
]


_ReadOnly: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--read-only",
        help="Show the world of a store, also while another process writes it; write nothing.",
    ),
]
_ExitOnStoreFailure: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--exit-on-store-failure",
        help="End with exit code 1 if the store fails, instead of opening it again.",
    ),
]


def serve(  # noqa: PLR0917  # the command line has no positions
    file: ConfigOption = None,
    domain: DomainOption = None,
    store: StoreOption = None,
    host: _Host = None,
    port: _Port = None,
    tokens: _Tokens = None,
    anchors: _Anchors = None,
    assignments: SetOption = None,
    *,
    sessions: Annotated[
        bool,
        typer.Option(
            "--sessions", help="Also serve conversations with agents, kept in the same log."
        ),
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Wait until the world's present writer ends, then take over."
        ),
    ] = False,
    take_over: TakeOver = False,
    read_only: _ReadOnly = False,
    exit_on_store_failure: _ExitOnStoreFailure = False,
    as_json: AsJson = False,
) -> int:
    """Serve a world over HTTP and WebSocket.

    It prints the address of its dashboard, a page for people. Without a token file it listens on
    this machine only, and prints a token for the operator. SIGTERM and SIGINT end it: requests in
    flight are answered, and the world is closed. A standby listens after it has taken over; it
    needs a store with a lease: postgresql://. Time follows the machine's clock, also where a log
    was written in steps, unless --set clock=stepped.
    """
    settings = read_settings(
        file,
        assignments,
        domain=domain,
        store=store,
        anchors=anchors,
        standby=standby or None,
        take_over=take_over or None,
        read_only=read_only or None,
        serve__host=host,
        serve__port=port,
        serve__tokens=tokens,
        serve__sessions=sessions or None,
        serve__exit_on_store_failure=exit_on_store_failure or None,
    )
    domains = settings.make_domains()
    app = _app_of(settings, domains)
    list_overrides(settings, domains, "serve")
    number = _run(app, settings, as_json=as_json)
    fatal = app.state.context.worlds.fatal
    if fatal is not None:
        raise fatal
    return 0 if number is None else 128 + number


def _app_of(settings: ServerSettings, domains: list[Domain]) -> "Starlette":
    """Make the application from the configuration."""
    known = _credentials(settings.serve)
    return create_app(domains, settings.world, credentials=known, serve=settings.serve)


def _run(app: "Starlette", settings: ServerSettings, *, as_json: bool) -> int | None:
    """Listen, say where, and serve until a signal, whose number it gives.

    Raises:
        CommandError: What listens is not installed.
    """
    try:
        from placet.server.listener import listen, loop_factory, run_server, url_of  # noqa: PLC0415
    except ModuleNotFoundError as error:  # what the application is made of is there, its server not
        raise CommandError(
            f"`placet serve` needs {error.name}, which is not installed: "
            "pip install 'placet[serve]'"
        ) from error

    listening = listen(settings.serve, at_once=not settings.world.standby)
    url = url_of(listening)

    def tell() -> None:
        _tell(settings, url, app.state.operator_token, as_json=as_json)

    tune_gc()
    with listening, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_server(app, settings.serve, listening, tell))


def _credentials(serve: ServeConfig) -> Credentials | None:
    """Read the tokens; None lets the application make one, which is for this machine only.

    Raises:
        CommandError: There are none, and others could reach the server.
    """
    known = serve.credentials()
    if len(known):
        return known
    if serve.is_loopback:
        return None
    raise CommandError(
        f"{serve.host} can be reached from other machines, and no token is configured: "
        "`placet token new --operator >> tokens.toml`, then --tokens tokens.toml"
    )


def _tell(settings: ServerSettings, url: str, token: str | None, *, as_json: bool) -> None:
    world, store = settings.world.world, shown_url(settings.world.store)
    page = _page(url, token) if settings.serve.dashboard else None
    if as_json:
        document = {"url": url, "world": world, "store": store, "operator_token": token}
        say_json({**document, "dashboard": page})
        sys.stdout.flush()
        return
    mode = ", read-only" if settings.world.read_only else ""
    notify(f"placet serve: world {world!r} of domain {settings.domain} at {url}, log {store}{mode}")
    if token is not None:
        notify(f"placet serve: the operator's token, until this process ends: {token}")
    if page is not None:
        notify(f"placet serve: dashboard at {page}")


def _page(url: str, token: str | None) -> str:
    """Return the page's URL. The fragment stays in the browser: no server or proxy reads it."""
    return f"{url}/" if token is None else f"{url}/#token={token}"
