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
            help="A held request, or the key of a call in doubt. Default: list them all.",
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
            listed = ask_gate(path, "inbox", {})
            return Output(listed, _lines_of(listed))
        if decision in {"done", "failed"}:
            settled = {"key": call, "is_done": decision == "done", "output": reason or None}
            answer = ask_gate(path, "settle", settled)
            return Output(answer, [answer["status"]])
        person = {"by": by or getuser(), "role": role, "reason": reason}
        answer = ask_gate(path, "decide", {"id": call, "decision": decision, **person})
    except ControlError as error:
        raise CommandError(str(error)) from error
    calls = ", ".join(one["status"] for one in answer["outcomes"])
    message = answer["message"] or answer["reason"]
    lines = [": ".join(filter(None, (answer["state"], calls, message)))]
    return Output(answer, lines, not answer["codes"])


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
