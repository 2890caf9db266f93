"""`placet verify`: check the chain and the digests of a log, and re-execute its decisions."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.actors.ports import EventLog
from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import read_log
from placet.cli.terminal import (
    ColoredLine,
    CommandError,
    Line,
    Output,
    StoreArgument,
    TextTable,
    pluralize,
    text_or_json,
    with_json,
)
from placet.history.reader import IntegrityReport, check_integrity
from placet.schemas.codec import Json
from placet.stores.anchors import check_anchors, find_head, is_continued, is_head, read_anchors
from placet.stores.salvage import salvage as save_what_holds
from placet.stores.url import is_lasting, open_event_log

if TYPE_CHECKING:
    from placet.history.verify_log import Verification

_SHOWN: Final = ("part", "recorded", "decided", "rule")


@with_json
def verify(
    store: StoreArgument,
    domain: AgainBy = None,
    *,
    replay_only: Annotated[
        bool, typer.Option("--replay-only", help="Check chain and digests only; run no rule.")
    ] = False,
    salvage: Annotated[
        str | None,
        typer.Option(
            metavar="NEW", help="If the log is damaged, copy its valid beginning into a new store."
        ),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="Head of the chain that the log must contain, as a run or /readyz printed it.",
        ),
    ] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of `placet serve --anchors`; the log must contain "
            "every anchor of its world.",
        ),
    ] = None,
) -> Output:
    """Verify a log's chain, digests and decisions.

    Every decision is re-executed by the same rules, with the settings in the log, and must have the
    recorded result. Exit code 1 if one differs: the first such record is named, with its rule. A
    log that is being written is checked up to its present end. A log whose end was cut off is
    valid as far as it goes: --expect and --anchors detect it, with exit code 1.
    """
    if expect is not None and not is_head(expect):
        raise typer.BadParameter(
            f"a head is 32 hexadecimal digits, got {expect!r}", param_hint="--expect"
        )
    if replay_only:
        integrity = check_integrity(read_log(store, "verify"))
        report, verification = integrity.as_dict(), None
    else:
        from placet.history.verify_log import verify_log  # noqa: PLC0415  # and pydantic with it

        log = read_log(store, "verify")
        verification = verify_log(log, again_by(domain, log))
        integrity, report = verification.integrity, verification.as_dict()
        if domain:
            _require_verified(store, verification)
    was_ok = report["ok"]
    found = [] if expect is None else [_expect(store, integrity, expect, report)]
    found += [] if anchors is None else _check_anchors(store, integrity, anchors, report)
    is_whole = report["ok"] == was_ok
    lines: list[Line] = [] if is_whole else [*found]
    lines += _lines(store, integrity, is_whole=is_whole, unchecked=_unchecked(verification))
    lines += [] if verification is None else _verification_lines(verification)
    lines += _salvage(store, integrity, salvage, report)
    lines += found if is_whole else []
    return Output(report, lines, report["ok"])


def lines_of(store: str, verification: "Verification") -> list[Line]:
    """Return the result of a verification as lines of text."""
    lines = _lines(store, verification.integrity, unchecked=_unchecked(verification))
    return [*lines, *_verification_lines(verification)]


def _salvage(
    store: str, integrity: IntegrityReport, new: str | None, report: dict[str, Json]
) -> list[str]:
    """Copy the valid beginning of a damaged log, if a new store is given, and describe it."""
    if new is None:
        hint = f"To save the valid records: placet verify {quote(store)} --salvage NEW"
        return [hint] if _may_be_saved(integrity) else []
    if integrity.is_ok:
        return [f"Nothing was saved in {new}: all of {store} is valid."]
    past = save_what_holds(read_log(store, "salvage"), _new_log(new)).past
    report["salvaged"] = {"records": past.journal.count, "seq": past.ledger.seq}
    kept = pluralize(past.journal.count, "record")
    return [f"Saved in {new}: {kept}, up to seq {past.ledger.seq}. Continue with that log."]


def _new_log(store: str) -> EventLog:
    log = open_event_log(store)
    if not is_lasting(log):
        raise CommandError(
            f"cannot save in {store}: a log in memory ends with this command; give a path"
        )
    return log


def _may_be_saved(integrity: IntegrityReport) -> bool:
    """Return whether a log is damaged and has a beginning; other decisions are no damage."""
    first = integrity.first_divergence
    return first is not None and "rule" not in first and not integrity.start.record


def _require_verified(store: str, verification: "Verification") -> None:
    """Check that a domain that was asked for did decide something.

    Raises:
        CommandError: Nothing in the log was verified by it.
    """
    nothing = not verification.batches and not verification.others
    if nothing and verification.unverified and verification.integrity.is_ok:
        raise CommandError(f"cannot verify {store}: {verification.unverified[-1].why}")


def _expect(store: str, integrity: IntegrityReport, head: str, report: dict[str, Json]) -> str:
    """Look for the expected head, add the result to the report, and describe it."""
    record = find_head(read_log(store, "find the head"), head, integrity.end)
    report["expected"] = {"head": head, "record": record}
    if record is None:
        report["ok"] = False
        return (
            f"{store} does NOT contain the expected head {head}. {_end_of(integrity)} Its last "
            "records were cut off, or it is another log."
        )
    following = integrity.end - 1 - record
    if not following:
        return "It ends at the expected head."
    records = pluralize(following, "record")
    return f"It contains the expected head at record {record}; {records} follow."


def _check_anchors(
    store: str, integrity: IntegrityReport, path: Path, report: dict[str, Json]
) -> list[str]:
    """Check the anchors of a file, add the result to the report, and describe it."""
    anchors = read_anchors(path, integrity.world)
    log = read_log(store, "check the anchors")
    checked = check_anchors(log, anchors, integrity.end)
    report["anchors"] = checked.as_dict()
    lines = []
    if checked.skipped:
        lines.append(
            f"Not checked: {pluralize(checked.skipped, 'anchor')} before the log's first record."
        )
    missing = checked.missing
    if missing is None:
        count = pluralize(checked.checked, "anchor")
        return [*lines, f"It contains the {count} of world {integrity.world!r} in {path}."]
    report["ok"] = False
    if missing.record < integrity.end:
        why = f"Record {missing.record} has another hash: the log was cut off and then continued, "
        why += "or it is another log."
    elif is_continued(anchors, missing):
        why = "The log was cut off and then continued: a later anchor is at a lower record."
    else:
        why = "Its last records were cut off."
    lines.append(
        f"{store} does NOT contain the anchor of {missing.time}: record {missing.record}, seq "
        f"{missing.seq}, head {missing.head}. {_end_of(integrity)} {why}"
    )
    return lines


def _end_of(integrity: IntegrityReport) -> str:
    return f"It ends at record {integrity.end - 1}, seq {integrity.seq}, head {integrity.head}."


def _unchecked(verification: "Verification | None") -> str:
    """Return in words which decisions were not re-executed; an empty text for none."""
    if verification is None:
        return "no decision was re-executed"
    parts = [f"{one.first_record} to {one.last_record}" for one in verification.unverified]
    return f"the decisions of records {', '.join(parts)} were not re-executed" if parts else ""


def _lines(
    store: str, integrity: IntegrityReport, *, is_whole: bool = True, unchecked: str = ""
) -> list[Line]:
    reach = (
        f"{pluralize(integrity.records, 'record')}, seq {integrity.seq}, digest "
        f"{integrity.digest}, head {integrity.head}"
    )
    lines: list[Line] = [f"warning: {warning}" for warning in integrity.warnings]
    if integrity.start.record:
        start = integrity.start
        lines.append(f"{store} was compacted: it begins at record {start.record}, seq {start.seq}")
    first = integrity.first_divergence
    if first is None:
        subject = f"{store} is valid" if is_whole else "The records that it has are valid"
        if unchecked:
            subject += f" as far as it was checked, by chain and digests; {unchecked}"
        return [*lines, ColoredLine(f"{subject}: {reach}", "green")]
    why = f"{store} is NOT valid from record {first['record']} on: {first['why']}"
    lines.append(ColoredLine(why, "red"))
    if "rule" in first:
        lines += _difference_lines(first)
    return [*lines, f"The records before it are valid: {reach}"]


def _difference_lines(first: Mapping[str, Json]) -> list[Line]:
    who = first["batch_id"] and f"{first['batch_id']} of {first['agent_id']}, {first['req_id']}"
    rows = [("batch", who)] if who else []
    rows += [(name, text_or_json(first[name])) for name in _SHOWN]
    rows += [
        ("random draw", f"{d['purpose']} at seq {d['seq']}: {d['value']:g}") for d in first["draws"]
    ]
    return [TextTable(rows)]


def _verification_lines(verification: "Verification") -> list[str]:
    lines = []
    if verification.batches or verification.others:
        lines.append(
            f"Re-executed: {pluralize(verification.batches, 'batch', 'batches')} of "
            f"{pluralize(verification.intents, 'intent')}, "
            f"and {pluralize(verification.others, 'other record')} such as registrations and ticks."
        )
    lines += [
        f"Not re-executed: records {part.first_record} to {part.last_record}: {part.why}"
        for part in verification.unverified
    ]
    if verification.refused_by_host:
        lines.append(
            f"Not re-executed: {pluralize(verification.refused_by_host, 'refusal')} by the effect "
            "validator of the host, which is not in the log; `verify_log(log, validator=...)` "
            "re-executes them."
        )
    return lines
