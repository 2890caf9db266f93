"""Decide a column batch as arrays: the stages of the gate over all rows at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.row_codes import (
    BOUNDS,
    CONFLICT,
    DENIED,
    FUTURE,
    LEASED,
    OK,
    OUT_OF_BOUNDS,
    OWNER,
    PAYLOAD,
    QUOTA,
    RULE,
    RULE_ERROR,
    STALE,
    SUSPENDED,
    TOO_FAR,
    WORLD_QUOTA,
)
from placet.kernel.arrays.values import Mask, misfits
from placet.kernel.arrays.words import U64, Array, Words, mix_array
from placet.kernel.columns.contention import (
    FREE,
    additions_of,
    contending,
    grant_one,
    grant_several,
    in_danger,
    slots_of,
)
from placet.kernel.columns.form import CheckedColumns
from placet.kernel.columns.leased import is_leased, leased_rows
from placet.kernel.columns.turns import Turns
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members
from placet.kernel.ledger.token_buckets import OWN
from placet.kernel.plugin.rows import (
    Draw,
    RowCall,
    Rows,
    Rows64,
    ShapeError,
    UnequalCallsError,
    have_one_form,
    judge,
)
from placet.kernel.prng import draw_state, mix64
from placet.kernel.state.table import TableData
from placet.schemas.config import ALL_KINDS, Quota
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import ROW_FAULTS_MAX, SECOND_NS
from placet.schemas.log.column_records import ColumnReason

if TYPE_CHECKING:
    from placet.kernel.context import GateContext

_BEYOND: Final = "a value would leave the bounds of its field"

Codes = NDArray[np.uint8]
FaultSink = Callable[[str, BaseException], None]


class Decided(NamedTuple):
    """The decision on a column batch, the same whichever way it was reached.

    Attributes:
        codes: Code of each row; None if all are admitted.
        reasons: The refusals by the rule that occur in `codes`, numbered by the first row of each.
        winners: Number of the member that won, for each row refused as `conflict`, in order.
        admitted: Number of the member of each admitted row; None if they are all members, in order.
        calls: Changes by the admitted rows, in order, with an item for each of them.
        payload: Payload of the admitted rows; None if it is not picked yet.
    """

    codes: Codes | None
    reasons: list[ColumnReason]
    winners: NDArray[np.int32]
    admitted: Rows64 | None
    calls: list[RowCall]
    payload: dict[str, Array] | None = None


def decide(
    batch: CheckedColumns, context: "GateContext", seed: int, on_fault: FaultSink
) -> Decided:
    """Decide the rows of a batch; changes nothing."""
    codes = np.zeros(len(batch), np.uint8)
    pass_gate(batch, context, codes)
    living: Rows64 | None = None
    numbers, payload = batch.numbers, batch.payload
    if codes.any():
        living = np.flatnonzero(codes == OK)
        numbers = numbers.take(living)
        payload = {name: values.take(living, axis=0) for name, values in payload.items()}
    rows = _ruled(
        batch, context, numbers, payload, seed, on_fault, is_whole=batch.is_whole and living is None
    )
    if leased := leased_rows(batch, context):
        _refuse(rows.code, is_leased(rows, leased), LEASED)
    lost_to = _contended(batch, context, rows, seed)
    if living is not None:
        codes[living] = rows.code
    else:
        codes = rows.code
    return _decided(batch, rows, payload, codes, lost_to)


# the stages before the rule


def pass_gate(batch: CheckedColumns, context: "GateContext", codes: Codes) -> None:
    """Refuse rows by payload, agent, staleness and quota; the first stage that refuses counts."""
    members, ledger, kind = batch.members, context.ledger, batch.kind
    for name, values in batch.payload.items():
        _refuse(codes, misfits(kind.fields[name], values), PAYLOAD)
    if not is_owned(batch):
        codes[codes == OK] = OWNER
        return
    if members.suspended is not None:
        is_suspended = members.suspended
        if not batch.is_whole:
            is_suspended = is_suspended.take(batch.numbers)
        _refuse(codes, is_suspended, SUSPENDED)
    if not is_permitted(batch):
        codes[codes == OK] = DENIED
        return
    _check_contexts(batch, ledger, codes)
    if kind.reads_self is not None:
        _check_own(batch, context.state.tables[kind.reads_self], ledger.seq, codes)
    for bucket, quota in quotas_of(ledger, members, kind.name):
        rows = None if batch.is_whole else batch.numbers
        _refuse(codes, members.over(bucket, quota, rows, context.now_ns), QUOTA)
    world = ledger.policy.world_quota
    if world is not None:
        count = len(codes) - int(np.count_nonzero(codes))
        tat_ns = world.charged(ledger.world_tat, count, context.now_ns)
        if world.over_ns(tat_ns, context.now_ns) > 0:
            codes[codes == OK] = WORLD_QUOTA


def is_owned(batch: CheckedColumns) -> bool:
    """Return whether the submitter may submit for the population."""
    return batch.submitter in {OPERATOR, batch.members.owner}


def is_permitted(batch: CheckedColumns) -> bool:
    """Return whether the population may propose the kind."""
    permissions = batch.members.permissions
    return permissions is None or batch.kind.name in permissions


def _refuse(codes: Codes, mask: Mask | None, code: int) -> None:
    if mask is not None and mask.any():
        codes[mask & (codes == OK)] = code


def _check_contexts(batch: CheckedColumns, ledger: Ledger, codes: Codes) -> None:
    contexts, seq, threshold = batch.contexts, ledger.seq, ledger.policy.staleness_threshold
    if isinstance(contexts, int):
        if contexts > seq:
            codes[codes == OK] = FUTURE
        elif threshold is not None and seq - contexts > threshold:
            codes[codes == OK] = TOO_FAR
        return
    _refuse(codes, contexts > seq, FUTURE)
    if threshold is not None:
        _refuse(codes, seq - contexts > threshold, TOO_FAR)


def _check_own(batch: CheckedColumns, table: TableData, seq: int, codes: Codes) -> None:
    """Refuse the rows whose own row of a table another agent changed after their context."""
    contexts, rows = batch.contexts, batch.numbers
    oldest = contexts if isinstance(contexts, int) else int(contexts.min(initial=seq))
    if oldest >= seq or oldest >= int(table.seqs.max(initial=0)):
        return  # nothing changed since the oldest context
    numbers = batch.members.numbers
    if batch.is_whole:
        changed = np.where(table.bys == numbers, table.foreign, table.seqs)
    else:
        is_own = table.bys.take(rows) == numbers.take(rows)
        changed = np.where(is_own, table.foreign.take(rows), table.seqs.take(rows))
    _refuse(codes, changed > contexts, STALE)


def quotas_of(ledger: Ledger, members: Members, kind: str) -> list[tuple[str, Quota]]:
    """Return the buckets that each row of a kind is charged to, with their quotas."""
    world, own = ledger.policy.quotas, members.quotas
    found = [(name, world[name]) for name in (kind, ALL_KINDS) if name in world]
    return found + [(OWN + name, own[name]) for name in (kind, ALL_KINDS) if name in own]


# the rule


def drawer(batch: CheckedColumns, context: "GateContext", seed: int) -> Callable[[Rows64], Draw]:
    """Return a function of rows that makes their draws, each with its agent's ordinal."""
    ledger, members = context.ledger, batch.members
    moment = (ledger.tick, context.now_ns)
    counts = members.ordinals(context.now_ns)
    others = ledger.ordinals.of_members(members.name, context.now_ns)
    if others:
        counts = (
            np.full(members.count, counts, np.int32) if isinstance(counts, int) else counts.copy()
        )
        for number, count in others:
            counts[number] += count

    def draws_of(numbers: Rows64) -> Draw:
        def draw(purpose: str) -> Words:
            keys = members.keys
            if numbers is not members.all:
                keys = keys.take(numbers)
            if isinstance(counts, int):
                return mix_array(draw_state(seed, *moment, counts, purpose), keys)
            own = counts.take(numbers)
            states = np.zeros(int(own.max(initial=0)) + 1, U64)
            for ordinal in np.flatnonzero(np.bincount(own)).tolist():
                states[ordinal] = draw_state(seed, *moment, ordinal, purpose)
            return mix_array(states.take(own), keys)

        return draw

    return draws_of


