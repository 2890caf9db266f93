"""Finds the rows of a column batch that would change a row which another agent has leased.

They are refused before claims and additions are granted, so a refused row gets neither.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placet.kernel.plugin.rows import Rows, Rows64
from placet.schemas.batch import sequence_form

if TYPE_CHECKING:
    from placet.kernel.arrays.values import Mask
    from placet.kernel.columns.form import CheckedColumns
    from placet.kernel.context import GateContext


class LeasedRows(NamedTuple):
    """The leased rows of one table.

    Attributes:
        numbers: Their numbers, rising.
        holders: Number of the member of the batch's population that holds each; -1 another agent.
    """

    numbers: Rows64
    holders: Rows64


def leased_rows(batch: "CheckedColumns", context: "GateContext") -> dict[str, LeasedRows]:
    """Return the leased rows of each table that has some; empty in a world without leases."""
    leases = context.ledger.leases
    if leases is None:
        return {}
    found: dict[str, dict[int, int]] = {}
    for ref, ticket in leases.at(context.now_ns).held.items():
        if ref.collection in context.state.tables:
            row, holder = sequence_form(ref.entity or ""), sequence_form(ticket.agent_id)
            assert row is not None, "a leased entity of a table is one of its rows"
            is_member = holder is not None and holder[0] == batch.members.name
            found.setdefault(ref.collection, {})[row[1]] = holder[1] if is_member and holder else -1
    return {
        table: LeasedRows(np.array(sorted(rows)), np.array([rows[row] for row in sorted(rows)]))
        for table, rows in found.items()
    }


def is_leased(rows: Rows, leased: dict[str, LeasedRows]) -> "Mask":
    """Return whether each row would change a row that another agent has leased."""
    mask = np.zeros(rows.n, bool)
    for call in rows.calls:
        of_table = leased.get(call.table)
        if of_table is None:
            continue
        targets = rows.numbers if call.at is None else call.at
        places = np.searchsorted(of_table.numbers, targets).clip(max=len(of_table.numbers) - 1)
        is_hit = of_table.numbers.take(places) == targets
        mask |= is_hit & (of_table.holders.take(places) != rows.numbers)
    return mask
