"""Summaries of the records of tables and column batches as plain JSON: counts, and no rows.

A record may hold a million rows, so its arrays stay in the log. Bytes are counted as bytes, without
a step of Python for each row.
"""

from math import prod
from typing import Final

from placet.schemas.codec import Json
from placet.schemas.log.column_records import Columns, ColumnWrite, TableMade, names_all
from placet.schemas.refusal import RefusalCode as _Code

ROW_CODES_BY_NUMBER: Final = (
    "admitted",
    *(_Code.PAYLOAD_INVALID, _Code.AGENT_SUSPENDED, _Code.CONTEXT_FROM_FUTURE),
    *(_Code.STALE_CONTEXT, _Code.STALE_CONTEXT, _Code.QUOTA_EXCEEDED, _Code.CONFLICT),
    "",  # values out of a field's bounds: a domain's code, which the record names
    *(_Code.RULE_ERROR, _Code.AGENT_NOT_YOURS, _Code.PERMISSION_DENIED, _Code.REQ_ID_REUSED),
    *(_Code.REQ_ID_TOO_OLD, _Code.QUOTA_EXCEEDED, _Code.LEASED),
)
"""Name of each code of a row below those of rules, as in `kernel/arrays/row_codes.py`."""

_ROW_BYTES: Final = 4
_COMPONENT_DIGITS: Final = slice(2, None)


def rows_of(record: Columns) -> int | None:
    """Return the number of rows of a column batch; None where the record does not hold it.

    That is a batch of all members with an empty payload, of which every row was admitted.
    """
    if record.agents:
        return len(record.agents) // _ROW_BYTES
    if record.codes:
        return len(record.codes)
    if not names_all(record):
        return 0
    for _, dtype, shape, data in record.payload:
        return len(data) // (int(dtype[_COMPONENT_DIGITS]) * prod(shape))
    return None


def refused_rows(record: Columns) -> dict[str, int]:
    """Return the number of refused rows of each code, sorted by code."""
    names = {place: str(name) for place, name in enumerate(ROW_CODES_BY_NUMBER) if place}
    names |= {code: name for code, name, _ in record.reasons}
    counts: dict[str, int] = {}
    for code, name in names.items() if record.codes else ():
        count = record.codes.count(code)
        if count:
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items()))


def columns_as_dict(record: Columns) -> dict[str, Json]:
    """Return the summary of a column batch."""
    refused = refused_rows(record)
    return {
        "batch_id": f"b{record.number}",
        "submitter": record.submitter,
        "req_id": record.req_id,
        "kind": record.kind,
        "version": record.version,
        "population": record.population,
        "rows": rows_of(record),
        "refused": sum(refused.values()),
        "refusals": refused,
        "payload": [[name, dtype, list(shape)] for name, dtype, shape, _ in record.payload],
        "changes": [],  # of entities, as in other records
        "columns": list(
            dict.fromkeys(f"{change.table}/{change.field}" for change in record.changes)
        ),
        "fingerprint": f"{record.fingerprint:016x}",
        "group_seq": record.group_seq,
        "tick": record.tick,
        "group": record.group,
    }


def table_as_dict(record: TableMade) -> dict[str, Json]:
    """Return the summary of a new table, and of its population, without changes by hooks."""
    fields: dict[str, Json] = {
        name: {"dtype": dtype, "shape": list(shape), "default": default, "low": low, "high": high}
        for name, dtype, shape, default, low, high in record.fields
    }
    summary: dict[str, Json] = {
        "table": record.table,
        "stem": record.stem,
        "count": record.count,
        "fields": fields,
        "given": [name for name, _ in record.columns],
        "population": None,
        "columns": columns_written(record.written, record.count),
    }
    if record.members is not None:
        owner, permissions, quotas, priority_max = record.members
        summary["population"] = {
            "owner": owner,
            "permissions": permissions,
            "quotas": {kind: list(quota) for kind, quota in quotas.items()},
            "priority_max": priority_max,
        }
    return summary


def columns_written(written: list[ColumnWrite], count: int | None = None) -> list[Json]:
    """Return the columns that hooks wrote, with the number of rows; None is all of the table.

    Args:
        written: The writes.
        count: Number of rows of their table, if it is known.
    """
    return [
        {"field": f"{one.table}/{one.field}", "rows": len(one.at) // _ROW_BYTES or count}
        for one in written
    ]
