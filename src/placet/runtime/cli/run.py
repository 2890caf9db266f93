"""`placet run`: live through a scenario, and report."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final, TypeAlias

import typer

from placet.runtime.cli.run_report import report_lines
from placet.runtime.cli.signals import StopSignals
from placet.runtime.cli.stores import fresh_store, log_to_read, require_fresh
from placet.runtime.cli.terminal import AsJson, CommandError, say, say_json
from placet.runtime.collector_cpython import calmed_collector
from placet.runtime.facade import Orchestrator
from placet.runtime.history.log_reader import Verification
from placet.runtime.history.log_reader import verify as verify_log
from placet.runtime.scenarios import Scenario, load
from placet.runtime.scenarios.loading import split_override
from placet.runtime.scenarios.resuming import begun_run
from placet.runtime.scenarios.runner import RunReport, ScenarioRunner
from placet.runtime.scenarios.scenario import AGENTS_MAX, TICKS_MAX, ScenarioError
from placet.runtime.snapshots.taking import EVERY_SEQS
from placet.runtime.stores.event_log_url import file_of

_SEED_MAX: Final = 2**63 - 1

_Scenario: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO", help="A bundled name such as town, or a TOML file."),
]
_Resume: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="STORE",
        help="Instead of a scenario: go on with the run that a log holds, to the end it would "
        "have had.",
    ),
]
_SnapshotEvery: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1, metavar="SEQS", help="Take a snapshot after so many seqs; opening then takes less."
    ),
]
_Compact: TypeAlias = Annotated[
    bool, typer.Option("--compact", help="Remove from the log what two snapshots hold.")
]
_Agents: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, max=AGENTS_MAX, metavar="N", help="How many, shared out among the groups."),
]
_Ticks: TypeAlias = Annotated[
    int | None, typer.Option(min=0, max=TICKS_MAX, metavar="T", help="How many steps of time.")
]
_Seed: TypeAlias = Annotated[
    int | None, typer.Option(min=0, max=_SEED_MAX, metavar="S", help="Same seed, same digest.")
]
_Store: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the log goes: a path ending in .db, sqlite:///town.db, or memory://. "
        "Without it, a fresh file in this folder: town.db, then town-2.db, ...",
    ),
]
_Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change the scenario: settings.max_step=2. Repeat."
    ),
]
_MetricsPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="P", help="Serve Prometheus metrics there; 0 is any port."
    ),
]


def run(
    scenario: _Scenario = None,
    *,
    resume: _Resume = None,
    agents: _Agents = None,
    ticks: _Ticks = None,
    seed: _Seed = None,
    store: _Store = None,
    settings: _Settings = None,
    metrics_port: _MetricsPort = None,
    snapshot_every: _SnapshotEvery = EVERY_SEQS,
    compact: _Compact = False,
    as_json: AsJson = False,
) -> int:
    """Live through a scenario, keep its log, and report.

    Once per tick every agent looks, proposes a batch, and gets its verdict. The log is verified
    afterwards. Ctrl-C ends the run after the tick in flight, and reports; what was stopped, or
    killed, is gone on with by --resume.
    """
    if resume is None:
        chosen, store = _begun(scenario, agents, ticks, seed, store, settings or [])
    else:
        _require_alone(resume, (scenario, agents, ticks, seed, store, settings or None))
        chosen, store = _resumed(resume)
    stop = StopSignals()
    runner = partial(
        ScenarioRunner,
        chosen,
        store=store,
        is_resumed=resume is not None,
        metrics_port=metrics_port,
        snapshot_every_seqs=snapshot_every,
        compact_log=compact,
        on_open=_announce,
        is_stopped=stop.is_set,
    )
    return _concluded(_live(chosen, runner, stop), store, stop, as_json=as_json)


def _begun(
    name: str | None,
    agents: int | None,
    ticks: int | None,
    seed: int | None,
    store: str | None,
    settings: list[str],
) -> tuple[Scenario, str]:
    """Choose what to begin, and where."""
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


def _require_alone(store: str, others: Sequence[object]) -> None:
    if any(one is not None for one in others):
        raise typer.BadParameter(
            f"--resume {store} goes on with the run as it was begun: it takes no SCENARIO, "
            "--agents, --ticks, --seed, --store or --set"
        )


def _resumed(store: str) -> tuple[Scenario, str]:
    """Find the run that a store holds.

    Raises:
        CommandError: It holds none.
    """
    log = log_to_read(store)
    begun = begun_run(log)
    if begun is None:
        raise CommandError(
            f"{store} holds no run to go on with: its first record names no scenario. "
            "What `placet gate` wrote goes on with `placet gate --store`, what a program wrote "
            "with that program"
        )
    return begun.scenario, store if file_of(log) is None else log.url


def _chosen(
    name: str, agents: int | None, ticks: int | None, seed: int | None, settings: list[str]
) -> Scenario:
    numbers = {"ticks": ticks, "seed": seed}
    overrides = [f"{key}={value}" for key, value in numbers.items() if value is not None]
    scenario = load(name, overrides=[*settings, *overrides])
    return scenario if agents is None else scenario.with_agents(agents)


def _live(
    scenario: Scenario, runner: Callable[..., ScenarioRunner], stop: StopSignals
) -> RunReport:
    with stop, _progress(scenario) as on_tick, calmed_collector():
        return asyncio.run(runner(on_tick=on_tick).run())


def _concluded(report: RunReport, store: str, stop: StopSignals, *, as_json: bool) -> int:
    """Verify what was written, report, and give the exit code."""
    verification = _verified(report, store)
    if as_json:
        kept = None if verification is None else verification.is_ok
        say_json({**report.as_dict(), "verified": kept, "interrupted": report.is_stopped})
    else:
        for line in report_lines(report, verification, stop.name):
            say(line)
    if verification is not None and not verification.is_ok:
        return 1
    return stop.exit_code


def _announce(world: Orchestrator) -> None:
    if world.metrics_url is not None:
        sys.stderr.write(f"metrics at {world.metrics_url}\n")


@contextmanager
def _progress(scenario: Scenario) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, and nothing anywhere else."""
    if not sys.stderr.isatty():
        yield lambda _: None
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


def _verified(report: RunReport, store: str) -> Verification | None:
    """Read back what was written; None where it was not kept.

    Raises:
        CommandError: The log holds, and is of another world than the one that was lived through.
    """
    if report.store == "memory://":
        return None
    # By the name that was given: what a report shows has no password.
    verification = verify_log(log_to_read(store))
    told = (verification.seq, verification.digest)
    if verification.is_ok and told != (report.seq, report.digest):
        raise CommandError(
            f"the log {report.store} is not of this run: expected seq {report.seq} and digest "
            f"{report.digest}, it reaches {told[0]} and {told[1]}; did another program write to it?"
        )
    return verification
