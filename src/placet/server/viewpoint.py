"""The visibility of a principal: state and events.

Which intents it may read is decided by `placet.kernel.intent_visibility`.

Visibility is judged on the present state, in the orchestrator's cycle. Visibility in the past is
not known: a whisper is overwritten by a shout, and the log has both. So an agent is told *that* a
visible entity has changed, and its present value; never an older one. Close changes of one entity
are reported once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from placet.kernel.intent_visibility import IntentReader
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State, WorldState
from placet.runtime.state_path import state_at
from placet.schemas.codec import Json, thaw
from placet.schemas.event import Event
from placet.schemas.foreseen import FieldChange
from placet.schemas.identity import OPERATOR, Ref
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import TYPES_WITH_CHANGES
from placet.server.http.problems import Problem

_ABOUT_A_BATCH: Final = frozenset({"batch", "refused", "scheduled"})
_COLUMNS: Final = "columns"
_OF_COLUMNS: Final = ("batch_id", "kind", "population", "req_id", "rows", "refused", "refusals")
"""Fields of the event of a column batch that a reader of its intents gets: counts, and no rows."""


class WorldMoment(NamedTuple):
    """The world at one seq, at which a viewpoint looks; another thread may look at a cut.

    Attributes:
        seq: Sequence number of the state.
        record: Ordinal of the latest record.
        sim_time: Simulated seconds.
        registry: The domains of the world.
        ledger: The agents of the world, as they are now.
        tree: The state, or a cut of it.
        state: The same as nested mappings.
        declared: Collections that are empty where nothing of them is there.
    """

    seq: int
    record: int
    sim_time: float
    registry: Registry
    ledger: Ledger
    tree: State
    state: Mapping[str, Mapping[str, Mapping[str, Json]]]
    declared: Collection[str]

    @classmethod
    def of(cls, kernel: Kernel, *, is_cut: bool) -> "WorldMoment":
        """Return the present of a world; unless it is a cut, it is void at the next batch."""
        tree = kernel.tree.cut() if is_cut else kernel.tree
        ledger, declared = kernel.ledger, kernel.declared
        state = WorldState(tree, declared) if is_cut else kernel.state
        now = ledger.now_ns / SECOND_NS
        record = kernel.record_count - 1
        return cls(kernel.seq, record, now, kernel.registry, ledger, tree, state, declared)


class Viewpoint(NamedTuple):
    """The view with which a request is answered: a caller, and the agent whose visibility applies.

    Attributes:
        submitter: The caller: the operator, or the name whose agents the token acts for.
        agent_id: Agent whose view applies; None for the operator, who sees everything.
        is_admitted: The world's own access rule names the agent, so that it need not be registered.
    """

    submitter: str
    agent_id: str | None
    is_admitted: bool = False

    @property
    def sees_everything(self) -> bool:
        """Whether everything is visible."""
        return self.agent_id is None

    def check(self, kernel: Kernel | WorldMoment) -> None:
        """Raise unless the agent is admitted or registered, or the name owns a registered agent.

        Raises:
            Problem: There is no such agent.
        """
        ledger, name = kernel.ledger, self.agent_id
        if self.is_admitted or name is None:
            return
        if name not in ledger.agents and name not in ledger.owned:
            raise Problem("not_found", f"there is no agent {name!r}; register it first")

    def size_of(self, kernel: Kernel, path: str) -> int:
        """Return how many entities `state` looks at."""
        collection, _, entity = path.strip("/").partition("/")
        if entity:
            return 1
        names = [collection] if collection else kernel.state
        return sum(len(kernel.state.get(name, ())) for name in names)

    def state(self, kernel: Kernel | WorldMoment, path: str) -> Json:
        """Return a copy of the visible state at a path.

        Raises:
            KeyError: Nothing is visible at the path.
            Problem: There is no such agent.
        """
        self.check(kernel)
        if self.sees_everything:
            return state_at(kernel.state, path)
        collection, _, rest = path.strip("/").partition("/")
        names = [collection] if collection else list(kernel.state)
        wanted = _longest_ids(rest) if rest else None
        visible = {
            name: {
                entity: fields
                for entity in (wanted or kernel.state[name])
                if (fields := self._visible_fields(kernel, name, entity)) is not None
            }
            for name in names
            if name in kernel.state
        }
        # A collection of which all is hidden is as one of which nothing is there: not named in the
        # whole state, and known by its name only if that discloses no hidden entity.
        registry = kernel.registry
        is_known = not registry.hiding(collection) or collection in kernel.declared
        known = {collection} if collection and is_known else ()
        shown = {name: rows for name, rows in visible.items() if rows or name in known}
        return state_at(shown, path)

    def page(
        self, kernel: Kernel | WorldMoment, collection: str, after: str | None, limit: int
    ) -> tuple[dict[str, Json], str | None]:
        """Return some visible entities of a collection in order, and where to continue.

        Rows of a table of which nothing is hidden are in the order of their numbers, and only those
        of the page are made. Other entities are sorted by id.

        Args:
            kernel: The world.
            collection: Name of the collection.
            after: Id of the entity before the first; None is the beginning.
            limit: Largest number of entities.

        Returns:
            The entities, and the id of the last one if more may follow.

        Raises:
            KeyError: There is no such collection that is visible, or no such row.
            Problem: There is no such agent.
        """
        self.check(kernel)
        if not self.sees_everything and kernel.registry.hiding(collection):
            names: Iterator[str] = iter(self.state(kernel, collection))  # raises if it is hidden
            return self._taken(kernel, collection, _after(names, after), limit)
        table = kernel.tree.tables.get(collection)
        if table is None:
            return self._taken(kernel, collection, _after(kernel.state[collection], after), limit)
        first = 0
        if after is not None:
            first = table.number_of(after) + 1
            if not first:
                raise KeyError(after)
        rows = (f"{table.stem}:{row}" for row in range(first, table.count))
        return self._taken(kernel, collection, rows, limit)

    def _taken(
        self, kernel: Kernel | WorldMoment, collection: str, names: Iterator[str], limit: int
    ) -> tuple[dict[str, Json], str | None]:
        rows = kernel.state[collection]
        page: dict[str, Json] = {}
        for name in islice(names, limit):
            fields = (
                rows[name]
                if self.sees_everything
                else self._visible_fields(kernel, collection, name)
            )
            page[name] = thaw(dict(fields or {}))
        last = next(reversed(page), None)
        return page, last if len(page) == limit else None

    def events(
        self, kernel: Kernel, events: Sequence[Event], reported: set[str] | None = None
    ) -> list[dict[str, Json]]:
        """Return events as JSON objects: completely, or their visible parts.

        Args:
            kernel: The world.
            events: The events, oldest first.
            reported: Entities of which later events report the change; those of these are added.

        Raises:
            Problem: There is no such agent.
        """
        self.check(kernel)
        if self.sees_everything:
            return [event.as_dict() for event in events]
        visible: list[dict[str, Json]] = []
        reported = set() if reported is None else reported
        reader = self._intent_reader(kernel)
        for event in reversed(events):
            visible_event = self._event(kernel, event, reported, reader)
            if visible_event is not None:
                visible.append(visible_event)
        visible.reverse()
        return visible

    def readable(self, kernel: Kernel, events: Sequence[Event]) -> list[Event]:
        """Return the events of a domain that shows all of its state to the principal.

        Without the batches and the refusals of intents that the principal may not read.
        """
        reader = self._intent_reader(kernel)
        if reader.reads_all:
            return list(events)
        return [
            readable for event in events if (readable := _readable_event(event, reader)) is not None
        ]

    def diff(
        self, kernel: Kernel, changes: Iterable[FieldChange], agent_ids: Iterable[str]
    ) -> list[dict[str, Json]]:
        """Return the previewed changes of a dry run as JSON objects, or their visible parts.

        A change is visible if one of the batch's agents may see the entity, as it is now, and the
        field.

        Args:
            kernel: The world.
            changes: The changes of an admitted dry run.
            agent_ids: The agents of the batch; the principal speaks for all of them.
        """
        if not self.sees_everything:
            seers = sorted(agent_ids)
            changes = [
                change
                for change in changes
                if any(shows_change(kernel, seer, change) for seer in seers)
            ]
        return [
            {
                "entity": change.entity_path,
                "field": change.field,
                "op": change.op,
                "old": thaw(change.old),
                "new": thaw(change.new),
            }
            for change in changes
        ]

    def _intent_reader(self, kernel: Kernel) -> IntentReader:
        return IntentReader(
            kernel.registry, kernel.ledger, kernel.tree, self.submitter, self.agent_id
        )

    def _event(
        self, kernel: Kernel, event: Event, reported: set[str], reader: IntentReader
    ) -> dict[str, Json] | None:
        if event.type not in _ABOUT_A_BATCH | TYPES_WITH_CHANGES:
            return None
        changes = [
            change
            for change in self._changes(kernel, event.data.get("changes", ()))
            if change["entity"] not in reported
        ]
        reported.update(change["entity"] for change in changes)
        batch: dict[str, Json] = {}
        if event.type in _ABOUT_A_BATCH:
            batch = _batch_of(event, reader)
        elif event.type == _COLUMNS and self._reads_columns(kernel, event, reader):
            batch = {name: event.data[name] for name in _OF_COLUMNS}
        columns = _public_columns(kernel, event)
        if columns:
            batch["columns"] = columns
        if not batch and not changes:
            return None
        head = {
            "seq": event.seq,
            "record": event.record,
            "type": event.type,
            "sim_time": event.sim_time,
        }
        return {**head, **batch, "changes": changes}

    def _reads_columns(self, kernel: Kernel, event: Event, reader: IntentReader) -> bool:
        """Return whether the principal may read a column batch: it owns the population.

        Or the domain shares its intents. A member reads no batch: the counts are of all members.
        """
        name = event.data["population"]
        members = kernel.ledger.populations.get(name)
        if members is None:
            return False
        if self.submitter != OPERATOR and members.owner == self.submitter:
            return True
        nobody = f"{name}:{members.count}"  # a reserved name: the answer is that of the domain
        intent = {"agent_id": nobody, "kind": event.data["kind"]}
        return reader.may_read(intent, event.data["submitter"])

    def _changes(self, kernel: Kernel, changes: Iterable[Json]) -> list[dict[str, Json]]:
        visible = []
        for change in changes:
            collection, _, entity = change["entity"].partition("/")
            ref = Ref(collection, entity)
            if self._may_see(kernel, collection, entity) and self._may_know(kernel, ref, change):
                fields = self._visible_fields(kernel, collection, entity)
                now = None if fields is None else dict(fields)
                visible.append({"entity": change["entity"], "fields": now, "whole": True})
        return visible

    def _may_know(self, kernel: Kernel, ref: Ref, change: Mapping[str, Json]) -> bool:
        """Return whether an event may name a visible entity as changed.

        If its domain hides entities of the collection, only the agent's own changes and the latest
        change may be named: the agent may not have seen the entity at an earlier change by another
        agent.
        """
        if change["by"] == self.agent_id or not kernel.registry.hiding(ref.collection):
            return True
        stamp = kernel.tree.stamp(*ref)
        return stamp is not None and stamp.seq == change["seq"]

    def _visible_fields(
        self, kernel: Kernel | WorldMoment, collection: str, entity: str
    ) -> Mapping[str, Json] | None:
        assert self.agent_id is not None, "a viewpoint that sees everything has no agent"
        return kernel.registry.seen(kernel.tree, self.agent_id, Ref(collection, entity))

    def _may_see(self, kernel: Kernel, collection: str, entity: str) -> bool:
        assert self.agent_id is not None, "a viewpoint that sees everything has no agent"
        return kernel.registry.may_see(kernel.tree, self.agent_id, Ref(collection, entity))


def _after(names: Iterable[str], after: str | None) -> Iterator[str]:
    """Yield the sorted names that follow one."""
    return iter(names) if after is None else (name for name in names if name > after)


def _public_columns(kernel: Kernel, event: Event) -> list[str]:
    """Return the columns that an event changed in tables of which nothing is hidden."""
    # A column batch names its columns; other records name the columns written by hooks.
    changed = event.data.get("written", event.data.get("columns", ()))
    names = dict.fromkeys(one["field"] if isinstance(one, Mapping) else one for one in changed)
    return [name for name in names if not kernel.registry.hiding(name.rpartition("/")[0])]


def _batch_of(event: Event, reader: IntentReader) -> dict[str, Json]:
    """Return the readable intents of a batch, with its refusals if all intents are readable."""
    data = event.data
    intents = [intent for intent in data["intents"] if reader.may_read(intent, data["submitter"])]
    if not intents:
        return {}
    batch: dict[str, Json] = {"batch_id": data["batch_id"], "intents": intents}
    if "refusals" in data and len(intents) == len(data["intents"]):
        batch["refusals"] = data["refusals"]
    return batch


def _readable_event(event: Event, reader: IntentReader) -> Event | None:
    """Return an event for a projection of the domains that share their intents; None for nothing.

    A projection finds intents by their place in the batch, so they stay; but not the refusals of
    intents that may not be read.
    """
    if event.type == _COLUMNS:  # its counts are of intents that may not be read
        hidden = dict.fromkeys(("refused", "refusals"))
        return msgspec.structs.replace(event, data={**event.data, **hidden})
    if event.type not in _ABOUT_A_BATCH:
        return event
    data = event.data
    readable = [reader.may_read(intent, data["submitter"]) for intent in data["intents"]]
    if not any(readable):
        return None
    refusals = data.get("refusals")
    if refusals is None or all(readable):
        return event
    kept = [refusal for refusal in refusals if refusal[0] is None or readable[refusal[0]]]
    return msgspec.structs.replace(event, data={**data, "refusals": kept})


def shows_change(kernel: Kernel, agent_id: str, change: FieldChange) -> bool:
    """Return whether an agent may see a change, by its entity and its field.

    A change of an undecided entity is visible where no domain hides a part of the collection.
    """
    registry, tree = kernel.registry, kernel.tree
    if change.entity is None:
        return not registry.hiding(change.collection)
    ref = Ref(change.collection, change.entity)
    return registry.may_see(tree, agent_id, ref) and change.field not in registry.hidden_fields(
        tree, agent_id, ref
    )


def _longest_ids(rest: str) -> list[str]:
    """List the possible ids in `entity` or `entity/field`, longest first.

    An id may contain slashes.
    """
    return [rest, rest.rpartition("/")[0]]
