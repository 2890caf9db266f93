"""`placet serve`: a world over HTTP and WebSocket."""

from typing import Annotated, TypeAlias

import typer

from placet.cli.commands.config import ConfigOption, read_settings
from placet.cli.stores import TakeOver
from placet.cli.terminal import AsJson, needs_extra, notify, say_json
from placet.cli.world_options import (
    DomainOption,
    SetOption,
    StoreOption,
    TokensOption,
    list_overrides,
)
from placet.server import create_app
from placet.server.settings import ServerSettings
from placet.stores.postgres.address import shown_url

_Host: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Address to listen on; any other than 127.0.0.1 needs tokens."),
]
_Port: TypeAlias = Annotated[
    int | None, typer.Option(help="Port to listen on; 0 chooses a free one.")
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
    tokens: TokensOption = None,
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
    return _serve(settings, as_json=as_json)


def _serve(settings: ServerSettings, *, as_json: bool) -> int:
    """Listen, print the address, serve until a signal, and return the exit code."""
    domains = settings.make_domains()
    credentials, token = settings.serve.credentials_or_new()
    app = create_app(domains, settings.world, credentials=credentials, serve=settings.serve)
    list_overrides(settings, domains, "serve")
    with needs_extra("serve"):  # Starlette may be there without its server
        from placet.server.listener import (  # noqa: PLC0415  # the extra
            listen,
            page_of,
            run_server,
            run_to_signal,
            url_of,
        )

    listening = listen(settings.serve, at_once=not settings.world.standby)
    url = url_of(listening)
    page = page_of(url, token) if settings.serve.dashboard else None

    def tell() -> None:
        _tell(settings, url, token, page, as_json=as_json)

    serving = run_server(app, settings.serve, listening, tell)
    code = run_to_signal(listening, serving)
    fatal = app.state.context.worlds.fatal
    if fatal is not None:
        raise fatal
    return code


def _tell(
    settings: ServerSettings, url: str, token: str | None, page: str | None, *, as_json: bool
) -> None:
    """Print the address of a server that listens now."""
    world, store = settings.world.world, shown_url(settings.world.store)
    if as_json:
        document = {"url": url, "world": world, "store": store, "operator_token": token}
        say_json({**document, "dashboard": page})
        return
    mode = ", read-only" if settings.world.read_only else ""
    notify(f"placet serve: world {world!r} of domain {settings.domain} at {url}, log {store}{mode}")
    if token is not None:
        notify(f"placet serve: the operator's token, until this process ends: {token}")
    if page is not None:
        notify(f"placet serve: dashboard at {page}")
