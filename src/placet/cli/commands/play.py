"""`placet play`: look at a run in the browser, from its log."""

import os
import signal
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.actors.ports import EventLog
from placet.cli.domains import AgainBy, again_by
from placet.cli.terminal import AsJson, CommandError, needs_extra, notify, say_json
from placet.cli.world_options import TokensOption
from placet.schemas.codec import Json
from placet.schemas.limits import HttpLimits
from placet.schemas.log.record import Header
from placet.server.config import ServeConfig
from placet.stores.postgres.address import shown_url
from placet.stores.reading import log_to_read
from placet.stores.snapshots.recovery import decode

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from placet.schemas.portrayal import Portrayals
    from placet.server.credentials import Credentials
    from placet.server.history.controls import SentControls
    from placet.server.history.timelines import Source

_OF_ONE_READER: Final = {
    "read_work_per_second_max": 10_000_000,
    "read_work_burst_max": 20_000_000,
    "all_read_work_per_second_max": 10_000_000,
    "all_read_work_burst_max": 20_000_000,
}
"""Of a player without tokens: there is no other reader whom the reads of its one could delay."""


def play(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="A log: a path such as town.db, or a URL; or a folder of logs."
        ),
    ],
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than 127.0.0.1 needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 0,
    tokens: TokensOption = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    domain: AgainBy = None,
    portrayal: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="Draw the map by the [portrayal] of a scenario: a name, or a TOML file. "
            "Default: that of the bundled scenario which the log is of.",
        ),
    ] = None,
    control: Annotated[bool, typer.Option(hidden=True)] = False,
    paced: Annotated[bool, typer.Option(hidden=True)] = False,
    ticks_per_second: Annotated[float | None, typer.Option(hidden=True)] = None,
    run_option: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
) -> int:
    """Play a log in the browser, or list the runs of a folder.

    It shows the state at any moment, and why each request got its answer. Reads only the log, also
    while another process writes it. Key frames are kept in STORE.frames/, a folder that may be
    deleted. Of a folder it lists the logs with their settings and results, plays each, and shows
    two side by side; tags and notes are kept in runs.json there. Ctrl-C ends it.
    """
    with needs_extra("play"):
        from placet.server import listener  # noqa: PLC0415  # the extra
        from placet.server.history.started_runs import StartedRuns  # noqa: PLC0415
        from placet.server.play import build_play_app  # noqa: PLC0415

    limits = HttpLimits() if tokens else replace(HttpLimits(), **_OF_ONE_READER)
    serve = ServeConfig(host=host, port=port, tokens=tokens, limits=limits)
    credentials, token = serve.credentials_or_new()
    if Path(store).is_dir():
        app = _folder_app(Path(store), domain or (), portrayal, serve, credentials)
    else:
        source = _source(store, domain, portrayal)
        world, runs = _world_of(source.log), None
        if control:
            controls = _controls(ticks_per_second, is_paced=paced)
            runs = StartedRuns(world, source, controls, run_option or (), limits)
        app = build_play_app(world, source, serve, credentials, runs)
    listening = listener.listen(serve)
    url = listener.url_of(listening)
    page = listener.page_of(url, token)

    def tell() -> None:
        if as_json:
            say_json({"url": url, "store": shown_url(store), "operator_token": token, "page": page})
        else:
            notify(f"placet play: {shown_url(store)} at {page}")
        if open_page:
            webbrowser.open(page)

    return listener.run_to_signal(listening, listener.run_server(app, serve, listening, tell))


def _source(store: str, domain: list[str] | None, portrayal: str | None) -> "Source":
    """Return the log that is played, with its domains and portrayals."""
    from placet.server.history.timelines import Source  # noqa: PLC0415  # the extra

    log = log_to_read(store)
    if not log.count():
        raise CommandError(f"{store} is empty: there is no world in it to play")
    return Source(log, again_by(domain, log), store, domain or (), _portrayals(log, portrayal))


def _folder_app(
    folder: Path,
    domains: Sequence[str],
    portrayal: str | None,
    serve: ServeConfig,
    credentials: "Credentials",
) -> "Starlette":
    """Build the application that lists the runs of a folder; of a study, those of its logs."""
    from placet.scenarios.values import ScenarioError  # noqa: PLC0415  # pydantic, 60 ms
    from placet.server.play import build_folder_app  # noqa: PLC0415  # the extra
    from placet.server.runs.folder import folder_of_logs  # noqa: PLC0415
    from placet.server.runs.opened import OpenFolder  # noqa: PLC0415

    def portrayals_of(log: EventLog) -> "Portrayals":
        try:
            return _portrayals(log, portrayal)
        except (ScenarioError, StopIteration):  # a scenario of another release, or an empty log
            return {}

    if portrayal is not None:
        from placet.scenarios.portrayals import portrayals_of as require  # noqa: PLC0415

        require(portrayal)  # a name that is none is told now
    runs = folder_of_logs(folder)  # a folder that cannot be read is told now
    return build_folder_app(OpenFolder(runs, domains, portrayals_of), serve, credentials)


def _portrayals(log: EventLog, scenario: str | None) -> "Portrayals":
    """Return the portrayals of a scenario; None is the bundled one that the log names."""
    from placet.scenarios import portrayals  # noqa: PLC0415  # pydantic, 60 ms
    from placet.scenarios.scenario import from_text  # noqa: PLC0415
    from placet.scenarios.setup import ORIGIN  # noqa: PLC0415

    if scenario is not None:
        return portrayals.given_portrayals(scenario)
    header = _header_of(log)
    text = None if header is None else header.origin.get(ORIGIN)
    return portrayals.bundled_portrayals(from_text(log.url, text)) if isinstance(text, str) else {}


def _controls(ticks_per_second: float | None, *, is_paced: bool) -> "SentControls":
    """Return the control of the run that started this process, over its pipes.

    Commands go to standard output. The run's end closes standard input, which ends this process.
    """
    from placet.server.history.controls import SentControls  # noqa: PLC0415  # the extra

    def end_with_run() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    def send(command: dict[str, Json]) -> None:
        say_json(command)

    Thread(target=end_with_run, daemon=True).start()
    return SentControls(send, ticks_per_second, is_paced=is_paced)


def _world_of(log: EventLog) -> str:
    """Return the world's name; `world` of a compacted log."""
    header = _header_of(log)
    return "world" if header is None else header.world


def _header_of(log: EventLog) -> Header | None:
    """Return the header of a log; None of a compacted one."""
    _, data = next(log.read(log.start().record))
    record = decode(data, 0)
    return record if isinstance(record, Header) else None
