"""The base visibility policy, and the composition of policies.

A policy judges one agent and one entity, on the state alone. Its follower only saves asking it: it
names those whom a change may concern, and the policy is asked about these.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from typing import Final, TypeVar

from placet.kernel.domain import InterestIndex, VisibilityPolicy
from placet.kernel.state.tree import State
from placet.schemas.identity import Ref

T = TypeVar("T")

NONE_HIDDEN: Final[frozenset[str]] = frozenset()


class Visibility:
    """The base visibility policy (`placet.kernel.domain.VisibilityPolicy`). It shows everything."""

    agent_collection: str = ""
    depends_on: frozenset[str] | None = frozenset()
    indexed_by: frozenset[str] = frozenset()
    is_indexed = False
    hides_fields = False

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether an agent may see an entity, that it is there."""
        return True

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Name the fields that it may not see of it."""
        return NONE_HIDDEN

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return how near an entity is, from 0 to 1; 1 is here, or anywhere."""
        return 1.0

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return how far an entity is; None where that cannot be measured."""
        return None

    def dependents_of(self, state: State, ref: Ref) -> Iterable[Ref]:
        """Name the entities whose being seen is judged by another one."""
        return ()

    def follower(self) -> InterestIndex:
        """Make an empty index for one published state."""
        return Unbounded()


class Unbounded:
    """Knows no bounds: every change may concern everyone."""

    def observers_of(self, ref: Ref) -> Set[str] | None:
        """Everyone."""
        return None

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        """Everything."""
        return None

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Keep nothing."""


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

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Ask the part to whom it is farthest."""
        return min(part.relevance(state, agent_id, ref) for part in self.parts)

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Ask the first part that can measure."""
        measured = (part.distance(state, agent_id, ref) for part in self.parts)
        return next((distance for distance in measured if distance is not None), None)

    def dependents_of(self, state: State, ref: Ref) -> Iterable[Ref]:
        """Name what any of the parts names."""
        return {borne: None for part in self.parts for borne in part.dependents_of(state, ref)}


class AllOf(_Composed):
    """Intersection.

    An entity is visible if every part shows it, without the fields that any part hides.
    """

    def __init__(self, *parts: VisibilityPolicy) -> None:
        super().__init__(*parts)
        indexed = [part for part in parts if part.is_indexed]
        if len(indexed) == 1 and self.depends_on is not None:  # of several, another may be asked
            others = [part.depends_on or () for part in parts if part is not indexed[0]]
            self.indexed_by = indexed[0].indexed_by.difference(*others)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Ask the parts in order, until one says no."""
        for part in self.parts:  # noqa: SIM110  # a generator would cost as much as its parts
            if not part.may_see(state, agent_id, ref):
                return False
        return True

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Name what any of the parts hides."""
        hidden: Collection[str] = NONE_HIDDEN
        for part in self.parts:
            more = part.hidden_fields(state, agent_id, ref)
            if more:
                hidden = frozenset(hidden).union(more)
        return hidden

    def follower(self) -> InterestIndex:
        """Combine the parts' indexes: the fewest that one of them names are enough."""
        return _IntersectionIndex([part.follower() for part in self.parts])


class AnyOf(_Composed):
    """Union.

    An entity is visible if at least one part shows it, without the fields that all of these hide.
    """

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Ask the parts in order, until one says yes."""
        return any(part.may_see(state, agent_id, ref) for part in self.parts)

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields hidden by every part that shows the entity."""
        hidden: Collection[str] | None = None
        for part in self.parts:
            if part.may_see(state, agent_id, ref):
                more = part.hidden_fields(state, agent_id, ref)
                hidden = more if hidden is None else frozenset(hidden).intersection(more)
        return NONE_HIDDEN if hidden is None else hidden

    def follower(self) -> InterestIndex:
        """Combine the parts' indexes: whom any of them names."""
        return _UnionIndex([part.follower() for part in self.parts])


class _Several:
    def __init__(self, parts: Sequence[InterestIndex]) -> None:
        self._parts = parts

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        for part in self._parts:
            part.update(state, refs)


class _IntersectionIndex(_Several):
    def observers_of(self, ref: Ref) -> Set[str] | None:
        return _intersection([part.observers_of(ref) for part in self._parts])

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        return _intersection([part.candidates_for(agent_id) for part in self._parts])


class _UnionIndex(_Several):
    def observers_of(self, ref: Ref) -> Set[str] | None:
        return _union([part.observers_of(ref) for part in self._parts])

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        return _union([part.candidates_for(agent_id) for part in self._parts])


def _intersection(named: Iterable[Set[T] | None]) -> Set[T] | None:
    return min((some for some in named if some is not None), key=len, default=None)


def _union(named: Iterable[Set[T] | None]) -> Set[T] | None:
    together: dict[T, None] = {}  # not a set: its order would be another in every process
    for some in named:
        if some is None:
            return None
        together.update(dict.fromkeys(some))
    return together.keys()
