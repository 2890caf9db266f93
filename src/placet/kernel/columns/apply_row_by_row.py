"""Apply a column batch entity by entity: the reference of `settle.apply_calls`."""

from collections.abc import Sequence
from typing import Any

from placet.kernel.arrays.values import json_of
from placet.kernel.ledger.members import Members
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.state.tree import State


def apply_calls(
    state: State, members: Members, admitted: Rows64 | None, calls: Sequence[RowCall], seq: int
) -> None:
    """Write the changes of admitted rows into the tables, and stamp the changed rows."""
    numbers = list(range(members.count)) if admitted is None else admitted.tolist()
    authors: dict[tuple[str, int], set[str]] = {}
    # On the way of several additions a value may leave its bounds; their sum does not.
    sums: dict[tuple[str, int, str], int] = {}
    for call in calls:
        table = state.tables[call.table]
        for place, number in enumerate(numbers):
            target = number if call.at is None else int(call.at[place])
            if target < 0:
                continue
            authors.setdefault((call.table, target), set()).add(f"{members.name}:{number}")
            fields: Any = table.entities[f"{table.stem}:{target}"].fields
            if call.op == "add":
                key = (call.table, target, call.field)
                sums[key] = sums.get(key, fields[call.field]) + int(call.values[place])
            else:
                fields[call.field] = json_of(call.values[place])
    for (name, target, field), total in sums.items():
        table = state.tables[name]
        table.entities[f"{table.stem}:{target}"].fields[field] = total
    for (name, target), by in authors.items():
        table = state.tables[name]
        row = table.entities[f"{table.stem}:{target}"]
        if len(by) == 1:
            row.touch(seq, *by)
        else:
            row.by, row.seq, row.foreign_seq = "", seq, seq
