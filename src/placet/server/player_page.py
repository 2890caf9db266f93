"""`placet.play`: a run in a notebook, as one page without a server, or beside one.

A short run is put into the page: the parts of the player that `placet play` serves, with its
records instead of a server. A long one is served on 127.0.0.1 by `placet play`, a process that ends
with this one.
"""

import subprocess
import sys
from base64 import b64encode
from dataclasses import dataclass
from gzip import compress
from html import escape
from importlib.resources import files
from pathlib import Path
from re import findall, sub
from typing import Final
from weakref import finalize

from placet.actors.ports import EventLog
from placet.history.timeline.fold import changed_in
from placet.history.timeline.moments import event_of, history_of
from placet.history.timeline.timeline import Place, Timeline
from placet.lab.log import Log
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.errors import StoreError
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import AgentChanged, Header, Record, agents_of, decode_record
from placet.schemas.printable import printable_html
from placet.server.dashboard.pages import PLAYER, file_text, render
from placet.server.history.series import series_of
from placet.stores.reading import log_to_read
from placet.sweeps.files import replaced_whole

CHANGES_MAX: Final = 100_000
"""Changes and records of a run that is put into a page."""

_HEIGHT_PX: Final = 820
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True, slots=True, repr=False)
class PlayerPage:
    """One self-contained page that plays a run; a notebook shows it.

    Attributes:
        html: The page. It needs no network and no server.
        records: Number of batches and other records in it.
    """

    html: str
    records: int

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path.

        Raises:
            LabError: It cannot be written.
        """
        target = Path(path)
        with replaced_whole(target) as draft:
            draft.write_text(self.html, "utf-8")
        return target

    def __repr__(self) -> str:
        return f"<PlayerPage of {self.records} records, {len(self.html) // 1024} KiB>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="placet player" '
            f'style="width:100%;height:{_HEIGHT_PX}px;border:0" sandbox="allow-scripts"></iframe>'
        )


class ServedPlayer:
    """A player of a long run on 127.0.0.1; a notebook shows a link to it.

    Attributes:
        page: Address of the page, with the token of this process's operator.
    """

    def __init__(self, store: str) -> None:
        command = [sys.executable, "-P", "-m", "placet", "play", store, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told = process.stdout.readline()
        if not told:
            raise StoreError(
                f"cannot play {store}: `placet play` ended with code {process.wait()}", store=store
            )
        self.page: str = from_json(told)["page"]
        self.close = finalize(self, _end, process)

    def __repr__(self) -> str:
        return f"<ServedPlayer at {self.page.partition('#')[0]}>"

    def _repr_html_(self) -> str:
        page = printable_html(self.page)
        return f'<a href="{page}" target="_blank" rel="noopener noreferrer">Open the player</a>'


@explain_keywords
def play(log: "Log | str | Path") -> PlayerPage | ServedPlayer:
    """Return a player of a run, which a notebook shows as the last value of a cell.

    Args:
        log: The log, or its store: a path such as `town.db`, a pack, or a URL.

    Returns:
        A page that holds the whole run, if it has at most `CHANGES_MAX` changes and records; else a
        player served on 127.0.0.1 until it is closed or this process ends (extra `serve`).

    Raises:
        StoreError: The log cannot be read, or no server can be started for it.
    """
    store = log.url if isinstance(log, Log) else str(log)
    read = log_to_read(store)
    page = _page_of(read)
    return ServedPlayer(store) if page is None else page


def _page_of(log: EventLog) -> PlayerPage | None:
    """Return the page of a run; None if it is too long for one."""
    timeline = Timeline(log, None)
    if log.count() > CHANGES_MAX:
        return None
    while not timeline.index.catch_up():
        pass
    if timeline.index.start.record:
        return None  # its state begins in a snapshot, which the records do not have
    if timeline.index.tables()[0]:
        return None  # the script of the page folds entities, and no columns
    records: list[Json] = []
    work, world = 0, "world"
    for ordinal, data in log.read():
        group = expanded(decode_record(data))
        for at, record in enumerate(group):
            entry = _entry(Place(ordinal, at), record, len(group), timeline)
            records.append(entry)
            work += 1 + len(entry["changes"])
            if isinstance(record, Header):
                world = record.world
        if work > CHANGES_MAX:
            return None
    history = {**history_of(timeline), "store": None, "controls": [], "paused": False}
    history["ticks_per_second"] = history["run"] = history["failure"] = None
    run = to_json(
        {"world": world, "history": history, "records": records, "series": series_of(log)}
    )
    return PlayerPage(_html(run), len(records))


def _entry(place: Place, record: Record, batches: int, timeline: Timeline) -> dict[str, Json]:
    return {
        "batches": batches,
        "seq": record.seq,
        "tick": timeline.ticks_before(place),
        "sim_time": record.now_ns / SECOND_NS,
        "event": event_of(place, record),
        "changes": [
            [change.collection, change.entity, change.fields, change.is_whole]
            for change in changed_in(record)
        ],
        "agents": [_agent(name, timeline, place) for name in _changed_agents(record)],
    }


def _changed_agents(record: Record) -> list[str]:
    if isinstance(record, AgentChanged):
        return [record.agent_id]
    return list(dict.fromkeys(change.agent_id for change in agents_of(record)))


def _agent(name: str, timeline: Timeline, place: Place) -> Json:
    """Return an agent after a record that registers or changes it; `owner` None: removed."""
    agent = timeline.look(place, lambda moment: moment.state.agent(name))
    return {
        "agent_id": name,
        "owner": None if agent is None else agent.owner,
        "suspended": agent is not None and agent.is_suspended,
        "permissions": None if agent is None else agent.permissions,
    }


def _html(run: bytes) -> str:
    """Build the page: the player's own, its scripts and styles within it, and the run."""
    page = render(PLAYER, ()).decode()
    styles = "\n".join(file_text(name) for name in ("style.css", *PLAYER.styles))
    scripts = {name: file_text(name) for name in _scripts()}
    scripts["api.js"] = files("placet.lab").joinpath("static_api.js").read_text("utf-8")
    imports = {f"placet/{name}": _data_url(text) for name, text in scripts.items()}
    packed = b64encode(compress(run, mtime=0)).decode()
    head = "\n".join(
        (
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<style>{styles}\n#leave {{ display: none !important; }}</style>",
            f'<script type="importmap">{to_json({"imports": imports}).decode()}</script>',
            f'<script type="application/gzip+base64" id="run">{packed}</script>',
            '<script type="module">import "placet/player.js";</script>',
        )
    )
    bare = sub(r"<(?:link|script)\b[^>]*\bdashboard/[^>]*>(?:</script>)?\n", "", page)
    return bare.replace("</head>", f"{head}\n</head>")


def _scripts() -> list[str]:
    """Return the script of the player, and the scripts that it imports, directly or not."""
    names = [PLAYER.script]
    for name in names:  # it grows meanwhile
        imported = dict.fromkeys(findall(r'from "\./([^"]+)"', file_text(name)))
        names += [one for one in imported if one not in names]
    return names


def _data_url(script: str) -> str:
    """Return a script as a URL; it names modules by the import map, as a data URL has no folder."""
    bare = sub(r'from "\./', 'from "placet/', script)
    return f"data:text/javascript;base64,{b64encode(bare.encode()).decode()}"


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    with process:  # closes its pipe, and waits
        pass
