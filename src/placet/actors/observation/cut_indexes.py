"""Indexes of a world's cuts (read-only copies of its state): who sees an entity, and its position.

An index is built when a view first needs it. A later use applies the changes since the last one. A
view of an earlier cut gets the entities that the index returns, and the entities that changed
since, and checks each of them in its cut. So an index may return too many entities, never too few,
and its cost depends on the entities near the view.

The rows of tables are in none of these indexes. Their positions are sorted by cell when a view asks
after a change, and the sort is that of the view's own cut.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import frexp
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from placet.actors.observation.interest import InterestManager
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.kernel.visibility.positions import Point, PositionGrid, point_of
from placet.schemas.identity import Ref

if TYPE_CHECKING:
    from placet.kernel.visibility.table_cells import CellsOfTables

_HISTORY_CUTS_MAX: Final = 512
_HISTORY_REFS_MIN: Final = 4_096
_GRIDS_MAX: Final = 8
_LEVEL_MIN, _LEVEL_MAX = -16, 30
_SLACK: Final = 1 + 1e-9
"""A box is larger than its ball by this factor, so that no rounding leaves out an entity."""


class _Index(Protocol):
    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Apply a change; `state` is the state after it."""


Candidate: TypeAlias = tuple[Ref, Point | None]
"""An entity, and its position at the cut; None if the cut itself must be asked."""

_NO_CUT: Final = State()
_NO_CUT.epoch = -1

Kept = TypeVar("Kept", bound=_Index)


class _Follower(Generic[Kept]):
    """An index that follows the cuts.

    Attributes:
        index: The index.
        cut: The cut that it holds; of epoch -1 before the first.
    """

    def __init__(self, make: Callable[[], Kept]) -> None:
        self.make = make
        self.index = make()
        self.cut = _NO_CUT


