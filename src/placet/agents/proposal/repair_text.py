"""The faults of an answer as words, for proposers that take a message and a conversation alone."""

from collections.abc import Sequence
from typing import Final

from placet.agents.proposal.adapter import Repair
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.view_json import cut
from placet.schemas.codec import Json, to_json
from placet.schemas.refusal import RefusalCode

_LINE_BYTES_MAX: Final = 4 * 1024


def error_prompt(issues: Sequence[Issue]) -> str:
    """Return the prompt that asks a proposer again after an answer of which nothing was done."""
    faults = "\n".join(f"- {_fault(issue)}" for issue in issues)
    return f"Nothing of your last answer was done:\n{faults}\nAnswer the message again."


def message_after(message: str, repairs: Sequence[Repair]) -> str:
    """Return a user's message, followed by the faults of the last answer to it, if there is one."""
    return f"{message}\n\n{error_prompt(repairs[-1].issues)}" if repairs else message


def history_after(
    message: str, history: Sequence[dict[str, Json]], repairs: Sequence[Repair]
) -> list[dict[str, Json]]:
    """Return a conversation with the refused answers to the present message, oldest first.

    Each is two lines, as an earlier turn is: the message, and the answer with its faults.
    """
    lines = [dict(line) for line in history]
    for repair in repairs:
        text = f"{_answer(repair)}\n\n{error_prompt(repair.issues)}"
        lines.append({"role": "user", "text": message})
        lines.append({"role": "agent", "outcome": "refused", "text": text})
    return lines


def _answer(repair: Repair) -> str:
    plan = repair.raw.plan
    text = plan if isinstance(plan, str) else to_json(plan).decode()
    return cut(text, _LINE_BYTES_MAX)


def _fault(issue: Issue) -> str:
    parts = [f"{issue.code}: {issue.message}"]
    if issue.at:
        parts.append(f"(at {issue.at})")
    nearest = [name for name in issue.suggestions if name not in issue.message]
    if nearest:
        parts.append(f"Nearest: {', '.join(nearest)}.")
    parts += [
        f"{one['path']}: {to_json(one['old']).decode()} -> {to_json(one['new']).decode()}."
        for one in issue.changed
        if "old" in one and "new" in one and issue.code != RefusalCode.CONDITION_FAILED
    ]
    return " ".join(parts)
