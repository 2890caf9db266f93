"""`placet bisect`: the first record in which two logs of one world differ."""

from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.domains import AgainBy, again_by
from placet.cli.progress import read_log
from placet.cli.terminal import (
    Line,
    Output,
    StoreArgument,
    TextTable,
    pluralize,
    text_or_json,
    with_json,
)

if TYPE_CHECKING:
    from placet.history.bisect import FirstDifference


@with_json
def bisect(
    store: StoreArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another log of the same world.")],
    domain: AgainBy = None,
) -> Output:
    """Find the first record where two logs differ.

    For example the logs of one scenario run on two machines, or by two releases. It compares hash
    chains, so it reads about twenty records of a long log. Exit code 1 if a record differs, 0 if
    the shorter log is the beginning of the longer one.
    """
    from placet.history.bisect import bisect as find_parting  # noqa: PLC0415  # and pydantic with it

    first, second = (read_log(log, "bisect") for log in (store, other))
    parting = find_parting(first, second, again_by(domain, first, second))
    return Output(parting.as_dict, _lines(store, other, parting), bool(parting.shared))


def _lines(store: str, other: str, parting: "FirstDifference") -> list[Line]:
    differs = ", ".join(parting.set_up)
    besides = [f"The headers of the logs differ: {differs}"] if differs else []
    if parting.renumbered is not None:
        besides.append(
            f"From record {parting.renumbered} on the batch numbers differ, as after a restart: "
            "numbers of batches without a record are used again"
        )
    read = f"{pluralize(parting.reads, 'record')} read"
    if parting.shared:
        but = "" if parting.renumbered is None else " but for batch numbers,"
        shared = pluralize(parting.record, "record")
        return [
            *besides,
            f"{store} and {other} are equal{but} in all {shared} that both have; {read}",
        ]
    rows = [
        ("difference", parting.part),
        (store, text_or_json(parting.values[0])),
        (other, text_or_json(parting.values[1])),
    ]
    if parting.rule:
        rows.append(("rule", parting.rule))
    rows += [
        ("random draw", f"{d['purpose']} at seq {d['seq']}: {d['value']:g}") for d in parting.draws
    ]
    as_which = {
        "first": store,
        "second": other,
        "neither": "neither",
        "both": "both, each by the rules of its log",
    }
    if parting.decided_as is not None:
        rows.append(("re-executed", f"as in {as_which[parting.decided_as]}"))
    return [
        *besides,
        f"{store} and {other} first differ at record {parting.record}, after seq {parting.seq}",
        TextTable(rows),
        *_about_forks(store, other, parting),
        read,
    ]


def _about_forks(store: str, other: str, parting: "FirstDifference") -> list[str]:
    """Return the command that compares a fork with its parent, if the logs differ by a fork."""
    for name, record in ((store, parting.first), (other, parting.second)):
        if isinstance(record, dict) and record["type"] == "fork_adopted":
            return [
                f"{name} was forked here; `placet diff {store} {other}` compares the two worlds"
            ]
    return []
