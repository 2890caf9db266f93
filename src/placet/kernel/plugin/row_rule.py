"""A kind with a rule of rows as ordinary intents have it: a payload type, and a rule of a draft.

An ordinary intent of such a kind is decided at its turn: its rule of rows is called with one row,
on the state as the intents before it left it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from placet.kernel.arrays.field import Field
from placet.kernel.plugin.refusals import RuleRefusal, conflict, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS

if TYPE_CHECKING:
    from placet.kernel.plugin.rows import Rows

RowsRule: TypeAlias = Callable[["Rows"], None]
"""Apply a kind to many rows of a table at once (`kernel/plugin/rows.py`): row-wise, deterministic,
and with the same calls for any rows.
"""


def payload_type(kind: str, fields: Mapping[str, Field]) -> object:
    """Return the TypedDict of a payload of these fields."""
    from typing_extensions import TypedDict  # noqa: PLC0415  # with the first kind of rows

    types = {name: _type_of(field) for name, field in fields.items()}
    return TypedDict(f"{kind.replace('.', '_')}Payload", types)  # type: ignore[operator]  # made at run time


def _type_of(field: Field) -> object:
    from pydantic import Field as Bounds  # noqa: PLC0415  # with the first kind of rows

    scalar: Any = bool
    low, high = field.limits
    if field.is_float:
        scalar = Annotated[float, Bounds(ge=low, le=high, allow_inf_nan=False)]
    elif field.dtype != "b1":
        scalar = Annotated[int, Bounds(ge=low, le=high)]
    for size in reversed(field.sizes):
        scalar = Annotated[list[scalar], Bounds(min_length=size, max_length=size)]
    return scalar


class RowRule:
    """The rule of a kind with a rule of rows, for one ordinary intent."""

    __slots__ = ("_fields", "_kind", "_rows", "_table")

    def __init__(self, kind: str, table: str, fields: Mapping[str, Field], rows: RowsRule) -> None:
        self._kind, self._table, self._fields, self._rows = kind, table, fields, rows

    def __call__(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        """Apply one intent to the draft, or return a refusal."""
        from placet.kernel.arrays.row_codes import BOUNDS, OK, RULE  # noqa: PLC0415  # numpy is an extra

        rows = self._ruled(draft, intent)
        if rows is None:
            return refuse(
                "no_row",
                f"{intent['agent_id']} has no row in {self._table}; {self._kind} is of the "
                "members of its population",
            )
        code = int(rows.code[0])
        if code >= RULE:
            return refuse(*rows.reasons[code - RULE])
        if code == BOUNDS:
            return self._beyond()
        if code != OK:
            assert rows.fault is not None, "`judge` keeps why it refuses a row as `rule_error`"
            raise rows.fault[1]
        return self._claimed(draft, rows) or self._written(draft, rows)

    def _ruled(self, draft: Draft, intent: Intent) -> "Rows | None":
        """Call the rule with the agent's row; return None if it has none."""
        import numpy as np  # noqa: PLC0415  # an extra

        from placet.kernel.arrays.words import U64, Words  # noqa: PLC0415
        from placet.kernel.plugin.rows import Rows, judge  # noqa: PLC0415

        tables, given = draft.state.tables, intent["payload"]
        table = tables[self._table]
        row = table.number_of(intent["agent_id"])
        if row < 0:
            return None

        def draw(purpose: str) -> Words:
            return np.array([draft._random_u64(purpose)], U64)  # noqa: SLF001  # `draw`, as a word

        payload = {name: np.array([given[name]], one.dtype) for name, one in self._fields.items()}
        moment = (draft.now_ns / SECOND_NS, draft.tick)
        rows = Rows(table, tables, np.array([row]), payload, draw, moment)
        with np.errstate(all="ignore"):  # as for a column batch
            self._rows(rows)
            judge(rows, self._fields)
        return rows

    @staticmethod
    def _claimed(draft: Draft, rows: "Rows") -> RuleRefusal | None:
        for table, keys in rows.claims:
            if keys[0] >= 0:
                resource = f"{table}:{keys[0]}"
                winner = draft.claim(resource)
                if winner is not None:
                    return conflict(resource, winner)
        return None

    def _written(self, draft: Draft, rows: "Rows") -> RuleRefusal | None:
        """Write the changes of the row through the draft, or refuse it for a sum out of bounds."""
        from placet.kernel.arrays.values import json_of  # noqa: PLC0415  # numpy is an extra

        tables, row = draft.state.tables, int(rows.numbers[0])
        sums: dict[tuple[str, str, str], Any] = {}
        puts = []
        for call in rows.calls:
            at = row if call.at is None else int(call.at[0])
            key = (call.table, f"{tables[call.table].stem}:{at}", call.field)
            if at < 0:
                continue
            if call.op == "add":
                before: Any = sums[key] if key in sums else draft.get(*key)
                sums[key] = before + int(call.values[0])
            else:
                puts.append((key, json_of(call.values[0])))
        for (name, _, field), total in sums.items():
            low, high = tables[name].fields[field].limits
            if not low <= total <= high:
                return self._beyond()
        for key, value in [*puts, *sums.items()]:
            draft.put(*key, value)
        return None

    def _beyond(self) -> RuleRefusal:
        return refuse(
            "out_of_bounds", f"a value of {self._kind} would leave the bounds of its field"
        )
