"""The run of a scenario by one command: start or resume, run, verify, report."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from math import inf
from pathlib import Path
from shlex import quote
from typing import Any, Final

import typer

from placet.cli.progress import progress_bar, read_log
from placet.cli.signals import StopSignals
from placet.cli.stores import fresh_store, require_fresh
from placet.cli.terminal import (
    ColoredLine,
    CommandError,
    Line,
    TextTable,
    notify,
    number,
    pluralize,
    say,
    say_json,
    say_lines,
    shorten,
)
from placet.cli.watch import Steering
from placet.history.reader import IntegrityReport, check_integrity
from placet.plugins.domains import BUNDLED
from placet.scenarios import Scenario, ScenarioError
from placet.scenarios.collecting import collector_of, is_left_out
from placet.scenarios.engine import OpenRun, run_scenario
from placet.scenarios.failure_note import noting_failure
from placet.scenarios.loader import split_override
from placet.scenarios.policies import column_policies_of, policies_of
from placet.scenarios.report import RunReport
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import from_text
from placet.scenarios.thinking import THINK_TIMEOUT_S, Workers, WorkersOn
from placet.schemas.codec import from_json
from placet.schemas.log.record import record_hash
from placet.schemas.printable import printable
from placet.stores.gc_tuning import tuned_gc
from placet.stores.reading import log_to_read
from placet.stores.url import file_of, open_event_log
from placet.tables.parts import collected_beside

_EXAMPLE_CHARACTERS: Final = 100

PAYS_FROM_US: Final = 100
"""Thinking of an agent-tick below which workers cost more than they give, microseconds of CPU.

With 125 to 190 us, the critical path of 2 workers was 1.1 to 1.5 times as short (2 shared cores,
2026-11-27, benchmarks/bench_workers.py).
"""

MEMORY: Final = "memory://"
"""The store of a run that keeps no log."""


def start(
    name: str | None,
    agents: int | None,
    ticks: int | None,
    seed: int | None,
    store: str | None,
    settings: list[str],
) -> tuple[Scenario, str, str]:
    """Return the scenario of a new run, the store for its log, and the name of its world.

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
    numbers = {"ticks": ticks, "seed": seed}
    overrides = [f"{key}={value}" for key, value in numbers.items() if value is not None]
    chosen = Scenario.load(name, overrides=[*settings, *overrides])
    if agents is not None:
        chosen = chosen.with_agents(agents)
    if store is None:
        return chosen, fresh_store(chosen.name), chosen.name
    require_fresh(store)
    return chosen, store, chosen.name


def described() -> tuple[Scenario, str, str]:
    """Return the scenario, the store and the world of the first line of standard input.

    Raises:
        CommandError: The store holds a world already.
        ScenarioError: The scenario is invalid, or one of its policies is not installed.
    """
    given = from_json(sys.stdin.readline())
    scenario, store = from_text(given["store"], given["scenario"]), given["store"]
    policies_of(store, scenario.agents)
    column_policies_of(store, scenario.populations)
    require_fresh(store)
    return scenario, store, given["world"]


def steering(stop: StopSignals, ticks_per_second: float | None) -> Steering:
    """Return the steering of a run that a player has started: by lines of standard input."""
    return Steering(stop.is_set, ticks_per_second)


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
    column_policies_of(store, recorded_run.scenario.populations)
    return recorded_run.scenario, store if file_of(log) is None else log.url, recorded_run.world


def workers_of(
    count: int | None,
    timeout_s: float | None,
    on: WorkersOn | None,
    address: str | None,
    gpus: float | None,
) -> Workers | None:
    """Return the workers of the options of a command; None if the policies are called without.

    Raises:
        BadParameter: A value is invalid, or an option stands without --workers.
    """
    if count is None:
        for name, value in (
            *(("think-timeout", timeout_s), ("on", on)),
            *(("ray-address", address), ("worker-gpus", gpus)),
        ):
            if value is not None:
                raise typer.BadParameter(f"--{name} belongs to --workers")
        return None
    if on != "ray" and (address is not None or gpus is not None):
        raise typer.BadParameter("--ray-address and --worker-gpus belong to --on ray")
    timeout_s = THINK_TIMEOUT_S if timeout_s is None else timeout_s
    try:
        return Workers(count, on or "here", address, gpus or 0.0, timeout_s)
    except ScenarioError as error:
        raise typer.BadParameter(str(error)) from error


def require_speed(ticks_per_second: float | None, scenario: Scenario, *, watch: bool) -> None:
    """Check the speed of a run that is watched, or steered by the player that started it.

    Raises:
        CommandError: It is no number above 0, or the run is not watched, or does not wait.
    """
    if ticks_per_second is None:
        return
    if not (watch and 0 < ticks_per_second < inf):
        raise CommandError(
            f"--ticks-per-second needs --watch and a number above 0, got {ticks_per_second:g}"
        )
    if scenario.clock != "stepped":
        raise CommandError(
            f"--ticks-per-second needs a scenario with clock = 'stepped', which waits; that of "
            f"{scenario.name} is {scenario.clock!r}"
        )


