"""Interest management: which observers a change affects, and what each of them may see.

A change in a domain without a visibility policy affects every observer, but only for the changed
entities. A domain with a policy is asked through its interest index, so a change costs only the
observers near it. A domain that overrides `may_see` or `hidden_fields` itself may depend on
anything, so every change makes all observers compare everything.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from placet.actors.observation.replica import Fields, ReadReplica, ReplicaEntity
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.kernel.visibility.policy import candidate_rows
from placet.kernel.visibility.protocols import InterestIndex, VisibilityPolicy
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.view import Change

if TYPE_CHECKING:
    from placet.kernel.visibility.table_cells import CellsOfTables, Rows

AgentIds = Collection[str]


class Affected(NamedTuple):
    """Agents whose observers must compare entities again. None: all agents, or all entities."""

    agent_ids: AgentIds | None
    refs: Iterable[Ref] | None


class InterestManager:
    """The interest indexes of a world: which observers a change of the state affects.

    Args:
        registry: The world's domains.
        is_indexed: Keep indexes; without them every change affects every observer.

    Attributes:
        cells: Positions of the rows of tables since the last change of one.
    """

    def __init__(self, registry: Registry, *, is_indexed: bool = True) -> None:
        self._indexes = {
            d.name: _DomainIndex(d.sight) for d in registry.domains if d.sight is not None
        }
        self._names = frozenset(domain.name for domain in registry.domains)
        self._indexes_of: dict[str, tuple[_DomainIndex | None, ...]] = {}
        self.cells: CellsOfTables | None = None
        self._is_unindexed = not is_indexed or any(
            _overrides_visibility(domain)
            or (domain.sight is not None and domain.sight.depends_on is None)
            for domain in registry.domains
        )

    def build(self, published: ReadReplica) -> None:
        """Build the indexes from the whole state. O(state) if a domain has an index, else O(1)."""
        if self._is_unindexed:
            return
        for index in self._indexes.values():
            refs = [ref for ref in published.refs() if index in self._indexes_for(ref.collection)]
            index.interest.update(published.state, refs)

    def add_observer(self, state: State, agent_id: str) -> None:
        """Start tracking the fields on which an observing agent's visibility depends."""
        for index in self._indexes.values():
            index.inputs[agent_id] = index.inputs_of(state, agent_id)
            if index.is_member(state, agent_id):
                index.members[agent_id] = None

    def remove_observer(self, agent_id: str) -> None:
        """Stop tracking an agent that no longer observes."""
        for index in self._indexes.values():
            index.inputs.pop(agent_id, None)
            index.members.pop(agent_id, None)

    def affected(self, state: State, changed: Sequence[Ref]) -> Iterator[Affected]:
        """Yield the observers that a change affects, and update the indexes.

        Args:
            state: The state after the change.
            changed: The changed entities.
        """
        if self._is_unindexed:
            yield Affected(None, None)
            return
        if state.tables:
            tables = [
                ref for ref in changed if ref.entity is None and ref.collection in state.tables
            ]
            changed = [ref for ref in changed if ref not in tables]
            yield from self._affected_by_tables(tables)
        for index, refs in self._by_index(changed).items():
            if index is None:
                yield Affected(None, refs)
            else:
                yield from index.affected(state, refs)

    def _affected_by_tables(self, tables: Sequence[Ref]) -> Iterator[Affected]:
        """Yield every observer for the changed tables, whose rows are in no index.

        A member whose own row may have changed compares everything: it may be elsewhere now.
        """
        if not tables:
            return
        self.cells = None
        yield Affected(None, tables)
        changed = {ref.collection for ref in tables}
        for index in self._indexes.values():
            if index.sight.agent_collection in changed and index.members:
                yield Affected(index.members, None)

    def update(self, state: State, changed: Iterable[Ref]) -> None:
        """Update the indexes for changed entities, without asking whom the change affects."""
        for index, refs in self._by_index(changed).items():
            if index is not None:
                index.interest.update(state, index.with_dependents(state, refs))

    def may_narrow(self, collection: str) -> bool:
        """Return whether `candidates_in` may name fewer entities than all of a collection."""
        index = None if self._is_unindexed else self._indexes_for(collection)[0]
        return index is not None and index.sight.is_indexed

    def rows_in(
        self, table: str, agent_id: str, state: State, cells: "CellsOfTables"
    ) -> "Rows | None":
        """Return a superset of the rows of a table that an agent may see; None are all."""
        index = None if self._is_unindexed else self._indexes_for(table)[0]
        if index is None:
            return None
        return candidate_rows(index.sight, state, agent_id, table, cells)

    def is_narrowed_for(self, collection: str, agent_id: str, state: State) -> bool:
        """Return whether the index of a narrowed collection has the agent's own entity.

        The rows of tables are in no index, so the candidates for a member are not known there.
        """
        index = self._indexes_for(collection)[0]
        return index is not None and not index.is_member(state, agent_id)

    def candidates_in(
        self, collection: str, agent_id: str, state: State, ahead: Sequence[Ref] = ()
    ) -> Iterable[Ref] | None:
        """Return a superset of the entities of a narrowed collection that an agent may see.

        It may name entities of other collections too. None is every entity.

        Args:
            collection: A collection for which `may_narrow` is true.
            agent_id: The agent.
            state: The state that the indexes hold.
            ahead: Entities that have changed since the agent's view, which is older than `state`.
        """
        index = self._indexes_for(collection)[0]
        assert index is not None, "only a narrowed collection has candidates"
        if Ref(index.sight.agent_collection, agent_id) in ahead:
            return None  # the set of entities visible to the agent has changed
        candidates = index.interest.candidates_for(agent_id)
        if candidates is None or not ahead:
            return candidates
        return {**dict.fromkeys(candidates), **index.with_dependents(state, ahead)}

    def candidates_for(self, agent_id: str, published: ReadReplica) -> Iterator[Ref]:
        """Yield every entity that an agent might see: a superset of the visible entities."""
        state = published.state
        near = (
            {}
            if self._is_unindexed
            else {
                name: refs
                for name, index in self._indexes.items()
                if not index.is_member(state, agent_id)
                and (refs := index.interest.candidates_for(agent_id)) is not None
            }
        )
        for refs in near.values():
            yield from sorted(refs)
        for name, rows in state.collections.items():
            if rows.is_table:
                yield from self.row_candidates(name, agent_id, state)
            elif name.partition(".")[0] not in near:
                for entity in rows.entities:
                    yield Ref(name, entity)

    def row_candidates(self, table: str, agent_id: str, state: State) -> Iterator[Ref]:
        """Yield the rows of a table that an agent might see: a superset of the visible rows."""
        rows = state.tables[table]
        if self.cells is None:
            from placet.kernel.visibility.table_cells import CellsOfTables  # noqa: PLC0415  # numpy

            self.cells = CellsOfTables()
        numbers = self.rows_in(table, agent_id, state, self.cells)
        for row in range(rows.count) if numbers is None else numbers.tolist():
            yield Ref(table, f"{rows.stem}:{row}")

    def relevance(self, state: State, agent_id: str, ref: Ref) -> float:
        """Return the relevance of an entity for an agent, 0 to 1; 1 where no policy computes it."""
        index = self._indexes_for(ref.collection)[0]
        return 1.0 if index is None else index.sight.relevance(state, agent_id, ref)

    def distance(self, state: State, agent_id: str, ref: Ref) -> float | None:
        """Return the distance of an entity from an agent; None where no policy measures it."""
        index = self._indexes_for(ref.collection)[0]
        return None if index is None else index.sight.distance(state, agent_id, ref)

    def own_entity(self, agent_id: str) -> Ref | None:
        """Return the ref of the entity that represents an agent; None if no policy declares it."""
        collections = (
            index.sight.agent_collection
            for index in self._indexes.values()
            if index.sight.agent_collection
        )
        collection = next(collections, None)
        return None if collection is None else Ref(collection, agent_id)

    def listeners(self, state: State, agent_id: str) -> AgentIds | None:
        """Return the agents that may receive an agent's events: all agents that may see its entity.

        A superset; None means every agent.
        """
        if state.tables and any(
            index.members or index.is_member(state, agent_id) for index in self._indexes.values()
        ):
            return None  # an own entity that is a row is in no index
        entity = None if self._is_unindexed else self.own_entity(agent_id)
        if entity is None:
            return None
        index = self._indexes_for(entity.collection)[0]
        return None if index is None else index.interest.observers_of(entity)

    def _by_index(self, changed: Iterable[Ref]) -> "dict[_DomainIndex | None, list[Ref]]":
        """Group refs by the indexes that judge them; None: of an open domain."""
        by_index: dict[_DomainIndex | None, list[Ref]] = {}
        for ref in changed:
            for index in self._indexes_for(ref.collection):
                by_index.setdefault(index, []).append(ref)
        return by_index

    def _indexes_for(self, collection: str) -> "tuple[_DomainIndex | None, ...]":
        """Return the indexes that judge a collection, its own domain's first; None: an open domain.

        A policy also tracks the agents' own entities where they belong to another domain, because
        it depends on their fields. A collection outside every domain is judged by all
        policies, as in the registry.
        """
        known = self._indexes_of.get(collection)
        if known is None:
            owner, indexes = collection.partition(".")[0], [*self._indexes.values()]
            if owner in self._names:
                own = self._indexes.get(owner)
                others = (
                    index
                    for index in indexes
                    if index.sight.agent_collection == collection and index is not own
                )
                known = (own, *others)
            else:
                known = (*indexes, None)
            self._indexes_of[collection] = known
        return known


