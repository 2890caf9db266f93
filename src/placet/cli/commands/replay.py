"""`placet replay`: fold a log, and show the world as it was at a seq."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from placet.cli.progress import read_log
from placet.cli.terminal import CommandError, Output, StoreArgument, with_json
from placet.history.reader import fold
from placet.kernel.state.tree import State, WorldState
from placet.runtime.state_path import state_at
from placet.schemas.codec import Json

_NAMES_SHOWN: Final = 8


@with_json
def replay(
    store: StoreArgument,
    to_seq: Annotated[
        int | None,
        typer.Option(
            "--to", min=0, metavar="SEQ", help="Stop at this seq. Default: the end of the log."
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Show the state at collection, collection/entity or collection/entity/field; "
            "/ shows all.",
        ),
    ] = None,
) -> Output:
    """Fold a log into the world at a seq.

    The recorded changes are applied; no rule and no effect is executed.
    """
    past = fold(read_log(store, "replay"), to_seq)
    report: dict[str, Json] = {"seq": past.ledger.seq, "digest": past.state.digest().hex()}
    if path is not None:
        report["state"] = _state_at(past.state, path, past.ledger.seq)
    return Output(report, _lines(report, path))


def _lines(report: Mapping[str, Json], path: str | None) -> Iterator[str]:
    yield f"seq     {report['seq']}"
    yield f"digest  {report['digest']}"
    if path is not None:
        yield f"state   {path.strip('/') or '/'}"
        for line in json.dumps(report["state"], indent=2, ensure_ascii=False).splitlines():
            yield f"  {line}"


def _state_at(state: State, path: str, seq: int) -> Json:
    """Copy the state at a path.

    Raises:
        CommandError: There is nothing; the nearest thing that is there is listed.
    """
    world = WorldState(state)
    try:
        return state_at(world, path)
    except KeyError:
        pass
    name, _, rest = path.strip("/").partition("/")
    entity = rest.rpartition("/")[0]
    if name not in world:
        raise _nothing(path, seq, "a collection", world)
    if entity not in world[name]:
        raise _nothing(path, seq, f"an entity of {name}", world[name])
    raise _nothing(path, seq, f"a field of {name}/{entity}", world[name][entity])


def _nothing(path: str, seq: int, expected: str, there: Mapping[str, Json]) -> CommandError:
    names = list(there)
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return CommandError(
        f"there is nothing at {path!r} at seq {seq}: expected {expected}; "
        f"there are {shown or 'none'}"
    )
