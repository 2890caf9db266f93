"""Visibility by relation: team, acquaintance and ownership."""

from collections.abc import Collection, Iterable, Set

from placet.kernel.state.tree import State
from placet.kernel.visibility.index import NO_AGENTS, NO_REFS, Buckets, named
from placet.kernel.visibility.policy import NONE_HIDDEN, Visibility
from placet.kernel.visibility.protocols import InterestIndex
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.keywords import explain_keywords


class _Owned(Visibility):
    """Base of policies that depend on the owner of an entity.

    Override `owner` where agents carry entities.
    """

    def __init__(self, agent_collection: str) -> None:
        self.agent_collection = agent_collection

    def owner(self, state: State, ref: Ref) -> str | None:
        """Return the agent that owns an entity, or None."""
        return ref.entity if ref.collection == self.agent_collection else None


@explain_keywords
class SameTeam(_Owned):
    """An agent sees itself, its team, and the entities that they own.

    Args:
        agent_collection: Collection of the agents' own entities.
        field: Field with the team of an agent; a value of None is no team.
    """

    def __init__(self, agent_collection: str, field: str = "team") -> None:
        super().__init__(agent_collection)
        self.depends_on = frozenset({field})
        self._field = field
        self.is_indexed = True

    def team(self, state: State, agent_id: str) -> Json:
        """Return a key of the team of an agent; an agent without a team is its own team."""
        team = state.get(self.agent_collection, agent_id, self._field)
        return (False, agent_id) if team is None else (True, team)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether the owner is in the team of the agent."""
        owner = self.owner(state, ref)
        return owner is not None and bool(self.team(state, owner) == self.team(state, agent_id))

    def new_index(self) -> InterestIndex:
        """Return an empty index of teams."""
        return _Teams(self)


class _Teams:
    """Index of agents and entities by team."""

    def __init__(self, sight: SameTeam) -> None:
        self._sight = sight
        self._buckets: Buckets[Json, None] = Buckets(sight.agent_collection)

    def observers_of(self, ref: Ref) -> Set[str] | None:
        """Return the team of the owner of an entity."""
        held = self._buckets.find(ref)
        if held is None:
            return NO_AGENTS
        return named(self._buckets.agents(held[0]))

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        """Return the entities owned by the team of an agent."""
        held = self._buckets.find(Ref(self._sight.agent_collection, agent_id))
        return NO_REFS if held is None else named(self._buckets.entities[held[0]])

    def update(self, state: State, refs: Iterable[Ref]) -> None:
        """Update the teams of the changed entities."""
        sight, buckets = self._sight, self._buckets
        for ref in refs:
            is_there = ref.entity is not None and state.exists(ref.collection, ref.entity)
            owner = sight.owner(state, ref) if is_there else None
            if owner is None:
                buckets.remove(ref)
            else:
                buckets.put(ref, sight.team(state, owner), None)


@explain_keywords
class KnownOnly(_Owned):
    """An agent sees itself, the agents that it knows, and the entities that they own.

    Args:
        agent_collection: Collection of the agents' own entities.
        field: Field of an agent with the ids of the agents that it knows.
    """

    def __init__(self, agent_collection: str, field: str) -> None:
        super().__init__(agent_collection)
        self.depends_on = frozenset({field})
        self._field = field

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether the agent knows the owner of the entity."""
        owner = self.owner(state, ref)
        if owner is None or owner == agent_id:
            return owner is not None
        known = state.get(self.agent_collection, agent_id, self._field)
        return isinstance(known, tuple) and owner in known


@explain_keywords
class HideFields(_Owned):
    """Some fields of an agent's entities are visible to that agent alone.

    Their existence is public.

    Args:
        fields: Names of the hidden fields, in every entity with an owner.
        agent_collection: Collection of the agents' own entities.
    """

    def __init__(self, fields: Collection[str], agent_collection: str) -> None:
        super().__init__(agent_collection)
        self._hidden = frozenset(fields)
        self.hides_fields = True

    def hidden_fields(self, state: State, agent_id: str, ref: Ref) -> Collection[str]:
        """Return the hidden fields if another agent owns the entity."""
        owner = self.owner(state, ref)
        return NONE_HIDDEN if owner is None or owner == agent_id else self._hidden