def _ruled(  # the parts of a batch that its rule is called on
    batch: CheckedColumns,
    context: "GateContext",
    numbers: Rows64,
    payload: dict[str, Array],
    seed: int,
    on_fault: FaultSink,
    *,
    is_whole: bool,
) -> Rows:
    """Call the rule, on halves where it raises, down to the rows at fault; report the first."""
    tables = context.state.tables
    assert batch.kind.table is not None, "a kind with a rule of rows names its table"
    table, draws_of = tables[batch.kind.table], drawer(batch, context, seed)
    moment = (context.now_ns / SECOND_NS, context.ledger.tick)

    def made(start: int, stop: int) -> Rows:
        if (start, stop) == (0, len(numbers)):
            return Rows(
                table, tables, numbers, payload, draws_of(numbers), moment, is_whole=is_whole
            )
        part = numbers[start:stop]
        values = {name: column[start:stop] for name, column in payload.items()}
        return Rows(table, tables, part, values, draws_of(part), moment)

    raised: list[int] = []  # of each report, the number of rows for which the rule raised

    def report(place: int, error: Exception, rows: int = 0) -> None:
        if not raised:
            on_fault(fault_of(batch, int(numbers[place])), error)
        raised.append(rows)

    def called(start: int, stop: int) -> list[Rows]:
        rows = made(start, stop)
        if not rows.n or sum(raised) >= ROW_FAULTS_MAX:  # the rest is refused unseen
            rows.code[:] = RULE_ERROR
            return [rows]
        fault = fault_in(batch, rows)
        if fault is None:
            if rows.fault is not None:
                report(start + rows.fault[0], rows.fault[1])
            return [rows]
        if stop - start > 1 and not isinstance(fault, ShapeError):
            middle = (start + stop) // 2
            return called(start, middle) + called(middle, stop)
        report(start, fault, rows.n)
        rows = made(start, stop)
        rows.code[:] = RULE_ERROR
        return [rows]

    parts = called(0, len(numbers))
    if len(parts) == 1:
        return parts[0]
    whole = made(0, len(numbers))
    if not have_one_form(parts):
        report(0, UnequalCallsError())
        whole.code[:] = RULE_ERROR
        return whole
    return _joined(whole, parts)


