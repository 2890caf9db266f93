"""Finds in a log the run that wrote it, so that it can be gone on with."""

from dataclasses import dataclass

from placet.actors.ports import EventLog
from placet.runtime.scenarios.loading import from_text
from placet.runtime.scenarios.runner import ORIGIN, ticks_at
from placet.runtime.scenarios.scenario import Scenario
from placet.runtime.snapshots.recovery import recover
from placet.schemas.limits import SECOND_NS


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run as its log has it.

    Attributes:
        scenario: What it is a run of, overrides and all.
        ticks: How many of its ticks are in the log.
    """

    scenario: Scenario
    ticks: int

    @property
    def is_finished(self) -> bool:
        """Tell whether there is nothing left to live through."""
        return self.ticks >= self.scenario.ticks


def begun_run(log: EventLog) -> BegunRun | None:
    """Find the run that a log is of; None if no run wrote it. O(state + the log's tail).

    Nothing that its scenario names is imported: who only looks runs no code of a log's choice.

    Raises:
        StoreError: The log cannot be read.
        ScenarioError: Its scenario is none of this release.
    """
    past = recover(log).past
    text = None if past.header is None else past.header.origin.get(ORIGIN)
    if not isinstance(text, str):
        return None
    scenario = from_text(log.url, text)
    return BegunRun(scenario, ticks_at(scenario, past.ledger.now_ns / SECOND_NS))
