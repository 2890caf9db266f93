"""`placet run`: live through a scenario, and report."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from placet.runtime.cli.run_report import report_lines
from placet.runtime.cli.signals import StopSignals
from placet.runtime.cli.stores import fresh_store, log_to_read, require_fresh
from placet.runtime.cli.terminal import AsJson, CommandError, say, say_json
from placet.runtime.facade import Orchestrator
from placet.runtime.log_reader import Verification
from placet.runtime.log_reader import verify as verify_log
from placet.runtime.scenarios import Scenario, load
from placet.runtime.scenarios.runner import RunReport, ScenarioRunner
from placet.runtime.scenarios.scenario import AGENTS_MAX, TICKS_MAX

SEED_MAX = 2**63 - 1


def run(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A bundled name such as town, or a TOML file.")
    ],
    agents: Annotated[
        int | None,
        typer.Option(
            min=0, max=AGENTS_MAX, metavar="N", help="How many, shared out among the groups."
        ),
    ] = None,
    ticks: Annotated[
        int | None, typer.Option(min=0, max=TICKS_MAX, metavar="T", help="How many steps of time.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=SEED_MAX, metavar="S", help="Same seed, same digest."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the log goes: a path ending in .db, sqlite:///town.db, or memory://. "
            "Without it, a fresh file in this folder: town.db, then town-2.db, ...",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the scenario: settings.max_step=2. Repeat."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, metavar="P", help="Serve Prometheus metrics there; 0 is any port."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Live through a scenario: agents propose, the gate decides, a log keeps it.

    The log is verified afterwards. Ctrl-C ends the run after the tick in flight, and reports.
    """
    chosen = _chosen(scenario, agents, ticks, seed, settings or [])
    if store is None:
        store = fresh_store(chosen.name)
    require_fresh(store)
    with StopSignals() as stop, _progress(chosen) as on_tick:
        runner = ScenarioRunner(
            chosen,
            store=store,
            metrics_port=metrics_port,
            on_open=_announce,
            on_tick=on_tick,
            is_stopped=stop.is_set,
        )
        report = asyncio.run(runner.run())
    verification = _verified(report)
    if as_json:
        kept = None if verification is None else verification.is_ok
        say_json({**report.as_dict(), "verified": kept, "interrupted": report.is_stopped})
    else:
        for line in report_lines(report, verification, stop.name):
            say(line)
    if verification is not None and not verification.is_ok:
        return 1
    return stop.exit_code


def _chosen(
    name: str, agents: int | None, ticks: int | None, seed: int | None, settings: list[str]
) -> Scenario:
    numbers = {"ticks": ticks, "seed": seed}
    overrides = [f"{key}={value}" for key, value in numbers.items() if value is not None]
    scenario = load(name, overrides=[*settings, *overrides])
    return scenario if agents is None else scenario.with_agents(agents)


def _announce(world: Orchestrator) -> None:
    if world.metrics_url is not None:
        sys.stderr.write(f"metrics at {world.metrics_url}\n")


@contextmanager
def _progress(scenario: Scenario) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, and nothing anywhere else."""
    if not sys.stderr.isatty():
        yield lambda tick: None
        return
    # Here, because it costs a sixth of a second.
    from rich.console import Console  # noqa: PLC0415  # see above
    from rich.progress import (  # noqa: PLC0415  # see above
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ticks"),
        TimeRemainingColumn(),
    )
    description = f"{scenario.name}, {scenario.agents_count} agents"
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=scenario.ticks)
        yield lambda tick: progress.update(task, completed=tick)


def _verified(report: RunReport) -> Verification | None:
    """Read back what was written; None where it was not kept.

    Raises:
        CommandError: The log holds, and is of another world than the one that was lived through.
    """
    if report.store == "memory://":
        return None
    verification = verify_log(log_to_read(report.store))
    told = (verification.seq, verification.digest)
    if verification.is_ok and told != (report.seq, report.digest):
        raise CommandError(
            f"the log {report.store} is not of this run: expected seq {report.seq} and digest "
            f"{report.digest}, it reaches {told[0]} and {told[1]}; did another program write to it?"
        )
    return verification