def live(
    scenario: Scenario,
    stop: StopSignals,
    watch: Steering | None,
    collect_to: Path | None,
    **options: Any,  # noqa: ANN401  # those of run_scenario
) -> RunReport:
    """Run a scenario from its start, or from where it was interrupted, to its end or a signal."""

    def opened(run: OpenRun) -> None:
        if run.metrics_url is not None:
            notify(f"metrics at {run.metrics_url}")
        if watch is not None:
            watch.open(run)
        begin()

    description = f"{scenario.name}, {scenario.agents_count + scenario.members_count} agents"
    # Ray prints about its nodes on stdout, where the report is the only document.
    workers: Workers | None = options.get("workers")
    quiet = redirect_stdout(sys.stderr) if workers and workers.on == "ray" else nullcontext()
    noted = noting_failure(options["store"])
    bar = progress_bar(description, scenario.ticks, "ticks")
    with noted as begin, quiet, stop, bar as on_tick, tuned_gc():

        def ticked(ticks: int) -> None:
            on_tick(ticks)
            if watch is not None:
                watch.note_tick()

        return run_scenario(
            scenario,
            collector=None if collect_to is None else collector_of(scenario, collect_to),
            on_open=opened,
            on_tick=ticked,
            is_stopped=stop.is_set if watch is None else watch.is_stopped,
            **options,
        )


def finish(
    report: RunReport,
    store: str,
    stop: StopSignals,
    *,
    verify: bool,
    as_json: bool,
    collected: Path | None = None,
    on_workers: bool = False,
    portrayal: str | None = None,
) -> int:
    """Verify the log of a run, print its report, and return the exit code.

    `portrayal` is the path of a scenario file that says how a player draws the run.
    """
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
        say_lines(
            report_lines(
                report, verification, stop.name, on_workers=on_workers, portrayal=portrayal
            )
        )
        if collected is not None:
            say(f"  The collected rows are in {collected}.")
    if verification is not None and not verification.is_ok:
        return 1
    return stop.exit_code


def drawn_by(scenario: Scenario, name: str | None) -> str | None:
    """Return the path of the file that says how a player draws a run; None of another run.

    A player finds the portrayals of bundled scenarios by the log.
    """
    return name if name is not None and scenario.portrayal and Path(name).is_file() else None


def collected_at(scenario: Scenario, store: str, to: str | None) -> Path | None:
    """Return the folder of the rows that a run collects: `to`, or beside its log.

    None if it collects none. Without a file of the log it is in the current folder; an optional
    table is collected there only if `to` is given.

    Raises:
        BadParameter: `to` is given, and the run collects none.
    """
    if scenario.collect is None:
        if to is not None:
            raise typer.BadParameter("--collect-to needs a scenario with a [collect] table")
        return None
    if to is not None:
        return Path(to)
    path = file_of(open_event_log(store))
    if is_left_out(scenario) or (scenario.collect.optional and path is None):
        return None
    if path is not None and not path.parent.is_dir():
        return None  # the log cannot be opened, which is the error to report: make no folder
    return collected_beside(Path(scenario.name) if path is None else path)


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
    # By the given name: the report's name of the store has no password.
    verification = check_integrity(read_log(store, "verify"))
    position = (verification.seq, verification.digest)
    if verification.is_ok and position != (report.seq, report.digest):
        raise CommandError(
            f"the log {report.store} is not of this run: expected seq {report.seq} and digest "
            f"{report.digest}, it reaches {position[0]} and {position[1]}; did another program "
            "write to it?"
        )
    return verification


def report_lines(
    report: RunReport,
    verification: IntegrityReport | None,
    stopped_by: str,
    *,
    on_workers: bool = False,
    portrayal: str | None = None,
) -> Iterator[Line]:
    """Yield the report of a run as lines and tables: results, log verification, next commands.

    Args:
        report: Results of the run.
        verification: Verification of the run's log; None if it was not verified.
        stopped_by: Name of the signal that ended the run, if one did.
        portrayal: Path of a scenario file that says how a player draws the run; None of another.
        on_workers: Workers called the policies.
    """
    scenario = report.scenario
    yield f"{scenario.name}: {scenario.title}" if scenario.title else scenario.name
    if report.resumed_at is not None:
        yield f"resumed at tick {report.resumed_at} of {scenario.ticks}"
    if report.is_stopped:
        note = "" if report.store == MEMORY else "; the log has all of them"
        yield f"stopped by {stopped_by} after tick {report.ticks} of {scenario.ticks}{note}"
    if report.has_ended:
        yield f"ended by {scenario.until} after tick {report.ticks} of {scenario.ticks}"
    yield ""
    yield TextTable(_figures(report))
    if on_workers and (spent := report.thinking_us) is not None and spent < PAYS_FROM_US:
        yield (
            f"  Workers cost more than they give here: an agent-tick is {spent:.0f} us of CPU, and "
            f"they pay from about {PAYS_FROM_US} us on, or where policies wait for something. "
            "Leave out --workers."
        )
    if report.refusals:
        yield ""
        more = report.refused_with_others
        others = f"; {number(more)} more with another intent of their batch" if more else ""
        yield f"  refused, by stage/code, with the first message of each{others}"
        yield TextTable(_refusals(report), indent="    ")
    if contests := _contests(report):
        yield ""
        yield "  contention"
        yield TextTable(contests, indent="    ")
    yield ""
    yield from _kept(report, verification, portrayal)


