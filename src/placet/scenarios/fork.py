"""Forks a run with other settings: its scenario, and the rules of its domain, from a tick on.

The fork's log says both: the record of the fork has the scenario, and a record of rules follows it
where settings of the domain differ. So `placet run --resume` continues the fork with its settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from placet.actors.ports import EventLog
from placet.history import fork as forking
from placet.history.fork import Fork, ForkOptions
from placet.history.position import Position, position_of
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.rules_version import rules_in
from placet.kernel.plugin.tables import spec_of_table
from placet.scenarios.opening import domain_of
from placet.scenarios.recorded_domain import domains_of
from placet.scenarios.resume import RecordedRun, find_run
from placet.scenarios.scenario import Scenario, as_text, full_key
from placet.scenarios.settings import changed
from placet.scenarios.setup import ORIGIN
from placet.scenarios.ticks import tick_ns_of, unstepped_ticks
from placet.scenarios.values import ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.files import SnapshotStore
from placet.stores.snapshots.recovery import recover


def run_of(log: EventLog) -> RecordedRun:
    """Return the run that wrote a log.

    Raises:
        StoreError: The log cannot be read, or no run of a scenario wrote it.
        ScenarioError: Its scenario is not valid in this release.
    """
    run = find_run(log)
    if run is None:
        problem = "its first record names no scenario, so its settings are not known"
        raise StoreError(f"{log.url} is no log of `placet run`: {problem}", store=log.url)
    return run


class ForkedRun(NamedTuple):
    """A fork of a run, which is not continued yet.

    Attributes:
        made: The fork.
        scenario: The scenario with which it continues.
        ticks: Number of completed ticks at the fork.
    """

    made: Fork
    scenario: Scenario
    ticks: int


def fork_run(
    log: Store,
    to: str | Path,
    values: Mapping[str, Json],
    *,
    world: str | None = None,
    at: int | Position | None = None,
    seed: int | None = None,
    domains: Sequence[Domain] | Maker | None = None,
    files: SnapshotStore | None = None,
) -> ForkedRun:
    """Fork a run into a new log, which is continued with other settings. O(copied records).

    Args:
        log: The log of the run, its path or its URL; it is only read, and may be in progress.
        to: As in `placet.history.fork.fork`.
        values: Key of a setting -> its value in the fork: `settings.beta`, `beta`, or
            `populations.people.options.infect`.
        world: Name of the fork; None generates a unique one.
        at: Where to fork: a seq, or a position such as `Position(tick=20)`; None is the end of the
            log. A stepped run is forked between two ticks.
        seed: Seed of the fork; None is that of the run.
        domains: The domains of the log, or a function that creates them; None are those of the log
            and of its scenario.
        files: Snapshots to begin the replay from; None are the snapshots of the log.

    Raises:
        ScenarioError: A setting does not exist, its value is refused, or it cannot change in the
            middle of a run; or no tick is left to run. `key` names the setting.
        StoreError: The log cannot be read, has no such position, or the fork cannot be written.
        DomainNotRemade: A setting of the domain changes, and its rules are not found.
        TypeError: `log` is no log, or `at` no position.
        ValueError: The name or the seed is invalid.
    """
    position, log = position_of(at), as_log(log)
    maker = domains_of(log) if domains is None else domains
    values = {full_key(key): value for key, value in values.items()}
    scenario = changed(run_of(log).scenario, values)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    position = _whole_ticks(position, scenario)
    decided_by = _deciding(log, scenario, values, maker)
    ticks = _ticks_to(log, position, scenario, files)
    options = ForkOptions(
        world=world, seed=seed, origin={ORIGIN: as_text(scenario)}, decided_by=decided_by
    )
    made = forking.fork(log, str(to), options, at=position, domains=maker, files=files)
    return ForkedRun(made, scenario, ticks)


def _whole_ticks(at: Position, scenario: Scenario) -> Position:
    ticks_ns = tick_ns_of(scenario) if scenario.clock == "stepped" else None
    return Position(seq=at.seq, tick=at.tick, record=at.record, whole_ticks_ns=ticks_ns)


def _ticks_to(log: EventLog, at: Position, scenario: Scenario, files: SnapshotStore | None) -> int:
    """Return the number of completed ticks at a position.

    Raises:
        ScenarioError: They are all ticks of the scenario.
    """
    ledger = forking.replay_to(log, at, files).ledger
    stepped = scenario.clock == "stepped"
    ticks = ledger.tick if stepped else unstepped_ticks(scenario, ledger)
    if ticks >= scenario.ticks:
        problem = (
            f"all {scenario.ticks} ticks are run here, so a fork would end at once; fork at an "
            "earlier tick, or run again from the start"
        )
        raise ScenarioError(scenario.name, "", problem)
    return ticks


def _deciding(
    log: EventLog,
    scenario: Scenario,
    values: Mapping[str, Json],
    domains: Sequence[Domain] | Maker,
) -> list[Domain]:
    """Return the domains that decide in the fork; none if no setting of the domain changes.

    Raises:
        ScenarioError: A setting changes the tables, which the log has already.
    """
    own = {key: value for key, value in values.items() if key.startswith("settings.")}
    if not own:
        return []
    header = recover(log).past.header
    assert header is not None, "a run has a header"
    were = domains(rules_in(header)) if callable(domains) else list(domains)
    now = domain_of(scenario)
    tables = [spec_of_table(table) for one in were if one.name == now.name for table in one.tables]
    if tables != [spec_of_table(table) for table in now.tables]:
        key = next(iter(own)) if len(own) == 1 else ""
        names = ", ".join(own)
        problem = (
            f"{names} is a part of the tables of the domain, which the run has already; run again "
            "from the start with it"
        )
        raise ScenarioError(scenario.name, key, problem)
    return [now if one.name == now.name else one for one in were]
