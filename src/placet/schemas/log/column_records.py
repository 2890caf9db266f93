"""The records of tables, of populations and of column batches.

Arrays are little-endian bytes, so a reader of the log needs msgpack and a cast. Row numbers are
unsigned, of 4 bytes; where -1 stands for no row, they are signed.
"""

from typing import TypeAlias

import msgspec

from placet.schemas.log.changes import Changes, RecordHead

ColumnReason: TypeAlias = tuple[int, str, str]
"""`(code of the rows, code of the refusal, message)` of a refusal by a rule of rows."""

FieldSpec: TypeAlias = tuple[
    str, str, list[int], float | int, float | int | None, float | int | None
]
"""`(name, dtype, shape, default, low, high)` of a field."""


class ColumnWrite(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Values that hooks wrote into a column of a table.

    Attributes:
        table: Name of the table.
        field: Name of the field.
        at: Numbers of the written rows, u4; empty: all rows.
        data: Their values, of the field's dtype.
    """

    table: str
    field: str
    at: bytes
    data: bytes


class ColumnChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A change of one field of a table by the admitted rows of a column batch.

    Attributes:
        table: Name of the table.
        field: Name of the field.
        op: `put` sets the values, `add` adds them.
        at: Number of the changed row for each admitted row, i4, -1 is none; empty: the admitted
            rows themselves.
        column: Name of the payload's column whose values are put; empty: `data` has them.
        dtype: Dtype of `data`.
        data: A value for each admitted row.
    """

    table: str
    field: str
    op: str
    at: bytes
    column: str
    dtype: str
    data: bytes


class TableMade(RecordHead, array_like=True, frozen=True, tag=31):
    """Log record: a table was made, or a population of agents with its table.

    Attributes:
        table: Name of the collection.
        stem: Stem of the names of its rows; the name of the population.
        count: Number of rows.
        fields: The fields, sorted by name.
        columns: `[name, values]` of each field with other values than its default.
        members: `[owner, permissions, quotas, priority_max]` of a population; None of a table
            without agents.
        changes: Changes of entities by `on_populate`.
        written: Writes of columns by `on_populate`.
    """

    table: str
    stem: str
    count: int
    fields: list[FieldSpec]
    columns: list[tuple[str, bytes]]
    members: tuple[str, list[str] | None, dict[str, tuple[int, int]], int] | None
    changes: Changes
    written: list[ColumnWrite]


class Columns(RecordHead, array_like=True, frozen=True, tag=32):
    """Log record of a column batch, also of one without an admitted row, which takes no seq.

    Attributes:
        group_seq: Sequence number of the world when its group was opened.
        tick: Number of ticks before.
        group: Number of its group within the tick.
        number: Number of the batch: `b{number}` is its name.
        submitter: The submitting agent, or `operator`.
        req_id: Request of the whole batch.
        fingerprint: 64-bit hash of its content.
        kind: Name of the kind.
        version: Version of the kind.
        population: Name of the population.
        agents: Numbers of the members, u4, one a row; empty: all members in order, or no member,
            see `names_all`.
        contexts: `context_seq` of all rows, or of each row as i8.
        payload: `[name, dtype, shape, values]` of each field of the payload.
        codes: Code of each row, u1; 0 is admitted; empty: all admitted.
        reasons: The refusals by the rule that occur in `codes`, by first row.
        winners: Number of the member that won, i4, of each row refused as `conflict`.
        changes: Changes by the admitted rows, in order.
    """

    group_seq: int
    tick: int
    group: int
    number: int
    submitter: str
    req_id: str
    fingerprint: int
    kind: str
    version: str
    population: str
    agents: bytes
    contexts: int | bytes
    payload: list[tuple[str, str, list[int], bytes]]
    codes: bytes
    reasons: list[ColumnReason]
    winners: bytes
    changes: list[ColumnChange]


def names_all(record: Columns) -> bool:
    """Return whether the rows of a column batch are all members of its population, in order.

    A batch without rows has empty `agents` and `codes` too, and admits none, so it takes no seq.
    """
    return not record.agents and (bool(record.codes) or record.seq != record.group_seq)
