"""`placet log`: the records of a log."""

import select
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import chain
from typing import Annotated, Final, TypeAlias

import typer

from placet.actors.ports import EventLog
from placet.cli.pager import paged
from placet.cli.progress import read_log
from placet.cli.selection import (
    AgentOption,
    FromOption,
    GrepOption,
    KindOption,
    RefusedOption,
    ToOption,
    selection_of,
)
from placet.cli.signals import StopSignals
from placet.cli.terminal import (
    AsJson,
    StoreArgument,
    pluralize,
    quotas_text,
    rounded_json,
    say,
    shorten,
)
from placet.history.batch_outcomes import is_held
from placet.history.selection import (
    Selection,
    require_named,
    selected_of,
    selected_records,
)
from placet.schemas.config import Leases
from placet.schemas.event import Event
from placet.schemas.limits import SECOND_NS
from placet.schemas.log import record as log_record
from placet.schemas.log.column_summary import refused_rows, rows_of
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import Record, Refused, agents_of, intents_of
from placet.schemas.printable import printable, printable_json
from placet.stores.reading import log_to_read
from placet.stores.snapshots.recovery import decode
from placet.stores.url import ChangeFeed, change_feed_of

_HEAD: Final = f"{'record':>8} {'seq':>8} {'time':>11}  what"
_COLORS: Final = {
    "refused": "red",
    "tick": "bright_black",
    "checkpoint": "bright_black",
    "registered": "green",
    "scheduled": "yellow",
    "held": "yellow",
    "settled": "cyan",
    "effect_changed": "cyan",
}
"""Color of a line on a terminal, by the type of its record."""

_BatchRecord: TypeAlias = log_record.Admitted | Refused | log_record.Scheduled

_SETTINGS_CHARACTERS: Final = 400

_LOOK_MS: Final = 200
"""Milliseconds between two reads of a log that is followed."""


def log(
    store: StoreArgument,
    from_seq: FromOption = 0,
    to_seq: ToOption = None,
    since: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEQ", help="Print only records after this seq."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Keep printing new records until interrupted."),
    ] = False,
    *,
    agent: AgentOption = None,
    kind: KindOption = None,
    refused: RefusedOption = False,
    grep: GrepOption = None,
    as_json: AsJson = False,
) -> int:
    """Print the records of a log.

    A refused batch has no seq, shown as `-`. Numbers are rounded to six digits; --json has all of
    them. On a terminal the output goes through $PAGER. With --follow, --json prints one document
    per line.
    """
    if since is not None and from_seq:
        raise typer.BadParameter("give --from or --since, not both")
    if follow and to_seq is not None:
        raise typer.BadParameter("--follow has no end; leave out --to")
    first_seq = from_seq if since is None else since + 1
    selection = selection_of(first_seq, to_seq, agent, kind, refused=refused, grep=grep)
    source = log_to_read(store)
    if follow:
        return _follow(source, selection, as_json=as_json)
    require_named(source, selection)
    records = _existing_log(store, selection)
    if as_json:
        _print_json_array(records)
        return 0
    width = _terminal_width()
    with paged():
        start = source.start()
        if start.record and first_seq <= start.seq:
            say(f"compacted: the records up to seq {start.seq} were removed")
        say(_HEAD)
        for ordinal, record in records:
            _say(ordinal, record, width)
    return 0


def _follow(source: EventLog, selection: Selection, *, as_json: bool) -> int:
    """Print present and future records, until a signal or until the reader is gone.

    A store with notifications is listened to; any other is asked for its length a few times a
    second. It is read only when it has grown.
    """
    with StopSignals() as stop, closing(source), ExitStack() as stack:
        feed = change_feed_of(source)
        if feed is not None:
            stack.enter_context(closing(feed))
        place = source.find_seq(selection.from_seq)
        width = _terminal_width()
        if not as_json:
            say(_HEAD)
        while not stop.is_set():
            for ordinal, data in source.read(place) if source.count() > place else ():
                place = ordinal + 1
                for record in selected_of(decode(data, ordinal), selection):
                    if as_json:
                        say(_as_json(ordinal, record))
                    else:
                        _say(ordinal, record, width)
                if stop.is_set():
                    break
            sys.stdout.flush()
            if not stop.is_set() and _is_abandoned(feed):
                break
            if feed is not None and not feed.drain():
                feed = None
    return stop.exit_code


