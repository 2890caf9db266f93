"""`placet run`: run a scenario, and print a report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from placet.cli import completion
from placet.cli.signals import StopSignals
from placet.cli.terminal import AsJson, CommandError, complain
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SCENARIO_AGENTS_MAX, SCENARIO_TICKS_MAX, SEED_MAX
from placet.stores.snapshots.writer import EVERY_SEQS

if TYPE_CHECKING:
    from placet.cli.watch import Steering, Watch
    from placet.scenarios.scenario import Scenario

_Scenario: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO",
        help="A bundled name such as town, or a TOML file.",
        autocompletion=completion.scenarios,
    ),
]
_Resume: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="STORE",
        help="Instead of SCENARIO: resume the unfinished run of this log, up to its last tick.",
    ),
]
_SnapshotEvery: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="SEQS",
        help="Take a snapshot each time the seq has grown by this; the log then opens faster.",
    ),
]
_Compact: TypeAlias = Annotated[
    bool, typer.Option("--compact", help="Remove the records that two snapshots replace.")
]
_Agents: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=SCENARIO_AGENTS_MAX,
        metavar="N",
        help="Number of agents, divided among the scenario's cohorts.",
    ),
]
_Ticks: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, max=SCENARIO_TICKS_MAX, metavar="T", help="Number of steps of time."),
]
_Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0, max=SEED_MAX, metavar="S", help="Seed; the same seed gives the same digest."
    ),
]
_Store: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the log goes: a path ending in .db, sqlite:///town.db, or memory://. "
        "Default: a new file in this folder: town.db, then town-2.db, ...",
    ),
]
_Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the scenario, such as settings.max_step=2. Repeatable.",
    ),
]
_MetricsPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="P",
        help="Serve Prometheus metrics at this port; 0 chooses a free one.",
    ),
]
_CollectTo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--collect-to",
        metavar="DIR",
        help="Folder of the rows that the scenario collects. Default: beside the log, "
        "town.db.collected.",
    ),
]
_NoVerify: TypeAlias = Annotated[
    bool, typer.Option("--no-verify", help="Do not read the log again to verify it.")
]
_Watch: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--watch", help="Print the address of a player that shows the run in the browser."
    ),
]
_TicksPerSecond: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="With --watch: most ticks in a second of real time; the page can change it. "
        "Default: no limit.",
    ),
]
_Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Call the policies on N processes; digest and log stay the same.",
    ),
]
_ThinkTimeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        help="Longest thinking of a worker in a tick, seconds; a late one is replaced. "
        "Default: 600.",
    ),
]
_On: TypeAlias = Annotated[
    Literal["here", "ray"] | None,
    typer.Option(help="Workers are processes of this machine, or on Ray. Default: here."),
]
_RayAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Head of a Ray cluster. Default: a Ray of this run alone, on this machine.",
    ),
]
_WorkerGpus: TypeAlias = Annotated[
    float | None, typer.Option(min=0, metavar="G", help="GPUs that Ray reserves for a worker.")
]


_WORKER_OPTIONS: Final = ("workers", "think-timeout", "on", "ray-address", "worker-gpus")


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
    collect_to: _CollectTo = None,
    no_verify: _NoVerify = False,
    watch: _Watch = False,
    ticks_per_second: _TicksPerSecond = None,
    workers: _Workers = None,
    think_timeout: _ThinkTimeout = None,
    on: _On = None,
    ray_address: _RayAddress = None,
    worker_gpus: _WorkerGpus = None,
    steered: Annotated[bool, typer.Option(hidden=True)] = False,
    as_json: AsJson = False,
) -> int:
    """Run a scenario and print a report.

    Once per tick every agent observes, submits a batch, and gets its verdict. The log is verified
    afterwards, unless --no-verify is given. Ctrl-C ends the run after the current tick, with a
    report; resume an interrupted run with --resume.
    """
    # Here, because scenarios and what checks them are 60 ms that the help need not pay.
    from placet.cli.commands import run_session as session  # noqa: PLC0415  # see above

    called_by = session.workers_of(workers, think_timeout, on, ray_address, worker_gpus)
    if steered and resume is None:
        chosen, store, world = session.described()
    elif resume is None:
        chosen, store, world = session.start(scenario, agents, ticks, seed, store, settings or [])
    else:
        _require_alone(resume, (scenario, agents, ticks, seed, store, settings or None))
        chosen, store, world = session.resumed(resume)
    session.require_speed(ticks_per_second, chosen, watch=watch or steered)
    stop = StopSignals()
    collected = session.collected_at(chosen, store, collect_to)
    watching: Steering | None = session.steering(stop, ticks_per_second) if steered else None
    if watch:
        how = (snapshot_every, compact, workers, think_timeout, on, ray_address, worker_gpus)
        watching = _watch(chosen, store, stop, scenario, ticks_per_second, _options_again(*how))
    with _watched(watching, stop):
        report = session.live(
            chosen,
            stop,
            watching,
            collected,
            store=store,
            is_resumed=resume is not None,
            world=world,
            metrics_port=metrics_port,
            snapshot_every_seqs=snapshot_every,
            compact_log=compact,
            workers=called_by,
        )
        show = partial(session.finish, as_json=as_json, on_workers=called_by is not None)
        return show(report, store, stop, verify=not no_verify, collected=collected)


@contextmanager
def _watched(watching: "Steering | None", stop: StopSignals) -> Iterator[None]:
    """End the player after a run. It stays on a terminal; the error of a run is printed before."""
    try:
        yield
    except PlacetError as error:
        if watching is None:
            raise
        complain(str(error))
        watching.end(stays=not stop.is_set())
        raise typer.Exit(1) from error
    if watching is not None:
        watching.end(stays=not stop.is_set())


def _watch(
    scenario: "Scenario",
    store: str,
    stop: StopSignals,
    portrayal: str | None,
    ticks_per_second: float | None,
    options: Sequence[str],
) -> "Watch":
    """Return the player of a run that begins.

    Args:
        scenario: The scenario.
        store: The store of its log.
        stop: The signals that end the run.
        portrayal: Name or path of the scenario that has the portrayal.
        ticks_per_second: Most ticks in a second of real time; None is no limit.
        options: Options of the runs that the page starts.

    Raises:
        CommandError: Another process cannot read the log, or the player is not installed.
    """
    from placet.cli.watch import Watch  # noqa: PLC0415  # beside its one use

    if store.startswith("memory:"):
        raise CommandError(
            "--watch reads the log in another process, which cannot read one in memory; "
            "leave out --store, or give a path such as town.db"
        )
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise CommandError(
            "--watch needs the extra serve: pip install '.[serve]' in a clone of placet"
        )
    # A domain of a script is in no package: the log does not name the place of its module.
    given = [scenario.domain] if ":" in scenario.domain else []
    is_paced = scenario.clock == "stepped"
    return Watch(
        store,
        stop.is_set,
        given,
        portrayal if scenario.portrayal else None,
        ticks_per_second,
        is_paced=is_paced,
        options=options,
    )


def _options_again(
    snapshot_every: int,
    compact: bool,
    *workers: object,  # an option
) -> list[str]:
    """Return the options of a run that the page of its player starts: how it runs, not what."""
    named = zip(_WORKER_OPTIONS, workers, strict=True)
    return [
        f"--snapshot-every={snapshot_every}",
        *(["--compact"] if compact else ()),
        *(f"--{name}={value}" for name, value in named if value is not None),
    ]


def _require_alone(store: str, others: Sequence[object]) -> None:
    if any(value is not None for value in others):
        raise typer.BadParameter(
            f"--resume {store} keeps the settings of the run: it takes no SCENARIO, "
            "--agents, --ticks, --seed, --store or --set"
        )
