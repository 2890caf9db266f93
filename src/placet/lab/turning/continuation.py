"""Continue a recorded run from one of its ticks, in memory, with another seed.

A log holds whole states: a run can be taken up at any tick. Under another seed, the order of
batches, the rules' random draws and the policies' draws differ from there on; everything that the
state holds is as it was. Policies are made anew at the tick, as by `placet run --resume`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from placet.actors.observation.viewer import Viewer
from placet.actors.ports import EventLog
from placet.history.reader import beginning_of, config_from
from placet.kernel.commit.commit import RecordSink
from placet.kernel.kernel import Kernel
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.replay import Replayer
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.recorded_batch import recorded_batch
from placet.plugins.domains import remake
from placet.scenarios.policies import policies_of
from placet.scenarios.population import Population
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import Scenario, as_text, from_text
from placet.scenarios.setup import populations_of
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import StoreError
from placet.schemas.limits import SEED_MAX
from placet.schemas.log.column_records import Columns
from placet.schemas.log.expand import BatchRecord, batches_of
from placet.schemas.log.record import Admitted, Refused, Scheduled, SingleBlock, Tick, encode_record
from placet.schemas.log.snapshot import Snapshot, decode_snapshot, encode_snapshot
from placet.stores.snapshots.files import snapshots_of
from placet.stores.snapshots.recovery import (
    decode,
    no_beginning,
    read_on,
    recover,
    trusted_snapshots,
)
from placet.sweeps.errors import LabError

_DECIDED = Admitted | SingleBlock | Refused | Scheduled | Columns
"""Types of the records of batches."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """The source of continuations of a run: its scenario and its domains.

    Attributes:
        store: The store of the log, for messages.
        scenario: The scenario as JSON text, with the seed of the run.
        domains: Domains to use instead of the log's, as `module:attribute`.
    """

    store: str
    scenario: str
    domains: tuple[str, ...]

    @property
    def parsed(self) -> Scenario:
        """The scenario."""
        return _parsed(self.store, self.scenario)


class TickState(NamedTuple):
    """The world between two ticks of a recorded run.

    Attributes:
        tick: Number of completed ticks.
        snapshot: TickState and ledger, as `encode_snapshot` makes it.
    """

    tick: int
    snapshot: bytes

    @property
    def digest(self) -> str:
        """TickState digest, hexadecimal."""
        return _decoded(self.snapshot).state_digest.hex()


def run_source(log: EventLog) -> tuple[RunSource, int]:
    """Return the source of continuations of the run in a log, and its number of completed ticks.

    Raises:
        LabError: No scenario wrote the log, its clock does not wait for agents, or it has no tick.
        ScenarioError: The scenario is not valid in this release.
        StoreError: The log cannot be read.
    """
    run = find_run(log)
    if run is None:
        raise LabError(
            f"cannot continue {log.url}: its first record names no scenario, so neither `placet "
            "run` nor a sweep wrote it, and the policies of its agents are unknown"
        )
    scenario = run.scenario
    if scenario.clock != "stepped":
        raise LabError(
            f"cannot continue {log.url}: its clock is {scenario.clock!r}, under which a seed has "
            'many outcomes; run the scenario with clock = "stepped"'
        )
    if not run.ticks:
        raise LabError(f"cannot continue {log.url}: it has no completed tick")
    domains = (scenario.domain,) if ":" in scenario.domain else ()
    return RunSource(log.url, as_text(scenario), domains), run.ticks


def first_tick(log: EventLog, tick_ns: int) -> int:
    """Return the first tick whose state a log still has: 0, unless it was compacted.

    Raises:
        StoreError: The log cannot be read, or was compacted and has no valid snapshot.
    """
    beginning = beginning_of(log).record
    if not beginning:
        return 0
    return recover(log, to_record=beginning).past.ledger.now_ns // tick_ns + 1


def states_at(log: EventLog, ticks: Sequence[int], tick_ns: int) -> Iterator[TickState]:
    """Yield the world after each of some ticks, in order. One fold of the log, O(log).

    Args:
        log: The log; it is only read.
        ticks: Numbers of completed ticks, ascending; 0 is before the first batch, or before the
            first tick if that has no batch.
        tick_ns: Length of a tick, nanoseconds.

    Raises:
        StoreError: The log cannot be read, or was compacted beyond the first of the ticks.
    """
    past = _start(log, ticks[0] * tick_ns)
    wanted = iter(ticks)
    tick: int | None = next(wanted)
    for ordinal, data in read_on(log, past.journal.count):
        record = decode(data, ordinal)
        if tick == 0 and isinstance(record, _DECIDED | Tick):
            yield _state(past, 0)
            tick = next(wanted, None)
        past.apply(data)
        if isinstance(record, Tick) and tick is not None and record.now_ns == tick * tick_ns:
            yield _state(past, tick)
            tick = next(wanted, None)
        if tick is None:
            return
    raise StoreError(
        f"{log.url} has no tick {tick} of the scenario; it was compacted beyond it, or served in "
        "real time between two ticks",
        store=log.url,
    )


def batches_of_tick(log: EventLog, tick: int, tick_ns: int) -> list[BatchRecord]:
    """Return the records of the batches of one tick, in the order in which they were decided.

    Args:
        log: The log; it is only read.
        tick: Number of ticks completed with it.
        tick_ns: Length of a tick, nanoseconds.

    Raises:
        StoreError: The log cannot be read.
    """
    found: list[BatchRecord] = []
    for ordinal, data in log.read():
        record = decode(data, ordinal)
        if record.now_ns > tick * tick_ns:
            break
        if record.now_ns == tick * tick_ns and isinstance(
            record, Admitted | SingleBlock | Refused | Scheduled
        ):
            found += batches_of(record)
    return found


class Continuation:
    """A world that continues from a state of a recorded run.

    Args:
        run: The source of continuations.
        state: Where it begins.
        seed: Seed of the kernel and of the policies from here on; None is the run's.

    Attributes:
        kernel: The world; it keeps no log.
        tick: Number of completed ticks.

    Raises:
        LabError: The run's domains decide differently here.
        ScenarioError: A policy cannot be made.
        PlacetError: A domain cannot be made.
    """

    def __init__(
        self,
        run: RunSource,
        state: TickState,
        seed: int | None = None,
        sink: RecordSink | None = None,
    ) -> None:
        scenario = run.parsed
        past = snapshots.resume(_decoded(state.snapshot))
        assert past.header is not None, "a snapshot has a header"
        if seed is not None:
            past.header = msgspec.structs.replace(past.header, seed=seed)
        past.header_data = encode_record(past.header)
        config = config_from(past)
        assert config is not None, "a world with a header has a configuration"
        domains = remake(rules_in(past.header), run.domains)
        self.tick = state.tick
        self.kernel = Kernel(domains, config, history=past, sink=sink)
        self._scenario = replace(scenario, seed=past.header.seed)
        self._viewer = Viewer(self.kernel)
        # Members are of the run's own seed: where an agent began does not change.
        policies = policies_of(scenario.name, scenario.agents)
        self._population = Population(self._scenario, policies, members=scenario.members())
        self._populations = populations_of(self._scenario, {})

    def run(self, until: int) -> None:
        """Continue until this many ticks are completed.

        Raises:
            ScenarioError: A policy raised.
        """
        while self.tick < until:
            kernel = self.kernel
            for member in self._population.refresh(kernel):
                kernel.register_agent(member.agent_id, permissions=member.permissions)
            agents = self._population.acting(kernel)
            views = [self._viewer.view(kernel, agent.agent_id) for agent in agents]
            proposed = [
                agent.propose(view, self.tick) for agent, view in zip(agents, views, strict=True)
            ]
            columns = [] if self._populations is None else self._populations.batches(kernel)
            self.step([*[batch for batch in proposed if batch], *columns])

    def step(self, batches: Sequence[object]) -> None:
        """Complete one tick with these batches: lists of intents, or checked ones."""
        self.kernel.step(self._scenario.tick_s, batches)
        self.tick += 1


def state_without(
    run: RunSource, before: TickState, records: Sequence[BatchRecord], left_out: Collection[int]
) -> TickState:
    """Return the state one tick later, had some of the tick's batches not been submitted.

    Args:
        run: The source of continuations.
        before: The state before the tick.
        records: Records of the tick's batches.
        left_out: Places in `records` of the batches that are left out.

    Raises:
        LabError: The run has populations, whose column batches are decided beside the others.
    """
    if run.parsed.populations:
        raise LabError(
            "no batch can be left out of a tick with column batches; compare continuations of "
            "other seeds instead"
        )
    made: list[bytes] = []
    world = Continuation(run, before, sink=made.append)
    world.step(
        [
            _as_submitted(record)
            for place, record in enumerate(records)
            if place not in left_out and record.due_of is None  # the kernel has the due batches
        ]
    )
    past = snapshots.resume(_decoded(before.snapshot))
    for data in made:
        past.apply(data)
    return _state(past, before.tick + 1)


def _as_submitted(record: BatchRecord) -> CheckedBatch:
    batch = recorded_batch(record)
    batch.sim_time_ns = record.due_ns if isinstance(record, Scheduled) else None
    return batch


def other_seeds(seed: int, count: int) -> list[int]:
    """Return the seeds of continuations: the numbers after the run's own."""
    return [(seed + number) % (SEED_MAX + 1) for number in range(1, count + 1)]


def _start(log: EventLog, now_ns: int) -> Replayer:
    """Return a replay that begins before a time: at the nearest snapshot, or at the log's start."""
    files, skipped = snapshots_of(log), list[str]()
    for _, snapshot in [] if files is None else trusted_snapshots(log, files, skipped=skipped):
        if snapshot.now_ns < now_ns:
            return snapshots.resume(snapshot)
    start = log.start()
    if start.record:
        raise no_beginning(log, start, skipped)
    return Replayer()


def _state(past: Replayer, tick: int) -> TickState:
    return TickState(tick, encode_snapshot(snapshots.take(past)))


@cache
def _parsed(store: str, text: str) -> Scenario:
    return from_text(store, text)


@lru_cache(maxsize=2)  # a worker continues from one state under many seeds
def _decoded(snapshot: bytes) -> Snapshot:
    return decode_snapshot(snapshot)
