"""The reference: a column batch decided row by row, in plain Python, in the fair order.

It shares with `decide.py` the rule and the form of the result, and no arithmetic on arrays. Each
row passes the stages as an ordinary intent does, with the objects of the ledger and the tree.
`Kernel.uses_arrays = False` selects it, and the tests hold the two to the same bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from placet.kernel.arrays.row_codes import (
    BOUNDS,
    CONFLICT,
    DENIED,
    FUTURE,
    LEASED,
    OK,
    OWNER,
    PAYLOAD,
    QUOTA,
    RULE_ERROR,
    STALE,
    SUSPENDED,
    TOO_FAR,
    WORLD_QUOTA,
)
from placet.kernel.arrays.words import U64, Array, Words
from placet.kernel.columns.decide import (
    Decided,
    FaultSink,
    fault_in,
    fault_of,
    is_owned,
    is_permitted,
    numbered,
    quotas_of,
)
from placet.kernel.columns.form import CheckedColumns
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.members import Members
from placet.kernel.plugin.rows import (
    RowCall,
    Rows,
    Rows64,
    UnequalCallsError,
    have_one_form,
)
from placet.kernel.prng import agent_key, mix64, mix_word, random_u64
from placet.kernel.state.table import TableData
from placet.kernel.state.tree import State
from placet.schemas.identity import Ref
from placet.schemas.limits import ROW_FAULTS_MAX, SECOND_NS

if TYPE_CHECKING:
    from placet.kernel.context import GateContext


def decide(
    batch: CheckedColumns, context: "GateContext", seed: int, on_fault: FaultSink
) -> Decided:
    """Decide the rows of a batch one after another; changes nothing."""
    ledger, members = context.ledger, batch.members
    names = [f"{members.name}:{number}" for number in batch.numbers.tolist()]
    codes = _gate(batch, context, names)
    salt = mix64(seed, ledger.tick, ledger.group)
    order = sorted(range(len(names)), key=lambda row: mix_word(salt, agent_key(names[row])))
    seen = _seen(
        batch, context, [row for row, code in enumerate(codes) if code == OK], names, seed, on_fault
    )
    turn = _Turn(context.state)
    for row in order:
        if row in seen:
            if not seen[row].code[0] and _is_leased(context, names[row], seen[row]):
                seen[row].code[:] = LEASED
            codes[row] = int(seen[row].code[0]) or turn.pass_row(row, seen[row])
    winners = [
        int(batch.numbers[turn.lost_to[row]]) for row in range(len(names)) if codes[row] == CONFLICT
    ]
    return _decided(batch, codes, seen, winners)


# the stages before the rule


def _gate(batch: CheckedColumns, context: "GateContext", names: Sequence[str]) -> list[int]:
    """Return the code of each row at the stages before the rule."""
    ledger = context.ledger
    contexts = batch.contexts
    own = [contexts] * len(names) if isinstance(contexts, int) else contexts.tolist()
    codes = [_gate_row(batch, context, row, name, own[row]) for row, name in enumerate(names)]
    world, count = ledger.policy.world_quota, codes.count(OK)
    if world is not None and count:
        tat_ns = world.charged(ledger.world_tat, count, context.now_ns)
        if world.over_ns(tat_ns, context.now_ns) > 0:
            return [WORLD_QUOTA if code == OK else code for code in codes]
    return codes


def _gate_row(  # a stage a return
    batch: CheckedColumns, context: "GateContext", row: int, name: str, context_seq: int
) -> int:
    ledger, kind = context.ledger, batch.kind
    if not all(_fits(batch, field, row) for field in batch.payload):
        return PAYLOAD
    if not is_owned(batch):
        return OWNER
    agent = ledger.agents[name]
    if agent.is_suspended:
        return SUSPENDED
    if not is_permitted(batch):
        return DENIED
    if context_seq > ledger.seq:
        return FUTURE
    threshold = ledger.policy.staleness_threshold
    if threshold is not None and ledger.seq - context_seq > threshold:
        return TOO_FAR
    if kind.reads_self is not None:
        entity = context.state.collections[kind.reads_self].entities[name]
        if entity.changed_for(name) > context_seq:
            return STALE
    return QUOTA if _is_over(ledger, batch.members, agent, kind.name, context.now_ns) else OK


def _fits(batch: CheckedColumns, name: str, row: int) -> bool:
    field = batch.kind.fields[name]
    return all(
        isfinite(number)
        and (field.low is None or number >= field.low)
        and (field.high is None or number <= field.high)
        for number in _numbers_of(batch.payload[name][row])
    )


def _numbers_of(value: Any) -> list[Any]:  # noqa: ANN401  # a scalar or an array of numpy
    # Scalars of the dtype: a bound of a field of f4 is rounded to f4 before it is compared.
    return list(np.ravel(value))


def _is_over(ledger: Ledger, members: Members, agent: Agent, kind: str, now_ns: int) -> bool:
    tats = agent.tats or {}
    return any(
        quota.over_ns(quota.charged(tats.get(bucket, 0), 1, now_ns), now_ns) > 0
        for bucket, quota in quotas_of(ledger, members, kind)
    )


# the rule


def _seen(
    batch: CheckedColumns,
    context: "GateContext",
    living: Sequence[int],
    names: Sequence[str],
    seed: int,
    on_fault: FaultSink,
) -> dict[int, Rows]:
    """Call the rule with each row; report the first fault."""
    faults: list[Exception] = []

    def report(row: int, error: Exception) -> None:
        if not faults:
            on_fault(fault_of(batch, int(batch.numbers[row])), error)
        faults.append(error)

    seen: dict[int, Rows] = {}
    raised = 0
    for row in living:
        is_seen = raised < ROW_FAULTS_MAX
        seen[row], has_raised = _ruled(
            batch, context, row, names[row], seed, partial(report, row), is_called=is_seen
        )
        raised += has_raised
    if not have_one_form(seen.values()):
        report(living[0], UnequalCallsError())
        for rows in seen.values():
            rows.code[:] = RULE_ERROR
    return seen


def _ruled(
    batch: CheckedColumns,
    context: "GateContext",
    row: int,
    name: str,
    seed: int,
    report: Callable[[Exception], None],
    *,
    is_called: bool,
) -> tuple[Rows, bool]:
    """Call the rule with one row, or refuse it unseen; return it, and whether the rule raised."""
    ledger, tables = context.ledger, context.state.tables
    number = int(batch.numbers[row])
    moment = (ledger.tick, context.now_ns)

    def draw(purpose: str) -> Words:
        ordinal = ledger.ordinals.of(name, context.now_ns)
        return np.array([random_u64(seed, *moment, ordinal, purpose, name)], U64)

    def made() -> Rows:
        payload = {field: values[row : row + 1] for field, values in batch.payload.items()}
        seconds = (context.now_ns / SECOND_NS, ledger.tick)
        return Rows(
            _table_of(batch, context.state), tables, np.array([number]), payload, draw, seconds
        )

    rows = made()
    if not is_called:
        rows.code[:] = RULE_ERROR
        return rows, False
    fault = fault_in(batch, rows)
    if fault is not None:
        report(fault)
        rows = made()
        rows.code[:] = RULE_ERROR
        return rows, True
    if rows.fault is not None:
        report(rows.fault[1])
    return rows, False


def _table_of(batch: CheckedColumns, state: State) -> TableData:
    assert batch.kind.table is not None, "a kind with a rule of rows names its table"
    return state.tables[batch.kind.table]


def _is_leased(context: "GateContext", name: str, rows: Rows) -> bool:
    """Return whether a row would change a row that another agent has leased."""
    leases, tables = context.ledger.leases, context.state.tables
    if leases is None:
        return False
    held = leases.at(context.now_ns).held
    for call in rows.calls:
        target = int(rows.numbers[0] if call.at is None else call.at[0])
        ticket = held.get(Ref(call.table, f"{tables[call.table].stem}:{target}"))
        if ticket is not None and ticket.agent_id != name:
            return True
    return False


class _Turn:
    """The effect of the rows before: claimed rows, and the sums of their additions.

    Attributes:
        lost_to: Row that lost a claim -> row that has it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._owner: dict[tuple[str, int], int] = {}
        self._value: dict[tuple[str, str, int], int] = {}
        self.lost_to: dict[int, int] = {}

    def pass_row(self, row: int, rows: Rows) -> int:
        """Grant a row its claims and its additions, all of them or none; return its code."""
        wanted = [(table, int(keys[0])) for table, keys in rows.claims if keys[0] >= 0]
        winner = next((self._owner[key] for key in wanted if key in self._owner), None)
        if winner is not None:
            self.lost_to[row] = winner
            return CONFLICT
        after: dict[tuple[str, str, int], int] = {}
        for call in rows.calls:
            target = int(rows.numbers[0] if call.at is None else call.at[0])
            if call.op != "add" or target < 0:
                continue
            key = (call.table, call.field, target)
            before = after.get(key, self._value.get(key))
            if before is None:
                table = self._state.tables[call.table]
                before = int(table.entities[f"{table.stem}:{target}"].fields[call.field])
            after[key] = before + int(call.values[0])
        for (table_name, field, _), total in after.items():
            low, high = self._state.tables[table_name].fields[field].limits
            if not low <= total <= high:
                return BOUNDS
        self._value.update(after)
        self._owner.update(dict.fromkeys(wanted, row))
        return OK


