"""Outcomes of calls as results of MCP tools, and the form that asks a person."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Raw
from msgspec.json import encode

from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet.schemas.printable import printable
from placet_tools.outcome import Outcome

CONFIRM: Final = "confirm"
_CHANGES_ASKED: Final = 16
_VALUE_CHARS_MAX: Final = 1_000

_LATER: Final = frozenset({"held", "running", "doubt"})


def result_of(outcome: Outcome, raw: Raw | None, where: str) -> Json | Raw:
    """Return the outcome of one call as the result of a tool.

    Args:
        outcome: The outcome.
        raw: The unchanged result of the server; None if it is not known any more.
        where: Where a person decides a held call.
    """
    if outcome.status != "done":
        return _text(shown(outcome, where), is_error=True)
    if raw is not None:
        return raw
    if isinstance(outcome.output, Mapping) and "content" in outcome.output:
        return outcome.output
    return _text({"status": "done", "message": outcome.message, "key": outcome.key})


def results_of(outcomes: Sequence[Outcome], where: str) -> Json:
    """Return the outcomes of a plan as the result of a tool."""
    is_done = all(one.status == "done" for one in outcomes)
    return _text({"outcomes": [shown(one, where) for one in outcomes]}, is_error=not is_done)


def shown(outcome: Outcome, where: str) -> dict[str, Json]:
    """Return an outcome as a model reads it.

    Args:
        outcome: The outcome.
        where: Where a person decides a held call.
    """
    fields: dict[str, Json] = {"status": outcome.status}
    if outcome.status in {"done", "undone"}:
        fields["output"] = outcome.output
    if outcome.message:
        fields["message"] = outcome.message
    if outcome.codes:
        fields["codes"] = list(outcome.codes)
    if outcome.status == "held":
        fields |= {"approval": outcome.approval, "decide": where}
    if outcome.status in _LATER:
        fields["ask"] = "placet_outcome with this key"
    return fields | {"key": outcome.key}


def failed_gate(error: BaseException) -> Json:
    """Return the result of a call that the gate could not decide."""
    message = f"the gate cannot decide, so nothing ran that is not in its log: {error}"
    return _text({"status": "refused", "message": message, "codes": ["gate_failed"]}, is_error=True)


def refusal(code: str, message: str) -> Json:
    """Return the result of a call that never came to the gate."""
    return _text({"status": "refused", "message": message, "codes": [code]}, is_error=True)


def form_of(approval: Approval, name_of: Callable[[str], str]) -> dict[str, Json]:
    """Return the MCP form that asks a person to decide a request.

    Args:
        approval: The request.
        name_of: Returns the name of the tool of a kind.
    """
    lines = [f"{approval.agent} asks to call:"]
    for kind, arguments in approval.calls:
        lines.append(f"  {name_of(kind)} {_short(arguments)}")
    if approval.changes:
        lines.append("It would change:")
    for change in approval.changes[:_CHANGES_ASKED]:
        *path, op, old, new = change
        lines.append(f"  {' '.join(map(str, path))}: {op} {_short(old)} -> {_short(new)}")
    if len(approval.changes) > _CHANGES_ASKED:
        lines.append(f"  and {len(approval.changes) - _CHANGES_ASKED} more")
    return {
        "message": "\n".join(map(printable, lines)),
        "requestedSchema": {
            "type": "object",
            "properties": {CONFIRM: {"type": "boolean", "title": "Let it run"}},
            "required": [CONFIRM],
        },
    }


def question(form: Mapping[str, Json], state: str) -> dict[str, Json]:
    """Return the result that asks the client's user, from protocol 2026-07-28 on.

    Args:
        form: The form.
        state: Returned by the client with the answer.
    """
    asked = {CONFIRM: {"method": "elicitation/create", "params": {"mode": "form", **form}}}
    return {"resultType": "input_required", "requestState": state, "inputRequests": asked}


def _short(value: Json) -> str:
    text = encode(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _text(value: Json, *, is_error: bool = False) -> dict[str, Json]:
    content = [{"type": "text", "text": encode(value).decode()}]
    return {"content": content, "isError": True} if is_error else {"content": content}
