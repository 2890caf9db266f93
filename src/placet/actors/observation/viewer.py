"""Views: a consistent copy of the state, as one agent may see it.

The first request at a seq takes a cut of the state (`State.cut`), which all agents share and no
code changes. Visibility is judged lazily, on the cut and not on the live state, so a view costs its
agent O(the entities that it reads) and stays true at its seq.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from math import dist, floor, isfinite

from placet.actors.observation.cut_indexes import Candidate, CutIndexes
from placet.kernel.gate.changes import name_of
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.registry import without
from placet.kernel.prng import MomentDraws
from placet.kernel.state.tree import NO_ENTITIES, State, WorldState
from placet.kernel.visibility.positions import Point, point_of
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS
from placet.schemas.missing_key import MissingKeyError
from placet.schemas.printable import printable
from placet.schemas.view import View

Entities = Mapping[str, Mapping[str, Json]]


class Viewer:
    """Creates the views of one world."""

    def __init__(self, kernel: Kernel) -> None:
        self._registry = kernel.registry
        self._seq = self._rewinds = -1
        self._cut = _Cut(State(), kernel, CutIndexes(kernel.registry))

    def view(self, kernel: Kernel, agent_id: str) -> View:
        """Return an agent's view at the present seq; O(1), after one `State.cut` for each seq."""
        tree = kernel.tree
        if self._seq != kernel.seq or self._rewinds != tree.rewinds:
            self._seq, self._rewinds = kernel.seq, tree.rewinds
            indexes = self._cut.indexes
            self._cut = _Cut(tree.cut(), kernel, indexes)
            indexes.add(self._cut.state)
        state = _SeenState(self._cut, agent_id)
        ledger, leases = kernel.ledger, _leases_seen(kernel, agent_id)
        draws = MomentDraws(kernel.config.seed, ledger.tick, ledger.now_ns)
        return View(kernel.seq, ledger.now_ns / SECOND_NS, agent_id, state, state, leases, draws)


def _leases_seen(kernel: Kernel, agent_id: str) -> Mapping[str, Mapping[str, Json]]:
    """Return the running leases of the entities that an agent sees."""
    table = kernel.ledger.leases
    if table is None:
        return {}
    held = table.at(round(kernel.sim_time * SECOND_NS)).held
    return {
        name_of(ref): {
            "until": (ticket.until_ns or 0) / SECOND_NS,
            "own": ticket.agent_id == agent_id,
        }
        for ref, ticket in held.items()
        if kernel.registry.may_see(kernel.tree, agent_id, ref)
    }


class _Cut:
    """A cut, and what all views of it share.

    Attributes:
        state: The cut.
        declared: Names of collections that every agent may know.
        registry: The world's domains.
        indexes: The indexes of the world's cuts.
        collections: Collections of which nothing is hidden, as they are shown to every agent.
    """

    __slots__ = ("_parts", "collections", "declared", "indexes", "registry", "state", "world_state")

    def __init__(self, state: State, kernel: Kernel, indexes: CutIndexes) -> None:
        self.state = state
        self.declared = kernel.declared
        self.world_state = WorldState(state, kernel.declared)
        self.registry = kernel.registry
        self.indexes = indexes
        self.collections: dict[str, Entities] = {}
        self._parts: dict[str, tuple[dict[str, None], list[str]]] = {}

    def parts_of(self, collection: str) -> tuple[dict[str, None], list[str]]:
        """Return the entities that every agent sees, and those about which each is asked, sorted.

        O(entities) at the first call for a cut, whichever agent it is for.
        """
        parts = self._parts.get(collection)
        if parts is None:
            public: dict[str, None] = {}
            others: list[str] = []
            for entity in self.world_state[collection]:
                if self.registry.is_shown_to_all(self.state, Ref(collection, entity)):
                    public[entity] = None
                else:
                    others.append(entity)
            parts = self._parts[collection] = public, others
        return parts