class _DomainIndex:
    """The interest index of one domain, with the observers' fields that it depends on."""

    def __init__(self, sight: VisibilityPolicy) -> None:
        self.sight = sight
        self.interest: InterestIndex = sight.new_index()
        self.inputs: dict[str, tuple[Json, ...]] = {}
        self.members: dict[str, None] = {}  # observers whose own entity is a row of a table
        self._fields = sorted(sight.depends_on or ())

    def is_member(self, state: State, agent_id: str) -> bool:
        """Return whether the agent's own entity is a row of a table."""
        table = state.tables.get(self.sight.agent_collection)
        return table is not None and table.number_of(agent_id) >= 0

    def inputs_of(self, state: State, agent_id: str) -> tuple[Json, ...]:
        """Return the field values of an agent that its visibility depends on."""
        collection = self.sight.agent_collection
        return tuple(state.get(collection, agent_id, field) for field in self._fields)

    def with_dependents(self, state: State, changed: Sequence[Ref]) -> dict[Ref, None]:
        """Return the entities, and those whose visibility derives from them, each once."""
        refs = dict.fromkeys(changed)
        for ref in changed:
            refs.update(dict.fromkeys(self.sight.dependents_of(state, ref)))
        return refs

    def affected(self, state: State, changed: Sequence[Ref]) -> Iterator[Affected]:
        """Yield the observers that see the changed entities before or after the change."""
        refs = self.with_dependents(state, changed)
        observers = self._changed_observers(state, changed)
        candidates = self.interest.candidates_for
        before = {agent_id: candidates(agent_id) for agent_id in observers}
        yield from self._audiences(refs)
        self.interest.update(state, refs)
        yield from self._audiences(refs)
        for agent_id, is_move_only in observers.items():
            if state.tables:  # their rows are in no index, and other rows are near now
                yield Affected((agent_id,), [Ref(table, None) for table in state.tables])
            then, now = before[agent_id], candidates(agent_id)
            if then is None or now is None:
                yield Affected((agent_id,), None)
            elif is_move_only:
                yield Affected((agent_id,), [ref for ref in then if ref not in now])
                yield Affected((agent_id,), [ref for ref in now if ref not in then])
            else:
                yield Affected((agent_id,), then)
                yield Affected((agent_id,), now)

    def _changed_observers(self, state: State, changed: Sequence[Ref]) -> dict[str, bool]:
        """Return the observers whose own visibility fields changed; True if they only moved."""
        observers = {}
        for collection, agent_id in changed:
            if agent_id in self.inputs and collection == self.sight.agent_collection:
                inputs = self.inputs_of(state, agent_id)
                if inputs != self.inputs[agent_id]:
                    pairs = zip(self._fields, inputs, self.inputs[agent_id], strict=True)
                    fields = {field for field, new, old in pairs if new != old}
                    observers[agent_id] = fields <= self.sight.indexed_by
                    self.inputs[agent_id] = inputs
        return observers

    def _audiences(self, refs: Iterable[Ref]) -> Iterator[Affected]:
        for ref in refs:
            yield Affected(self.interest.observers_of(ref), (ref,))
            if self.members:
                yield Affected(self.members, (ref,))