class CutIndexes:
    """The indexes of one world's cuts. Any thread may ask; one thread makes the cuts.

    Args:
        registry: The world's domains.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = Lock()
        self._history: deque[tuple[int, list[Ref]]] = deque()
        self._history_refs = 0
        self._visibility = _Follower(lambda: InterestManager(registry))
        self._grids: dict[int, _Follower[PositionGrid]] = {}
        self._cells: CellsOfTables | None = None

    def add(self, cut: State) -> None:
        """Note a new cut. O(entities that changed since the cut before)."""
        with self._lock:
            if not self._grids and self._visibility.cut is _NO_CUT:
                return  # no index follows
            changed = _changed_in(cut)
            if changed is None or (self._history and self._history[-1][0] != cut.epoch - 1):
                self._history.clear()
                self._history_refs = 0
            if changed is None:
                return
            self._history.append((cut.epoch, changed))
            self._history_refs += len(changed)
            count = sum(
                len(rows.entities) for rows in cut.collections.values() if not rows.is_table
            )
            # Beyond this, building an index anew costs no more than following.
            refs_max = max(_HISTORY_REFS_MIN, 2 * count)
            while self._history_refs > refs_max or len(self._history) > _HISTORY_CUTS_MAX:
                self._history_refs -= len(self._history.popleft()[1])

    def visible_candidates(self, cut: State, agent_id: str, collection: str) -> list[str] | None:
        """Return a superset of the entities of a collection that an agent may see, sorted.

        None: any may be visible.
        """
        with self._lock:
            follower = self._visibility
            if collection in cut.tables:
                return self._visible_rows(cut, agent_id, collection)
            if not follower.index.may_narrow(collection):
                return None
            if not follower.index.is_narrowed_for(collection, agent_id, cut):
                return None
            ahead = self._follow(follower, cut)
            if ahead is None:
                return None
            refs = follower.index.candidates_in(collection, agent_id, follower.cut, ahead)
            if refs is None:
                return None
            return sorted(
                entity for name, entity in refs if name == collection and entity is not None
            )

    def _visible_rows(self, cut: State, agent_id: str, table: str) -> list[str] | None:
        rows = self._visibility.index.rows_in(table, agent_id, cut, self._cells_of_tables())
        stem = cut.tables[table].stem
        return None if rows is None else sorted(f"{stem}:{row}" for row in rows.tolist())

    def _cells_of_tables(self) -> "CellsOfTables":
        if self._cells is None:
            from placet.kernel.visibility.table_cells import CellsOfTables  # noqa: PLC0415  # numpy

            self._cells = CellsOfTables()
        return self._cells

    def near_candidates(self, cut: State, center: Point, radius: float) -> list[Candidate]:
        """Return a superset of the entities within a radius of a point, each once, in any order."""
        x, y, z = center
        reach = radius * _SLACK
        # Cells of half the radius to the radius: few cells, and few entities that are too far.
        level = min(max(frexp(radius)[1] - 1, _LEVEL_MIN), _LEVEL_MAX) if radius else 0
        low, high = (x - reach, y - reach, z - reach), (x + reach, y + reach, z + reach)
        return self._in_box(cut, level, low, high, high)

    def cell_candidates(self, cut: State, corner: Point) -> list[Candidate]:
        """Return a superset of the entities in a cell of side 1, each once, in any order."""
        x, y, z = corner
        return self._in_box(cut, 0, corner, corner, (x + 1.0, y + 1.0, z + 1.0))

    def _in_box(
        self, cut: State, level: int, low: Point, high: Point, high_of_rows: Point
    ) -> list[Candidate]:
        """Return the entities in the cells of two corners, and the rows between two corners."""
        with self._lock:
            follower = self._grids.pop(level, None)
            if follower is None:
                field_of = self._registry.position_field
                follower = _Follower(lambda: PositionGrid(2.0**level, field_of))
            self._grids[level] = follower  # the last is the one used last
            if len(self._grids) > _GRIDS_MAX:
                del self._grids[next(iter(self._grids))]
            rows = self._rows_in_box(cut, 2.0**level, low, high_of_rows) if cut.tables else []
            ahead = self._follow(follower, cut)
            if ahead is None:
                return [*((ref, None) for ref in _refs_of(cut)), *rows]
            inside: list[Candidate] = [*follower.index.in_box(low, high)]
        if ahead:
            changed = dict.fromkeys(ahead)
            inside = [candidate for candidate in inside if candidate[0] not in changed]
            inside += [(ref, None) for ref in ahead]
        return inside + rows

    def _rows_in_box(self, cut: State, side: float, low: Point, high: Point) -> list[Candidate]:
        """Return the rows of tables in a box of a cut, with their positions."""
        from placet.kernel.visibility.table_cells import holds_positions, names_of  # noqa: PLC0415  # numpy

        found: list[Candidate] = []
        for name, table in cut.tables.items():
            field = self._registry.position_field(name)
            if (
                field is None
                or field not in table.fields
                or not holds_positions(table.fields[field])
            ):
                continue
            rows = self._cells_of_tables().of(table, field, side).in_box(low, high)
            points = [point_of(place) for place in table.columns[field][rows].tolist()]
            refs = [Ref(name, entity) for entity in names_of(table, rows)]
            found += zip(refs, points, strict=True)
        return found

    def _follow(self, follower: _Follower[Kept], cut: State) -> list[Ref] | None:
        """Bring an index up to a cut; return the refs in which it is ahead of the cut.

        None: it is ahead, and what has changed since is not known.
        """
        epoch = follower.cut.epoch
        if epoch >= cut.epoch:
            return self._between(cut.epoch, epoch)
        refs: Iterable[Ref] | None = self._between(epoch, cut.epoch)
        follower.cut = _NO_CUT  # until it is done: a domain's code may raise
        if refs is None:
            follower.index, refs = follower.make(), _refs_of(cut)
        follower.index.update(cut, refs)
        follower.cut = cut
        return []

    def _between(self, earlier: int, later: int) -> list[Ref] | None:
        """Return what changed after a cut, up to a later one; None if it is not known."""
        if earlier == later:
            return []
        history = self._history
        skip = earlier + 1 - history[0][0] if history else -1
        if skip < 0 or earlier < 0:
            return None
        steps = islice(history, skip, skip + later - earlier)
        return [*dict.fromkeys(ref for _, refs in steps for ref in refs)]


def _refs_of(cut: State) -> Iterator[Ref]:
    """Yield the refs of the entities that indexes hold: all but the rows of tables."""
    for name, rows in cut.collections.items():
        for entity in () if rows.is_table else rows.entities:
            yield Ref(name, entity)


def _changed_in(cut: State) -> list[Ref] | None:
    """Return the refs of the entities that changed since the cut before; None if not known."""
    changed = []
    for name, rows in cut.collections.items():
        if rows.is_table:
            continue
        if rows.changed is None:
            return None
        changed += [Ref(name, entity) for entity in rows.changed]
    return changed
