"""`placet collect`: collect rows from a finished or growing log, as its run would have."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from placet.actors.ports import EventLog
from placet.cli.progress import read_log
from placet.cli.terminal import CommandError, Output, StoreArgument, TextTable, number, with_json
from placet.stores.gc_tuning import tuned_gc
from placet.stores.reading import log_to_read

if TYPE_CHECKING:
    from placet.scenarios.values import Collect

_Target: TypeAlias = Annotated[
    str, typer.Option("--to", metavar="DIR", help="Folder to make for the tables.")
]
_Every: TypeAlias = Annotated[
    int | None, typer.Option(min=1, metavar="TICKS", help="Ticks between two rows.")
]
_Fields: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--agents",
        metavar="FIELD",
        help="Field of every agent, such as position or world.agents/position. Repeatable.",
    ),
]
_World: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--world",
        metavar="NAME=MODULE:FUNCTION",
        help="A column of the whole world: a function of its state, or a statistic of a field such "
        "as mean(world.agents/energy). Repeatable.",
    ),
]
_Refusals: TypeAlias = Annotated[bool, typer.Option("--refusals", help="The recorded refusals.")]


@with_json
def collect(
    store: StoreArgument,
    to: _Target,
    *,
    every: _Every = None,
    agents: _Fields = None,
    world: _World = None,
    refusals: _Refusals = False,
) -> Output:
    """Collect rows from a log, as its run would have.

    Without --agents, --world and --refusals it collects as the scenario of the run does. The rows
    are those of a run with the same [collect]; refusals that left no record are not in a log. Needs
    `pip install '.[lab]'` in a clone of placet.
    """
    # Here, because the help needs neither scenarios nor pyarrow.
    from placet.scenarios.values import Collect  # noqa: PLC0415  # see above

    functions = dict(map(_function, world or ()))
    with closing(read_log(store, "collect")) as log:
        if agents or world or refusals:
            chosen = Collect(agents=tuple(agents or ()), refusals=refusals, world=functions)
        else:
            chosen = _recorded(store)
        if every is not None:
            chosen = replace(chosen, every=every)
        rows = _collect(log, chosen, Path(to))
    table = TextTable([(name, f"{number(count):>12} rows") for name, count in rows.items()])
    return Output({"target": to, "rows": rows}, [to, table])


def _collect(log: EventLog, chosen: "Collect", to: Path) -> dict[str, int]:
    """Collect from a log into a new folder, which is there whole or not at all; count the rows."""
    from placet.scenarios.collecting import collector_for  # noqa: PLC0415  # as above
    from placet.tables.files import written_whole  # noqa: PLC0415  # as above

    with written_whole(to, is_folder=True) as draft:
        collector = collector_for(chosen, draft)
        with tuned_gc():
            collector.collect(log)
            collector.close()
        return {name: len(collected) for name, collected in collector.tables().items()}


def _function(text: str) -> tuple[str, str]:
    name, equals, target = text.partition("=")
    if not equals or not name or not (":" in target or target.endswith(")")):
        raise typer.BadParameter(
            f"expected NAME=MODULE:FUNCTION, or a statistic of a field such as "
            f"energy=mean(world.agents/energy), got {text!r}",
            param_hint="--world",
        )
    return name, target


def _recorded(store: str) -> "Collect":
    """Return the `[collect]` table of the scenario in the log of a run.

    Raises:
        CommandError: The log has no scenario, which collects something; or it names functions,
            which are imported only if the user names them: a log may be a stranger's.
    """
    from placet.scenarios.resume import find_run  # noqa: PLC0415  # see above

    run = find_run(log_to_read(store))
    recorded = None if run is None else run.scenario.collect
    if recorded is None:
        raise CommandError(
            f"the run of {store} has collected nothing; say what to collect with --agents, "
            "--world or --refusals"
        )
    if recorded.world:
        names = " ".join(f"--world {name}={path}" for name, path in recorded.world.items())
        fields = "".join(f"--agents {name} " for name in recorded.agents)
        more = "--refusals " if recorded.refusals else ""
        raise CommandError(
            f"the log of {store} names functions, and a log may be a stranger's; if you trust "
            f"them: {fields}{more}--every {recorded.every} {names}"
        )
    return recorded
