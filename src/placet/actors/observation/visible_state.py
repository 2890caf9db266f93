"""What there is to be seen: the published copy, and who may see what of it."""

from collections.abc import Iterable

from placet.actors.observation.interest import InterestManager
from placet.actors.observation.replica import Fields, ReadReplica, ReplicaEntity
from placet.kernel.registry import Registry
from placet.schemas.identity import Ref
from placet.schemas.view import Change


class VisibleState:
    """One published copy, as agents see it.

    Attributes:
        published: The copy.
        interest: Whom its changes concern.
    """

    __slots__ = ("_registry", "interest", "published")

    def __init__(self, registry: Registry, published: ReadReplica) -> None:
        self._registry = registry
        self.published = published
        self.interest = InterestManager(registry)
        self.interest.begin(published)

    def seen(self, agent_id: str, ref: Ref, row: ReplicaEntity) -> Fields | None:
        """Return what an agent may see of an entity; None if nothing. O(1)."""
        state, registry = self.published.state, self._registry
        if not registry.hiding(ref.collection):
            return row.fields
        if not registry.may_see(state, agent_id, ref):
            return None
        return row.without(registry.hidden_fields(state, agent_id, ref))

    def candidates_for(self, agent_id: str) -> Iterable[Ref]:
        """Name what an agent may see at most."""
        return self.interest.candidates_for(agent_id, self.published)

    def relevance(self, agent_id: str, ref: Ref) -> float:
        """Return how near an entity is to an agent: 1 is here, 0 is infinitely far."""
        return self.interest.relevance(self.published.state, agent_id, ref)

    def distance(self, agent_id: str, ref: Ref) -> float | None:
        """Return how far an entity is from an agent; None where that is not known."""
        return self.interest.distance(self.published.state, agent_id, ref)

    def body_of(self, agent_id: str) -> Ref | None:
        """Name an agent's own entity; None where agents have none."""
        return self.interest.body_of(agent_id)

    def left(self, ref: Ref) -> Change:
        """Say that an entity is out of sight; nothing of why, which may be hidden."""
        return Change(f"{ref.collection}/{ref.entity}", "leave", self.published.seq, "", None)

    def judge_all_anew(self) -> None:
        """Do without indexes from here on: a judgement in them has raised."""
        self.interest = InterestManager(self._registry, is_indexed=False)