def _overrides_visibility(domain: Domain) -> bool:
    kind = type(domain)
    return kind.may_see is not Domain.may_see or kind.hidden_fields is not Domain.hidden_fields


class VisibleState:
    """The replica of a world's state, read with the visibility rules of its domains.

    Attributes:
        published: The replica.
        interest: Index of the observers that its changes affect.
    """

    __slots__ = ("_registry", "interest", "published")

    def __init__(self, registry: Registry, published: ReadReplica) -> None:
        self._registry = registry
        self.published = published
        self.interest = InterestManager(registry)
        self.interest.build(published)

    def seen(self, agent_id: str, ref: Ref, row: ReplicaEntity) -> Fields | None:
        """Return the fields of an entity that an agent may see; None if it may not see it. O(1)."""
        state, registry = self.published.state, self._registry
        if not registry.hiding(ref.collection):
            return row.fields
        if not registry.may_see(state, agent_id, ref):
            return None
        return row.without(registry.hidden_fields(state, agent_id, ref))

    def may_name_author(self, agent_id: str, ref: Ref, row: ReplicaEntity) -> bool:
        """Return whether an agent may know who made the latest change of an entity that it sees."""
        if ref.entity == row.by:  # nearly all changes: of the author's own entity
            return True
        return self._registry.may_know_agent(self.published.state, agent_id, row.by)

    def candidates_for(self, agent_id: str) -> Iterable[Ref]:
        """Return every entity that an agent might see: a superset of the visible entities."""
        return self.interest.candidates_for(agent_id, self.published)

    def is_table(self, ref: Ref) -> bool:
        """Return whether a mark is of a table, whose rows may have changed."""
        return ref.entity is None and ref.collection in self.published.state.tables

    def rows_to_compare(
        self, table: str, agent_id: str, after_seq: int, known: Iterable[Ref]
    ) -> Iterator[Ref]:
        """Yield the rows of a table that an agent may see otherwise than at a seq.

        Args:
            table: Name of the table.
            agent_id: The agent.
            after_seq: The seq.
            known: The entities that the agent was shown last.
        """
        state = self.published.state
        if self._registry.hiding(table):  # a row comes into sight, or out, with the agent's place
            yield from (ref for ref in known if ref.collection == table)
            yield from self.interest.row_candidates(table, agent_id, state)
            return
        rows = state.tables[table]
        for row in (rows.seqs > after_seq).nonzero()[0].tolist():
            yield Ref(table, f"{rows.stem}:{row}")

    def relevance(self, agent_id: str, ref: Ref) -> float:
        """Return the relevance of an entity for an agent: 1 at its place, 0 infinitely far."""
        return self.interest.relevance(self.published.state, agent_id, ref)

    def distance(self, agent_id: str, ref: Ref) -> float | None:
        """Return the distance of an entity from an agent; None where it is unknown."""
        return self.interest.distance(self.published.state, agent_id, ref)

    def own_entity(self, agent_id: str) -> Ref | None:
        """Return the ref of the entity that represents an agent; None if no policy declares it."""
        return self.interest.own_entity(agent_id)

    def removal(self, ref: Ref) -> Change:
        """Build the change that removes an entity from a view; it does not disclose the reason."""
        return Change(f"{ref.collection}/{ref.entity}", "removed", self.published.seq, "", None)

    def disable_indexes(self) -> None:
        """Stop using interest indexes, after a domain's visibility rule raised in one of them."""
        self.interest = InterestManager(self._registry, is_indexed=False)
