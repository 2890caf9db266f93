"""`Collector`: rows of agents, of the whole world, and of refusals, live or from a log.

    def gini(state):
        ...

    collector = Collector(every=1, agents=["position"], world={"gini": gini}, to="collected/")
    collector.attach(kernel)           # or: await orchestrator.query(collector.attach)
    ...
    collector.close()                  # collected/agents.parquet, collected/world.parquet

A row is taken right after the record of a tick, from the state alone. A run reads the state of its
kernel and `Collector.collect` the state of a replay, so both take the same rows. A run does not
take them from its log afterwards: a replay would cost about as much again, and refusals by load and
quota leave no record.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from math import inf
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from placet.actors.ports import EventLog
from placet.history.reader import beginning_of
from placet.kernel.gate import is_final
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.log.replay import Replayer
from placet.kernel.state.tree import State, WorldState
from placet.plugins.functions import find_function
from placet.schemas.codec import Json, from_numpy
from placet.schemas.json_value import InvalidJsonValue, format_value, to_json_value
from placet.schemas.keywords import explain_keywords
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    Columns,
    Refused,
    Scheduled,
    SingleBlock,
    Tick,
    decode_record,
    intents_of,
)
from placet.schemas.name_suggestions import SETTINGS_MAX, did_you_mean, nearest
from placet.schemas.names import name_fault
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.recovery import read_on, recover
from placet.tables.agent_field import AgentField
from placet.tables.arrow import pyarrow
from placet.tables.definitions import Column
from placet.tables.mappings import with_key_columns
from placet.tables.parts import FIXED, CollectedTable, CollectError, PartFolder, read_collected
from placet.tables.rows import refused_intents
from placet.tables.statistic import statistic_named
from placet.tables.table import ArrowTable, Tables

if TYPE_CHECKING:
    from placet.kernel.state.table import TableData

WorldFunction = Callable[[WorldState], object]

_ALMOST: Final = 0.75
"""Similarity above which a missing field is refused at the first row, and not at the end."""

_PART_SECONDS: Final = 10.0
_PART_ROWS: Final = 100_000
_DEPTH_MAX: Final = 64


@explain_keywords
class Collector:
    """Collects rows at ticks: of every agent, of the world, and of each refusal.

        mean = {"mean": "mean(world.agents/position)"}
        with Collector(every=2, agents=["position"], world=mean) as collector:
            walking = Simulation(World(), agents={"folk": (3, walk)}, collector=collector)
            walking.run(ticks=4)
        print(len(collector.tables()["agents"]), len(collector.tables()["world"]))

    Args:
        every: Ticks between two rows.
        ends: Take rows of the beginning too, as tick 0, and of the last tick, also where it is no
            multiple of `every`. None: if `every` is above 1.
        agents: Fields of the agents: `position` is the field of the entity with the agent's id, in
            the first collection where an agent has it; `world.agents/position` names the
            collection. A member of a population has the fields of its row; the members' rows follow
            those of other agents, by population and number, and cost no step of Python each. A
            field that no agent has is an error: at the first row if it is spelled almost like one
            that they have, else at the end.
        world: Name of a column -> function of the state, or `module:function`. It must depend on
            nothing but the state, and return plain JSON, or a scalar or an array of numpy. The
            keys of a mapping are columns: `{"S": 9, "I": 1}` of `n` fills `n.S` and `n.I`; a row
            without a key has None there. A text
            such as `mean(flock.birds/energy)` is a statistic of a field, as in `FieldStatistic`; of
            a table it reads the column.
        refusals: Collect the refusals that `note` is called with.
        to: Folder of the tables, which must not exist; None keeps them in memory.

    Raises:
        CollectError: An argument is invalid.
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(
        self,
        *,
        every: int = 1,
        ends: bool | None = None,
        agents: Sequence[str] = (),
        world: Mapping[str, WorldFunction | str] | None = None,
        refusals: bool = False,
        to: str | Path | None = None,
    ) -> None:
        pyarrow()
        if type(every) is not int or every < 1:
            raise CollectError(f"every must be a number of ticks from 1 on, got {every!r}")
        if isinstance(agents, str):
            raise CollectError(f"agents must be a list of fields, such as [{agents!r}]")
        for name in agents:
            if not isinstance(name, str):
                raise CollectError(f"a field of the agents is a name, got {name!r}")
        for name in world or ():
            if fault := name_fault(name):
                raise CollectError(f"the name of a column {fault}")
        self.every = every
        self._takes_ends = every > 1 if ends is None else ends
        self._fields = [AgentField(name) for name in agents]
        self._unseen = dict.fromkeys(self._fields, "")
        self._world = {name: _function(name, f) for name, f in (world or {}).items()}
        self._agents_table = CollectedTable("agents", (*FIXED["agents"], *map(_open, agents)))
        self._world_table = CollectedTable("world", (*FIXED["world"], *map(_open, self._world)))
        self._refusals_table = CollectedTable("refusals", FIXED["refusals"])
        self._tables = [
            *([self._agents_table] if self._fields else []),
            *([self._world_table] if self._world else []),
            *([self._refusals_table] if refusals else []),
        ]
        for table in self._tables:
            _require_once(table)
        if not self._tables:
            raise CollectError("there is nothing to collect; name agents, world or refusals")
        self._has_refusals = refusals
        self._noted_refusals: list[tuple[Json, ...]] = []
        self._folder = None if to is None else PartFolder(Path(to), self._tables)
        self._has_started = False
        self._is_closed = False
        self._is_of_log = False
        self._declared: Names[str] = ()
        self._world_now: Callable[[], tuple[State, Ledger]] | None = None
        self._ended: tuple[int, int] | None = None
        self._tick = 0
        self._part_at = 0.0
        self.failure: CollectError | None = None

    def __repr__(self) -> str:
        names = ", ".join(table.name for table in self._tables)
        where = "memory" if self._folder is None else self._folder.folder
        return f"<Collector of {names} every {self.every} ticks, to {where}>"

    # live

    def begin(self) -> None:
        """Make the folder of the tables; nothing if it has begun or is continued.

        Raises:
            CollectError: The folder exists, or cannot be made.
        """
        if self._has_started:
            return
        if self._folder is not None:
            self._folder.begin()
        self._has_started = True
        self._part_at = time.monotonic()

    def attach(self, kernel: Kernel) -> None:
        """Collect at the ticks of a kernel from now on.

        Call it once the agents are registered: rows of the beginning are taken here.

        Raises:
            CollectError: The kernel has another collector, or the folder exists.
        """
        if kernel.on_tick is not None:
            raise CollectError("this world has a collector already")
        self.begin()
        self._tick = kernel.ledger.tick
        self._declared = kernel.declared
        kernel.on_tick = self._on_tick
        self._world_now = lambda: (kernel.tree, kernel.ledger)
        self._take_first(*self._world_now())

    def note(self, batch: Sequence[Mapping[str, Json]], verdict: Verdict, tick: int) -> None:
        """Collect the refusals of a verdict.

        Args:
            batch: The intents of the batch.
            verdict: Its verdict; one of an admitted batch has no refusals.
            tick: Number of completed ticks when the batch was decided.
        """
        if not self._has_refusals or not verdict.refusals or verdict.dry_run or verdict.replayed:
            return
        now_ns = round(verdict.sim_time * SECOND_NS)
        recorded = is_final(verdict.refusals[0])
        refusals = [(r.index, r.stage, r.code, r.message) for r in verdict.refusals]
        self._add_refusals(batch, refusals, (tick, now_ns), recorded=recorded)

    def check(self) -> None:
        """Raise the error that ended the collecting, if there was one.

        Raises:
            CollectError: A function of the world raised, or a part could not be written.
        """
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Write the last part, and seal the tables; a second call does nothing.

        If the collecting has failed, the tables are not sealed: the parts up to the tick before
        are left, and a run that is resumed continues them.

        Raises:
            CollectError: The tables cannot be written, the collecting has failed, or no agent had
                a field. Rows collected from a log are removed.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._flush_refusals()
        if self._world_now is not None:
            self._take_last(*self._world_now())
        if self._folder is not None and self._has_started:
            try:
                self._folder.write(self._tick)
                self._require_seen()
                if self.failure is None:
                    self._folder.seal()
            except CollectError:
                if self._is_of_log:
                    self._folder.remove()
                raise
        self.check()
        if self._folder is None:
            self._require_seen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tables(self) -> Tables:
        """Return the collected tables; of a folder, after `close`.

        Raises:
            CollectError: The folder is not sealed yet.
        """
        if self._folder is not None:
            return read_collected(self._folder.folder)
        self._flush_refusals()
        tables = {}
        for table in self._tables:
            rows = table.peek()
            if table is self._world_table:
                rows = with_key_columns(rows, self._world)
            tables[table.name] = ArrowTable(table.name, rows)
        return Tables(tables)

    # from the log

    def collect(self, log: EventLog) -> None:
        """Collect from a log: the rows that would have been collected while it was written.

        If it or `close` fails, no folder is left. O(log). Refusals that left no record are not in
        it; of a compacted log, the part from its oldest snapshot on is read.

        Args:
            log: The log; it is only read.

        Raises:
            CollectError: A function of the world raised, or the tables cannot be written.
            StoreError: The log cannot be read.
        """
        self.begin()
        self._is_of_log = True
        try:
            self._take_last(*self._collect_between(log, 0))
            self.check()
        except BaseException:
            if self._folder is not None:
                self._folder.remove()
            self._is_closed = True
            raise

    def continue_from(self, log: EventLog, declared: Names[str] = ()) -> None:
        """Continue the tables of a run that was killed or stopped, before it is resumed.

        Nothing if it has begun, or is continued, already.

        Rows after the last tick of the log are dropped; rows of ticks that are in the log and in no
        part are collected from it.

        Args:
            log: The log.
            declared: Names of the collections that the world's domains declare.

        Raises:
            CollectError: The tables are of another collector, or cannot be read or written.
            StoreError: The log cannot be read.
        """
        if self._has_started:
            return
        self._has_started = True
        self._declared = declared
        self._part_at = time.monotonic()
        last = recover(log).past.ledger.tick
        if self._folder is not None:
            # The rows of the last tick may be there as those of the end, which it is no more.
            self._folder.continue_from(last - last % self.every if self._takes_ends else last)
            self._tick = self._folder.last_tick
        if self._tick < last or self._has_refusals:
            self._collect_between(log, self._tick)
            self.check()
        self._tick = last

    def _collect_between(self, log: EventLog, after_tick: int) -> tuple[State, Ledger]:
        """Collect from the ticks of a log after one; return the world at its end."""
        beginning = beginning_of(log).record
        past = recover(log, to_record=beginning).past if beginning else Replayer()
        for _, data in read_on(log, past.journal.count):
            if not (past.ledger.tick or after_tick) and _begins(data):
                self._take_first(past.state, past.ledger)
            record = past.apply(data)
            if isinstance(record, Tick):
                if past.ledger.tick > after_tick:
                    self._take(past.state, past.ledger)
            elif self._has_refusals and past.ledger.tick >= after_tick:
                for part in expanded(record):
                    if isinstance(part, Refused) and part.due_of is None:
                        place = (past.ledger.tick, part.now_ns)
                        batch = intents_of(part)
                        self._add_refusals(batch, part.refusals, place, recorded=True)
        return past.state, past.ledger

    # rows

    def _take_first(self, state: State, ledger: Ledger) -> None:
        """Take the rows of the beginning, before the first batch and the first tick; once."""
        if self._takes_ends and not ledger.tick and self._ended is None:
            self._take_rows(state, ledger)

    def _take_last(self, state: State, ledger: Ledger) -> None:
        """Take the rows of the last tick, if nothing happened after it and they are not taken."""
        is_last = self._ended == (ledger.tick, ledger.seq) and self.failure is None
        if self._takes_ends and is_last and ledger.tick % self.every:
            self._take_rows(state, ledger)

    def _take_rows(self, state: State, ledger: Ledger) -> None:
        place = (ledger.tick, ledger.seq, ledger.now_ns)
        self._ended = place[:2]
        try:
            self._take_agents(state, ledger, place)
            self._take_world(state, place)
        except CollectError as error:
            self.failure = error

    def _on_tick(self, kernel: Kernel) -> None:
        """Take the rows of a tick. An error ends the collecting, and not the world."""
        self._take(kernel.tree, kernel.ledger)

    def _take(self, state: State, ledger: Ledger) -> None:
        if self.failure is not None:
            return
        # A refusal may be noted before or after the rows of its tick are taken, but not later: so
        # the part that ends here has those of the ticks before the last one, whole.
        self._flush_refusals(before_tick=self._tick)
        try:
            self._close_part()
        except CollectError as error:
            self.failure = error
            return
        if ledger.tick % self.every == 0:
            self._take_rows(state, ledger)
        if self.failure is None:
            self._tick = ledger.tick
            # With the record of a live tick the ledger has its seq already.
            self._ended = (ledger.tick, ledger.seq)

    def _take_agents(self, state: State, ledger: Ledger, place: tuple[int, int, int]) -> None:
        if not self._fields:
            return
        agents = sorted(ledger.agents)
        found = [field.entities(state, agents) for field in self._fields]
        members = {each.name: each.table for each in ledger.populations.values()}
        tables = {name: state.tables[table] for name, table in members.items()}
        if self._unseen and (agents or tables):
            seen = {
                field
                for field, entities in zip(self._fields, found, strict=True)
                if entities or any(map(field.is_in, tables.values()))
            }
            self._note_seen(state, agents, seen, place[0])
        names = [field.field for field in self._fields]
        rows = self._agents_table.rows
        for agent in agents:
            cells: list[Json] = [*place, agent]
            for entities, name in zip(found, names, strict=True):
                entity = entities.get(agent)
                cells.append(None if entity is None else entity.fields.get(name))
            rows.append(tuple(cells))
        for population, table in tables.items():
            self._take_members(population, table, place)

    def _take_members(
        self, population: str, table: "TableData", place: tuple[int, int, int]
    ) -> None:
        """Take the rows of the members of a population, as arrays."""
        from placet.tables.column_rows import collected_block  # noqa: PLC0415  # numpy is an extra

        names = [field.field if field.is_in(table) else None for field in self._fields]
        self._agents_table.add_block(collected_block(population, table, place, names))

    def _note_seen(
        self, state: State, agents: Sequence[str], seen: Names[AgentField], tick: int
    ) -> None:
        """Note which fields the agents have; raise if one is probably misspelled.

        Raises:
            CollectError: No agent has a field, and a field of theirs has almost its name.
        """
        for field in self._fields:
            if field in seen:
                self._unseen.pop(field, None)
            elif self._unseen.get(field) == "":
                wanted, known = field.alternatives(state, agents)
                near = nearest(wanted, known, 1, similar=_ALMOST, compared_max=SETTINGS_MAX)
                hint = self._unseen[field] = did_you_mean(wanted, known)
                if near:
                    raise CollectError(f"no agent has {field.name!r} at tick {tick}; {hint}")

    def _require_seen(self) -> None:
        """Check that an agent had each field in a row.

        Raises:
            CollectError: There are rows of agents, and none of them had the field.
        """
        for field, hint in self._unseen.items():
            is_in_parts = self._folder is not None and self._folder.has_values("agents", field.name)
            if hint and not is_in_parts and self.failure is None:
                raise CollectError(f"no agent had {field.name!r} in any row; {hint}")

    def _take_world(self, state: State, place: tuple[int, int, int]) -> None:
        if not self._world:
            return
        view, cells = WorldState(state, self._declared), []
        for name, function in self._world.items():
            try:
                value = function(view)
            except (Exception, SystemExit) as error:  # it is code of the user
                raise CollectError(
                    f"the function of the column {name!r} raised {error!r} at tick {place[0]}"
                ) from error
            cells.append(_cell(value, name, place[0]))
        self._world_table.rows.append((*place, *cells))

    def _add_refusals(
        self,
        batch: Sequence[Mapping[str, Json]],
        refusals: Sequence[tuple[int | None, str, str, str]],
        place: tuple[int, int],
        *,
        recorded: bool,
    ) -> None:
        for position, reason in refused_intents(len(batch), refusals):
            head = map(batch[position].get, ("agent_id", "kind", "req_id", "priority"))
            self._noted_refusals.append((*place, *head, *reason, recorded))

    def _flush_refusals(self, before_tick: float = inf) -> None:
        """Add the refusals of the ticks before one, in an order that the log has too."""
        noted = self._noted_refusals
        ended = [row for row in noted if row[0] < before_tick]
        self._refusals_table.rows += sorted(ended, key=lambda row: (row[0], repr(row)))
        self._noted_refusals = [row for row in noted if row[0] >= before_tick]

    def _close_part(self) -> None:
        if self._folder is None:
            return
        now = time.monotonic()
        rows = sum(map(len, self._tables))
        if now - self._part_at >= _PART_SECONDS or rows >= _PART_ROWS:
            self._folder.write(self._tick)
            self._part_at = now


