"""`placet play`: look at a run in the browser, from its log."""

import asyncio
import os
import signal
import sys
import webbrowser
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from placet.actors.ports import EventLog
from placet.cli.domains import AgainBy, again_by
from placet.cli.terminal import AsJson, CommandError, StoreArgument, notify, say_json
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR
from placet.schemas.log.record import Header
from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of, new_token
from placet.stores.gc_tuning import tune_gc
from placet.stores.postgres.address import shown_url
from placet.stores.reading import log_to_read
from placet.stores.snapshots.recovery import decode

if TYPE_CHECKING:
    from placet.server.history.controls import SentControls


def play(
    store: StoreArgument,
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than 127.0.0.1 needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 0,
    tokens: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Token file; `placet token new` makes its entries."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    domain: AgainBy = None,
    control: Annotated[bool, typer.Option(hidden=True)] = False,
    as_json: AsJson = False,
) -> int:
    """Play a log in the browser.

    It shows the state at any moment, and why each request got its answer. Reads only the log, also
    while another process writes it. Key frames are kept in STORE.frames/, a folder that may be
    deleted. Ctrl-C ends it.
    """
    try:
        from placet.server.history.timelines import Source  # noqa: PLC0415  # the extra
        from placet.server.listener import listen, loop_factory, url_of  # noqa: PLC0415
        from placet.server.play import build_play_app, serve_play  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`placet play` needs {error.name}, which is not installed: pip install 'placet[serve]'"
        ) from error

    log = log_to_read(store)
    if not log.count():
        raise CommandError(f"{store} is empty: there is no world in it to play")
    serve = ServeConfig(host=host, port=port, tokens=tokens)
    credentials, token = _credentials(serve)
    source = Source(log, again_by(domain), store, domain or ())
    controls = _controls() if control else None
    app = build_play_app(_world_of(log), source, serve, credentials, controls)
    listening = listen(serve)
    url = url_of(listening)
    page = f"{url}/" if token is None else f"{url}/#token={token}"

    def tell() -> None:
        if as_json:
            say_json({"url": url, "store": shown_url(store), "operator_token": token, "page": page})
            sys.stdout.flush()
        else:
            notify(f"placet play: {shown_url(store)} at {page}")
        if open_page:
            webbrowser.open(page)

    tune_gc()
    with listening, asyncio.Runner(loop_factory=loop_factory()) as runner:
        number = runner.run(serve_play(app, serve, listening, tell))
    return 0 if number is None else 128 + number


def _controls() -> "SentControls":
    """Return the control of the run that started this process, over its pipes.

    Commands go to standard output. The run's end closes standard input, which ends this process.
    """
    from placet.server.history.controls import SentControls  # noqa: PLC0415  # the extra

    def end_with_run() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    def send(command: dict[str, Json]) -> None:
        say_json(command)
        sys.stdout.flush()

    Thread(target=end_with_run, daemon=True).start()
    return SentControls(send)


def _credentials(serve: ServeConfig) -> tuple[Credentials, str | None]:
    """Return the known tokens, and a new token of the operator if none is configured.

    Raises:
        CommandError: There are none, and others could reach the server.
    """
    known = serve.credentials()
    if len(known):
        return known, None
    if not serve.is_loopback:
        raise CommandError(
            f"{serve.host} can be reached from other machines, and no token is configured: "
            "`placet token new --operator >> tokens.toml`, then --tokens tokens.toml"
        )
    token = new_token()
    return Credentials([KnownToken(OPERATOR, hash_of(token))]), token


def _world_of(log: EventLog) -> str:
    """Return the world's name, by the first record that has it; `world` of a compacted log."""
    _, data = next(log.read(log.start().record))
    record = decode(data, 0)
    return record.world if isinstance(record, Header) else "world"
