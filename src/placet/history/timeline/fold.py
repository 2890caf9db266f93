"""The light fold: domain state and agents as plain values, without ledger, stamps and digests.

A reader that shows or exports a log keeps its state in this form. `kernel/log/replay.py` folds the
same changes into a `State`: stamps, tombstones, frozen values and a digest, which the gate and
`verify` need, make that ten times as slow, so the two folds stay apart.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from placet.kernel.state.tree import DIGEST_BYTES, State, entity_hash
from placet.schemas.codec import Json, thaw
from placet.schemas.errors import StoreError
from placet.schemas.log.record import (
    AgentChange,
    AgentChanged,
    Changes,
    EntityChange,
    Record,
    Registered,
    agents_of,
)

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
        collections: The entities, by collection.
        agents: The registered agents, by name.
    """

    collections: Collections = {}
    agents: dict[str, PlayedAgent] = {}

    def apply(self, record: Record) -> None:
        """Apply one record; a `SingleBlock` is passed as the records of `expanded`.

        Raises:
            StoreError: The record changes fields of an entity that does not exist.
        """
        if isinstance(record, Registered):
            self.agents[record.agent_id] = PlayedAgent(record.owner, record.permissions)
        elif isinstance(record, AgentChanged):
            self._change_agent(record)
        else:
            self._change_agents(agents_of(record))
        apply_changes(self.collections, changed_in(record))

    def digest(self) -> bytes:
        """Return the state digest, as `kernel/state/tree.py` defines it. O(state)."""
        shares = (
            entity_hash(name, entity, fields)
            for name, entities in self.collections.items()
            for entity, fields in entities.items()
        )
        return (sum(shares) % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")

    def _change_agents(self, agents: Sequence[AgentChange]) -> None:
        for change in agents:
            if change.is_removed:
                self.agents.pop(change.agent_id, None)
            else:
                self.agents[change.agent_id] = PlayedAgent(change.agent_id, change.permissions)

    def _change_agent(self, record: AgentChanged) -> None:
        agent = self.agents.get(record.agent_id)
        if agent is None:
            return
        if record.what == "removed":
            del self.agents[record.agent_id]
        elif record.what == "permissions":
            agent.permissions = record.permissions
        else:
            agent.is_suspended = record.what == "suspended"


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


def plain_collections(state: State) -> Collections:
    """Return the entities of a replayed state as plain values. O(state)."""
    return {
        name: {entity: thaw(row.fields) for entity, row in rows.entities.items()}
        for name, rows in state.collections.items()
        if rows.entities
    }


def changed_in(record: Record) -> Sequence[EntityChange]:
    """Return the changes of entities that a record, no `SingleBlock`, contains, in order.

    A column batch has none: its changes are arrays.
    """
    changes: object = getattr(record, "changes", None)
    return changes.entities if isinstance(changes, Changes) else ()
