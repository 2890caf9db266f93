"""The light fold: domain state and agents as plain values, without ledger, stamps and digests.

It decodes a record and writes its changes, nothing else, so it is ten times as fast as a replay.
`verify` proves a log; this shows it.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from placet.kernel.state.tree import DIGEST_BYTES, entity_hash
from placet.schemas.codec import Json
from placet.schemas.log.record import (
    AgentChange,
    AgentChanged,
    Changes,
    Record,
    Registered,
    agents_of,
)

Entities: TypeAlias = dict[str, dict[str, Json]]
"""entity -> field -> value."""


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
        collections: collection -> entity -> field -> value; no collection is empty.
        agents: The registered agents, by name.
    """

    collections: dict[str, Entities] = {}
    agents: dict[str, PlayedAgent] = {}

    def apply(self, record: Record) -> None:
        """Apply one record; a `Group` is passed as the records of `expanded`."""
        if isinstance(record, Registered):
            self.agents[record.agent_id] = PlayedAgent(record.owner, record.permissions)
        elif isinstance(record, AgentChanged):
            self._change_agent(record)
        else:
            self._change_agents(agents_of(record))
        changes: Changes | None = getattr(record, "changes", None)
        if changes is not None:
            self._write(changes)

    def digest(self) -> bytes:
        """Return the state digest, as `kernel/state/tree.py` defines it. O(state)."""
        shares = (
            entity_hash(name, entity, fields)
            for name, entities in self.collections.items()
            for entity, fields in entities.items()
        )
        return (sum(shares) % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")

    def _write(self, changes: Changes) -> None:
        collections = self.collections
        for change in changes.entities:
            name, entity = change.collection, change.entity
            if change.fields is None:
                entities = collections.get(name, {})
                entities.pop(entity, None)
                if not entities:
                    collections.pop(name, None)
            elif change.is_whole:
                collections.setdefault(name, {})[entity] = dict(change.fields)
            else:
                collections.setdefault(name, {}).setdefault(entity, {}).update(change.fields)

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
