"""Worlds of one seed that decide the same column batches in several ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel import ColumnBatch, Domain, Kernel, KernelConfig, RecordList
from placet.kernel.arrays.field import Field
from placet.kernel.arrays.row_codes import OK
from placet.kernel.columns.verdict import ColumnVerdict
from placet.kernel.plugin.domain import Kind
from placet.kernel.plugin.rows import ColumnReader, Rows, Rows64
from placet.schemas.errors import INTERRUPTS
from placet.schemas.log.record import decode_record
from placet.testing.errors import ColumnViolation

if TYPE_CHECKING:
    from placet.schemas.verdict import Verdict

ColumnsOf: TypeAlias = Callable[[np.random.Generator, str, NDArray[np.int64]], Mapping[str, object]]
"""Of a generator, a name and numbers of members: values of some columns."""

_SMALL = 8
"""Magnitude of the numbers that are drawn for a field without a bound."""


class _Noted(Mapping[str, Any]):
    """The own columns of rows, which notes the fields that are read."""

    def __init__(self, own: ColumnReader) -> None:
        self._own = own
        self.read: set[str] = set()

    def __getitem__(self, field: str) -> NDArray[Any]:
        self.read.add(field)
        return self._own[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class _Probe(Rows):
    """Rows that note which tables their rule reads."""

    has_read_tables = False

    def table(self, name: str) -> ColumnReader:
        """Return the columns of a table, and note that it was read."""
        self.has_read_tables = True
        return super().table(name)


class ColumnWorlds:
    """Three worlds of one seed: by arrays, row by row, and by ordinary intents.

    Args:
        domains: Their domains.
        kinds: Names of the kinds of the batches.
        columns: Returns the initial values of a population, or None.
        payload: Returns the payload of a batch, or None.
        members_max: Maximum number of members.
        seed: The seed.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        kinds: Sequence[str],
        columns: "ColumnsOf | None",
        payload: "ColumnsOf | None",
        members_max: int,
        seed: int,
    ) -> None:
        self._seed, self._payload = seed, payload
        self._rng = np.random.default_rng(seed)
        self._log, self._row_log = RecordList(), RecordList()
        config = KernelConfig(seed=seed)
        self._arrays = Kernel(domains, config, sink=self._log)
        self._rows = Kernel(domains, config, sink=self._row_log)
        self._rows.uses_arrays = False
        self._ordinary = Kernel(domains, config)
        self._kinds = [self._arrays.registry.kinds[name] for name in kinds]
        self._populations: dict[str, str] = {}
        for table in self._arrays.registry.tables.values():
            if table.rows is None:
                count = int(self._rng.integers(1, members_max + 1))
                given: dict[str, Any] = {}
                if columns is not None:
                    given = dict(columns(self._rng, table.name, np.arange(count)))
                for kernel in (self._arrays, self._rows, self._ordinary):
                    kernel.register_population(table.stem, count, table=table.name, **given)
                self._populations[table.name] = table.stem

    def run(self, batches: int, counts: dict[str, dict[str, int]]) -> None:
        """Decide batches in all ways, and compare; add the rows of each code to `counts`."""
        for number in range(batches):
            kind = self._kinds[int(self._rng.integers(len(self._kinds)))]
            batch = self._batch_of(kind, f"check:{number}")
            first = self._arrays.decide_columns(batch, float(number // 2))
            second = self._rows.decide_columns(batch, float(number // 2))
            self._compare(kind.name, first, second)
            if self._reads_own_row(kind, batch, first):  # called last: a rule may keep its rows
                self._compare_ordinary(kind.name, batch, first)
            for code, count in first.counts().items():
                counts[kind.name][code] = counts[kind.name].get(code, 0) + count
            # The world of ordinary intents begins anew from the log, because a kind that reads
            # more than its own row may leave another state in it.
            self._ordinary = Kernel(
                self._arrays.registry.domains, self._arrays.config, history=list(self._log)
            )
            if self._ordinary.digest() != self._arrays.digest():
                raise self._violation("A", kind.name, "the state folded from the log is another")

    def _violation(self, law: str, kind: str, finding: str) -> ColumnViolation:
        return ColumnViolation(law, kind, self._seed, finding)

    # law A

    def _compare(self, kind: str, first: ColumnVerdict, second: ColumnVerdict) -> None:
        for row, (one, other) in enumerate(zip(first, second, strict=True)):
            self._compare_row("A", kind, row, one, other)
        if self._log[-1] != self._row_log[-1]:
            raise self._violation("A", kind, self._difference())
        if self._arrays.world_digest() != self._rows.world_digest():
            raise self._violation("A", kind, "the states differ, and the records do not")

    def _compare_row(self, law: str, kind: str, row: int, one: "Verdict", other: "Verdict") -> None:
        mine, theirs = _answer(one), _answer(other)
        if mine != theirs:
            lane = "row by row" if law == "A" else "as an ordinary intent"
            advice = (
                "a rule does for a row the same whichever rows are in the call"
                if law == "A"
                else "a rule of this kind reads the own row alone"
            )
            raise self._violation(
                law, kind, f"row {row} is {mine} as arrays and {theirs} {lane}; {advice}"
            )

    def _difference(self) -> str:
        """Return the first difference between the latest records of the two executions."""
        record, other = decode_record(self._log[-1]), decode_record(self._row_log[-1])
        for one, two in zip(
            getattr(record, "changes", ()), getattr(other, "changes", ()), strict=False
        ):
            if one != two:
                values = [np.frombuffer(each.data, each.dtype or "u1") for each in (one, two)]
                place = next(
                    (
                        at
                        for at, pair in enumerate(zip(*values, strict=False))
                        if pair[0] != pair[1]
                    ),
                    0,
                )
                shown = [each[place].item() if place < len(each) else None for each in values]
                return (
                    f"the number {place} that the admitted rows {one.op} to "
                    f"{one.table}.{one.field} is {shown[0]} as arrays and {shown[1]} row by row"
                )
        names = [
            name
            for name in record.__struct_fields__
            if getattr(record, name) != getattr(other, name, None)
        ]
        return f"the records differ in {', '.join(names)}"

    # law B

    def _reads_own_row(self, kind: Kind, batch: ColumnBatch, first: ColumnVerdict) -> bool:
        """Return whether a rule reads the own row alone, and there no field that it adds to."""
        assert kind.table is not None, "a kind with a rule of rows names its table"
        assert kind.rows is not None, "the kind has a rule of rows"
        tables = self._arrays.tree.tables
        numbers = np.asarray(batch.agents, np.int64)
        payload = {
            name: np.asarray(batch.payload[name], field.dtype)
            for name, field in kind.fields.items()
        }
        moment = (self._arrays.sim_time, self._arrays.ledger.tick)
        words = np.arange(len(numbers), dtype=np.uint64)
        probe = _Probe(tables[kind.table], tables, numbers, payload, lambda _: words, moment)
        noted = _Noted(probe.own)
        probe.own = noted  # type: ignore[assignment]  # it reads as the columns do
        try:
            with np.errstate(all="ignore"):
                kind.rows(probe)
        except INTERRUPTS:
            raise
        except Exception as error:  # noqa: BLE001  # the rule boundary: the laws compare its faults
            self._require_row_wise(kind.name, first, error)
        added = {call.field for call in probe.calls if (call.op, call.table) == ("add", kind.table)}
        return not (probe.has_read_tables or noted.read & added)

    def _require_row_wise(self, kind: str, first: ColumnVerdict, error: Exception) -> None:
        """Check that a rule which raised for all rows of a batch raised for one of them alone."""
        rows = len(first)
        if rows > 1 and (first.codes == OK).all():
            raise self._violation(
                "A",
                kind,
                f"the rule raised {error!r} for {rows} rows at once and for none of them alone, so "
                "each is decided by a call; a rule of rows is row-wise: in place of `if`, choose "
                "rows by rows.refuse(mask, ...), numpy.where, or -1 for no row",
            )

    def _compare_ordinary(self, kind: str, batch: ColumnBatch, first: ColumnVerdict) -> None:
        kernel = self._ordinary
        name = str(batch.population)
        numbers = np.asarray(batch.agents).tolist()
        intents = [
            [
                kernel.intent(
                    kind,
                    {
                        key: np.asarray(values)[row].tolist()
                        for key, values in batch.payload.items()
                    },
                    agent=f"{name}:{number}",
                )
            ]
            for row, number in enumerate(numbers)
        ]
        verdicts = kernel.decide_group(intents, self._arrays.sim_time)
        for row, (one, other) in enumerate(zip(first, verdicts, strict=True)):
            self._compare_row("B", kind, row, one, other)
        if kernel.digest() != self._arrays.digest():
            raise self._violation(
                "B", kind, "ordinary intents of one group leave another state than the batch"
            )

    # random batches

    def _batch_of(self, kind: Kind, req_id: str) -> ColumnBatch:
        assert kind.table is not None, "a kind with a rule of rows names its table"
        name = self._populations[kind.table]
        count = self._arrays.population(name).count
        numbers = self._rng.permutation(count)[: int(self._rng.integers(1, count + 1))]
        if self._rng.random() < 0.5:  # noqa: PLR2004  # as often
            numbers = np.arange(count)
        given: dict[str, Any] = {}
        if self._payload is not None:
            given = dict(self._payload(self._rng, kind.name, numbers))
        for field, declared in kind.fields.items():
            if field not in given:
                given[field] = self._drawn(declared, numbers)
        return ColumnBatch(kind.name, name, given, req_id, agents=numbers)

    def _drawn(self, field: Field, numbers: Rows64) -> NDArray[Any]:
        """Draw values of a field within its bounds; small ones where it has none."""
        low, high = field.limits
        least = low if field.low is not None else max(low, min(-_SMALL, high))
        most = high if field.high is not None else min(high, max(_SMALL, least))
        shape = (len(numbers), *field.sizes)
        if field.is_float:
            return self._rng.uniform(float(least), float(most), shape).astype(field.dtype)
        kind = np.uint64 if field.dtype[0] == "u" else np.int64
        drawn = self._rng.integers(int(least), int(most), shape, dtype=kind, endpoint=True)
        return drawn.astype(field.dtype)


def _answer(verdict: "Verdict") -> str:
    return "admitted" if verdict.admitted else str(verdict.refusals[0].code)