class _SeenState(Mapping[str, Entities]):
    """The cut as one agent may see it.

    It iterates over the collections with a visible entity. A collection that a domain declares is
    an empty mapping where the agent sees none of it, and so is one that has been and of which
    nothing is hidden. Any other name raises: whether hidden entities made it is not disclosed.
    """

    __slots__ = ("_agent_id", "_collections", "_cut")

    def __init__(self, cut: _Cut, agent_id: str) -> None:
        self._cut = cut
        self._agent_id = agent_id
        self._collections: dict[str, Entities] = {}

    def __getitem__(self, collection: str) -> Entities:
        cut = self._cut
        entities = cut.collections.get(collection)
        if entities is None:
            entities = self._collections.get(collection)
        if entities is not None:
            return entities
        rows = cut.world_state.get(collection)
        if rows is None:
            raise MissingKeyError(collection, "visible collection", self.known())
        if not cut.registry.hiding(collection):
            cut.collections[collection] = rows
            return rows
        seen = _SeenEntities(rows, cut, self._agent_id, collection)
        is_visible = seen.is_any_visible()
        if not is_visible and collection not in cut.declared:
            raise MissingKeyError(collection, "visible collection", self.known())
        self._collections[collection] = entities = seen if is_visible else NO_ENTITIES
        return entities

    def known(self) -> Iterator[str]:
        """Yield the names of the collections that do not raise for this agent, sorted."""
        return filter(self.__contains__, self._cut.world_state.known())

    def __iter__(self) -> Iterator[str]:
        for name in self._cut.world_state:
            seen = self.get(name)
            if seen is not None and seen is not NO_ENTITIES:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(entities)}" for name, entities in self.items())
        return printable(f"<state as {self._agent_id} sees it: {sizes or 'no entities'}>")

    # positions

    def near(self, position: Sequence[float], radius: float) -> list[Ref]:
        """Return the visible entities within a radius of a position, sorted."""
        self._require_positions()
        center = _to_point(position, "position")
        if type(radius) not in {int, float} or not isfinite(radius) or radius < 0:
            raise ValueError(f"radius must be a finite number of at least 0, got {radius!r}")
        candidates = self._cut.indexes.near_candidates(self._cut.state, center, radius)
        return self._visible_where(candidates, lambda point: dist(center, point) <= radius)

    def at(self, cell: Sequence[float]) -> list[Ref]:
        """Return the visible entities in a cell, sorted."""
        self._require_positions()
        corner = _corner_of(_to_point(cell, "cell"))
        candidates = self._cut.indexes.cell_candidates(self._cut.state, corner)
        return self._visible_where(candidates, lambda point: _corner_of(point) == corner)

    def _visible_where(
        self, candidates: Iterable[Candidate], is_there: Callable[[Point], bool]
    ) -> list[Ref]:
        """Return the entities whose position the agent sees and is in place, sorted."""
        visible = []
        for ref, known in candidates:
            point = self._point(ref) if known is None else known
            if point is not None and is_there(point) and self._is_position_shown(ref):
                visible.append(ref)
        visible.sort()
        return visible

    def _point(self, ref: Ref) -> Point | None:
        field = self._cut.registry.position_field(ref.collection)
        if field is None or ref.entity is None:
            return None
        return point_of(self._cut.state.get(ref.collection, ref.entity, field))

    def _is_position_shown(self, ref: Ref) -> bool:
        registry, state = self._cut.registry, self._cut.state
        return not registry.hiding(ref.collection) or (
            registry.may_see(state, self._agent_id, ref)
            and registry.position_field(ref.collection)
            not in registry.hidden_fields(state, self._agent_id, ref)
        )

    def _require_positions(self) -> None:
        registry = self._cut.registry
        if not registry.has_positions:
            names = ", ".join(repr(domain.name) for domain in registry.domains)
            raise ValueError(
                f"no domain of this world ({names}) has positions; near and at need a `sight` "
                "whose `position_field` names the field that holds them"
            )


class _SeenEntities(Mapping[str, Mapping[str, Json]]):
    """One collection as one agent may see it."""

    __slots__ = ("_agent_id", "_collection", "_cut", "_ids", "_rows")

    def __init__(self, rows: Entities, cut: _Cut, agent_id: str, collection: str) -> None:
        self._rows = rows
        self._cut = cut
        self._agent_id = agent_id
        self._collection = collection
        self._ids: dict[str, None] | None = None

    def __getitem__(self, entity: str) -> Mapping[str, Json]:
        fields, ids = self._rows.get(entity), self._ids
        if fields is None or (entity not in ids if ids is not None else not self._may_see(entity)):
            raise MissingKeyError(entity, "visible entity", self)
        registry, state = self._cut.registry, self._cut.state
        ref = Ref(self._collection, entity)
        return without(fields, registry.hidden_fields(state, self._agent_id, ref))

    def __iter__(self) -> Iterator[str]:
        if self._ids is None:  # each entity is asked about once, also for `items`
            self._ids = dict.fromkeys(self._visible())
        return iter(self._ids)

    def __len__(self) -> int:
        if self._ids is not None or self._narrowed() is not None:
            return sum(1 for _ in self)
        public, others = self._cut.parts_of(self._collection)
        return len(public) + sum(map(self._may_see, others))

    def __repr__(self) -> str:
        return printable(f"<{self._collection} as {self._agent_id} sees it: {len(self)} entities>")

    def is_any_visible(self) -> bool:
        """Return whether any entity is visible; the agent's own is tried first."""
        own = self._agent_id
        return (own in self._rows and self._may_see(own)) or any(True for _ in self._visible())

    def _narrowed(self) -> list[str] | None:
        """Return the entities that the agent might see, by an index; None without one."""
        cut = self._cut
        return cut.indexes.visible_candidates(cut.state, self._agent_id, self._collection)

    def _visible(self) -> Iterator[str]:
        names = self._narrowed()
        if names is not None:
            return filter(self._may_see, filter(self._rows.__contains__, names))
        public, others = self._cut.parts_of(self._collection)
        return merge(public, filter(self._may_see, others))

    def _may_see(self, entity: str) -> bool:
        ref = Ref(self._collection, entity)
        return self._cut.registry.may_see(self._cut.state, self._agent_id, ref)


def _to_point(value: Sequence[float], name: str) -> Point:
    point = point_of(value)
    if point is None:
        raise ValueError(f"{name} must be one to three finite numbers, got {value!r:.80}")
    return point


def _corner_of(point: Point) -> Point:
    x, y, z = point
    return floor(x), floor(y), floor(z)