def _begins(data: bytes) -> bool:
    """Return whether the record is of a batch or a tick: until then a world is being set up."""
    begins = Admitted | SingleBlock | Refused | Scheduled | Columns | Tick
    return isinstance(decode_record(data), begins)


def _cell(value: object, column: str, tick: int) -> Json:
    """Return the value of a function as plain JSON, also a scalar or an array of numpy.

    Raises:
        CollectError: It is something else.
    """
    plain = from_numpy(value)
    parts = plain if type(plain) is list else [plain]
    if set(map(type, parts)) == {float}:  # NaN is a value of a column of numbers, or of lists
        return plain
    try:
        return to_json_value(plain, _DEPTH_MAX, sys.maxsize)
    except InvalidJsonValue as error:
        raise CollectError(
            f"the function of the column {column!r} returned {format_value(value)} at tick {tick}: "
            f"{error}; expected a number, True, False, text, None, or lists and dicts of these"
        ) from error


def _require_once(table: CollectedTable) -> None:
    """Raise if two columns of a table have one name.

    Raises:
        CollectError: They have.
    """
    names = [column.name for column in table.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CollectError(f"the table {table.name} would have two columns {twice!r}; name another")


def _open(name: str) -> Column:
    """Return a column whose type is that of its values."""
    return Column(name, "", f"Collected: {name}.")


def _function(name: str, function: WorldFunction | str) -> WorldFunction:
    """Return the function of a column, imported by its name if it is named.

    Raises:
        CollectError: There is no such function.
    """
    if callable(function):
        return function
    statistic = statistic_named(str(function))
    if statistic is not None:
        return statistic
    if ":" not in str(function):
        raise CollectError(
            f"world.{name}: expected module:function, or a statistic of a field such as "
            f"mean(world.agents/energy), got {function!r}"
        )
    try:
        return find_function(str(function))
    except LookupError as error:
        raise CollectError(f"world.{name}: {error}") from error
