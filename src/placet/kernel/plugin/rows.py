"""The argument of a rule of rows: the members of a batch as arrays, one item a row.

A rule is row-wise: its effect on a row depends on that row, on the tables and on the draws. It
makes the same calls for any rows, so it may be called on parts of a batch, or on one row.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placet.kernel.arrays.field import Field
from placet.kernel.arrays.row_codes import BOUNDS, OK, RULE, RULE_CODES_MAX, RULE_ERROR
from placet.kernel.arrays.values import Mask, misfits
from placet.kernel.arrays.words import Array, Words, below_array, unit_array
from placet.kernel.prng import draw_bound
from placet.kernel.state.table import TableData
from placet.schemas.missing_key import MissingKeyError
from placet.schemas.portable_error import PortableError

Rows64: TypeAlias = NDArray[np.int64]
Draw: TypeAlias = Callable[[str], Words]
"""Returns 64 random bits of each row for a purpose."""

BOUND_MAX = 2**32


class RowCall(NamedTuple):
    """A change that a rule asked for: `op` is `put` or `add`; `at` None is the own row of each."""

    table: str
    field: str
    op: str
    at: Rows64 | None
    values: Array


def read_only(array: Array) -> Array:
    """Return an array that a rule cannot write: a view, or the array itself if it is read-only."""
    if not array.flags.writeable:  # the payload stays one object, which the record compares first
        return array
    view = array.view()
    view.flags.writeable = False
    return view


class ShapeError(ValueError):
    """An array of a rule does not have one item a row.

    The rule is not called on halves then: an array of three items would fit into one of three rows.
    """


class PayloadReader(dict[str, Array]):
    """The payload arrays of rows by field; an unknown field is answered with the nearest one."""

    __slots__ = ()

    def __missing__(self, field: str) -> NoReturn:
        raise MissingKeyError(field, "field of the payload", self)


class ColumnReader(Mapping[str, Array]):
    """The columns of a table as read-only arrays: of the given rows, or whole."""

    __slots__ = ("_read", "_rows", "_table")

    def __init__(self, table: TableData, rows: Rows64 | None) -> None:
        self._table, self._rows = table, rows
        self._read: dict[str, Array] = {}

    def __getitem__(self, field: str) -> Array:
        column = self._read.get(field)
        if column is None:
            columns = self._table.columns
            if field not in columns:
                raise MissingKeyError(field, f"field of {self._table.name}", columns)
            whole = columns[field]
            column = read_only(whole if self._rows is None else whole.take(self._rows, axis=0))
            self._read[field] = column
        return column

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table.columns)


class Rows:
    """The rows of a batch, or a part of them, while their rule runs.

    Attributes:
        n: Number of rows.
        numbers: Number of the member of each row, which is also the number of its row in the table.
        payload: Array of each field of the payload, `(n, *field.shape)`, read-only.
        own: Array of each field of the rows in their table, as the batch found it, read-only.
        sim_time: Simulated time, seconds.
        tick: Number of ticks before.
    """

    __slots__ = (
        *("_changed", "_draw", "_table", "_tables", "calls", "claims", "code", "fault", "n"),
        *("numbers", "own", "payload", "reasons", "sim_time", "tick"),
    )

    def __init__(
        self,
        table: TableData,
        tables: Mapping[str, TableData],
        numbers: Rows64,
        payload: Mapping[str, Array],
        draw: Draw,
        moment: tuple[float, int],
        *,
        is_whole: bool = False,
    ) -> None:
        self.n, self.numbers = len(numbers), read_only(numbers)
        self.payload = PayloadReader({name: read_only(each) for name, each in payload.items()})
        self.own = ColumnReader(table, None if is_whole else numbers)
        self._table, self._tables, self._draw = table, tables, draw
        self.sim_time, self.tick = moment
        self.code: NDArray[np.uint8] = np.zeros(self.n, np.uint8)
        self.reasons: list[tuple[str, str]] = []
        self.claims: list[tuple[str, Rows64]] = []
        self.calls: list[RowCall] = []
        self._changed: dict[tuple[str, str], str] = {}
        self.fault: tuple[int, RowKeyError] | None = None

    def __repr__(self) -> str:
        return f"<Rows: {self.n} of {self._table.name}>"

    def table(self, name: str) -> ColumnReader:
        """Return the columns of a table as the batch found them, whole and read-only.

        Raises:
            KeyError: The world has no such table.
        """
        return ColumnReader(self._table_of(name), None)

    def refuse(self, mask: ArrayLike, code: str, message: str = "") -> None:
        """Refuse the rows where a mask is true; the first refusal of a row counts.

        Args:
            mask: Booleans, one a row.
            code: Code without the domain's name, such as `too_fast`.
            message: Failed check, expected value, and the remedy.

        Raises:
            ValueError: The mask is no array of booleans of one a row.
        """
        hit = np.asarray(mask)
        if hit.dtype != np.bool_ or hit.shape not in {(), (self.n,)}:
            raise ShapeError(
                f"refuse takes booleans of shape ({self.n},), got {hit.dtype} of shape {hit.shape}"
            )
        if type(code) is not str or type(message) is not str or not code:
            raise ValueError(f"refuse takes a code and a message, got {code!r} and {message!r}")
        if len(self.reasons) == RULE_CODES_MAX:
            raise ValueError(f"a rule of rows refuses at most {RULE_CODES_MAX} times")
        self.reasons.append((code, message))
        if hit.any():
            self.code[(self.code == OK) & hit] = RULE + len(self.reasons) - 1

    def write(self, field: str, values: ArrayLike) -> None:
        """Set a field of the rows themselves."""
        self._change(self._table, field, "put", None, values, way="write")

    def claim(self, table: str, rows: ArrayLike) -> None:
        """Claim a row of a table for each row; -1 claims none.

        A row gets all that it claims, or is refused as `conflict`.
        """
        self._table_of(table)
        self.claims.append((table, self._keys(rows)))

    def put(self, table: str, rows: ArrayLike, field: str, values: ArrayLike) -> None:
        """Set a field of a row of a table that the same rule claims; -1 sets none."""
        self._change(self._table_of(table), field, "put", self._keys(rows), values, way="put")

    def add(self, table: str, rows: ArrayLike, field: str, values: ArrayLike) -> None:
        """Add integers to a field of a row of a table, without a claim; -1 adds to none.

        A row whose addition would leave the field's bounds at its turn is refused.
        """
        self._change(self._table_of(table), field, "add", self._keys(rows), values, way="add")

    def random_u64(self, purpose: str) -> Words:
        """Draw 64 bits for each row: those of `placet.kernel.random_u64` for its agent."""
        return self._draw(purpose)

    def random_unit(self, purpose: str) -> NDArray[np.float64]:
        """Draw a number in [0, 1) for each row."""
        return unit_array(self._draw(purpose))

    def randint_below(self, bound: int, purpose: str) -> Rows64:
        """Draw an int in 0..bound-1 for each row, for a bound of at most 2**32."""
        bound = draw_bound(bound, purpose)
        if not 1 <= bound <= BOUND_MAX:
            raise ValueError(f"a draw of rows needs a bound in 1..2**32, got {bound}")
        return below_array(bound, self._draw(purpose))

    @property
    def form(self) -> tuple[object, ...]:
        """The calls of the rule without their arrays, which are the same for any rows."""
        changes = [(call.table, call.field, call.op, call.at is None) for call in self.calls]
        return tuple(self.reasons), tuple(table for table, _ in self.claims), tuple(changes)

    # internals

    def _table_of(self, name: str) -> TableData:
        table = self._tables.get(name)
        if table is None:
            raise MissingKeyError(name, "table", self._tables)
        return table

    def _keys(self, rows: ArrayLike) -> Rows64:
        given = np.asarray(rows)
        if given.dtype.kind not in "iu":
            raise ValueError(f"numbers of rows are integers, got {given.dtype}")
        if given.dtype == np.int64 and given.shape == (self.n,):
            return given
        if given.shape not in {(), (self.n,)}:
            raise ShapeError(
                f"rows are named by one number a row, of shape ({self.n},), got {given.shape}"
            )
        return np.broadcast_to(given.astype(np.int64), (self.n,))

    def _change(  # the parts of a call of a rule
        self, table: TableData, field: str, op: str, at: Rows64 | None, values: ArrayLike, way: str
    ) -> None:
        declared = table.fields.get(field)
        if declared is None:
            raise MissingKeyError(field, f"field of {table.name}", table.fields)
        domain = self._table.name.partition(".")[0]
        if table.name.partition(".")[0] != domain:
            raise ValueError(
                f"a rule of rows of domain {domain!r} changes its own tables, got {table.name!r}"
            )
        known = self._changed.setdefault((table.name, field), way)
        if known != way:
            raise ValueError(f"{table.name}.{field} is changed by {known} and by {way}; choose one")
        given = np.asarray(values)
        wanted = (
            "iu"
            if way == "add" or declared.dtype[0] in "iu"
            else "b"
            if declared.dtype == "b1"
            else "iuf"
        )
        if given.dtype.kind not in wanted and not (given.dtype.kind == "b" and way != "add"):
            raise ValueError(f"{table.name}.{field} takes {declared.dtype}, got {given.dtype}")
        if way == "add":
            given = _amounts(f"{table.name}.{field}", declared, given)
        shape = (self.n, *declared.sizes)
        if given.shape != shape:
            if given.shape not in {(), declared.sizes}:
                raise ShapeError(
                    f"{table.name}.{field} takes one value a row, of shape {shape}, "
                    f"got {given.shape}"
                )
            given = np.broadcast_to(given, shape)
        self.calls.append(RowCall(table.name, field, op, at, given))


def _amounts(what: str, field: Field, given: NDArray[Any]) -> NDArray[np.int64]:
    """Return amounts to add as i8.

    Raises:
        ValueError: The field is no integer of one number a row, or an amount is beyond i8.
    """
    if field.dtype[0] not in "iu" or field.sizes:
        raise ValueError(f"add is of integers, one a row; {what} is {field.dtype} {field.sizes}")
    if given.dtype == np.uint64 and given.size and given.max() > np.iinfo(np.int64).max:
        raise ValueError(f"an amount that is added to {what} is at most 2**63 - 1")
    return given.astype(np.int64, copy=False)


class UnequalCallsError(PortableError):
    """A rule of rows made other calls for other rows of one batch."""

    def __init__(self) -> None:
        super().__init__(
            "the rule makes other calls for other rows; call refuse, claim, write, put and add "
            "always, and choose the rows by masks as in rows.refuse(mask, ...), in place of `if`, "
            "or by -1 for no row"
        )


class RowKeyError(PortableError, IndexError):
    """A rule of rows named a row that its table does not have, or put into one without a claim."""


def have_one_form(parts: Iterable[Rows]) -> bool:
    """Return whether the rule made the same calls for all parts of a batch.

    The calls of a part at fault do not count.
    """
    return len({part.form for part in parts if not (part.code == RULE_ERROR).all()}) <= 1


def judge(rows: Rows, payload_fields: Mapping[str, Field]) -> None:
    """Refuse the rows whose keys are no rows, whose puts are not claimed, or whose values misfit.

    It replaces the values of the calls by arrays of the fields' dtypes.
    """
    code, tables = rows.code, rows._tables  # noqa: SLF001  # the same module

    def row_keys(what: str, table: str, keys: Rows64) -> Rows64:
        count = tables[table].count
        wrong = _no_rows(keys, count)
        if wrong is None:
            return keys
        rest = f"of {table}, which has the rows 0..{count - 1}; -1 stands for no row"
        _refuse_keys(rows, wrong, keys, f"it {what} row", rest)
        return np.where(wrong, -1, keys)  # so that no later stage looks beyond the table

    rows.claims = [(name, row_keys("claims", name, keys)) for name, keys in rows.claims]
    for place, made in enumerate(rows.calls):
        call = made
        if made.at is not None:
            call = made._replace(at=row_keys(f"{made.op}s", made.table, made.at))
        if call.op == "put":
            if call.at is not None:
                rest = f"of {call.table} without a claim; claim the same numbers of rows"
                free = _not_claimed(rows, call.table, call.at)
                _refuse_keys(rows, free, call.at, "it puts into row", rest)
            field = tables[call.table].fields[call.field]
            checked = (name for name, own in rows.payload.items() if own is call.values)
            # The gate has checked the payload, against the same bounds if the fields are equal.
            if payload_fields.get(next(checked, "")) != field:
                values, wrong = _cast(field, call.values)
                call = call._replace(values=values)
                _mark(code, wrong, BOUNDS)
        rows.calls[place] = call


def _refuse_keys(rows: Rows, wrong: Mask | None, keys: Rows64, what: str, rest: str) -> None:
    """Refuse rows as `rule_error`, and keep the reason of the first one."""
    hit = None if wrong is None else wrong & (rows.code == OK)
    if hit is None or not hit.any():
        return
    if rows.fault is None:
        place = int(hit.argmax())
        rows.fault = (place, RowKeyError(f"{what} {int(keys[place])} {rest}"))
    rows.code[hit] = RULE_ERROR


def _mark(code: NDArray[np.uint8], mask: Mask | None, value: int) -> None:
    if mask is not None and mask.any():
        code[mask & (code == OK)] = value


def _no_rows(keys: Rows64, count: int) -> Mask | None:
    if len(keys) and (keys.min() < -1 or keys.max() >= count):
        return (keys < -1) | (keys >= count)
    return None


def _not_claimed(rows: Rows, table: str, keys: Rows64) -> Mask | None:
    """Return the rows that put into a row which they do not claim; None if there are none."""
    free = keys >= 0
    for claimed_table, claimed in rows.claims:
        if claimed_table == table:
            if claimed is keys:
                return None
            free = free & (claimed != keys)
    return free


def _cast(field: Field, values: Array) -> tuple[Array, Mask | None]:
    """Return values in the dtype of a field, and the rows where one does not fit."""
    wrong: Mask | None = None
    given: NDArray[Any] = values
    if given.dtype != field.dtype and not field.is_float:
        low, high = field.limits
        out: Any = (given < low) | (given > high)
        if out.any():
            wrong = out.reshape(len(out), -1).any(axis=1)
    with np.errstate(all="ignore"):
        cast = given.astype(field.dtype, copy=False)
    return cast, misfits(field, cast) if wrong is None else wrong
