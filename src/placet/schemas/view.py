"""Views, true at one seq, and observations, which keep a view up to date."""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

from placet.schemas.codec import Json, to_json


class View(msgspec.Struct, frozen=True):
    """An atomic cut of the world for one agent.

    Attributes:
        view_seq: The seq at which it is true; an agent sends it back as `context_seq`.
        sim_time: Simulated seconds.
        agent_id: For whom.
        state: `collection -> entity -> field -> value`, restricted to the agent's visibility.
    """

    view_seq: int
    sim_time: float
    agent_id: str
    state: Mapping[str, Mapping[str, Mapping[str, Json]]]


ChangeOp: TypeAlias = Literal["added", "changed", "removed"]
"""`added` gives all that may be seen of an entity, in place of what was known; `changed` gives the
fields that have other values; `removed` says that it is gone, or out of sight, which is the same to
who looks."""


class Change(msgspec.Struct, frozen=True, dict=True):
    """The visible change of one entity. Observers with the same visibility share it.

    Attributes:
        entity: `collection/entity`.
        op: `added`, `changed` or `removed`.
        seq: Sequence number of the entity's latest change. It may have come into sight, or gone
            out of it, without one.
        by: Who made that change.
        fields: Field -> value; None where it leaves.
    """

    entity: str
    op: ChangeOp
    seq: int
    by: str
    fields: Mapping[str, Json] | None

    @cached_property
    def encoded(self) -> bytes:
        """The change as JSON, made once for all to whom it is sent."""
        return to_json(self)


class DeliveredEvent(msgspec.Struct, frozen=True, dict=True):
    """Something that was done and that an agent is told of, whatever became of its trace.

    Attributes:
        seq: Sequence number of the world after its batch.
        agent_id: Who did it.
        kind: Kind of the applied intent.
        payload: Payload as applied, after a rule's normalization.
    """

    seq: int
    agent_id: str
    kind: str
    payload: Mapping[str, Json]

    @cached_property
    def encoded(self) -> bytes:
        """The event as JSON, made once for all to whom it is sent."""
        return to_json(self)


class Observation(msgspec.Struct, frozen=True):
    """An atomic step of one agent's picture of the world: it is true again, at `view_seq`.

    Attributes:
        view_seq: All that the agent may see, up to here, has been shown; its `context_seq`.
        sim_time: Simulated seconds.
        agent_id: For whom.
        kind: `snapshot` replaces all that was known, `delta` adds to it.
        changes: Of entities; each entity is in it once at most.
        events: Delivered events since the last observation, in order.
        events_dropped: How many events did not fit the inbox and are lost: the oldest ones.
        deferred_count: Number of changes deferred by a byte budget or a latency: those entities are
            shown older than the rest of the view, as of before `view_seq`.
    """

    view_seq: int
    sim_time: float
    agent_id: str
    kind: Literal["snapshot", "delta"]
    changes: tuple[Change, ...]
    events: tuple[DeliveredEvent, ...] = ()
    events_dropped: int = 0
    deferred_count: int = 0

    @property
    def encoded(self) -> bytes:
        """The observation as one JSON object, of parts that are encoded once for all observers."""
        return to_json(
            {
                "type": "observation",
                "view_seq": self.view_seq,
                "sim_time": self.sim_time,
                "agent_id": self.agent_id,
                "kind": self.kind,
                "changes": [msgspec.Raw(change.encoded) for change in self.changes],
                "events": [msgspec.Raw(event.encoded) for event in self.events],
                "events_dropped": self.events_dropped,
                "deferred_count": self.deferred_count,
            }
        )


LocalView: TypeAlias = dict[str, dict[str, dict[str, Json]]]
"""What an agent knows: `collection -> entity -> field -> value`."""


def apply_observation(picture: LocalView, observation: Observation) -> None:
    """Bring a picture up to date; afterwards it equals the view at the observation's seq."""
    if observation.kind == "snapshot":
        picture.clear()
    for change in observation.changes:
        collection, _, entity = change.entity.partition("/")
        rows = picture.setdefault(collection, {})
        match change.op:
            case "added":
                rows[entity] = dict(change.fields or {})
            case "changed":
                rows[entity].update(change.fields or {})
            case _:  # removed
                del rows[entity]
        if not rows:
            del picture[collection]
