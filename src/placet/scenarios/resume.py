"""Finds in a log the run that wrote it, so that it can be gone on with."""

from dataclasses import dataclass

from placet.actors.ports import EventLog
from placet.runtime.snapshots.recovery import recover
from placet.scenarios.loader import from_text
from placet.scenarios.runner import ORIGIN, ticks_lived
from placet.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run as its log has it.

    Attributes:
        scenario: What it is a run of, overrides and all.
        ticks: How many of its ticks are in the log.
        world: Its name, which is not the scenario's where it was forked.
    """

    scenario: Scenario
    ticks: int
    world: str

    @property
    def is_finished(self) -> bool:
        """Return whether there is nothing left to live through."""
        return self.ticks >= self.scenario.ticks


def begun_run(log: EventLog) -> BegunRun | None:
    """Find the run that a log is of; None if no run wrote it. O(state + the log's tail).

    Nothing that its scenario names is imported: who only looks runs no code of a log's choice.

    Raises:
        StoreError: The log cannot be read.
        ScenarioError: Its scenario is none of this release.
    """
    past = recover(log).past
    header = past.header
    text = None if header is None else header.origin.get(ORIGIN)
    if header is None or not isinstance(text, str):
        return None
    scenario = from_text(log.url, text)
    return BegunRun(scenario, ticks_lived(scenario, past.ledger), header.world)