def _figures(report: RunReport) -> list[tuple[str, str]]:
    scenario = report.scenario
    done = report.ticks - (report.resumed_at or 0)
    people, ticks = pluralize(report.agents, "agent"), pluralize(done, "tick")
    batches = pluralize(report.batches, "batch", "batches")
    submitted, admitted = number(report.submitted), number(report.admitted)
    refused = number(report.submitted - report.admitted)
    sim_s = done * scenario.tick_s
    rows = [
        ("simulated", f"{people}, {ticks} ({sim_s:g} s), in {report.seconds:.1f} s"),
        (
            "intents",
            f"{submitted} submitted in {batches}: {admitted} admitted, {refused} refused",
        ),
        ("throughput", f"{number(report.intents_per_second)} intents/s, the agents' time included"),
    ]
    if report.thinking_us is not None:
        rows.append(("thinking", _thinking(report.thinking_us, report.silent)))
    if len(report.acts) > 1:
        acts = (
            f"{name} {number(one.admitted)} of {number(one.submitted)}"
            for name, one in sorted(report.acts.items())
        )
        rows.append(("acts", f"{', '.join(acts)} admitted"))
    p50, p99 = report.verdict_ms.get("p50"), report.verdict_ms.get("p99")
    if p50 is not None and p99 is not None:
        rows.append(
            ("verdict", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms after the batch was submitted")
        )
    if "factor" in report.time:
        lowest, behind = report.time["factor_lowest"], report.time["behind_s"]
        slow = f"{lowest:.2f} of real time at the slowest, {behind:.1f} s behind it at the end"
        rows.append(("time", slow))
    rows.append(("digest", f"{report.digest} at seq {report.seq}, seed {scenario.seed}"))
    rows.append(("head", f"{report.head} of the log's chain"))
    return rows


def _thinking(thinking_us: float, silent: int | None) -> str:
    text = f"{thinking_us:.0f} us of CPU an agent-tick"
    return f"{text}; {pluralize(silent, 'agent')} proposed nothing" if silent else text


def _refusals(report: RunReport) -> list[tuple[str, str, str]]:
    return [
        (key, number(count).rjust(7), shorten(printable(report.examples[key]), _EXAMPLE_CHARACTERS))
        for key, count in report.refusals.most_common()
    ]


def _contests(report: RunReport) -> list[tuple[str, str]]:
    """Return the rows of the table of contests; none if nothing was contested."""
    fairness = report.fairness.as_dict(report.agents)
    if not fairness["contests"]:
        return []
    won, agents = number(fairness["contests"]), pluralize(fairness["contestants"], "agent")
    even, drawn = fairness["jain_wins"], fairness["jain_wins_of_a_lottery"]
    rows = [
        ("contests", f"{won} won, {agents} took part"),
        ("Jain's index", f"wins {even:.3f}; a fair lottery would give {drawn:.3f}"),
        ("", f"decided batches {fairness['jain_decided']:.3f}; 1 means equal for every agent"),
    ]
    lost = [
        f"{loser} to {winner} {pluralize(n, 'time')}"
        for (loser, winner), n in report.fairness.top_pairs()
    ]
    return [*rows, ("most contended pairs", ", ".join(lost))] if lost else rows


def _kept(
    report: RunReport, verification: IntegrityReport | None, portrayal: str | None
) -> Iterator[Line]:
    if report.store == MEMORY:
        yield "  The log was in memory and is gone; leave out --store to keep it in a file."
        return
    name = quote(str(file_of(open_event_log(report.store)) or report.store))
    if verification is None:
        yield f"  The log is {name}; it was not verified (--no-verify)."
    elif not verification.is_ok:
        first = verification.first_divergence or {}
        why = f"  The log {name} is NOT valid from record {first['record']} on: {first['why']}"
        yield ColoredLine(why, "red")
        return
    else:
        yield ColoredLine(
            f"  The log {name} is verified: {pluralize(verification.records, 'record')}, "
            "the chain is unbroken and every digest is right.",
            "green",
        )
    if report.is_stopped:
        yield "  Resume it:"
        yield f"    placet run --resume {name}"
    yield "  Next:"
    yield f"    placet log {name} --from {max(0, report.seq - 20)}"
    agent_id = next((member.agent_id for member in report.scenario.members()), None)
    if agent_id is not None and report.scenario.domain == "world":
        yield f"    placet replay {name} --path world.agents/{agent_id}"
    drawn_by = "" if portrayal is None else f" --portrayal {quote(portrayal)}"
    yield f"    placet play {name}{drawn_by}"
    yield f"    placet report {name}{drawn_by}"
    domain = report.scenario.domain
    is_found = ":" not in domain or domain in BUNDLED.values()
    yield f"    placet verify {name}" + ("" if is_found else f" --domain {domain}")
