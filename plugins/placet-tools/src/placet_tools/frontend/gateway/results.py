"""Outcomes of calls as results of MCP tools, and the form that asks a person."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Raw
from msgspec.json import encode

from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet_tools.frontend.inbox.request_text import head_of, lines_of
from placet_tools.outcome import Outcome

CONFIRM: Final = "confirm"

FORM_CHARS_MAX: Final = 10_000
"""Characters of a request that a form shows; a longer one is approved elsewhere."""

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


def form_of(
    approval: Approval, now: float, name_of: Callable[[str], str], where: str
) -> dict[str, Json]:
    """Return the MCP form that asks a person to decide a request.

    A form that cannot show the whole request can only deny it, and says where the whole is.

    Args:
        approval: The request.
        now: Simulated time, seconds.
        name_of: Returns the name of the tool of a kind.
        where: Where a person decides a request that a form cannot show.
    """
    text = "\n".join(lines_of(approval, name_of))
    shown = f"{head_of(approval, now)}\n{text[:FORM_CHARS_MAX]}"
    is_whole = takes_yes(approval, name_of)
    if not is_whole:
        left = len(text) - FORM_CHARS_MAX
        shown += (
            f"\n[{left} more characters are not shown here, so this form takes no yes. Read the "
            f"whole request and decide it: {where}. To deny it, decline here.]"
        )
    confirm = {CONFIRM: {"type": "boolean", "title": "Let it run"}} if is_whole else {}
    return {
        "message": shown,
        "requestedSchema": {"type": "object", "properties": confirm, "required": list(confirm)},
    }


def takes_yes(approval: Approval, name_of: Callable[[str], str]) -> bool:
    """Return whether a form shows the whole of a request, so that a person can approve it there."""
    return len("\n".join(lines_of(approval, name_of))) <= FORM_CHARS_MAX


def question(form: Mapping[str, Json], state: str) -> dict[str, Json]:
    """Return the result that asks the client's user, from protocol 2026-07-28 on.

    Args:
        form: The form.
        state: Returned by the client with the answer.
    """
    asked = {CONFIRM: {"method": "elicitation/create", "params": {"mode": "form", **form}}}
    return {"resultType": "input_required", "requestState": state, "inputRequests": asked}


def _text(value: Json, *, is_error: bool = False) -> dict[str, Json]:
    content = [{"type": "text", "text": encode(value).decode()}]
    return {"content": content, "isError": True} if is_error else {"content": content}
