"""The base visibility policy, and the composition of policies.

A policy decides for one agent and one entity, from the state alone. Its interest index only reduces
the number of calls: it names the agents that a change may affect, and the policy is called for
these.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Final, TypeVar

from placet.kernel.state.tree import State
from placet.kernel.visibility.protocols import InterestIndex, VisibilityPolicy
from placet.schemas.identity import Ref

if TYPE_CHECKING:
    from placet.kernel.visibility.table_cells import CellsOfTables, Rows

T = TypeVar("T")

NONE_HIDDEN: Final[frozenset[str]] = frozenset()


class Visibility:
    """Base of visibility policies (protocol `VisibilityPolicy`); it shows everything.

    A subclass that restricts only some collections names them in `hides`; nothing is asked about
    the others.
    """

    agent_collection: str = ""
    hides: frozenset[str] | None = None
    depends_on: frozenset[str] | None = frozenset()
    indexed_by: frozenset[str] = frozenset()
    is_indexed = False
    hides_fields = False
    position_field: str | None = None

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return True: every agent may see that every entity exists. Subclasses restrict it."""
        return True

    def is_shown_to_all(self, state: State, ref: Ref) -> bool:
        """Return False: each agent is asked about by `may_see`.

        A subclass may return True for an entity that `may_see` shows to every agent, such as a
        public message: then all agents share one answer, and a view costs each agent nothing.
        """
        return False

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return no fields: none is hidden. A subclass that hides fields sets `hides_fields`."""
        return NONE_HIDDEN

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return 1: every entity is equally relevant.

        A subclass may return 0 to 1; entities of higher relevance are sent first.
        """
        return 1.0

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return None: no distance is defined. A subclass with positions returns it."""
        return None

    def dependents_of(self, state: State, ref: Ref) -> Iterable[Ref]:
        """Return no entities: no entity's visibility depends on another. Subclasses may differ."""
        return ()

    def candidate_rows(
        self, state: State, agent_id: str, table: str, cells: "CellsOfTables"
    ) -> "Rows | None":
        """Return None: an agent may see any row of a table. A subclass may name fewer.

        Args:
            state: The state.
            agent_id: The agent.
            table: Name of the table.
            cells: Positions of the tables' rows.

        Returns:
            Numbers of the rows that the agent may see, and perhaps others; None are all.
        """
        return None

    def new_index(self) -> InterestIndex:
        """Return an `Unbounded`, an index that narrows nothing."""
        return Unbounded()


