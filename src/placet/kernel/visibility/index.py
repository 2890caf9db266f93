"""An index of agents and entities by a key, such as a cell or a team."""

from collections.abc import Iterable, KeysView, Set
from typing import Final, Generic, TypeVar

from placet.schemas.identity import Ref

Key = TypeVar("Key")
Mark = TypeVar("Mark")


class Buckets(Generic[Key, Mark]):
    """An index of entities by a key, such as a cell or a team; each entity has a mark.

    The caller chooses keys and marks. Every operation costs O(1), or the size of its result.

    Attributes:
        entities: Key -> entity -> its mark.
        everywhere: Entities without a key; every agent is a candidate to see them.
    """

    __slots__ = ("_agents", "_body", "_keys", "entities", "everywhere")

    def __init__(self, body: str) -> None:
        self._body = body
        self._keys: dict[Ref, tuple[Key, Mark]] = {}
        self.entities: dict[Key, dict[Ref, Mark]] = {}
        self._agents: dict[Key, dict[str, None]] = {}
        self.everywhere: dict[Ref, None] = {}

    def find(self, ref: Ref) -> tuple[Key, Mark] | None:
        """Return the key and the mark of an entity; None if it has no key."""
        return self._keys.get(ref)

    def put(self, ref: Ref, key: Key, mark: Mark) -> None:
        """Add or move an entity to a key, and set its mark."""
        held = self._keys.get(ref)
        if held is not None and held[0] != key:
            self._drop(ref, held[0])
        self.everywhere.pop(ref, None)
        self._keys[ref] = (key, mark)
        self.entities.setdefault(key, {})[ref] = mark
        if ref.collection == self._body and ref.entity is not None:
            self._agents.setdefault(key, {})[ref.entity] = None

    def put_everywhere(self, ref: Ref) -> None:
        """Add an entity to `everywhere`, without a key."""
        self.remove(ref)
        self.everywhere[ref] = None

    def remove(self, ref: Ref) -> None:
        """Remove an entity from the index; no effect if it is absent."""
        self.everywhere.pop(ref, None)
        held = self._keys.pop(ref, None)
        if held is not None:
            self._drop(ref, held[0])

    def agents(self, key: Key) -> Iterable[str]:
        """Return the ids of the agents whose own entity is under a key."""
        return self._agents.get(key, ())

    def _drop(self, ref: Ref, key: Key) -> None:
        entities = self.entities[key]
        del entities[ref]
        if not entities:
            del self.entities[key]
        if ref.collection == self._body and ref.entity is not None:
            agents = self._agents[key]
            del agents[ref.entity]
            if not agents:
                del self._agents[key]


Named = TypeVar("Named")


def named(pairs: Iterable[Named]) -> KeysView[Named]:
    """Return the distinct items in order; a set's order would differ between processes."""
    return dict.fromkeys(pairs).keys()


NO_AGENTS: Final[Set[str]] = frozenset()
NO_REFS: Final[Set[Ref]] = frozenset()
