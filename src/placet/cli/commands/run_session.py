"""The run of a scenario by one command: start or resume, run, verify, report."""

from pathlib import Path

import typer

from placet.cli.commands.run_report import MEMORY, report_lines
from placet.cli.progress import progress_bar, with_bar
from placet.cli.signals import StopSignals
from placet.cli.stores import fresh_store, require_fresh
from placet.cli.terminal import (
    CommandError,
    notify,
    say,
    say_json,
    say_lines,
)
from placet.cli.watch import Watch
from placet.history.reader import IntegrityReport, check_integrity
from placet.scenarios import Scenario, ScenarioError
from placet.scenarios.collecting import collector_of
from placet.scenarios.engine import OpenRun, run_scenario
from placet.scenarios.loader import split_override
from placet.scenarios.policies import policies_of
from placet.scenarios.report import RunReport
from placet.scenarios.resume import find_run
from placet.schemas.log.record import record_hash
from placet.stores.gc_tuning import tuned_gc
from placet.stores.reading import log_to_read
from placet.stores.url import file_of, open_event_log


def start(
    name: str | None,
    agents: int | None,
    ticks: int | None,
    seed: int | None,
    store: str | None,
    settings: list[str],
) -> tuple[Scenario, str]:
    """Return the scenario of a new run, and the store for its log.

    Raises:
        BadParameter: `name` is None, or a setting is not of the form `key=value`.
        CommandError: The store holds a world already.
        ScenarioError: There is no such scenario, or it is invalid.
    """
    if name is None:
        raise typer.BadParameter("expected a SCENARIO such as town, or --resume STORE")
    for setting in settings:
        try:
            split_override(setting)
        except ScenarioError as error:  # of no scenario: it is the command that is wrong
            raise typer.BadParameter(str(error)) from error
    chosen = _chosen(name, agents, ticks, seed, settings)
    if store is None:
        return chosen, fresh_store(chosen.name)
    require_fresh(store)
    return chosen, store


def resumed(store: str) -> tuple[Scenario, str, str]:
    """Return the scenario of the run in a store, the store's URL, and the name of its world.

    Raises:
        CommandError: The store has no run of a scenario.
        ScenarioError: The run is of another release, or one of its policies is not installed.
    """
    log = log_to_read(store)
    recorded_run = find_run(log)
    if recorded_run is None:
        raise CommandError(
            f"cannot resume {store}: its first record names no scenario, so `placet run` did not "
            "write it. Continue a log of `placet gate` with `placet gate --store`, and the log of "
            "a program with that program"
        )
    policies_of(store, recorded_run.scenario.agents)
    return recorded_run.scenario, store if file_of(log) is None else log.url, recorded_run.world


def _chosen(
    name: str, agents: int | None, ticks: int | None, seed: int | None, settings: list[str]
) -> Scenario:
    numbers = {"ticks": ticks, "seed": seed}
    overrides = [f"{key}={value}" for key, value in numbers.items() if value is not None]
    scenario = Scenario.load(name, overrides=[*settings, *overrides])
    return scenario if agents is None else scenario.with_agents(agents)


def live(
    scenario: Scenario,
    stop: StopSignals,
    *,
    store: str,
    is_resumed: bool,
    world: str | None,
    metrics_port: int | None,
    snapshot_every_seqs: int,
    compact_log: bool,
    collect_to: Path | None = None,
    watch: Watch | None = None,
) -> RunReport:
    """Run a scenario from its start, or from where it was interrupted, to its end or a signal."""

    def opened(run: OpenRun) -> None:
        _announce(run)
        if watch is not None:
            watch.open(run)

    description = f"{scenario.name}, {scenario.agents_count} agents"
    with stop, progress_bar(description, scenario.ticks, "ticks") as on_tick, tuned_gc():
        return run_scenario(
            scenario,
            store=store,
            is_resumed=is_resumed,
            world=world,
            metrics_port=metrics_port,
            snapshot_every_seqs=snapshot_every_seqs,
            compact_log=compact_log,
            collector=collector_of(scenario, collect_to),
            on_open=opened,
            on_tick=on_tick,
            is_stopped=stop.is_set if watch is None else watch.is_stopped,
        )


def finish(
    report: RunReport,
    store: str,
    stop: StopSignals,
    *,
    verify: bool,
    as_json: bool,
    collected: Path | None = None,
) -> int:
    """Verify the log of a run, print its report, and return the exit code."""
    verification = _verified(report, store) if verify else None
    if verification is not None:
        report.head = verification.head  # closing the world may have added records
    elif report.store != MEMORY:
        report.head = _last_hash(store)
    if as_json:
        is_verified = None if verification is None else verification.is_ok
        at_end = {"verified": is_verified, "interrupted": report.is_stopped}
        rows = {} if collected is None else {"collected": str(collected)}
        say_json({**report.as_dict(), **at_end, **rows})
    else:
        say_lines(report_lines(report, verification, stop.name))
        if collected is not None:
            say(f"  The collected rows are in {collected}.")
    if verification is not None and not verification.is_ok:
        return 1
    return stop.exit_code


def collected_at(scenario: Scenario, store: str, to: str | None) -> Path:
    """Return the folder of the rows that a run collects: `to`, or beside its log.

    Without a file of the log it is in the current folder.
    """
    if to is not None:
        return Path(to)
    path = file_of(open_event_log(store))
    name = Path(scenario.name) if path is None else path
    return name.with_name(f"{name.name}.collected")


def _announce(run: OpenRun) -> None:
    if run.metrics_url is not None:
        notify(f"metrics at {run.metrics_url}")


def _last_hash(store: str) -> str:
    log = log_to_read(store)
    ((_, data),) = log.read(log.count() - 1)
    return record_hash(data).hex()


def _verified(report: RunReport, store: str) -> IntegrityReport | None:
    """Verify the log; None if none was kept.

    Raises:
        CommandError: The log is sound, but is of another world than the one that was run.
    """
    if report.store == MEMORY:
        return None
    # By the name that was given: what a report shows has no password.
    verification = check_integrity(with_bar(log_to_read(store), "verify"))
    position = (verification.seq, verification.digest)
    if verification.is_ok and position != (report.seq, report.digest):
        raise CommandError(
            f"the log {report.store} is not of this run: expected seq {report.seq} and digest "
            f"{report.digest}, it reaches {position[0]} and {position[1]}; did another program "
            "write to it?"
        )
    return verification
