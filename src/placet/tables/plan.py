"""Plan the tables of a log: which columns of kinds they have, and of which types.

The types come from the JSON Schemas of the kinds where the log's domains are installed, joined with
every value in the log: a first pass over it, never its first batch. So no later value fails.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from placet.actors.ports import EventLog
from placet.history.reader import beginning_of
from placet.history.selection import Selection, require_named
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import rules_in
from placet.plugins.domains import DomainNotFound, DomainNotRemade, remake
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.log.intents import decode_intents
from placet.schemas.log.record import Admitted, Columns, Header, Record, Refused, RulesChanged
from placet.schemas.name_suggestions import nearest
from placet.tables.arrow import TableSchema
from placet.tables.batch_builder import BatchBuilder
from placet.tables.column_types import ColumnType
from placet.tables.definitions import DEFINITIONS, Column
from placet.tables.row import Row
from placet.tables.rows import ROW_MAKERS, Made
from placet.tables.walk import Walk

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "1"
"""Version of the tables' layout."""

_EVERYTHING: Final = Selection()

OpenTypes = defaultdict[tuple[str, str], ColumnType]
"""`(kind, field)` -> type."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The tables to make of a log.

    Attributes:
        selection: The records.
        names: Names of the tables; empty is all.
        every: Rows of `entities` at every k-th tick; None is the end of the range alone.

    Raises:
        PlacetError: There is no table of a name, or `every` is no positive number.
    """

    selection: Selection = _EVERYTHING
    names: tuple[str, ...] = ()
    every: int | None = None

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in DEFINITIONS:
                near = nearest(name, DEFINITIONS, 1)
                hint = f"; did you mean {near[0]!r}? The tables" if near else "; the tables"
                raise PlacetError(f"there is no table {name!r}{hint} are {', '.join(DEFINITIONS)}")
        if self.every is not None and self.every < 1:
            raise PlacetError(f"every must be a number of ticks from 1 on, got {self.every}")

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the names of the tables, in the order of `DEFINITIONS`."""
        return tuple(name for name in DEFINITIONS if not self.names or name in self.names)


class TablePlan:
    """The tables of one range of a log: their schemas, and a pass that yields their rows.

    Args:
        log: The log; it is only read, and may be written meanwhile.
        options: The tables to make.
        on_record: Called now and then with the records read and their number, over both passes.

    Attributes:
        schemas: Schema of each table by name.
        passes: Number of passes over the log.

    Raises:
        PlacetError: The log has no agent or kind of a name in the selection.
        StoreError: The log cannot be read, or has no records.
    """

    def __init__(
        self,
        log: EventLog,
        options: TableOptions,
        *,
        on_record: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        require_named(log, options.selection)
        self._options = options
        self._names = options.chosen
        self._on_record = on_record
        needs_fold = any(DEFINITIONS[name].needs_fold for name in self._names)
        self._walk = Walk(log, options.selection, needs_fold=needs_fold)
        self._is_of_kinds = any(DEFINITIONS[name].has_payloads for name in self._names)
        self.passes = 1 + self._is_of_kinds
        self._kinds: OpenTypes = defaultdict(ColumnType)
        self._docs: dict[tuple[str, str], str] = {}
        if self._is_of_kinds:
            self._read_types()
        self.schemas = dict(self._make_schemas())

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield `(table, row)` of every table, in one pass over the log."""
        for name, made in self._made():
            if isinstance(made, Row):
                yield name, made
            else:
                for row in made.rows():
                    yield name, row

    def _made(self) -> Iterator[tuple[str, Made]]:
        """Yield the rows of every table, those of a column batch as one block of arrays."""
        makers = [(name, ROW_MAKERS[name](self._walk, self._options.every)) for name in self._names]
        for record in self._records(self.passes - 1):
            for name, maker in makers:
                for row in maker.rows(record):
                    yield name, row
        for name, maker in makers:
            for row in maker.last_rows():
                yield name, row

    def batches(self) -> "Iterator[tuple[str, pa.RecordBatch]]":
        """Yield the rows of every table in Arrow batches, `(table, batch)`, in one pass."""
        builders = {name: BatchBuilder(schema) for name, schema in self.schemas.items()}
        for name, made in self._made():
            builder = builders[name]
            if isinstance(made, Row):
                builder.add(made)
                if builder.is_full:
                    yield name, builder.take()
                continue
            for block in made.parts():
                builder.add_block(block)
                if builder.is_full:
                    yield name, builder.take()
        for name, builder in builders.items():
            if builder.has_rows:
                yield name, builder.take()

    def _records(self, before: int) -> Iterator[Record]:
        walk, reported = self._walk, 0
        count = walk.end - walk.first
        for record in walk:
            yield record
            if walk.done - reported >= _REPORTED_RECORDS:
                reported = walk.done
                self._on_record(before * count + reported, self.passes * count)
        self._on_record((before + 1) * count, self.passes * count)

    def _read_types(self) -> None:
        """Join the types of all payloads. One pass."""
        kinds, selected = self._kinds, self._options.selection.kinds
        for record in self._records(0):
            if isinstance(record, Admitted | Refused):
                for _, _, kind, payload, _ in decode_intents(record.encoded):
                    if not selected or kind in selected:
                        for field, value in payload.items():
                            kinds[kind, field].add(value)
            elif isinstance(record, Columns) and (not selected or record.kind in selected):
                assert self._walk.folded is not None, "a population was made before"
                for field, values in self._walk.folded.read(record).payload.items():
                    kinds[record.kind, field].add_array(values)
        if self._walk.header is not None:
            self._add_schemas(self._walk.header)

    def _add_schemas(self, header: Header | RulesChanged) -> None:
        """Join the types in the JSON Schemas of installed kinds."""
        selected = self._options.selection.kinds
        for kind, schema in installed_schemas(header).items():
            if selected and kind not in selected:
                continue
            for field, described in schema.get("properties", {}).items():
                self._kinds[kind, field].add_schema(described, schema)
                self._docs[kind, field] = str(described.get("description", ""))

    def _make_schemas(self) -> Iterator[tuple[str, TableSchema]]:
        facts = self._facts()
        for name in self._names:
            definition = DEFINITIONS[name]
            metadata = {**facts, "placet.table": name, "placet.doc": definition.doc}
            payloads = self._payload_columns() if definition.has_payloads else {}
            yield name, TableSchema(definition.columns, payloads, metadata)

    def _payload_columns(self) -> dict[tuple[str, str], Column]:
        columns: dict[tuple[str, str], Column] = {}
        taken: set[str] = set()
        for key, known in sorted(self._kinds.items()):
            title = _unused(".".join(key), taken)
            columns[key] = Column(title, known.name, self._docs.get(key, ""))
        return columns

    def _facts(self) -> dict[str, str]:
        walk = self._walk
        header = walk.header if isinstance(walk.header, Header) else None
        start = beginning_of(walk.log)
        facts = {"placet.format": FORMAT, "placet.records": f"{walk.first}..{walk.end - 1}"}
        if header is not None:
            facts |= {"placet.world": header.world, "placet.seed": str(header.seed)}
        if start.record:
            facts["placet.compacted_to_seq"] = str(start.seq)
        return facts


_REPORTED_RECORDS: Final = 2_048


def installed_schemas(header: Header | RulesChanged) -> dict[str, Json]:
    """Return the JSON Schemas of a log's kinds that are installed in the version of the log."""
    try:
        registry = Registry(remake(rules_in(header)))
    except (DomainNotFound, DomainNotRemade):
        return {}
    kinds = registry.kinds
    return {
        name: schema
        for name, schema in registry.json_schemas().items()
        if header.kinds.get(name) == kinds[name].version
    }


def _unused(title: str, taken: set[str]) -> str:
    """Return a title that is not taken yet, and mark it as taken: names may have dots."""
    while title in taken:
        title += "_"
    taken.add(title)
    return title
