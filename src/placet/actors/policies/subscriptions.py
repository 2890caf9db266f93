"""Tells the open blocks of a world what became durable: each record once, to those it concerns.

A watch lies by what it depends on, so a record costs what it changed and whom it concerns, however
many blocks are open; while none is, it costs nothing. What a watch gets wrong is its own.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from placet.kernel.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import Ref
from placet.schemas.log.changes import Changes, CollectionChange, EntityChange
from placet.schemas.log.record import AgentChanged, LogGroup, decode_record


class ExternalChange(NamedTuple):
    """Something that another changed, as far as the agent may see it.

    Attributes:
        ref: What; a collection where something in it came or went.
        seq: Sequence number of the latest change by another.
        by: Who; None where the agent itself changed it since, or where it does not show.
        fields: New values; None where it is gone, may not be seen, or has changed again since.
    """

    ref: Ref
    seq: int
    by: str | None
    fields: Mapping[str, Json] | None

    @property
    def entity(self) -> str:
        """What, by the name that refusals give it."""
        collection, entity = self.ref
        return collection if entity is None else f"{collection}/{entity}"


class Subscription(Protocol):
    """What is told of changes by others.

    Attributes:
        agent_id: Whose own changes it is not told of.
        context_seq: From where on.
        threshold: By how many seqs others may move the world on; None is any number.
        footprint: What it depends on; None is all that its agent may see.
    """

    agent_id: str
    context_seq: int
    threshold: int | None
    footprint: frozenset[Ref] | None

    def knows(self, ref: Ref) -> bool:
        """Return whether its agent saw a thing as it began."""

    def note(self, change: ExternalChange) -> None:
        """Take in a change of what it depends on."""

    def move_on(self, seqs: int) -> None:
        """Take in that others moved the world on."""

    def fail(self, error: BaseException) -> None:
        """Take in that it cannot be told any more."""

    def end(self) -> None:
        """Take in that its agent was removed."""


class SubscriptionTable:
    """The watches of one world.

    Args:
        registry: Whose domains say who may see what.
        state: Gives the state by which that is judged: a durable one where there is a copy, else
            the present one, which may be ahead. It shows nothing but whether it may be shown.
    """

    def __init__(self, registry: Registry, state: Callable[[], State]) -> None:
        self._registry = registry
        self._state = state
        self._open: dict[Subscription, None] = {}
        self._counting: dict[Subscription, None] = {}
        self._wide: dict[Subscription, None] = {}
        self._by_ref: dict[Ref, dict[Subscription, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, watch: Subscription) -> None:
        """Tell a watch of what comes after its context, until it is taken away."""
        self._open[watch] = None
        if watch.threshold is not None:
            self._counting[watch] = None
        if watch.footprint is None:
            self._wide[watch] = None
        for ref in watch.footprint or ():
            self._by_ref.setdefault(ref, {})[watch] = None

    def discard(self, watch: Subscription) -> None:
        """Take a watch away; harmless if it is not there."""
        if watch not in self._open:
            return
        del self._open[watch]
        self._counting.pop(watch, None)
        self._wide.pop(watch, None)
        for ref in watch.footprint or ():
            subscriptions = self._by_ref[ref]
            del subscriptions[watch]
            if not subscriptions:
                del self._by_ref[ref]

    def publish(self, group: LogGroup) -> None:
        """Take in a durable group."""
        seq = group.seq_before
        for data in group.records:
            record = decode_record(data)
            if self._counting and record.seq > seq:
                self._move_on(record.seq - seq, record.seq, getattr(record, "submitter", None))
            seq = record.seq
            if isinstance(record, AgentChanged) and record.what == "removed":
                self._end(record.agent_id)
            changes: Changes | None = getattr(record, "changes", None)
            if changes is not None:
                for change in changes.entities:
                    self._note(Ref(change.collection, change.entity), change)
                for came_or_went in changes.collections:
                    self._note(Ref(came_or_went.collection), came_or_went)

    def _move_on(self, seqs: int, seq: int, submitter: str | None) -> None:
        for watch in self._counting:
            if seq > watch.context_seq and submitter != watch.agent_id:
                watch.move_on(seqs)

    def _end(self, agent_id: str) -> None:
        for watch in self._open:
            if watch.agent_id == agent_id:
                watch.end()

    def _note(self, ref: Ref, change: EntityChange | CollectionChange) -> None:
        for watch in self._by_ref.get(ref, ()):
            self._tell(watch, ref, change)
        if ref.entity is not None:  # that something hidden came or went is hidden too
            for watch in self._wide:
                self._tell(watch, ref, change)

    def _tell(self, watch: Subscription, ref: Ref, change: EntityChange | CollectionChange) -> None:
        is_own = change.by == watch.agent_id
        seq = change.foreign_seq if is_own else change.seq
        if seq <= watch.context_seq:
            return
        try:
            fields, is_seen = self._seen(watch.agent_id, ref, change)
            is_seen = is_seen or watch.knows(ref)
            if watch.footprint is not None or is_seen:
                by = change.by if is_seen and not is_own else None
                watch.note(ExternalChange(ref, seq, by, fields))
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's or a policy's own judgement: raised out of its block
            watch.fail(error)

    def _seen(
        self, agent_id: str, ref: Ref, change: EntityChange | CollectionChange
    ) -> tuple[Mapping[str, Json] | None, bool]:
        """Return what of a change an agent may see, and whether it shows at all."""
        fields = change.fields if isinstance(change, EntityChange) else None
        state = self._state()
        if self._registry.hiding(ref.collection):
            if not self._registry.may_see(state, agent_id, ref):
                return None, False
            if fields is not None:
                hidden = self._registry.hidden_fields(state, agent_id, ref)
                fields = {name: value for name, value in fields.items() if name not in hidden}
                if not fields:
                    return None, False
        # Whether it may be seen is judged as it is now: of what has changed again, not what it was.
        stamp = state.stamp(*ref)
        return fields if stamp is not None and stamp.seq == change.seq else None, True
