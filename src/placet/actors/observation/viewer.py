"""Views: a consistent copy of the state, as one agent may see it.

The first request at a seq takes a cut of the state (`State.cut`), which all agents share and no
code changes. Visibility is judged lazily, on the cut and not on the live state, so a view costs its
agent O(the entities that it reads) and stays true at its seq.
"""

from collections.abc import Iterator, Mapping

from placet.kernel.kernel import Kernel
from placet.kernel.registry import Registry, without
from placet.kernel.state.tree import State, WorldState
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS
from placet.schemas.view import View


class Viewer:
    """Creates the views of one world."""

    def __init__(self, kernel: Kernel) -> None:
        self._registry = kernel.registry
        self._seq = -1
        self._cut = State()

    def view(self, kernel: Kernel, agent_id: str) -> View:
        """Return an agent's view at the present seq; O(1), after one `State.cut` for each seq."""
        if self._seq != kernel.seq:
            self._seq = kernel.seq
            self._cut = kernel.tree.cut()
        state = _SeenState(self._cut, agent_id, self._registry)
        return View(kernel.seq, kernel.ledger.now_ns / SECOND_NS, agent_id, state)


class _SeenState(Mapping[str, Mapping[str, Mapping[str, Json]]]):
    """The copied state as one agent may see it; a collection with no visible entity is absent."""

    __slots__ = ("_agent_id", "_collections", "_cut", "_registry", "_state")

    def __init__(self, cut: State, agent_id: str, registry: Registry) -> None:
        self._cut = cut
        self._state = WorldState(cut)
        self._agent_id = agent_id
        self._registry = registry
        self._collections: dict[str, _SeenEntities] = {}

    def __getitem__(self, collection: str) -> Mapping[str, Mapping[str, Json]]:
        rows = self._state[collection]
        if not self._registry.hiding(collection):
            return rows
        entities = self._collections.get(collection)
        if entities is not None:
            return entities
        if not self._sees_any(collection):
            raise KeyError(collection)
        entities = _SeenEntities(rows, self._cut, self._agent_id, self._registry, collection)
        self._collections[collection] = entities
        return entities

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self._state)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(entities)}" for name, entities in self.items())
        return f"<state as {self._agent_id} sees it: {sizes or 'no entities'}>"

    def _sees_any(self, collection: str) -> bool:
        """Return whether any entity of a collection is visible, the agent's own first."""
        entities, may_see = self._cut.collections[collection].entities, self._registry.may_see
        own = self._agent_id
        if own in entities and may_see(self._cut, own, Ref(collection, own)):
            return True
        return any(may_see(self._cut, own, Ref(collection, entity)) for entity in entities)


class _SeenEntities(Mapping[str, Mapping[str, Json]]):
    """One collection as one agent may see it."""

    __slots__ = ("_agent_id", "_collection", "_cut", "_registry", "_rows")

    def __init__(
        self,
        rows: Mapping[str, Mapping[str, Json]],
        cut: State,
        agent_id: str,
        registry: Registry,
        collection: str,
    ) -> None:
        self._rows = rows
        self._cut = cut
        self._agent_id = agent_id
        self._registry = registry
        self._collection = collection

    def __getitem__(self, entity: str) -> Mapping[str, Json]:
        fields = self._rows[entity]
        ref = Ref(self._collection, entity)
        if not self._registry.may_see(self._cut, self._agent_id, ref):
            raise KeyError(entity)
        return without(fields, self._registry.hidden_fields(self._cut, self._agent_id, ref))

    def __iter__(self) -> Iterator[str]:
        return filter(self._may_see, self._rows)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{self._collection} as {self._agent_id} sees it: {len(self)} entities>"

    def _may_see(self, entity: str) -> bool:
        ref = Ref(self._collection, entity)
        return self._registry.may_see(self._cut, self._agent_id, ref)
