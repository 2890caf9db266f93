"""`placet verify`: check the chain and the digests of a log, and re-execute its decisions."""

from collections.abc import Mapping
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from placet.actors.ports import EventLog
from placet.cli.domains import AgainBy
from placet.cli.stores import log_to_read
from placet.cli.terminal import (
    AsJson,
    CommandError,
    StoreArgument,
    pluralize,
    say_json,
    say_lines,
    table,
    text_or_json,
)
from placet.runtime.history.reader import IntegrityReport, check_integrity
from placet.runtime.plugins import remake
from placet.runtime.stores.salvage import salvage as save_what_holds
from placet.runtime.stores.url import is_lasting, open_event_log
from placet.schemas.codec import Json

if TYPE_CHECKING:
    from placet.runtime.history.verify_log import Verification

_SHOWN: Final = ("what", "recorded", "decided", "rule")


def verify(
    store: StoreArgument,
    domain: Annotated[list[str] | None, AgainBy] = None,
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
    as_json: AsJson = False,
) -> int:
    """Verify a log's chain, digests and decisions.

    Every decision is re-executed by the same rules, with the settings in the log, and must have the
    recorded result. Exit code 1 if one differs: the first such record is named, with its rule. A
    log that is being written is checked up to its present end.
    """
    if replay_only:
        integrity = check_integrity(log_to_read(store))
        report, verification = integrity.as_dict(), None
    else:
        from placet.runtime.history.verify_log import (  # noqa: PLC0415  # it imports pydantic
            verify_log,
        )

        verification = verify_log(log_to_read(store), partial(remake, given=domain or ()))
        integrity, report = verification.integrity, verification.as_dict()
        if domain:
            _require_verified(store, verification)
    lines = _lines(store, integrity) if verification is None else lines_of(store, verification)
    if salvage is None and _may_be_saved(integrity):
        lines.append(f"To save the valid records: placet verify {quote(store)} --salvage NEW")
    if salvage is not None and integrity.is_ok:
        lines.append(f"Nothing was saved in {salvage}: all of {store} is valid.")
    elif salvage is not None:
        past = save_what_holds(log_to_read(store), _new_log(salvage)).past
        report["salvaged"] = {"records": past.journal.count, "seq": past.ledger.seq}
        count = pluralize(past.journal.count, "record")
        lines.append(
            f"Saved in {salvage}: {count}, up to seq {past.ledger.seq}. Continue with that log."
        )
    if as_json:
        say_json(report)
    else:
        say_lines(lines)
    return 0 if integrity.is_ok else 1


def lines_of(store: str, verification: "Verification") -> list[str]:
    """Describe the result of a verification in lines of text."""
    return [*_lines(store, verification.integrity), *_verification_lines(verification)]


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


def _lines(store: str, integrity: IntegrityReport) -> list[str]:
    reach = (
        f"{pluralize(integrity.records, 'record')}, seq {integrity.seq}, digest {integrity.digest}"
    )
    lines = [f"warning: {warning}" for warning in integrity.warnings]
    if integrity.start.record:
        start = integrity.start
        lines.append(f"{store} was compacted: it begins at record {start.record}, seq {start.seq}")
    first = integrity.first_divergence
    if first is None:
        return [*lines, f"{store} is valid: {reach}"]
    lines.append(f"{store} is NOT valid from record {first['record']} on: {first['why']}")
    if "rule" in first:
        lines += _difference_lines(first)
    return [*lines, f"The records before it are valid: {reach}"]


def _difference_lines(first: Mapping[str, Json]) -> list[str]:
    who = first["batch_id"] and f"{first['batch_id']} of {first['agent_id']}, {first['req_id']}"
    rows = [("batch", who)] if who else []
    rows += [(name, text_or_json(first[name])) for name in _SHOWN]
    rows += [
        ("random draw", f"{d['purpose']} at seq {d['seq']}: {d['value']:g}") for d in first["draws"]
    ]
    return table(rows)


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
