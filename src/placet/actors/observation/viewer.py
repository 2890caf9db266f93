"""Views: an atomic cut of the state for one agent.

The state is copied once per seq, whoever asks first, and the copy is shared: nobody changes it.
What an agent may not see is judged when it is looked at, on the copy and not on the live state, so
a view costs its agent what it looks at and stays true at its seq.
"""

from collections.abc import Iterator, Mapping

from placet.kernel.kernel import Kernel
from placet.kernel.registry import Registry, without
from placet.kernel.state.tree import Entity, State, WorldState
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS
from placet.schemas.view import View


class Viewer:
    """Makes views of one world."""

    def __init__(self, kernel: Kernel) -> None:
        self._registry = kernel.registry
        self._seq = -1
        self._cut = State()

    def view(self, kernel: Kernel, agent_id: str) -> View:
        """Return what an agent may see now. O(state) once per seq, else O(1)."""
        if self._seq != kernel.seq:
            self._seq = kernel.seq
            self._cut = _copy(kernel.tree)
        shown = _SeenState(self._cut, agent_id, self._registry)
        return View(kernel.seq, kernel.ledger.now_ns / SECOND_NS, agent_id, shown)


class _SeenState(Mapping[str, Mapping[str, Mapping[str, Json]]]):
    """A cut without what one agent may not see; where that is all, the collection is not there."""

    __slots__ = ("_agent_id", "_cut", "_registry", "_seen", "_shown")

    def __init__(self, cut: State, agent_id: str, registry: Registry) -> None:
        self._cut = cut
        self._shown = WorldState(cut)
        self._agent_id = agent_id
        self._registry = registry
        self._seen: dict[str, _SeenEntities] = {}

    def __getitem__(self, collection: str) -> Mapping[str, Mapping[str, Json]]:
        rows = self._shown[collection]
        if not self._registry.hiding(collection):
            return rows
        seen = self._seen.get(collection)
        if seen is not None:
            return seen
        if not self._sees_any(collection):
            raise KeyError(collection)
        seen = _SeenEntities(rows, self._cut, self._agent_id, self._registry, collection)
        self._seen[collection] = seen
        return seen

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self._shown)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _sees_any(self, collection: str) -> bool:
        """Return whether anything in a collection may be seen; what it has of its own is first."""
        entities, may_see = self._cut.collections[collection].entities, self._registry.may_see
        own = self._agent_id
        if own in entities and may_see(self._cut, own, Ref(collection, own)):
            return True
        return any(may_see(self._cut, own, Ref(collection, entity)) for entity in entities)


class _SeenEntities(Mapping[str, Mapping[str, Json]]):
    """One collection without what one agent may not see."""

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

    def _may_see(self, entity: str) -> bool:
        ref = Ref(self._collection, entity)
        return self._registry.may_see(self._cut, self._agent_id, ref)


def _copy(tree: State) -> State:
    """Copy what views show: entities and their fields, whose values are immutable."""
    cut = State()
    for name, rows in tree.collections.items():
        cut.collection(name).entities = {
            key: Entity(dict(row.fields)) for key, row in rows.entities.items()
        }
    return cut
