"""Compare a run with the run in its store, before it continues the log.

A log that is continued with other agents, settings or ticks is the log of no run: its first part
was made by one, and the rest by another. So a difference is an error, unless the caller states it.
"""

from collections.abc import Sequence
from typing import Final

from placet.actors.ports import EventLog
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.recorded_world import RecordedWorld
from placet.scenarios.scenario import Scenario, leaves_of
from placet.scenarios.ticks import tick_ns_of
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Registered, Tick
from placet.stores.snapshots.recovery import decode, recover

_LISTED_MAX: Final = 8
_TAIL: Final = 4_096
"""Number of last records in which the last two ticks are looked for."""


def differences_of_scenario(recorded: Scenario, scenario: Scenario) -> list[str]:
    """Return a clause for each value of a scenario that differs from the recorded one."""
    before, now = leaves_of(recorded), leaves_of(scenario)
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    named = [f"{key} is {now.get(key)!r}, in the log {before.get(key)!r}" for key in keys]
    more = f"and {len(named) - _LISTED_MAX} more"
    return named if len(named) <= _LISTED_MAX else [*named[:_LISTED_MAX], more]


def differences_of_run(
    recorded: RecordedWorld,
    log: EventLog,
    scenario: Scenario,
    config: OrchestratorConfig,
    domain: Domain,
) -> list[str]:
    """Return a clause for each difference between a run and the run in a log. O(state).

    Args:
        recorded: The world of the log.
        log: The log; it is only read.
        scenario: Agents and ticks of the run.
        config: Configuration of its world.
        domain: Its domain, in which other rules are no difference: a mended rule continues a log.

    Raises:
        StoreError: The log cannot be read.
    """
    changed = [
        f"{override.key} is {override.shown}, in the log {override.shown_recorded}"
        for override in recorded.overrides(config, [domain])
        if override.key != "clock" and not override.key.startswith("limits.")
    ]
    tick_ns = _tick_ns(log, recorded.ticks)
    if tick_ns is not None and tick_ns != tick_ns_of(scenario):
        changed.append(f"tick_s is {scenario.tick_s:g}, in the log {tick_ns / SECOND_NS:g}")
    return [*changed, *_other_agents(log, scenario, has_ticks=recorded.ticks > 0)]


def _other_agents(log: EventLog, scenario: Scenario, *, has_ticks: bool) -> list[str]:
    """Return clauses about agents of the log alone, and of the run alone.

    The agents of the log are those registered before its first tick.
    """
    first = _first_agents(log)
    if first is None:
        return []
    members = {member.agent_id for member in scenario.members()}
    ledger = recover(log).past.ledger
    gone = [name for name in first if name not in members]
    new = [m for m in members if m not in first and m not in ledger.agents and m not in ledger.gone]
    return [
        *([f"{_listed(gone)} of the log would not act any more"] if gone else []),
        *_other_populations(ledger, scenario, has_ticks=has_ticks),
        *([f"{_listed(sorted(new))} would begin after the others"] if new and has_ticks else []),
    ]


def _other_populations(ledger: Ledger, scenario: Scenario, *, has_ticks: bool) -> list[str]:
    """Return clauses about populations of the log alone, and of the run alone."""
    gone = sorted(ledger.populations.keys() - scenario.populations.keys())
    new = sorted(scenario.populations.keys() - ledger.populations.keys()) if has_ticks else []
    return [
        *[f"the population {name} of the log would not act any more" for name in gone],
        *[f"the population {name} would begin after the others" for name in new],
    ]


def _first_agents(log: EventLog) -> list[str] | None:
    """Return the agents that were registered before the first tick; None if that is compacted."""
    if log.start().record:
        return None
    names: list[str] = []
    for ordinal, data in log.read():
        record = decode(data, ordinal)
        if isinstance(record, Tick):
            break
        if isinstance(record, Registered):
            names.append(record.agent_id)
    return names


def _tick_ns(log: EventLog, ticks: int) -> int | None:
    """Return the length of the last tick of a log, nanoseconds; None if it is not known."""
    first = max(log.start().record, log.count() - _TAIL)
    records = (decode(data, ordinal) for ordinal, data in log.read(first))
    times = [record.now_ns for record in records if isinstance(record, Tick)]
    if ticks == 1 and times:
        return times[0]
    return times[-1] - times[-2] if len(times) > 1 else None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED_MAX])
    more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
    return f"the agent{'s' if len(names) > 1 else ''} {shown}{more}"
