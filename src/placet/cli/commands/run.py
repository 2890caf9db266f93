"""`placet run`: run a scenario, and print a report."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from placet.cli.signals import StopSignals
from placet.cli.terminal import AsJson
from placet.runtime.snapshots.writer import EVERY_SEQS
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_TICKS_MAX

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
    typer.Option(
        min=0, max=SCENARIO_AGENTS_MAX, metavar="N", help="How many, shared out among the groups."
    ),
]
_Ticks: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, max=SCENARIO_TICKS_MAX, metavar="T", help="How many steps of time."),
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
    """Run a scenario and print a report.

    Once per tick every agent observes, submits a batch, and gets its verdict. The log is verified
    afterwards. Ctrl-C ends the run after the current tick, with a report; resume an interrupted run
    with --resume.
    """
    # Here, because scenarios and what checks them are 60 ms that the help need not pay.
    from placet.cli.commands.run_session import finish, live, resumed, start  # noqa: PLC0415

    if resume is None:
        chosen, store = start(scenario, agents, ticks, seed, store, settings or [])
        world = None
    else:
        _require_alone(resume, (scenario, agents, ticks, seed, store, settings or None))
        chosen, store, world = resumed(resume)
    stop = StopSignals()
    report = live(
        chosen,
        stop,
        store=store,
        is_resumed=resume is not None,
        world=world,
        metrics_port=metrics_port,
        snapshot_every_seqs=snapshot_every,
        compact_log=compact,
    )
    return finish(report, store, stop, as_json=as_json)


def _require_alone(store: str, others: Sequence[object]) -> None:
    if any(one is not None for one in others):
        raise typer.BadParameter(
            f"--resume {store} goes on with the run as it was begun: it takes no SCENARIO, "
            "--agents, --ticks, --seed, --store or --set"
        )