def _is_abandoned(feed: ChangeFeed | None) -> bool:
    """Wait briefly, or until a notification; return whether the reader of our output is gone."""
    poll = select.poll()
    stdout = sys.stdout.fileno()
    poll.register(stdout, 0)  # of nothing but its end
    if feed is not None:
        poll.register(feed, select.POLLIN)
    ready = poll.poll(_LOOK_MS if feed is None else feed.look_ms)
    return any(descriptor == stdout for descriptor, _ in ready)


def _terminal_width() -> int:
    """Return the width of the terminal; 0 if stdout is none, and lines are not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _say(ordinal: int, record: Record, width: int) -> None:
    seq = "-" if _is_refused(record) else record.seq  # `explain --seq` finds no refusal
    type_ = "held" if is_held(record) else log_record.record_type(record)
    place = f"{ordinal:>8} {seq:>8} {record.now_ns / SECOND_NS:>9.3f} s  {type_:<10} "
    line = printable(f"{place}{_summary(record)}".rstrip())
    if width and len(line) > width and isinstance(record, Refused):  # its reason is at the end
        line = printable(f"{place}{_batch_summary(record, with_payloads=False)}")
    say(shorten(line, width), _COLORS.get(type_)) if width else say(line)


def _is_refused(record: Record) -> bool:
    """Return whether a record is of a batch that took no seq."""
    if isinstance(record, log_record.Columns):
        return record.seq == record.group_seq
    return isinstance(record, Refused)


def _as_json(ordinal: int, record: Record) -> str:
    sim_time, data = record.now_ns / SECOND_NS, log_record.record_as_dict(record)
    event = Event(record.seq, ordinal, log_record.record_type(record), sim_time, data)
    return printable_json(event.as_dict())


def _existing_log(store: str, selection: Selection) -> Iterator[tuple[int, Record]]:
    """Read the first record, so that a log that cannot be read is an error before any output.

    The search shows a bar, and on a terminal the bar ends before the first line of output.
    """
    records = selected_records(read_log(store, "log"), selection)
    first = next(records, None)
    if first is None:
        return iter(())
    if not sys.stdout.isatty():
        return chain((first,), records)
    records.close()
    return selected_records(log_to_read(store), selection, from_record=first[0])


def _print_json_array(records: Iterator[tuple[int, Record]]) -> None:
    """Print one array, item by item: a log may be longer than memory.

    Where the log turns out to be damaged, the array ends and the error follows on stderr.
    """
    before = "["
    try:
        for ordinal, record in records:
            sys.stdout.write(before + _as_json(ordinal, record))
            before = ",\n"
    finally:
        say("]" if before != "[" else "[]")


def _summary(record: Record) -> str:  # noqa: C901, PLR0912  # a branch a type
    match record:
        case log_record.Header():
            domains = ", ".join(f"{name} {version}" for name, version in record.domains)
            settings = "".join(
                f"; settings of {name} {shorten(rounded_json(values), _SETTINGS_CHARACTERS)}"
                for name, values in record.settings.items()
                if values
            )
            return f"world {record.world!r}, seed {record.seed}, domains {domains}{settings}"
        case log_record.RulesChanged():
            domains = ", ".join(f"{name} {version}" for name, version in record.domains)
            return f"from here on by domains {domains} ({record.fingerprint[:8]})"
        case log_record.Configured():
            return f"quotas {quotas_text(record.quotas, record.world_quota)}{_leases(record)}"
        case log_record.Registered():
            return f"{record.agent_id} {rounded_json(record.attributes)}"
        case log_record.AgentChanged():
            return f"{record.agent_id} {_agent_change(record)}"
        case log_record.ExecutorChanged():
            bound = record.depth_max
            state = "no executor" if bound is None else f"an executor, at most {bound} open"
            return f"effects of {record.kind}: {state}"
        case log_record.Tick():
            return _entities(record.changes) + _written(record) + _agents(record)
        case log_record.Settled():
            outcome = "succeeded" if record.succeeded else "failed"
            output = rounded_json(record.output)
            error = record.error if isinstance(record, log_record.SettlementFailed) else None
            failed = "" if error is None else f"; on_settle raised {error}"
            return f"effect {record.effect_seq}.{record.effect_index} {outcome}: {output}{failed}"
        case log_record.ForkAdopted() | log_record.Patched():
            return _by_operator(record)
        case log_record.EffectChanged():
            why = f": {record.why}" if record.why else ""
            return f"effect {record.effect_seq}.{record.effect_index} {record.what}{why}"
        case log_record.TableMade():
            last = record.count - 1
            agents = "" if record.members is None else f", agents {record.stem}:0..{last}"
            return f"{record.table} {pluralize(record.count, 'row')}{agents}"
        case log_record.Columns():
            return _columns_summary(record)
        case log_record.Checkpoint():
            return f"state digest {record.state_digest.hex()}"
        case _:
            return " | ".join(map(_batch_summary, batches_of(record)))


def _columns_summary(record: log_record.Columns) -> str:
    """Return a column batch as counts; its rows are in the tables of `placet export`."""
    rows, refused = rows_of(record), refused_rows(record)
    count = "all rows" if rows is None else pluralize(rows, "row")
    codes = ", ".join(f"{number} {code}" for code, number in refused.items())
    text = f"b{record.number} {record.population}: {record.req_id} {record.kind} {count}"
    return f"{text} - {codes}" if codes else text


def _entities(changes: log_record.Changes) -> str:
    return f"{pluralize(len(changes.entities), 'entity', 'entities')} changed"


def _written(record: log_record.Tick) -> str:
    """Return the columns that `on_tick` wrote, as the part of a line; empty for none."""
    if not isinstance(record, log_record.TickWithColumns) or not record.written:
        return ""
    fields = dict.fromkeys(f"{one.table}/{one.field}" for one in record.written)
    return f"; columns {', '.join(fields)} changed"


def _agents(record: Record) -> str:
    """Return what rules did to agents, as the end of a line; empty for nothing."""
    names = [f"{'-' if one.is_removed else '+'}{one.agent_id}" for one in agents_of(record)]
    return f"; agents {' '.join(names)}" if names else ""


def _leases(record: log_record.Configured) -> str:
    settings = record.lease_settings
    if settings is None:
        return ""
    leases = Leases.of(settings)
    return f"; leases of at most {leases.seconds_max:g} s, share {leases.share:g}"


def _agent_change(record: log_record.AgentChanged) -> str:
    if record.what != "permissions":
        return record.what
    kinds = record.permissions
    return f"may propose {'all kinds' if kinds is None else ', '.join(kinds) or 'nothing'}"


def _by_operator(record: log_record.ForkAdopted | log_record.Patched) -> str:
    if isinstance(record, log_record.Patched):
        return f"{record.cause}: {_entities(record.changes)}"
    put = f", {pluralize(len(record.given), 'value')} set" if record.given else ""
    dropped = f", without {', '.join(record.dropped)}" if record.dropped else ""
    seed = "" if record.seed is None else f", seed {record.seed}"
    return f"world {record.world!r}, forked from {record.parent!r} here{seed}{put}{dropped}"


def _batch_summary(record: _BatchRecord, *, with_payloads: bool = True) -> str:
    parts = [record.batch_id]
    agent_id = None
    for intent in intents_of(record):
        if intent["agent_id"] != agent_id:
            agent_id = intent["agent_id"]
            parts.append(f"{agent_id}:")
        payload = f" {rounded_json(intent['payload'])}" if with_payloads else ""
        parts.append(f"{intent['req_id']} {intent['kind']}{payload}")
    if isinstance(record, Refused):
        parts += [f"- {stage}/{code}: {message}" for _, stage, code, message in record.refusals]
    if isinstance(record, log_record.Scheduled):
        parts.append(f"- due at {record.due_ns / SECOND_NS:g} s")
    return " ".join(parts) + _agents(record)
