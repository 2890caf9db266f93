"""`placet inbox`: the calls of an open gate that need a person, in a terminal."""

from collections.abc import Mapping
from getpass import getuser
from typing import Annotated

import typer

from placet.cli.terminal import CommandError, Output, with_json
from placet.schemas.codec import Json
from placet.schemas.printable import printable, printable_json
from placet_tools.domain import ROLE
from placet_tools.frontend.inbox.control import ControlError, ask_gate, socket_of


@with_json
def inbox(
    store: Annotated[str, typer.Argument(metavar="STORE", help="Log of a gate that is open.")],
    call: Annotated[
        str,
        typer.Argument(
            metavar="[ID]",
            help="A held request, or the key of a call in doubt; without a decision it is shown "
            "alone. Default: list them all.",
        ),
    ] = "",
    decision: Annotated[
        str,
        typer.Argument(
            metavar="[approve|deny|done|failed]",
            help="Decision about a request, or outcome of a call in doubt.",
        ),
    ] = "",
    by: Annotated[
        str, typer.Option(metavar="NAME", help="Who decides. Default: the user of the system.")
    ] = "",
    role: Annotated[str, typer.Option(metavar="ROLE", help="Role of the person.")] = ROLE,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, which the agent is told.")
    ] = "",
) -> Output:
    """List the calls of an open gate that need a person, or decide one.

    The log is that of `placet gateway --store`, or of a program with `Gate(inbox=True)`. Only the
    user of the system that runs the gate can ask it. The name and the role are as this person
    says; an agent that runs as the same user can decide too.
    """
    path = socket_of(store)
    if path is None:
        raise CommandError(f"{store} is no file; a gate is asked by a log that is one")
    try:
        if not decision:
            listed = _chosen(ask_gate(path, "inbox", {}), call)
            return Output(listed, _lines_of(listed))
        by = by or _user()
        if decision in {"done", "failed"}:
            settled: dict[str, Json] = {"key": call, "is_done": decision == "done"}
            answer = ask_gate(path, "settle", {**settled, "by": by, "reason": reason})
            return Output(answer, [answer["status"]])
        person = {"by": by, "role": role, "reason": reason}
        answer = ask_gate(path, "decide", {"id": call, "decision": decision, **person})
    except ControlError as error:
        raise CommandError(str(error)) from error
    calls = ", ".join(one["status"] for one in answer["outcomes"])
    message = answer["message"] or answer["reason"]
    lines = [": ".join(filter(None, (answer["state"], calls, message)))]
    return Output(answer, lines, not answer["codes"])


def _user() -> str:
    """Return the name of the user of the system."""
    try:
        return getuser()
    except (KeyError, OSError):  # no user has this number, as in some containers
        raise CommandError("the user of the system has no name; name yourself by --by") from None


def _chosen(listed: Mapping[str, Json], call: str) -> dict[str, Json]:
    """Return the request of an id, or the call in doubt of a key; all of them for no text."""
    requests = [one for one in listed["requests"] if call in {"", one["id"]}]
    doubts = [one for one in listed["doubts"] if call in {"", one["key"]}]
    if call and not requests and not doubts:
        raise CommandError(
            f"no call that waits has the id or the key {call!r}; leave it out to list them all"
        )
    return {"requests": requests, "doubts": doubts}


def _lines_of(listed: Mapping[str, Json]) -> list[str]:
    """Return the calls that need a person as lines for a terminal."""
    lines: list[str] = []
    for request in listed["requests"]:
        head, *others = request["text"]
        lines += [f"{printable(request['id'])} {head}", *others]
    for doubt in listed["doubts"]:
        lines.append(printable(f"{doubt['key']} is in doubt: {doubt['why']}"))
        lines.append(f"  {printable(doubt['tool'])} {printable_json(doubt['arguments'])}")
    return lines or ["no call waits"]