def fault_in(batch: CheckedColumns, rows: Rows) -> Exception | None:
    """Call the rule with rows; return the exception that it raised.

    It is returned, because halves that are called in its handler would show it as their context.
    """
    try:
        with np.errstate(all="ignore"):
            batch.kind.rows(rows)  # type: ignore[misc]  # the form requires one
            judge(rows, batch.kind.fields)
    except INTERRUPTS:
        raise
    except Exception as error:  # noqa: BLE001  # the rule boundary
        return error
    return None


def fault_of(batch: CheckedColumns, number: int) -> str:
    """Return the place of an exception of a rule, for reports: its kind, and an agent of a row."""
    return f"rule of {batch.kind.name} for {batch.members.name}:{number}"


def _joined(whole: Rows, parts: Sequence[Rows]) -> Rows:
    """Put the parts of a batch together; a row at fault has zeros, which are not read."""
    whole.code = np.concatenate([part.code for part in parts])
    example = next((part for part in parts if part.calls or part.claims or part.reasons), None)
    if example is None:
        return whole
    whole.reasons = example.reasons
    for place, (table, keys) in enumerate(example.claims):
        pieces = [part.claims[place][1] if part.claims else None for part in parts]
        whole.claims.append((table, _together(parts, pieces, keys)))
    for place, call in enumerate(example.calls):
        made = [part.calls[place] if part.calls else None for part in parts]
        at = None
        if call.at is not None:
            at = _together(parts, [each and each.at for each in made], call.at)
        values = [None if each is None else each.values for each in made]
        whole.calls.append(call._replace(at=at, values=_together(parts, values, call.values)))
    return whole


