"""Notifies active staleness scopes of durable changes to their read sets.

Subscriptions are indexed by ref, so a record costs O(its changes and the scopes they concern);
without open scopes it costs nothing. An error in a scope's filter cancels that scope only.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import Ref
from placet.schemas.log.changes import Changes, CollectionChange, EntityChange
from placet.schemas.log.column_records import Columns
from placet.schemas.log.column_summary import rows_of
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import LogAppend, Record, agents_of, decode_record


class ExternalChange(NamedTuple):
    """A change by another agent, as far as the subscribing agent may see it.

    Attributes:
        ref: The entity; a collection where an entity of it was created or deleted.
        seq: Sequence number of the latest change by another agent.
        by: Name of that agent; None if the subscriber has changed the entity since, or may not see
            it.
        fields: New values; None where deleted, not visible, or changed again since.
    """

    ref: Ref
    seq: int
    by: str | None
    fields: Mapping[str, Json] | None

    @property
    def entity(self) -> str:
        """The ref as text, as refusals name it: `collection/entity`, or `collection`."""
        collection, entity = self.ref
        return collection if entity is None else f"{collection}/{entity}"


class ReadSubscription(Protocol):
    """The interface of a receiver of changes by other agents.

    Attributes:
        agent_id: The subscribing agent; its own changes are not delivered.
        context_seq: Only later changes are delivered.
        threshold: Seqs by which other agents may advance the world before the subscriber is stale.
            If None, `advance` is not called.
        footprint: The refs whose changes are delivered; None for all that the agent may see.
    """

    agent_id: str
    context_seq: int
    threshold: int | None
    footprint: frozenset[Ref] | None

    def saw(self, ref: Ref) -> bool:
        """Return whether the subscribing agent could see an entity when it subscribed."""

    def note(self, change: ExternalChange) -> None:
        """Receive a change, made by another agent, of a ref in the footprint."""

    def advance(self, seqs: int) -> None:
        """Receive the number of seqs by which other agents advanced the world with one record.

        Called only if `threshold` is not None.
        """

    def fail(self, error: BaseException) -> None:
        """End the subscription with the error that a domain raised when a change was checked."""

    def end(self) -> None:
        """End the subscription because the agent was removed."""


class SubscriptionTable:
    """The subscriptions of one world.

    Args:
        registry: The world's domains, with the visibility rules of agents.
        state: Returns the state that visibility is judged by: the published replica if there is
            one, else the live state, which may be ahead of the log. It affects only whether a
            change is delivered, never the delivered values.

    Attributes:
        open: The subscriptions, in the order in which they were added.
    """

    def __init__(self, registry: Registry, state: Callable[[], State]) -> None:
        self._registry = registry
        self._state = state
        self.open: dict[ReadSubscription, None] = {}
        self._counting: dict[ReadSubscription, None] = {}
        self._wide: dict[ReadSubscription, None] = {}
        self._by_ref: dict[Ref, dict[ReadSubscription, None]] = {}

    def add(self, subscription: ReadSubscription) -> None:
        """Register a subscription: deliver changes after its `context_seq` until `discard`."""
        self.open[subscription] = None
        if subscription.threshold is not None:
            self._counting[subscription] = None
        if subscription.footprint is None:
            self._wide[subscription] = None
        for ref in subscription.footprint or ():
            self._by_ref.setdefault(ref, {})[subscription] = None

    def discard(self, subscription: ReadSubscription) -> None:
        """Remove a subscription; no effect if it is absent."""
        if subscription not in self.open:
            return
        del self.open[subscription]
        self._counting.pop(subscription, None)
        self._wide.pop(subscription, None)
        for ref in subscription.footprint or ():
            subscriptions = self._by_ref[ref]
            del subscriptions[subscription]
            if not subscriptions:
                del self._by_ref[ref]

    def publish(self, append: LogAppend) -> None:
        """Deliver the changes of a durable append to the subscriptions that they concern."""
        seq = append.seq_before
        for data in append.records:
            for record in expanded(decode_record(data)):
                if self._counting and record.seq > seq:
                    self._advance(record.seq - seq, record.seq, getattr(record, "submitter", None))
                seq = record.seq
                self._publish(record)

    def _publish(self, record: Record) -> None:
        for agent in agents_of(record):
            if agent.is_removed:
                self._end(agent.agent_id)
        if isinstance(record, Columns):
            self._publish_columns(record)
        for write in getattr(record, "written", ()):
            self._note_rows(write.table, None, record.seq)
        changes: object = getattr(record, "changes", None)
        if isinstance(changes, Changes):
            for change in changes.entities:
                self._note(Ref(change.collection, change.entity), change)
            for collection_change in changes.collections:
                self._note(Ref(collection_change.collection), collection_change)

    def _publish_columns(self, record: Columns) -> None:
        """Deliver the changes of a column batch to the scopes that read one of its rows."""
        if not self.open:
            return
        from placet.kernel.columns.recorded import RecordedColumns  # noqa: PLC0415  # numpy is an extra

        count = rows_of(record)
        by_keys = {change.table for change in record.changes if change.at}
        if count is None:  # all members, whose number is not in the record
            tables: dict[str, frozenset[int] | None] = {c.table: None for c in record.changes}
        else:
            changed = RecordedColumns(record, count).changed_rows()
            tables = {table: frozenset(rows.tolist()) for table, rows in changed.items()}
        for table, rows in tables.items():
            self._note_rows(table, rows, record.seq, is_own=table not in by_keys)

    def _note_rows(
        self, table: str, rows: frozenset[int] | None, seq: int, *, is_own: bool = False
    ) -> None:
        """Deliver a change of rows; a scope of the whole state is notified of the table.

        Args:
            table: Name of the table.
            rows: Numbers of the rows; None is all.
            seq: Seq of the change.
            is_own: Each row was changed by its own agent; else no author is named.
        """
        for subscription in self._wide:
            self._deliver(subscription, Ref(table), CollectionChange(table, seq, "", seq))
        for ref in [ref for ref in self._by_ref if ref.collection == table]:
            entity = ref.entity or ""
            form = sequence_form(entity)
            if form is None or not (rows is None or form[1] in rows):
                continue
            by = entity if is_own else ""
            change = EntityChange(table, entity, None, False, seq, by, 0 if is_own else seq)
            for subscription in self._by_ref[ref]:
                self._deliver(subscription, ref, change)

    def _advance(self, seqs: int, seq: int, submitter: str | None) -> None:
        for subscription in self._counting:
            if seq > subscription.context_seq and submitter != subscription.agent_id:
                subscription.advance(seqs)

    def _end(self, agent_id: str) -> None:
        for subscription in self.open:
            if subscription.agent_id == agent_id:
                subscription.end()

    def _note(self, ref: Ref, change: EntityChange | CollectionChange) -> None:
        for subscription in self._by_ref.get(ref, ()):
            self._deliver(subscription, ref, change)
        if ref.entity is not None:  # creating or deleting a hidden entity is hidden too
            for subscription in self._wide:
                self._deliver(subscription, ref, change)

    def _deliver(
        self, subscription: ReadSubscription, ref: Ref, change: EntityChange | CollectionChange
    ) -> None:
        is_own = change.by == subscription.agent_id
        seq = change.foreign_seq if is_own else change.seq
        if seq <= subscription.context_seq:
            return
        try:
            fields, is_visible = self._visible(subscription.agent_id, ref, change)
            if is_visible or subscription.saw(ref):
                is_known = not is_own and self._registry.may_know_agent(
                    self._state(), subscription.agent_id, change.by
                )
                by = change.by if is_known else None
                subscription.note(ExternalChange(ref, seq, by, fields))
        except INTERRUPTS:
            raise
        except BaseException as error:  # noqa: BLE001  # a domain's or a policy's code: raised from its block
            subscription.fail(error)

    def _visible(
        self, agent_id: str, ref: Ref, change: EntityChange | CollectionChange
    ) -> tuple[Mapping[str, Json] | None, bool]:
        """Return the fields of a change that an agent may see, and whether it is visible."""
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
        # Visibility is judged by the present state. If the entity has changed again, the values
        # of this change are not disclosed: the agent might not have been allowed to see them.
        stamp = state.stamp(*ref)
        return fields if stamp is not None and stamp.seq == change.seq else None, True
