"""A summary of the run in a log: from its first and last record, and from one pass over it.

The head costs a page of the log, whatever its length. Agents and intents need every record, so they
are counted by a `RunCount`, which continues at its last record once the log has grown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import outcome_of
from placet.history.column_rows import refused_count
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    Columns,
    ForkAdopted,
    Header,
    Record,
    Refused,
    Scheduled,
    SingleBlock,
    TableMade,
    Tick,
    agents_of,
    record_hash,
)
from placet.server.runs.lineage import (
    Adopted,
    Ancestor,
    lineage_of,
    scenario_in,
    settings_in,
)
from placet.stores.snapshots.recovery import decode, recover

_BATCHES: Final = (Admitted, Refused, Scheduled, SingleBlock, Columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """The beginning and the end of a log.

    Attributes:
        world: Name of the world.
        scenario: Name of the scenario; empty if no run of a scenario wrote the log.
        domains: Names of the domains.
        seed: Seed of the world.
        settings: Values of the scenario by dotted key, such as `settings.links`; of another log the
            keywords of its domains.
        ticks_planned: Ticks of the scenario; None without one.
        ticks: Completed ticks, by the time of the last record; None without a scenario.
        records: Number of records.
        sim_time: Simulated time of the last record, seconds.
        lineage: The runs that the log was forked from, the oldest first.
    """

    world: str
    scenario: str = ""
    domains: tuple[str, ...] = ()
    seed: int = 0
    settings: Mapping[str, Json] = field(default_factory=dict)
    ticks_planned: int | None = None
    ticks: int | None = None
    records: int = 0
    sim_time: float = 0.0
    lineage: Sequence[Ancestor] = ()

    @property
    def is_finished(self) -> bool:
        """Whether all ticks of the scenario are completed."""
        if self.ticks is None or self.ticks_planned is None:
            return False
        return self.ticks >= self.ticks_planned


def head_of(log: EventLog, forks: Sequence[Adopted] = ()) -> RunHead | None:
    """Return the head of a log; None of an empty one. O(1), or O(state) of a compacted log.

    No code that the log names is imported.

    Args:
        log: The log.
        forks: The records of it that made it a fork, each with another header from there on.

    Raises:
        StoreError: The log cannot be read.
    """
    records = log.count()
    if not records:
        return None
    lineage, header = lineage_of(_header_of(log), forks)
    last = _record_at(log, records - 1)
    head = RunHead(
        world=header.world,
        domains=tuple(name for name, _ in header.domains),
        seed=header.seed,
        settings=settings_in(header),
        records=records,
        sim_time=last.now_ns / SECOND_NS,
        lineage=lineage,
    )
    scenario = scenario_in(header)
    if scenario is None:
        return head
    return replace(
        head,
        scenario=str(scenario.get("name", "")),
        ticks_planned=planned if type(planned := scenario.get("ticks")) is int else None,
        ticks=_ticks_by_time(scenario, last),
    )


def _header_of(log: EventLog) -> Header:
    header: Record | None
    if log.start().record:
        header = recover(log, to_record=log.start().record).past.header
    else:
        header = _record_at(log, 0)
    if not isinstance(header, Header):
        raise StoreError(
            f"{log.url} is damaged: expected a header as its first record, got "
            f"{type(header).__name__}; restore it from a copy",
            store=log.url,
        )
    return header


def _record_at(log: EventLog, ordinal: int) -> Record:
    number, data = next(log.read(ordinal), (-1, b""))
    if number != ordinal:
        raise StoreError(f"{log.url} has no record {ordinal} any more", store=log.url)
    return decode(data, ordinal)


def _ticks_by_time(scenario: Mapping[str, Json], last: Record) -> int | None:
    """Return the completed ticks of a run, by the time of its last record.

    The records of a tick have the time of its end, and the tick is completed by the record `Tick`;
    a run that is not stepped has no such record, and its last tick has no later time.
    """
    tick_s = scenario.get("tick_s", 1.0)
    if not isinstance(tick_s, int | float) or tick_s <= 0:
        return None
    passed = round(last.now_ns / SECOND_NS / tick_s)
    is_in_tick = isinstance(last, _BATCHES)
    if scenario.get("clock", "stepped") == "stepped":
        return max(0, passed - is_in_tick)
    return passed + is_in_tick


class RunTotals(NamedTuple):
    """The counts of a log to an end that it had.

    Attributes:
        agents: Number of registered agents, the members of populations included.
        ticks: Number of ticks.
        admitted: Number of admitted intents; of a compacted log, those after its beginning.
        refused: Number of refused intents, without held ones; likewise.
        is_partial: The log was compacted, so that `admitted` and `refused` lack its beginning.
    """

    agents: int
    ticks: int
    admitted: int
    refused: int
    is_partial: bool


@dataclass(slots=True)
class RunCount:
    """The agents and intents of a log, up to some record.

    Attributes:
        records: Number of records that were read, those of a compacted beginning included.
        forks: The records that made the log a fork, in their order.
    """

    records: int = 0
    forks: list[Adopted] = field(default_factory=list)
    _hash: bytes = b""
    _agents: set[str] = field(default_factory=set)
    _members: dict[str, int] = field(default_factory=dict)
    _ticks: int = 0
    _admitted: int = 0
    _refused: int = 0
    _is_partial: bool = False

    @property
    def counts(self) -> RunTotals:
        """The counts so far."""
        agents = len(self._agents) + sum(self._members.values())
        return RunTotals(agents, self._ticks, self._admitted, self._refused, self._is_partial)

    def read_on(self, log: EventLog, records_max: int) -> bool:
        """Count at most so many further records; return whether the log's end was reached.

        Raises:
            StoreError: The log cannot be read.
            ValueError: A group of batches is damaged.
        """
        start = log.start().record
        if start > self.records:
            self._begin_at(log, start)
        read, last = 0, b""
        for ordinal, last in islice(log.read(self.records), records_max):
            for record in expanded(decode(last, ordinal)):
                self._count(record)
            self.records = ordinal + 1
            read += 1
        if last:
            self._hash = record_hash(last)
        return read < records_max

    def is_of(self, log: EventLog) -> bool:
        """Return whether a log has the records that were counted. O(1).

        Raises:
            StoreError: The log cannot be read.
        """
        if not self._hash or log.start().record >= self.records:
            return True
        _, data = next(log.read(self.records - 1), (-1, b""))
        return record_hash(data) == self._hash

    def _begin_at(self, log: EventLog, record: int) -> None:
        ledger = recover(log, to_record=record).past.ledger
        self.records, self._ticks, self._is_partial = record, ledger.tick, True
        self._agents = set(ledger.agents)
        self._members = {name: each.count for name, each in ledger.populations.items()}

    def _count(self, record: Record) -> None:
        if isinstance(record, Admitted | Refused):
            outcome = outcome_of(record)
            self._admitted += outcome.admitted
            self._refused += outcome.refused
        elif isinstance(record, Tick):
            self._ticks += 1
        elif isinstance(record, ForkAdopted):
            self.forks.append(Adopted(record, self._ticks))
        elif isinstance(record, TableMade) and record.members is not None:
            self._members[record.stem] = record.count
        elif isinstance(record, Columns):
            refused = refused_count(record)
            rows = len(record.agents) // 4 or self._members.get(record.population, 0)
            self._refused += refused
            self._admitted += rows - refused
        for change in agents_of(record):
            (self._agents.discard if change.is_removed else self._agents.add)(change.agent_id)
