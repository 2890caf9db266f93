"""A worker's copy of the state, kept up to date by what changed since the last tick.

The writer makes a cut of its state in each tick, and pickles once, for all workers, what differs
from the cut before: the fields of entities, and the changed columns of tables. A worker that does
not have the cut before is sent the whole: it is new, or another reader made a cut in between, whose
changes the next cut does not report. No log and no ledger travels.
"""

from collections.abc import Mapping, Set
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from placet.actors.observation.viewer import Viewer
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.collection import Entity
from placet.kernel.state.tree import State, WorldState
from placet.scenarios.workers.pickling import dumps
from placet.schemas.codec import Json

if TYPE_CHECKING:
    from placet.kernel.arrays.field import Field
    from placet.kernel.arrays.words import Array

NO_CUT: Final = -1
"""The cut of a worker that has none."""


class EntityChanges(NamedTuple):
    """The changes of a collection.

    Attributes:
        seq: The seq of its stamp; 0 if it has never held an entity.
        is_whole: `entities` are all of it.
        entities: Fields of each entity; None if it was deleted.
    """

    seq: int
    is_whole: bool
    entities: dict[str, dict[str, Json] | None]


class TableChanges(NamedTuple):
    """The changes of a table.

    Attributes:
        form: Stem, number of rows and fields; None if the worker has the table.
        arrays: The changed columns, by field.
    """

    form: "tuple[str, int, Mapping[str, Field]] | None"
    arrays: "dict[str, Array]"


class StateChanges(NamedTuple):
    """The differences of a state from the cut before, or the whole state.

    Attributes:
        seq: Seq of the state.
        now_ns: Simulated time of the latest record, nanoseconds.
        sim_time: Simulated time, seconds.
        tick: Tick of the ledger.
        collections: Changes by collection.
        tables: Changes by table.
        members: By population, its table, its count, and the mask of its suspended members; None
            if none is suspended.
    """

    seq: int
    now_ns: int
    sim_time: float
    tick: int
    collections: dict[str, EntityChanges]
    tables: dict[str, TableChanges]
    members: dict[str, tuple[str, int, Any]]


class ChangeWriter:
    """Pickles the changes of a state, tick by tick.

    Attributes:
        cut: Number of the latest cut; `NO_CUT` before the first.
        follows: Number of the cut to which `changes` belong; `NO_CUT` if they belong to none.
    """

    def __init__(self) -> None:
        self.cut = self.follows = NO_CUT
        self._state, self._before = State(), State()
        self._moment: tuple[int, int, float, int] = 0, 0, 0.0, 0
        self._members: dict[str, tuple[str, int, Any]] = {}
        self._pickled: dict[bool, bytes] = {}

    def take(self, kernel: Kernel) -> None:
        """Cut the present state. O(entities changed since the latest cut, by any reader)."""
        self._before, self._state = self._state, kernel.tree.cut()
        is_next = self._state.epoch == self.cut + 1
        self.follows, self.cut = (self.cut if is_next else NO_CUT), self._state.epoch
        ledger = kernel.ledger
        self._members = {
            name: (one.table, one.count, None if one.suspended is None else one.suspended_mask())
            for name, one in ledger.populations.items()
        }
        self._moment = kernel.seq, ledger.now_ns, kernel.sim_time, ledger.tick
        self._pickled = {}

    def changes(self, *, is_whole: bool) -> bytes:
        """Return what changed since the cut `follows`, or the whole state, pickled once."""
        if is_whole not in self._pickled:
            rows, tables = self._rows(is_whole=is_whole), self._tables(is_whole=is_whole)
            made = StateChanges(*self._moment, rows, tables, self._members)
            self._pickled[is_whole] = dumps(made)
        return self._pickled[is_whole]

    def _rows(self, *, is_whole: bool) -> dict[str, EntityChanges]:
        found: dict[str, EntityChanges] = {}
        for name, rows in self._state.collections.items():
            if rows.is_table:
                continue
            replaces = is_whole or rows.changed is None
            ids = rows.entities if replaces else rows.changed or ()
            before = self._before.collections.get(name)
            # One that was made and emptied since then has no changed entity, and is known.
            if ids or replaces or before is None or before.seq != rows.seq:
                get = rows.entities.get
                entities = {e: None if (row := get(e)) is None else row.fields for e in ids}
                found[name] = EntityChanges(rows.seq, replaces, entities)
        return found

    def _tables(self, *, is_whole: bool) -> dict[str, TableChanges]:
        found: dict[str, TableChanges] = {}
        for name, table in self._state.tables.items():
            before = None if is_whole else self._before.tables.get(name)
            if before is None or (before.count, before.fields) != (table.count, table.fields):
                found[name] = TableChanges((table.stem, table.count, table.fields), table.columns)
                continue
            # A column is copied before the first write after a cut.
            arrays = {k: a for k, a in table.columns.items() if a is not before.columns[k]}
            if arrays:
                found[name] = TableChanges(None, arrays)
        return found


