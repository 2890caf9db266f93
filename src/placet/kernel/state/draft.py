"""A draft: the only way in which rules read and change the state.

It writes straight into the tree and keeps an undo list, so the cost of a batch depends on the
values that it touches. A read in a draft therefore sees the changes of earlier intents of the
batch. Operations for the kernel only (begin, undo, sum up) are in `kernel/state/transaction.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from placet.kernel.ledger.ordinals import Ordinals
from placet.kernel.prng import (
    below,
    cached_agent_key,
    draw_bound,
    draw_state,
    mix_word,
    random_u64,
    unit_of,
)
from placet.kernel.state.collection import OF_TABLE, Entity, Stamp
from placet.kernel.state.draft_errors import ToolUnregistered, WorkExceeded
from placet.kernel.state.tree import READ_AND_WRITE, State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, freeze, is_flat, sort_last, without_numpy
from placet.schemas.foreseen import Preview
from placet.schemas.identity import SYSTEM, Ref
from placet.schemas.limits import SECOND_NS, UNLIMITED
from placet.schemas.name_suggestions import nearest
from placet.schemas.refusal import Notice

Draws: TypeAlias = Callable[[int, str, str], int]
"""`(place of the intent among those of its agent in the batch, purpose, agent) -> 64 bits`."""

ChangeCheck: TypeAlias = Callable[[Preview], object]
"""A check of what a batch did as a whole; returns None, or a `RuleRefusal` to refuse the batch."""

if TYPE_CHECKING:
    from placet.kernel.state.draft_columns import ColumnHook, DraftColumns
    from placet.kernel.state.draft_interfaces import AgentRegistrar, Sized
    from placet.schemas.log.changes import AgentChange

ABSENT: Final = object()
"""Old value in the undo list where there was none."""

WHOLE: Final = ""
"""Field name in the undo list for a created or deleted entity; no field has this name."""

Undo: TypeAlias = tuple[str, str, str, Json, Entity, int, str, int]
"""`(collection, entity, field, old value, entity, and its stamp: seq, by, foreign_seq)`."""

CollectionUndo: TypeAlias = tuple[str, str, Stamp, Stamp | None]
"""`(collection, entity, the collection's stamp before, the entity's tombstone before)`."""

NO_EXECUTORS: Final[Mapping[str, object]] = MappingProxyType({})

_DRAW_STATES_MAX: Final = 1_024


class Draft:
    """The state as a rule reads and changes it.

    A rule gets one with each intent. It returns None, or a refusal, which undoes the whole batch:

        def sell(draft: Draft, intent: Intent) -> RuleRefusal | None:
            item = intent["payload"]["item"]
            if draft.get("shop.items", item, "owner") != draft.agent_id:
                return refuse("not_yours", f"{item} is not of {draft.agent_id}")
            draft.put("shop.items", item, "price", intent["payload"]["price"])
            return None

    A later intent of the batch reads the changes of the earlier ones.

    Attributes:
        state: The tree, for reading.
        agent_id: Agent of the intent being applied; `system` on ticks and settlements. The changes
            of a settlement are stamped as of the effect's agent.
        reads_moment: A rule of the batch drew, or read the seq, the time, the tick or `ordinal`.
        checks: Position of an intent, and the check of the whole batch that its rule asked for.
        work: Units of work that the rules of the batch declared and charged so far.
        has_more: The batch did something beside putting fields.
        agents: The agents that the batch registered and removed so far.
        column_hook: Column writes of the hook that runs; None where none may be written.
        started: Indices in `effects` of the effects emitted with `started=True`, ascending.
    """

    __slots__ = (
        "_author",
        "_batch",
        "_claims",
        "_claims_undo",
        "_collection_undo",
        "_draw_states",
        "_draws",
        "_executors",
        "_hook_writes",
        "_now_ns",
        "_ordinals",
        "_position",
        "_ranks",
        "_registrar",
        "_seed",
        "_seq",
        "_tick",
        "_undo",
        "_work_max",
        "agent_id",
        "agents",
        "checks",
        "column_hook",
        "effects",
        "has_more",
        "normalized",
        "notices",
        "outputs",
        "reads_moment",
        "started",
        "state",
        "work",
    )

    def __init__(
        self,
        state: State,
        seed: int = 0,
        executors: Mapping[str, object] = NO_EXECUTORS,
        ordinals: Ordinals | None = None,
    ) -> None:
        self.state = state
        self.agent_id: str = SYSTEM
        self._author: str = SYSTEM
        self._seq = 0
        self._now_ns = 0
        self._tick = 0
        self._draws: Draws | None = None
        self.reads_moment = False
        self.checks: list[tuple[int, ChangeCheck]] = []
        self._seed = seed
        self._ordinals = Ordinals() if ordinals is None else ordinals
        self._draw_states: dict[tuple[int, str], int] = {}
        self._ranks: tuple[CheckedBatch, list[int]] | None = None
        self._executors = executors
        self._position = 0
        self._undo: list[Undo] = []
        self._collection_undo: list[CollectionUndo] = []
        self._claims: dict[str, str] = {}
        self._claims_undo: list[str] = []
        self._registrar: AgentRegistrar | None = None
        self._hook_writes: list[tuple[int, int]] = []
        self.column_hook: ColumnHook | None = None
        self.agents: list[AgentChange] = []
        self.effects: list[tuple[int, str, dict[str, Json], str]] = []
        self.started: list[int] = []
        self.normalized: dict[int, dict[str, Json]] | None = None
        self.notices: dict[int, tuple[Notice, ...]] | None = None
        self.outputs: dict[int, Json] | None = None
        self.work = 0
        self.has_more = False
        self._batch: Sized | None = None
        self._work_max = UNLIMITED

    def __repr__(self) -> str:
        return (
            f"<Draft of {self.agent_id!r} at seq {self._seq}, {self._now_ns / SECOND_NS:g} s: "
            f"{len(self._undo)} writes, {len(self.effects)} effects>"
        )

    def __getattr__(self, name: str) -> NoReturn:
        """Explain an attribute that a draft does not have."""
        raise AttributeError(f"a draft has no {name!r}: {READ_AND_WRITE}")

    def __getitem__(self, name: object) -> NoReturn:
        """Explain how a draft is read and written."""
        raise TypeError(f"a draft has no [{name!r}]: {READ_AND_WRITE}")

    # reading

    @property
    def seq(self) -> int:
        """Sequence number that the intent will have."""
        self.reads_moment = True
        return self._seq

    @property
    def now_ns(self) -> int:
        """Simulated time, nanoseconds."""
        self.reads_moment = True
        return self._now_ns

    @property
    def sim_time(self) -> float:
        """Simulated time, seconds."""
        return self.now_ns / SECOND_NS

    @property
    def tick(self) -> int:
        """Number of ticks before; 0 in a world without ticks."""
        self.reads_moment = True
        return self._tick

    def get(self, collection: str, entity: str, field: str, default: Json = None) -> Json:
        """Read one field, or the default where there is no such field or entity. O(1).

        The value is as stored: a list is read as a tuple, and is never changed in place.

        Args:
            collection: Name of the collection, such as `world.agents`.
            entity: Id of the entity.
            field: Name of the field.
            default: The value to return instead.
        """
        rows = self.state.collections.get(collection)
        row = None if rows is None else rows.entities.get(entity)
        return default if row is None else row.fields.get(field, default)

    def exists(self, collection: str, entity: str) -> bool:
        """Return whether an entity exists."""
        rows = self.state.collections.get(collection)
        return rows is not None and entity in rows.entities

    def entity(self, collection: str, entity: str) -> Mapping[str, Json] | None:
        """Return all fields of an entity as a read-only mapping; None if there is no such entity.

        Read it again after a write: whether it shows later writes is not defined.
        """
        return self.state.entity(collection, entity)

    def ids(self, collection: str) -> Iterator[str]:
        """Return the ids of a collection, sorted; none where there is no such collection.

        O(n log n). Ids that the batch creates later are not in it.
        """
        return self.state.ids(collection)

    def previous_values(self) -> list[tuple[str, str, str, Json]]:
        """Return the values before each write of the batch so far.

        Returns:
            `(collection, entity, field, value)` of each write, in order; the value is None where
            there was none. Creations and deletions are not included: see `created_and_deleted`.
        """
        return [
            undo[:4] if undo[3] is not ABSENT else (*undo[:3], None)
            for undo in self._undo
            if undo[2] != WHOLE
        ]

    def created_and_deleted(self) -> tuple[list[Ref], list[Ref]]:
        """Return the entities that the batch has created and deleted so far, in order.

        An entity that the batch created and then deleted is in neither list. An entity that it
        deleted and then created again is in both. O(writes of the batch).

        Returns:
            The created and the deleted entities.
        """
        first: dict[tuple[str, str], bool] = {}  # whether the entity existed before the batch
        for collection, entity, field, before, *_ in self._undo:
            if field == WHOLE:
                first.setdefault((collection, entity), before is not ABSENT)
        deleted = [Ref(*key) for key, was_there in first.items() if was_there]
        created = [Ref(*key) for key in first if self.exists(*key)]
        return created, deleted

    @property
    def writes_count(self) -> int:
        """Number of writes of the batch so far, creations and deletions included."""
        return len(self._undo)

    def written(self, since: int) -> Iterator[tuple[str, str]]:
        """Yield collection and entity of each write after the first `since` of the batch.

        Without those of the hooks of agents, for which each domain answers itself.
        """
        for first, end in self._hook_writes:
            yield from ((undo[0], undo[1]) for undo in self._undo[since:first])
            since = max(since, end)
        yield from ((undo[0], undo[1]) for undo in self._undo[since:])

    def draw(self, purpose: str) -> float:
        """Draw a number in [0, 1).

        The same purpose gives the same number again in one intent, so two draws need two purposes:

            if draft.draw("hit") < 0.3:
                damage = 1 + draft.randint_below(6, "damage")

        It depends on the world's seed, the tick, the simulated time, `ordinal`, the purpose and
        the agent alone: `random_unit` of `placet.kernel` gives the same number.
        """
        return unit_of(self._random_u64(purpose))

    def randint_below(self, bound: int, purpose: str) -> int:
        """Draw an int in 0..bound-1, from the same words as `draw`.

        Args:
            bound: Number of equally probable ints, from 1.
            purpose: Name of the draw; two draws of one intent need two purposes.

        Raises:
            TypeError: Bound and purpose are swapped.
            ValueError: The bound is below 1.
        """
        return below(draw_bound(bound, purpose), self._random_u64(purpose))

    @property
    def ordinal(self) -> int:
        """Number of this agent's intents that were admitted earlier at this tick and time.

        Earlier intents of the same batch count too.
        """
        self.reads_moment = True
        return self._ordinals.of(self.agent_id, self._now_ns) + self._rank

    @property
    def _rank(self) -> int:
        """Number of this agent's intents that run earlier in the batch."""
        batch = self._batch
        if not isinstance(batch, CheckedBatch) or len(batch.intents) == 1:
            return 0
        if batch.order is None and len(batch.agents) == 1:
            return self._position
        if self._ranks is None or self._ranks[0] is not batch:
            self._ranks = (batch, _ranks_in(batch))
        return self._ranks[1][self._position]

    def _random_u64(self, purpose: str) -> int:
        if self._draws is not None:
            return self._draws(self._rank, purpose, self.agent_id)
        # All words but the agent are common to many draws of a moment: the state after them is
        # kept, and a draw is one round more.
        n, states = self.ordinal, self._draw_states
        state = states.get((n, purpose))
        if state is None:
            if len(states) >= _DRAW_STATES_MAX:
                states.clear()
            state = draw_state(self._seed, self._tick, self._now_ns, n, purpose)
            states[n, purpose] = state
        return mix_word(state, cached_agent_key(self.agent_id))

    def pin_draws(self, key: str) -> None:
        """Make later draws of the batch depend on a key instead of tick, time and `ordinal`.

        A batch that pins the same key in another dry run, or when it is applied, draws the same
        numbers. So a person may be shown a drawn value before its batch is applied.

        Args:
            key: A key that no other batch pins, such as the id of an approval request.
        """
        seed = self._seed
        self.has_more = True
        self._draws = lambda rank, purpose, agent_id: random_u64(
            seed, 0, 0, rank, f"{key}\0{purpose}", agent_id
        )

    def check_changes(self, check: ChangeCheck) -> None:
        """Check the changes of the whole batch once all rules, hooks and invariants have passed.

            draft.check_changes(lambda done: None if not done.effects else refuse("mail", "..."))

        Args:
            check: Receives the changes and effects of the batch. It returns None, or a
                `RuleRefusal`, by which the intent and its batch are refused.
        """
        self.has_more = True
        self.checks.append((self._position, check))

    def charge(self, units: int) -> None:
        """Charge the work of the steps that follow, beyond that of an ordinary rule.

        Count items, such as entities read or steps run, never time. A unit is about 1 us of
        CPython 3.11 at 3 GHz. In a hook outside of batches, such as `on_tick`, it has no limit.

        Args:
            units: Units of work. Work that depends on the payload alone is better declared by
                `Kind.work`.

        Raises:
            TypeError, ValueError: The number is not an int, or is negative.
            WorkExceeded: The batch would use more than `batch_work_max` units. Do not catch it:
                the batch is refused as `work_exceeded`.
        """
        units = units if type(units) is int else without_numpy(units)
        if type(units) is not int:
            raise TypeError(f"work must be an int of units, got {units!r}")
        if units < 0:
            raise ValueError(f"work must be >= 0 units, got {units!r}")
        self.has_more = True
        self.work += units
        batch = self._batch
        if batch is not None and self.work + batch.base_work > self._work_max:
            raise WorkExceeded

    # writing

    def put(self, collection: str, entity: str, field: str, value: Json) -> None:
        """Set one field of an existing entity; a new field is added.

        Args:
            collection: Name of the collection, such as `world.agents`.
            entity: Id of the entity.
            field: Name of the field.
            value: Plain JSON. It is copied: later changes of a list or a dict have no effect.

        Raises:
            KeyError: There is no such entity; `create` it.
            TypeError, ValueError: The name is not a string, or is empty; the value is not plain
                JSON, or is not finite.
        """
        try:
            row = self.state.collections[collection].entities[entity]
        except KeyError:
            remedy = "create it before you put a field"
            raise KeyError(self._no_entity(collection, entity, remedy)) from None
        if not field:
            raise ValueError("a field needs a name")
        if type(value) is float:
            is_frozen = value - value == 0.0
        else:
            is_frozen = type(value) is tuple and is_flat(value)
        if not is_frozen:
            value = freeze(value)
        state = self.state
        if row.epoch != state.epoch:  # a cut or a mark shares it, or it is a row of a table
            if row.epoch == OF_TABLE:
                self._put_in_row(collection, entity, field, value, row)
                return
            row = state.own(collection, entity, row)
        fields = row.fields
        old = fields.get(field, ABSENT)
        by = row.by
        if old is ABSENT:
            field = str.__str__(field)  # an Enum member would be read back as a plain string
        self._undo.append((collection, entity, field, old, row, row.seq, by, row.foreign_seq))
        fields[field] = value
        if old is ABSENT:
            sort_last(fields)
        if by != self._author:
            row.foreign_seq = row.seq
            row.by = self._author
        row.seq = self._seq
        if row.digest is not None:
            state.mark_dirty(collection, entity, row)

    def _put_in_row(
        self, collection: str, entity: str, field: str, value: Json, row: Entity
    ) -> None:
        """Set one field of a row of a table; a value that does not fit changes nothing."""
        old, seq, by, foreign_seq = row.fields.get(field), row.seq, row.by, row.foreign_seq
        row.fields[field] = value
        self._undo.append((collection, entity, field, old, row, seq, by, foreign_seq))
        row.touch(self._seq, self._author)

    def create(
        self, collection: str, entity: str, fields: Mapping[str, Json] | None = None
    ) -> None:
        """Create an entity with these fields, in a collection that may be new.

            draft.create("shop.orders", order_id, {"buyer": draft.agent_id, "items": ["pen"]})

        Args:
            collection: Name of the collection, `<domain>.<plural>`.
            entity: Id of the entity, unique in the collection.
            fields: Its fields, plain JSON, copied; None for none.

        Raises:
            KeyError: It exists already.
            TypeError, ValueError: A name is no string, or a value is not plain JSON, or not finite;
                or the collection is a table, whose rows are made with their population.
        """
        if type(collection) is not str or type(entity) is not str:
            raise TypeError(f"names must be strings, got {collection!r} and {entity!r}")
        rows = self.state.collection(collection)
        if rows.is_table:
            raise TypeError(f"{collection} is a table: its rows are neither created nor deleted")
        if entity in rows.entities:
            raise KeyError(f"entity {collection}/{entity} exists already")
        frozen = {} if fields is None else dict(freeze(fields))
        if WHOLE in frozen:
            raise ValueError("a field needs a name")
        grave = rows.tombstones.pop(entity, None)
        self._touch(collection, entity, None, grave)
        row = Entity(frozen, self._seq, self._author, 0, self.state.epoch)
        # If tombstones were trimmed, another agent may have deleted it as late as `tracked_from`.
        row.foreign_seq = (
            self.state.tracked_from if grave is None else grave.changed_for(self._author)
        )
        self._undo.append((collection, entity, WHOLE, ABSENT, row, 0, "", 0))
        rows.entities[entity] = row
        rows.mark_changed(entity)
        self.state.mark_dirty(collection, entity, row)

    def delete(self, collection: str, entity: str) -> None:
        """Delete an entity with all its fields.

        Raises:
            KeyError: There is no such entity.
            TypeError: The collection is a table, whose rows stay.
        """
        rows = self.state.collections.get(collection)
        if rows is not None and rows.is_table:
            raise TypeError(f"{collection} is a table: its rows are neither created nor deleted")
        row = None if rows is None else rows.entities.pop(entity, None)
        if rows is None or row is None:
            raise KeyError(self._no_entity(collection, entity, "it cannot be deleted"))
        rows.mark_changed(entity)
        self._touch(collection, entity, row, None)
        self._undo.append((collection, entity, WHOLE, row, row, 0, "", 0))
        if row.digest is not None:
            self.state.mark_dirty(collection, entity, row)
        grave = Stamp(row.seq, row.by, row.foreign_seq)
        grave.touch(self._seq, self._author)
        rows.tombstones[entity] = grave

    def columns(self, table: str) -> "DraftColumns":
        """Return the columns of a table, to read and write many rows at once.

        `columns[field]` is a read-only array of all rows; `columns.set(field, values, where=None)`
        writes all rows or some. Call it in `on_open`, `on_populate`, `on_tick` or `on_settle`:

            cells = draft.columns("field.cells")
            low = cells["grass"] < 1.0
            cells.set("grass", cells["grass"][low] + 0.1, where=low)

        Raises:
            KeyError: There is no such table; a table of agents is there with its population.
            TypeError: It is called elsewhere.
        """
        if self.column_hook is None:
            raise TypeError(
                "draft.columns is for on_open, on_populate, on_tick and on_settle, in a world with "
                "tables; elsewhere write rows by draft.put, or by a rule of rows"
            )
        return self.column_hook.columns(table)

    def _no_entity(self, collection: str, entity: str, remedy: str) -> str:
        known = self.state.collections
        near = () if collection in known else nearest(str(collection), known, 1)
        hint = f"did you mean the collection {near[0]!r}?" if near else remedy
        return f"there is no entity {collection}/{entity}; {hint}"

    def claim(self, resource: str) -> str | None:
        """Claim a resource that only one agent may have in this group of batches, such as a tick.

            if winner := draft.claim("shop.items/lamp"):
                return conflict("shop.items/lamp", winner)

        If the batch is refused, its claims are released. A claim is no state: it ends with the
        group.

        Args:
            resource: Any name; `collection/entity` makes the refusal name the entity as changed.

        Returns:
            None if the claim succeeded, else the agent that claimed it first.
        """
        winner = self._claims.get(resource)
        if winner is None:
            self.has_more = True
            self._claims[resource] = self.agent_id
            self._claims_undo.append(resource)
            return None
        return None if winner == self.agent_id else winner

    def emit(self, kind: str, payload: Mapping[str, Json], *, started: bool = False) -> None:
        """Request an effect on the outside world, to be run once the batch is durable.

            draft.emit("send_mail", {"to": "ann@example.org", "text": "paid"})

        The outcome comes back in `Domain.on_settle`; a refused batch emits nothing.
        The kind of intent must declare it in `effects`. Without an executor for `kind` the
        intent is refused as `tool_unregistered`.

        Args:
            kind: Kind of effect.
            payload: Data for the executor.
            started: Record the start of an `at_most_once` effect in the commit of its batch, if its
                executor has a free credit. This saves one commit. The effect is in doubt if the
                process ends after this commit, even if its handler was not called yet.

        Raises:
            TypeError, ValueError: The payload is not plain JSON, or has a number that is not
                finite.
        """
        if kind not in self._executors:
            raise ToolUnregistered(kind)
        self.has_more = True
        plain = str.__str__(kind)  # an Enum member would be read back as a plain string
        if started:
            self.started.append(len(self.effects))
        self.effects.append((self._seq, plain, freeze(dict(payload)), self.agent_id))

    def register(self, agent_id: str, cohort: str | None = None, **attributes: Json) -> None:
        """Register an agent with the batch, whose domains initialize it here by `on_register`.

        It has the world's default permissions, belongs to itself, and acts from the next tick on:

            draft.register(f"sheep_{draft.seq}", "sheep", position=[3, 4])

        Call it in the rule of a kind, in `on_batch` or in `on_tick`. If the name is taken or
        invalid, too many agents are registered, or a domain refuses the agent, the intent is
        refused.

        Args:
            agent_id: Its name.
            cohort: Cohort of a `Simulation` or a scenario, whose policy and permissions it gets.
                Without one, an agent `<cohort>_<number>` belongs to that cohort.
            **attributes: As of `register_agent`.

        Raises:
            AgentError: It is called in another hook.
            ValidationError: An attribute is not plain JSON, or its name is misspelled.
            ValueError: The cohort is no valid name.
            AgentRefused: The intent is refused. Do not catch it.
        """
        assert self._registrar is not None, "the draft of a kernel has a registrar"
        self._registrar.register(agent_id, cohort, attributes)

    def remove(self, agent_id: str) -> None:
        """Remove an agent with the batch, whose domains release its state here by `on_remove`.

        Its later batches are refused, also those of the same tick and of the schedule. Call it in
        the rule of a kind, in `on_batch` or in `on_tick`. The hooks run in the name of the agent
        whose intent removes it. If there is no such agent, the intent is refused.

        Raises:
            AgentError: It is called in another hook.
            AgentRefused: The intent is refused. Do not catch it.
        """
        assert self._registrar is not None, "the draft of a kernel has a registrar"
        self._registrar.remove(agent_id)

    def normalize(self, payload: Mapping[str, Json]) -> None:
        """Store the payload as the rule applied it; verdict and log show it as `normalized`.

        Use it where a rule applies less than was asked for, with `warn` for the reason.

        Args:
            payload: The whole payload, plain JSON; the last call for an intent counts.

        Raises:
            TypeError, ValueError: The payload is not plain JSON, or has a number that is not
                finite.
        """
        self.has_more = True
        if self.normalized is None:
            self.normalized = {}
        self.normalized[self._position] = freeze(dict(payload), list)  # for verdict and log alone

    def answer(self, value: Json) -> None:
        """Set the `output` of the intent's result, which the submitter receives and the log keeps.

        Args:
            value: Plain JSON; `verdict.results[i].output` of the submitter. The last call counts.

        Raises:
            TypeError, ValueError: The value is not plain JSON, or has a number that is not finite.
        """
        self.has_more = True
        if self.outputs is None:
            self.outputs = {}
        self.outputs[self._position] = freeze(value, list)

    def warn(self, code: str, message: str, *, at: str = "") -> None:
        """Add a notice for the submitter; the intent passes.

            draft.warn("clamped", "the speed is at most 5", at="/speed")

        Args:
            code: Code of the notice.
            message: The change that was made to the intent.
            at: JSON pointer inside the payload.

        Raises:
            TypeError: Code, message or place is not a string.
        """
        for part in (code, message, at):
            if type(part) is not str:
                raise TypeError(f"a warning is made of strings, got {part!r}")
        self.has_more = True
        if self.notices is None:
            self.notices = {}
        known = self.notices.get(self._position, ())
        self.notices[self._position] = (*known, Notice(code, message, at))

    def _touch(self, collection: str, entity: str, row: Entity | None, grave: Stamp | None) -> None:
        """Stamp a collection in which an entity is created or deleted."""
        self.has_more = True
        self.state.note_touched(collection, entity, row, grave)
        rows = self.state.collections[collection]
        before = Stamp(rows.seq, rows.by, rows.foreign_seq)
        self._collection_undo.append((collection, entity, before, grave))
        rows.touch(self._seq, self._author)


def _ranks_in(batch: "CheckedBatch") -> list[int]:
    """Return, by position, how many intents of the same agent run earlier in a batch."""
    counts: dict[str, int] = {}
    agent_ids = batch.agent_ids()
    ranks = [0] * len(agent_ids)
    for position in batch.order or range(len(agent_ids)):
        agent_id = agent_ids[position]
        ranks[position] = counts.get(agent_id, 0)
        counts[agent_id] = ranks[position] + 1
    return ranks
