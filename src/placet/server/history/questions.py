"""Questions whose answer needs the ledger, so a replay: an agent's view, a fork."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from placet.actors.observation.viewer import Viewer
from placet.history.fork import Fork, ForkOptions, fork
from placet.history.position import Position
from placet.history.reader import config_from
from placet.history.timeline.moments import ROWS_MAX, short
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.rules_version import rules_in
from placet.scenarios.resume import indivisible_ns
from placet.schemas.codec import Json, thaw, to_json
from placet.schemas.errors import StoreError
from placet.server.history.timelines import PlayedWorld, Source
from placet.stores.snapshots.recovery import recover
from placet.stores.url import open_event_log

_ENTITIES_MAX: Final = ROWS_MAX


def view_at(played: PlayedWorld, record: int, agent_id: str) -> dict[str, Json]:
    """Return the view of an agent after a record: counts, and the first entities of collections.

    Raises:
        KeyError: The agent is not registered there.
        StoreError: The log cannot be read, or its domains cannot be recreated.
    """
    past = recover(played.source.log, to_record=record + 1, files=played.snapshots).past
    config = config_from(past)
    if past.header is None or config is None:
        raise StoreError("there is no world before the first record", store=played.source.log.url)
    domains = played.source.domains
    made = list(domains) if isinstance(domains, Sequence) else domains(rules_in(past.header))
    kernel = Kernel(made, config, history=past, read_only=True)
    if agent_id not in kernel.ledger.agents:
        raise KeyError(agent_id)
    view = Viewer(kernel).view(kernel, agent_id)
    return {
        "agent_id": agent_id,
        "seq": view.view_seq,
        "sim_time": view.sim_time,
        "leases": dict(view.leases),
        "collections": [_seen(name, view.state[name]) for name in sorted(view.state)],
    }


def _seen(name: str, rows: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    ids = sorted(rows)
    return {
        "name": name,
        "count": len(ids),
        "rows": [
            [entity, {field: short(thaw(value)) for field, value in rows[entity].items()}]
            for entity in ids[:_ENTITIES_MAX]
        ],
    }


def forked(
    played: PlayedWorld, path: Path, record: int, options: ForkOptions
) -> tuple[Fork, Source]:
    """Fork a world after a record into a file that is played until the server ends.

    Raises:
        StoreError: The log cannot be read, or the file cannot be written.
        ValidationError, AgentError, ValueError: A change is invalid.
    """
    source = played.source
    at = Position(record=record, whole_ticks_ns=indivisible_ns(source.log))
    made = fork(
        source.log, str(path), options, at=at, domains=source.domains, files=played.snapshots
    )
    played_fork = Source(open_event_log(made.store), source.domains, portrayals=source.portrayals)
    return made, played_fork


def fork_command(played: PlayedWorld, record: int, options: ForkOptions) -> str | None:
    """Return the command that makes the fork in a file; None if no process can read the log."""
    if played.source.store is None:
        return None
    words = ["placet", "fork", played.source.store, "NEW.db", "--at-record", str(record)]
    for path, value in options.put.items():
        words += ["--set", f"{path}={to_json(value).decode()}"]
    for agent in options.dropped:
        words += ["--drop-agent", agent]
    if options.seed is not None:
        words += ["--seed", str(options.seed)]
    if options.is_replayed:
        words.append("--replay")
    for domain in played.source.given:
        words += ["--domain", domain]
    return " ".join(map(quote, words))