class Unbounded:
    """The interest index of policies without one: every agent may see every entity.

    It narrows nothing, so each agent is checked by `may_see` at each change.
    """

    def observers_of(self, ref: Ref) -> Set[str] | None:
        """Return None: every agent."""
        return None

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        """Return None: every entity."""
        return None

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Do nothing; the index has no state."""


def hides_of(policy: VisibilityPolicy) -> frozenset[str] | None:
    """Return the `hides` of a policy; None, any collection, for a policy without the attribute."""
    return getattr(policy, "hides", None)


def is_shown_to_all(policy: VisibilityPolicy, state: State, ref: Ref) -> bool:
    """Return whether a policy shows an entity to every agent, as far as it tells so itself."""
    hides, tells = hides_of(policy), getattr(policy, "is_shown_to_all", None)
    if hides is not None and ref.collection not in hides:
        return True
    return tells is not None and bool(tells(state, ref))


def candidate_rows(
    policy: VisibilityPolicy, state: State, agent_id: str, table: str, cells: "CellsOfTables"
) -> "Rows | None":
    """Return the rows of a table that a policy may show to an agent; None are all."""
    hides, narrow = hides_of(policy), getattr(policy, "candidate_rows", None)
    if narrow is None or (hides is not None and table not in hides):
        return None
    rows: Rows | None = narrow(state, agent_id, table, cells)
    return rows


def position_field_of(policy: VisibilityPolicy) -> str | None:
    """Return the `position_field` of a policy; None for a policy without the attribute."""
    return getattr(policy, "position_field", None)


class _Composed(Visibility):
    def __init__(self, *parts: VisibilityPolicy) -> None:
        if not parts:
            raise ValueError(f"{type(self).__name__} needs at least one policy")
        self.parts = parts
        self.agent_collection = next(
            (part.agent_collection for part in parts if part.agent_collection), ""
        )
        fields: frozenset[str] | None = frozenset()
        for part in parts:
            fields = None if fields is None or part.depends_on is None else fields | part.depends_on
        self.depends_on = fields
        self.is_indexed = any(part.is_indexed for part in parts)
        self.hides_fields = any(part.hides_fields for part in parts)
        self.position_field = next(filter(None, map(position_field_of, parts)), None)

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return the lowest relevance of the parts."""
        return min(part.relevance(state, agent_id, ref) for part in self.parts)

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return the distance of the first part that defines one; None if no part does."""
        measured = (part.distance(state, agent_id, ref) for part in self.parts)
        return next((distance for distance in measured if distance is not None), None)

    def dependents_of(self, state: State, ref: Ref) -> Iterable[Ref]:
        """Return the dependents in any part."""
        return {
            dependent: None for part in self.parts for dependent in part.dependents_of(state, ref)
        }


class AllOf(_Composed):
    """The intersection of visibility policies.

    An entity is visible if every part shows it, without the fields that any part hides.
    """

    def __init__(self, *parts: VisibilityPolicy) -> None:
        super().__init__(*parts)
        named = [hides_of(part) for part in parts]
        known = [names for names in named if names is not None]
        self.hides = frozenset().union(*known) if len(known) == len(named) else None
        indexed = [part for part in parts if part.is_indexed]
        if (
            len(indexed) == 1 and self.depends_on is not None
        ):  # with several, any part may be needed
            others = [part.depends_on or () for part in parts if part is not indexed[0]]
            self.indexed_by = indexed[0].indexed_by.difference(*others)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether every part shows the entity."""
        for part in self.parts:  # noqa: SIM110  # a generator would cost as much as its parts
            if not part.may_see(state, agent_id, ref):
                return False
        return True

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields hidden by any part."""
        hidden: Collection[str] = NONE_HIDDEN
        for part in self.parts:
            more = part.hidden_fields(state, agent_id, ref)
            if more:
                hidden = frozenset(hidden).union(more)
        return hidden

    def is_shown_to_all(self, state: State, ref: Ref) -> bool:
        """Return whether every part shows the entity to every agent."""
        return all(is_shown_to_all(part, state, ref) for part in self.parts)

    def candidate_rows(
        self, state: State, agent_id: str, table: str, cells: "CellsOfTables"
    ) -> "Rows | None":
        """Return the smallest result of the parts."""
        results = [candidate_rows(part, state, agent_id, table, cells) for part in self.parts]
        return min((rows for rows in results if rows is not None), key=len, default=None)

    def new_index(self) -> InterestIndex:
        """Return an index that uses the smallest result of its parts."""
        return _IntersectionIndex([part.new_index() for part in self.parts])


class AnyOf(_Composed):
    """The union of visibility policies.

    An entity is visible if at least one part shows it, without the fields that all of these hide.
    """

    def __init__(self, *parts: VisibilityPolicy) -> None:
        super().__init__(*parts)
        # A part that hides nothing of a collection shows all of it.
        restricted = [names for names in map(hides_of, parts) if names is not None]
        self.hides = frozenset.intersection(*restricted) if restricted else None

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether any part shows the entity."""
        return any(part.may_see(state, agent_id, ref) for part in self.parts)

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields hidden by every part that shows the entity."""
        hidden: Collection[str] | None = None
        for part in self.parts:
            if part.may_see(state, agent_id, ref):
                more = part.hidden_fields(state, agent_id, ref)
                hidden = more if hidden is None else frozenset(hidden).intersection(more)
        return NONE_HIDDEN if hidden is None else hidden

    def candidate_rows(
        self, state: State, agent_id: str, table: str, cells: "CellsOfTables"
    ) -> "Rows | None":
        """Return the rows in the result of any part."""
        together: dict[int, None] = {}
        for part in self.parts:
            rows = candidate_rows(part, state, agent_id, table, cells)
            if rows is None:
                return None
            together.update(dict.fromkeys(rows.tolist()))
        return cells.rows(sorted(together))

    def new_index(self) -> InterestIndex:
        """Return an index that unites the results of its parts."""
        return _UnionIndex([part.new_index() for part in self.parts])


class _CombinedIndex:
    def __init__(self, parts: Sequence[InterestIndex]) -> None:
        self._parts = parts

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        for part in self._parts:
            part.update(state, refs)


class _IntersectionIndex(_CombinedIndex):
    def observers_of(self, ref: Ref) -> Set[str] | None:
        return _intersection([part.observers_of(ref) for part in self._parts])

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        return _intersection([part.candidates_for(agent_id) for part in self._parts])


class _UnionIndex(_CombinedIndex):
    def observers_of(self, ref: Ref) -> Set[str] | None:
        return _union([part.observers_of(ref) for part in self._parts])

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        return _union([part.candidates_for(agent_id) for part in self._parts])


def _intersection(results: Iterable[Set[T] | None]) -> Set[T] | None:
    return min((items for items in results if items is not None), key=len, default=None)


def _union(results: Iterable[Set[T] | None]) -> Set[T] | None:
    together: dict[T, None] = {}  # not a set, whose order differs between processes
    for items in results:
        if items is None:
            return None
        together.update(dict.fromkeys(items))
    return together.keys()
