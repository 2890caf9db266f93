"""`placet bisect`: where two logs of one world part."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.domains import AgainBy
from placet.cli.stores import log_to_read
from placet.cli.terminal import AsJson, StoreArgument, printable, say, say_json, table
from placet.runtime.plugins import remake
from placet.schemas.codec import Json, to_json

if TYPE_CHECKING:
    from placet.runtime.history.bisect import FirstDifference

_VALUE_CHARS_MAX = 400


def bisect(
    store: StoreArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another log of the same world.")],
    domain: Annotated[list[str] | None, AgainBy] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Find the first record where two logs differ.

    Such as one run twice, on two machines or by two releases. By the chains of the logs, so that
    few records are read however long they are. Exit code 1 if they part, 0 if one of them is the
    beginning of the other.
    """
    from placet.runtime.history.bisect import bisect as find_parting  # noqa: PLC0415  # and pydantic with it

    logs = log_to_read(store), log_to_read(other)
    parting = find_parting(*logs, partial(remake, given=domain or ()))
    if as_json:
        say_json(parting.as_dict())
    else:
        for line in _lines(store, other, parting):
            say(printable(line))
    return 0 if parting.shared else 1


def _lines(store: str, other: str, parting: "FirstDifference") -> list[str]:
    differs = ", ".join(parting.set_up)
    besides = [f"They were set up otherwise: {differs}"] if differs else []
    if parting.renumbered is not None:
        besides.append(
            f"From record {parting.renumbered} on their batches have other numbers, as after a "
            "restart: batches without a record had numbers too"
        )
    read = f"{parting.reads} records were read to find it"
    if parting.shared:
        return [
            *besides,
            f"{store} and {other} agree in all {parting.record} records that both have; {read}",
        ]
    rows = [
        ("what", parting.what),
        (store, _shown(parting.values[0])),
        (other, _shown(parting.values[1])),
    ]
    if parting.rule:
        rows.append(("rule", parting.rule))
    rows += [("drew", f"{d['purpose']} at seq {d['seq']}: {d['value']:g}") for d in parting.draws]
    as_which = {
        "first": store,
        "second": other,
        "neither": "neither",
        "both": "both, each by its own",
    }
    if parting.decided_as is not None:
        rows.append(("decided here", f"as in {as_which[parting.decided_as]}"))
    return [
        *besides,
        f"{store} and {other} part at record {parting.record}, after seq {parting.seq}; {read}",
        *table(rows),
    ]


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else to_json(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"
