"""`placet log`: what a log says, record by record."""

import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

import typer

from placet.runtime.cli.stores import log_to_read
from placet.runtime.cli.terminal import AsJson, StoreArgument, printable, say
from placet.runtime.log_reader import records_between
from placet.schemas.codec import to_json
from placet.schemas.event import Event
from placet.schemas.limits import SECOND_NS
from placet.schemas.record import (
    Admitted,
    AgentChanged,
    Checkpoint,
    Configured,
    ExecutorChanged,
    Header,
    Record,
    Refused,
    Registered,
    Scheduled,
    Settled,
    Tick,
    intents_of,
    record_as_dict,
    record_type,
)


def log(
    store: StoreArgument,
    from_seq: Annotated[int, typer.Option("--from", min=0, metavar="SEQ", help="Begin there.")] = 0,
    to_seq: Annotated[
        int | None, typer.Option("--to", min=0, metavar="SEQ", help="End there; else at the end.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print a log: what was proposed, and what became of it."""
    records = _begun(records_between(log_to_read(store), from_seq, to_seq))
    if as_json:
        _say_array(records)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    say(f"{'record':>8} {'seq':>8} {'time':>11}  what")
    for ordinal, record in records:
        line = (
            f"{ordinal:>8} {record.seq:>8} {record.now_ns / SECOND_NS:>9.3f} s  "
            f"{record_type(record):<10} {_summary(record)}"
        )
        line = printable(line.rstrip())
        say(line if not width or len(line) <= width else line[: width - 1] + "…")


def _begun(records: Iterator[tuple[int, Record]]) -> Iterator[tuple[int, Record]]:
    """Read the first record, so that a log that cannot be read is an error before any output."""
    first = next(records, None)
    return iter(()) if first is None else chain((first,), records)


def _say_array(records: Iterator[tuple[int, Record]]) -> None:
    """Print one array, item by item: a log may be longer than memory.

    Where the log turns out to be damaged, the array ends and the error follows on stderr.
    """
    before = "["
    try:
        for ordinal, record in records:
            sim_time, data = record.now_ns / SECOND_NS, record_as_dict(record)
            event = Event(record.seq, ordinal, record_type(record), sim_time, data)
            sys.stdout.write(before + to_json(event.as_dict()).decode())
            before = ",\n"
    finally:
        say("]" if before != "[" else "[]")


def _summary(record: Record) -> str:
    match record:
        case Header():
            domains = ", ".join(f"{name} {version}" for name, version in record.domains)
            return f"world {record.world!r}, seed {record.seed}, domains {domains}"
        case Configured():
            return f"quotas {to_json(record.quotas).decode()}, per kind [interval ns, burst]"
        case Registered():
            return f"{record.agent_id} {to_json(record.placing).decode()}"
        case AgentChanged():
            return f"{record.agent_id} {record.what}"
        case ExecutorChanged():
            bound = record.depth_max
            state = "no executor" if bound is None else f"an executor, {bound} may wait"
            return f"effects of {record.kind}: {state}"
        case Tick():
            return f"{len(record.changes.entities)} entities changed"
        case Settled():
            outcome = "succeeded" if record.succeeded else "failed"
            output = to_json(record.output).decode()
            return f"effect {record.effect_seq}.{record.k} {outcome}: {output}"
        case Checkpoint():
            return f"state digest {record.state_digest.hex()}"
        case _:
            return _batch_summary(record)


def _batch_summary(record: Admitted | Refused | Scheduled) -> str:
    parts = [record.batch_id]
    agent_id = None
    for intent in intents_of(record):
        if intent["agent_id"] != agent_id:
            agent_id = intent["agent_id"]
            parts.append(f"{agent_id}:")
        parts.append(f"{intent['kind']} {to_json(intent['payload']).decode()}")
    if isinstance(record, Refused):
        parts += [f"- {stage}/{code}: {message}" for _, stage, code, message in record.refusals]
    if isinstance(record, Scheduled):
        parts.append(f"- due at {record.due_ns / SECOND_NS:g} s")
    return " ".join(parts)
