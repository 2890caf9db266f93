"""Find the run that wrote a log, so that it can be resumed."""

from dataclasses import dataclass, replace

from placet.actors.ports import EventLog
from placet.scenarios.scenario import Scenario, from_text
from placet.scenarios.setup import ORIGIN
from placet.scenarios.ticks import tick_ns_of, unstepped_ticks
from placet.schemas.log.record import Header, Record
from placet.stores.snapshots.recovery import decode, recover


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as recorded in its log.

    Attributes:
        scenario: Its scenario, including overrides.
        ticks: Number of completed ticks in the log.
        world: Name of the world; differs from the scenario's name after a fork.
    """

    scenario: Scenario
    ticks: int
    world: str

    @property
    def is_finished(self) -> bool:
        """Return whether all ticks are completed."""
        return self.ticks >= self.scenario.ticks


def find_run(log: EventLog) -> RecordedRun | None:
    """Return the run that wrote a log; None if no run wrote it. O(state + the log's tail).

    Policies and domain are not imported: reading a log runs no code that the log names.

    Raises:
        StoreError: The log cannot be read.
        ScenarioError: Its scenario is not valid in this release.
    """
    past = recover(log).past
    header = past.header
    text = None if header is None else header.origin.get(ORIGIN)
    if header is None or not isinstance(text, str):
        return None
    scenario = from_text(log.url, text)
    if scenario.seed != header.seed:  # a fork with another seed
        scenario = replace(scenario, seed=header.seed)
    if scenario.clock == "stepped":
        ticks = past.ledger.tick
    else:
        ticks = unstepped_ticks(scenario, past.ledger)
    return RecordedRun(scenario, ticks, header.world)


def scenario_in(log: EventLog) -> Scenario | None:
    """Return the scenario in the header of a log; None if there is none. A fork has its parent's.

    O(1) unless the log was compacted.

    Raises:
        StoreError: The log cannot be read.
        ScenarioError: Its scenario is not valid in this release.
    """
    if log.start().record:
        header: Record | None = recover(log).past.header
    else:
        header = next((decode(data, ordinal) for ordinal, data in log.read()), None)
    text = header.origin.get(ORIGIN) if isinstance(header, Header) else None
    return from_text(log.url, text) if isinstance(text, str) else None


def indivisible_ns(log: EventLog) -> int | None:
    """Return the length of a tick, nanoseconds, if a log is of a stepped run; else None.

    O(1) unless it was compacted.

    Raises:
        StoreError: The log cannot be read.
        ScenarioError: Its scenario is not valid in this release.
    """
    scenario = scenario_in(log)
    return None if scenario is None else indivisible_ns_of(scenario)


def indivisible_ns_of(scenario: Scenario) -> int | None:
    """Return the length of a tick, nanoseconds, of a stepped scenario; None of another."""
    return tick_ns_of(scenario) if scenario.clock == "stepped" else None