def _together(parts: Sequence[Rows], pieces: Sequence[Array | None], like: Array) -> Array:
    """Return the pieces of all parts as one array; a missing piece is zeros."""
    return np.concatenate(
        [
            np.zeros((part.n, *like.shape[1:]), like.dtype) if piece is None else piece
            for part, piece in zip(parts, pieces, strict=True)
        ]
    )


# contention


def _contended(
    batch: CheckedColumns, context: "GateContext", rows: Rows, seed: int
) -> Rows64 | None:
    """Refuse rows that lose a claim or whose additions leave bounds; return who they lost to."""
    tables = context.state.tables
    additions = additions_of(rows.calls, tables, rows.numbers)
    living = np.flatnonzero(rows.code == OK) if rows.code.any() else None
    danger = in_danger(additions, living) if additions else {}
    if not rows.claims and not danger:
        return None
    ledger, members = context.ledger, batch.members
    state = mix64(seed, ledger.tick, ledger.group)

    def fair(places: Rows64) -> Words:
        return mix_array(state, members.keys.take(rows.numbers.take(places)))

    slots, size = slots_of(rows.claims, tables)
    places = contending(rows.n, living, slots, size, additions, danger)
    if not len(places):
        return None
    lost_to = np.full(rows.n, FREE, np.int64)
    if danger:
        order = places.take(np.argsort(fair(places)))
        turns = Turns(order, slots, size, additions, danger)
        turns.pass_all()
        lost_to[order] = turns.lost_to
        rows.code[order[turns.is_beyond]] = BOUNDS
    elif len(slots) == 1:
        grant_one(places, slots[0], size, fair(places), lost_to)
    else:
        grant_several(places.take(np.argsort(fair(places))), slots, size, lost_to)
    rows.code[lost_to != FREE] = CONFLICT
    return lost_to


# the result


def _decided(
    batch: CheckedColumns,
    rows: Rows,
    payload: dict[str, Array],
    codes: Codes,
    lost_to: Rows64 | None,
) -> Decided:
    no_winners = np.zeros(0, np.int32)
    if not codes.any():
        admitted = None if batch.is_whole else batch.numbers
        return Decided(None, [], no_winners, admitted, rows.calls, payload)
    winners = no_winners
    if lost_to is not None:
        winners = rows.numbers[lost_to[rows.code == CONFLICT]].astype(np.int32)
    reasons = numbered(codes, rows.reasons, batch)
    if not rows.code.any():
        return Decided(codes, reasons, winners, rows.numbers, rows.calls, payload)
    places = np.flatnonzero(rows.code == OK)
    picked: list[tuple[Array, Array]] = []  # arrays that are one object stay one

    def pick(array: Array) -> Array:
        known = next((mine for given, mine in picked if given is array), None)
        if known is None:
            known = array.take(places, axis=0)
            picked.append((array, known))
        return known

    payload = {name: pick(values) for name, values in payload.items()}
    calls = [
        call._replace(at=None if call.at is None else pick(call.at), values=pick(call.values))
        for call in rows.calls
    ]
    return Decided(codes, reasons, winners, pick(rows.numbers), calls, payload)


def numbered(
    codes: Codes, made: Sequence[tuple[str, str]], batch: CheckedColumns
) -> list[ColumnReason]:
    """Number the refusals of the domain by their first row, in place; return the refusals in use.

    The rule numbers them by call, which depends on the rows that it was called on.
    """
    is_named = (codes >= RULE) | (codes == BOUNDS)
    if not is_named.any():
        return []
    by_row = sorted(
        np.flatnonzero(np.bincount(codes[is_named])).tolist(),
        key=lambda code: int((codes == code).argmax()),
    )
    renumbered = np.arange(256, dtype=np.uint8)
    reasons: list[ColumnReason] = []
    number = RULE
    for code in by_row:
        if code == BOUNDS:
            reasons.append((code, f"{batch.domain}.{OUT_OF_BOUNDS}", _BEYOND))
            continue
        name, message = made[code - RULE]
        reasons.append((number, f"{batch.domain}.{name}", message))
        renumbered[code] = number
        number += 1
    codes[:] = renumbered[codes]
    return reasons
