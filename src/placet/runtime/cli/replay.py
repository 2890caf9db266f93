"""`placet replay`: fold a log, and show the world as it was at a seq."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from placet.kernel.state import State
from placet.runtime.cli.stores import log_to_read
from placet.runtime.cli.terminal import (
    AsJson,
    CommandError,
    StoreArgument,
    printable,
    say,
    say_json,
)
from placet.runtime.log_reader import fold
from placet.schemas.codec import Json


def replay(
    store: StoreArgument,
    to_seq: Annotated[
        int | None, typer.Option("--to", min=0, metavar="SEQ", help="Stop there; else at the end.")
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="Show the state at collection, collection/entity or collection/entity/field; "
            "/ is all of it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fold a log into the world as it was at a seq. Nothing is executed again."""
    past = fold(log_to_read(store), to_seq)
    report: dict[str, Json] = {"seq": past.ledger.seq, "digest": past.state.digest().hex()}
    if path is not None:
        report["state"] = state_at(past.state, path, past.ledger.seq)
    if as_json:
        say_json(report)
        return
    say(f"seq     {report['seq']}")
    say(f"digest  {report['digest']}")
    if path is not None:
        say(f"state   {path.strip('/') or '/'}")
        for line in json.dumps(report["state"], indent=2, ensure_ascii=False).splitlines():
            say(f"  {printable(line)}")


def state_at(state: State, path: str, seq: int) -> Json:
    """Copy what is at a path of the state.

    Raises:
        CommandError: There is nothing.
    """
    collection, _, rest = path.strip("/").partition("/")
    tree = state.as_dict()
    if not collection:
        return tree
    if collection not in tree:
        raise _nothing(path, seq, "a collection", tree)
    entities = tree[collection]
    # The id of an entity may hold a slash; then the longest id that is there is meant.
    entity, _, field = rest.rpartition("/")
    if not rest:
        return entities
    if rest in entities:
        return entities[rest]
    if entity not in entities:
        raise _nothing(path, seq, f"an entity of {collection}", entities)
    if field not in entities[entity]:
        raise _nothing(path, seq, f"a field of {collection}/{entity}", entities[entity])
    return entities[entity][field]


def _nothing(path: str, seq: int, expected: str, there: Mapping[str, Json]) -> CommandError:
    names = list(there)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")  # noqa: PLR2004  # a line's worth
    return CommandError(
        f"there is nothing at {path!r} at seq {seq}: expected {expected}; "
        f"there are {shown or 'none'}"
    )