# the result


def _decided(
    batch: CheckedColumns, codes: list[int], seen: dict[int, Rows], winners: list[int]
) -> Decided:
    admitted = [row for row, code in enumerate(codes) if code == OK]
    given = max((rows.reasons for rows in seen.values()), key=len, default=[])
    made = np.array(codes, np.uint8)
    reasons = numbered(made, given, batch)
    is_all = len(admitted) == len(codes)
    numbers: Rows64 | None = batch.numbers[np.array(admitted, np.int64)]
    if is_all and batch.is_whole:
        numbers = None
    calls = _gathered([seen[row] for row in admitted])
    return Decided(None if is_all else made, reasons, np.array(winners, np.int32), numbers, calls)


def _gathered(admitted: Sequence[Rows]) -> list[RowCall]:
    """Put the calls of the admitted rows together, with an item for each row."""
    if not admitted:
        return []
    calls: list[RowCall] = []
    for place, call in enumerate(admitted[0].calls):
        at = None
        if call.at is not None:
            at = np.array([int(_at_of(rows, place)[0]) for rows in admitted], np.int64)
        values: Array = np.concatenate([rows.calls[place].values for rows in admitted])
        calls.append(call._replace(at=at, values=values))
    return calls


def _at_of(rows: Rows, place: int) -> Rows64:
    at = rows.calls[place].at
    assert at is not None, "a rule makes the same calls for any rows"
    return at
