"""The light fold: domain state and agents as plain values, without ledger, stamps and digests.

A reader that shows or exports a log keeps its state in this form. `kernel/log/replay.py` folds the
same changes into a `State`: stamps, tombstones, frozen values and a digest, which the gate and
`verify` need, make that ten times as slow, so the two folds stay apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from placet.history.timeline.tables import (
    PlayedPopulation,
    PlayedTable,
    TableEntities,
    apply_columns,
)
from placet.kernel.state.tree import DIGEST_BYTES, State, entity_hash
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, thaw
from placet.schemas.errors import StoreError
from placet.schemas.log.record import (
    AgentChange,
    AgentChanged,
    Changes,
    Columns,
    EntityChange,
    ForkAdopted,
    Record,
    Registered,
    TableMade,
    agents_of,
)

if TYPE_CHECKING:
    from placet.kernel.ledger.ledger import Ledger
    from placet.kernel.ledger.members import Members

Entities: TypeAlias = dict[str, dict[str, Json]]
"""entity -> field -> value."""
Collections: TypeAlias = dict[str, Entities]
"""collection -> entity -> field -> value; no collection is empty."""


class PlayedAgent(msgspec.Struct, array_like=True):
    """An agent as the log describes it.

    Attributes:
        owner: The owner of the agent, which may be itself.
        permissions: Kinds that it may propose; None for all.
        is_suspended: Whether its batches are refused until it is resumed.
    """

    owner: str
    permissions: list[str] | None = None
    is_suspended: bool = False


class PlayedState(msgspec.Struct, array_like=True):
    """The state of a world at one position of its log. It is changed in place by `apply`.

    Attributes:
        collections: The entities, by collection, but for those of tables.
        agents: The registered agents, by name, but for the members of populations.
        tables: The tables, by name.
        populations: The populations, by name.
    """

    collections: Collections = {}
    agents: dict[str, PlayedAgent] = {}
    tables: dict[str, PlayedTable] = {}
    populations: dict[str, PlayedPopulation] = {}

    def entities(self) -> Mapping[str, Mapping[str, Mapping[str, Json]]]:
        """Return the entities of all collections; a row of a table is made when it is read."""
        rows = {name: TableEntities(table) for name, table in self.tables.items()}
        return {**self.collections, **rows}

    def agent(self, name: str) -> PlayedAgent | None:
        """Return an agent, or a member of a population; None if there is no such agent."""
        form = sequence_form(name)
        population = None if form is None else self.populations.get(form[0])
        if form is None or population is None or form[1] >= population.count:
            return self.agents.get(name)
        is_suspended = form[1] in population.suspended
        return PlayedAgent(population.owner, population.permissions, is_suspended)

    def agent_names(self) -> Iterator[str]:
        """Yield the names of all agents: those registered by themselves, then members by number."""
        yield from sorted(self.agents)
        for name, population in self.populations.items():
            yield from (f"{name}:{number}" for number in range(population.count))

    @property
    def agent_count(self) -> int:
        """Number of agents, the members of populations counted."""
        return len(self.agents) + sum(each.count for each in self.populations.values())

    def apply(self, record: Record) -> None:
        """Apply one record; a `SingleBlock` is passed as the records of `expanded`.

        Raises:
            StoreError: The record changes fields of an entity that does not exist, or does not fit
                its tables.
        """
        changes = changed_in(record)
        if self.tables or isinstance(record, Columns | TableMade):
            changes = self._apply_to_tables(record, changes)
        if isinstance(record, Registered):
            self.agents[record.agent_id] = PlayedAgent(record.owner, record.permissions)
        elif isinstance(record, AgentChanged):
            self._change_agent(record.agent_id, record.what, record.permissions)
        elif isinstance(record, ForkAdopted):
            for agent_id in record.dropped:
                self._change_agent(agent_id, "removed")
        else:
            self._change_agents(agents_of(record))
        apply_changes(self.collections, changes)

    def digest(self) -> bytes:
        """Return the state digest, as `kernel/state/tree.py` defines it. O(state)."""
        shares = (
            entity_hash(name, entity, fields)
            for name, entities in self.collections.items()
            for entity, fields in entities.items()
        )
        total = sum(shares) + sum(table.digest(name) for name, table in self.tables.items())
        return (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")

    def _apply_to_tables(
        self, record: Record, changes: Sequence[EntityChange]
    ) -> Sequence[EntityChange]:
        """Apply a record to tables and populations; return its changes of other entities."""
        try:
            if isinstance(record, Columns):
                count = self.populations[record.population].count
                apply_columns(self.tables, record, count)
            elif isinstance(record, TableMade):
                self._make_table(record)
            return self._change_tables(record, changes)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the record of seq {record.seq} does not fit its tables ({error!r:.200}); "
                "`placet verify` finds the first record that differs",
                seq=record.seq,
            ) from error

    def _make_table(self, record: TableMade) -> None:
        self.tables[record.table] = PlayedTable.made(record)
        if record.members is not None:
            owner, permissions, *_ = record.members
            self.populations[record.stem] = PlayedPopulation(owner, permissions, record.count)

    def _change_tables(
        self, record: Record, changes: Sequence[EntityChange]
    ) -> Sequence[EntityChange]:
        """Write the changes of rows of tables; return those of other entities."""
        for write in getattr(record, "written", None) or ():
            self.tables[write.table].write(write)
        others = []
        for change in changes:
            table = self.tables.get(change.collection)
            if table is None:
                others.append(change)
            else:
                table.put(change.entity, change.fields or {})
        return others

    def _change_agents(self, agents: Sequence[AgentChange]) -> None:
        for change in agents:
            if change.is_removed:
                self.agents.pop(change.agent_id, None)
            else:
                self.agents[change.agent_id] = PlayedAgent(change.agent_id, change.permissions)

    def _change_agent(self, agent_id: str, what: str, permissions: list[str] | None = None) -> None:
        agent = self.agents.get(agent_id)
        if agent is None:
            self._change_member(agent_id, what)
        elif what == "removed":
            del self.agents[agent_id]
        elif what == "permissions":
            agent.permissions = permissions
        else:
            agent.is_suspended = what == "suspended"

    def _change_member(self, agent_id: str, what: str) -> None:
        """Suspend or resume a member of a population; a member that a fork drops is suspended."""
        form = sequence_form(agent_id)
        population = None if form is None else self.populations.get(form[0])
        if form is not None and population is not None:
            population.suspend(form[1], is_suspended=what != "resumed")


def apply_changes(collections: Collections, changes: Sequence[EntityChange]) -> None:
    """Apply the changes of a record to the entities of a world; values are shared with the record.

    Raises:
        StoreError: The record changes fields of an entity that does not exist: no kernel wrote it.
    """
    for change in changes:
        name, entity = change.collection, change.entity
        entities = collections.get(name)
        if change.fields is None:
            if entities is not None:
                entities.pop(entity, None)
                if not entities:
                    del collections[name]
        elif change.is_whole:
            collections.setdefault(name, {})[entity] = dict(change.fields)
        elif entities is not None and entity in entities:
            entities[entity].update(change.fields)
        else:
            raise StoreError(
                f"the record of seq {change.seq} changes {f'{name}/{entity}':.200}, which does not "
                "exist; `placet verify` finds the first record that differs",
                seq=change.seq,
            )


def played_of(state: State, ledger: "Ledger") -> PlayedState:
    """Return a copy of the state and the agents of a world as the light fold has them. O(world)."""
    agents = {
        name: PlayedAgent(
            agent.owner,
            None if agent.permissions is None else sorted(agent.permissions),
            agent.is_suspended,
        )
        for name, agent in ledger.agents.items()
    }
    tables = {name: PlayedTable.of(table) for name, table in state.tables.items()}
    populations = {name: _population_of(each) for name, each in ledger.populations.items()}
    return PlayedState(plain_collections(state, has_tables=False), agents, tables, populations)


def _population_of(members: "Members") -> PlayedPopulation:
    permissions = None if members.permissions is None else sorted(members.permissions)
    suspended = members.suspended_mask().nonzero()[0].tolist()
    return PlayedPopulation(members.owner, permissions, members.count, suspended)


def plain_collections(state: State, *, has_tables: bool = True) -> Collections:
    """Return the entities of a replayed state as plain values, with or without tables. O(state)."""
    return {
        name: {
            entity: thaw(dict(row.fields) if rows.is_table else row.fields)
            for entity, row in rows.entities.items()
        }
        for name, rows in state.collections.items()
        if rows.entities and (has_tables or not rows.is_table)
    }


def changed_in(record: Record) -> Sequence[EntityChange]:
    """Return the changes of entities that a record, no `SingleBlock`, contains, in order.

    A column batch has none: its changes are arrays.
    """
    changes: object = getattr(record, "changes", None)
    return changes.entities if isinstance(changes, Changes) else ()