class Copy:
    """The parts of a kernel that views and policies read, as of a tick of the writer.

    Args:
        registry: The domains of the world.
        declared: `Kernel.declared`.
        seed: Seed of the run.

    Attributes:
        cut: Number of the writer's cut that it holds; `NO_CUT` if it holds none.
        kernel: The parts, under the names that they have in a `Kernel`.
        viewer: Makes the views of its present state.
    """

    def __init__(self, registry: Registry, declared: Set[str], seed: int) -> None:
        self.cut = NO_CUT
        self._declared = declared
        ledger = SimpleNamespace(now_ns=0, tick=0, leases=None, populations={})
        parts = SimpleNamespace(
            registry=registry,
            declared=declared,
            config=SimpleNamespace(seed=seed),
            ledger=ledger,
            seq=0,
            sim_time=0.0,
            tree=State(),
        )
        self._parts = parts
        # A second kernel would open a log and run the hooks of its domains.
        self.kernel = cast("Kernel", parts)
        self.viewer = Viewer(self.kernel)

    def take(self, since: int, cut: int, changes: StateChanges) -> None:
        """Apply the changes since a cut; since `NO_CUT` they are the whole state.

        O(changes).
        """
        parts = self._parts
        if since == NO_CUT:
            parts.tree = State()
            parts.state = WorldState(parts.tree, self._declared)
            self.viewer = Viewer(self.kernel)  # its indexes follow the cuts of one state
        assert since in {NO_CUT, self.cut}, "changes continue the copy"
        parts.seq, parts.sim_time = changes.seq, changes.sim_time
        parts.ledger.now_ns, parts.ledger.tick = changes.now_ns, changes.tick
        for name, rows in changes.collections.items():
            _apply(parts.tree, name, rows)
        for name, columns in changes.tables.items():
            _apply_columns(parts.tree, name, columns, changes.seq)
        for name, (table, count, suspended) in changes.members.items():
            self._take_members(name, table, count, suspended)
        self.cut = cut

    def _take_members(self, name: str, table: str, count: int, suspended: Any) -> None:  # noqa: ANN401  # a mask
        from placet.kernel.ledger.members import Members  # noqa: PLC0415  # numpy is an extra

        populations = self._parts.ledger.populations
        if name not in populations:
            populations[name] = Members(
                name, table, count, 0, owner="", permissions=None, priority_max=0, quotas={}
            )
        populations[name].suspended = suspended


def _apply(state: State, name: str, changes: EntityChanges) -> None:
    rows = state.collection(name)
    rows.seq = changes.seq
    if changes.is_whole:
        for entity in [each for each in rows.entities if each not in changes.entities]:
            rows.mark_changed(entity)
            del rows.entities[entity]
    for entity, fields in changes.entities.items():
        rows.mark_changed(entity)
        if fields is None:
            rows.entities.pop(entity, None)
        else:
            rows.entities[entity] = Entity(fields, epoch=state.epoch)


def _apply_columns(state: State, name: str, changes: TableChanges, seq: int) -> None:
    if changes.form is not None:
        from placet.kernel.state.table import TableData  # noqa: PLC0415  # numpy is an extra

        stem, count, fields = changes.form
        made = TableData(state.authors, name, fields, stem, count, changes.arrays, seq)
        state.add_table(made)
    else:
        state.tables[name].columns.update(changes.arrays)
