"""Renderers of a conversation: lines for a person, or one JSON value per line for a program."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Final, TypeAlias

from placet.agents.proposal.adapter import Usage
from placet.agents.proposal.plan import IF_UNCHANGED, Issue
from placet.agents.proposal.turn_result import (
    ActionOutcome,
    ApprovalRequest,
    StateChange,
    Turn,
)
from placet.cli.terminal import say_json
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.foreseen import UNDECIDED
from placet.schemas.look_alikes import remarks
from placet.schemas.printable import printable, printable_json, unseen_characters

_VALUE_CHARS_MAX: Final = 400
_CHANGES_SHOWN: Final = 20
_STYLES: Final[Mapping[str, str]] = {
    "applied": "green",
    "held": "yellow",
    "clarify": "cyan",
    "refused": "red",
    "said": "",
    "failed": "red",
}
_MARKS: Final[Mapping[str, str]] = {"add": "+", "replace": "~", "remove": "-"}


class JsonRenderer:
    """Writes a conversation as one JSON value per line, for programs.

    A turn is written as an object; any other value as an object with its name as the only key.
    """

    def turn(self, turn: Turn) -> None:
        """Show the turn that answered a message."""
        say_json(from_json(turn.model_dump_json()))

    def approval(self, approval: ApprovalRequest) -> None:
        """Show nothing: the turn before it holds the approval request."""

    def approvals(self, approvals: Sequence[ApprovalRequest]) -> None:
        """Show the approval requests of the conversation."""
        self.value("approvals", [approval.model_dump(mode="json") for approval in approvals])

    def turns(self, turns: Sequence[Mapping[str, Json]]) -> None:
        """Show the turns that the state keeps."""
        self.value("turns", list(turns))

    def value(self, name: str, value: Json) -> None:
        """Show a named value, such as the result of a chat command."""
        say_json({name: value})


class TextRenderer:
    """Writes a conversation as lines for a person, colored if the terminal supports it.

    Texts of models and logs are not trusted: control characters and markup in them have no effect.
    """

    def __init__(self) -> None:
        # Here, because rich is a tenth of a second that programs need not pay.
        from rich.console import Console  # noqa: PLC0415

        self._console = Console(
            file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True
        )

    def turn(self, turn: Turn) -> None:
        """Show the turn that answered a message: outcome, actions, changes, and reasons."""
        how = "" if turn.stop in {"completed", "said"} else f" ({turn.stop})"
        self._line(f"{turn.outcome}{how}: {turn.message}", _STYLES[turn.outcome])
        self._list(f"  - {choice}" for choice in turn.choices)
        if len(turn.attempts) > 1:
            tried = "; ".join(
                f"{one.n} {one.status} {' '.join(issue.code for issue in one.issues)}".strip()
                for one in turn.attempts
            )
            self._line(f"  tried {len(turn.attempts)} times: {tried}", "dim")
        self._list(line for one in turn.results for line in _decision_lines(one))
        shown = {issue.message for one in turn.results for issue in one.issues}
        last = turn.attempts[-1].issues if turn.attempts else ()
        self._list(line for one in last if one.message not in shown for line in _issue_lines(one))
        is_held = turn.outcome == "held"
        self._changes(turn.diff, "would change" if is_held else "changed", is_whole=is_held)
        if turn.usage.price:
            self._line(f"  {_spent(turn.usage)}", "dim")

    def approval(self, approval: ApprovalRequest) -> None:
        """Show an approval request."""
        who = f"the approval of {approval.role!r}" if approval.role else "the approval of a person"
        self._line(
            f"  {approval.id} ({approval.state}) needs {who}; {approval.proposer} proposes:",
            "yellow",
        )
        self._commands(approval)

    def approvals(self, approvals: Sequence[ApprovalRequest]) -> None:
        """Show the approval requests of the conversation."""
        for approval in approvals:
            if approval.state == "open":
                self.approval(approval)
                self._changes(approval.diff or (), "would change", is_whole=True)
            else:
                by = f" by {approval.by}" if approval.by else ""
                self._line(
                    f"  {approval.id} ({approval.state}{by}); {approval.proposer} proposed:", "dim"
                )
                self._commands(approval)
        if not approvals:
            self._line("  no plan waits, and none was held before")

    def turns(self, turns: Sequence[Mapping[str, Json]]) -> None:
        """Show the turns that the state keeps."""
        self._list(f"  {turn['message']}  -> {turn['outcome']} ({turn['stop']})" for turn in turns)

    def value(self, name: str, value: Json) -> None:
        """Show something that was asked for by name."""
        if isinstance(value, str):
            self._line(f"{name}: {value}")
        elif isinstance(value, Mapping):
            self._tree(value)
        else:
            self._list(f"  {_short(item)}" for item in value)

    def _commands(self, approval: ApprovalRequest) -> None:
        self._list(f"    {action_line(action)}" for action in approval.actions)

    def _tree(self, value: Mapping[str, Json]) -> None:
        """Show a line for each name; empty branches are left out."""
        for name, inner in value.items():
            if isinstance(inner, Mapping):
                self._line(f"{name}", "bold")
                self._list(f"  {key}: {_short(item)}" for key, item in inner.items())
            else:
                self._line(f"  {name}: {_short(inner)}")

    def _changes(
        self, changes: Sequence[StateChange], verb: str, *, is_whole: bool = False
    ) -> None:
        """Show changes; `is_whole` shows all of them uncut, because a person decides by them."""
        if not changes:
            return
        self._line(f"  {verb}:", "dim")
        if is_whole:
            self._list(changed(change, is_whole=True) for change in changes)
            return
        self._list(changed(change) for change in changes[:_CHANGES_SHOWN])
        if len(changes) > _CHANGES_SHOWN:
            self._line(f"    and {len(changes) - _CHANGES_SHOWN} more")

    def _list(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._line(line)

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(printable(text), style=style or None)


Renderer: TypeAlias = JsonRenderer | TextRenderer
"""The output of a conversation: for a program, or for a person."""


def _spent(usage: Usage) -> str:
    """Return the cost of a turn as one line of text."""
    requests = "1 request" if usage.requests == 1 else f"{usage.requests} requests"
    estimated = " (estimated)" if usage.is_estimated else ""
    tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out{estimated}"
    cost = "cost unknown" if usage.cost_usd is None else f"{usage.cost_usd.normalize():f} USD"
    return f"{requests}, {tokens}, {cost}; price: {usage.price}"


def action_line(action: Mapping[str, Json]) -> str:
    """Return an action of an approval request as a command, with the paths of its conditions."""
    paths = action.get(IF_UNCHANGED)
    unchanged = f"  (if unchanged: {', '.join(paths)})" if paths else ""
    return f"{command_of(action['kind'], action['payload'])}{unchanged}{_noted(action['payload'])}"


def command_of(kind: str, payload: Mapping[str, Json]) -> str:
    """Return an action as the chat command that a person would type: `/KIND key=value`."""
    words = [f"/{kind}"]
    words += [f"{name}={quote(_typed(value))}" for name, value in payload.items()]
    return " ".join(words)


def _typed(value: Json) -> str:
    """Write a value so that a command reads it.

    A text is written as it is, unless it would be JSON then, or has an unseen character.
    """
    if isinstance(value, str) and not unseen_characters(value):
        try:
            from_json(value)
        except ValueError:
            return value
    return printable_json(value)


def _decision_lines(decision: ActionOutcome) -> Iterator[str]:
    """Return the outcome of one action as text."""
    seq = "" if decision.seq is None else f" at seq {decision.seq}"
    output = "" if decision.output is None else f": {_short(decision.output)}"
    yield f"  {decision.id} {decision.kind} {decision.outcome}{seq}{output}"
    if decision.outcome != "held":  # why is said above, of all of them
        for issue in decision.issues:
            yield from _issue_lines(issue)


def _issue_lines(issue: Issue) -> list[str]:
    at = f" at {issue.at}" if issue.at else ""
    lines = [f"    {issue.code}{at}: {issue.message}"]
    if issue.suggestions:
        lines.append(f"    instead: {', '.join(issue.suggestions)}")
    return lines


def changed(change: StateChange, *, is_whole: bool = False) -> str:
    """Return a change of the state as one line of text, with values as JSON.

    Args:
        change: The change.
        is_whole: Values are not cut.
    """
    if change.op == "undecided":
        return f"    ? {change.path}  {UNDECIDED}"

    def shown(value: Json) -> str:
        return printable_json(value) if is_whole else _cut(printable_json(value))

    mark, noted = _MARKS[change.op], _noted([change.path, change.old, change.new])
    if change.op == "remove":
        return f"    {mark} {change.path}  was {shown(change.old)}{noted}"
    old = "" if change.op == "add" else f"{shown(change.old)} -> "
    return f"    {mark} {change.path}  {old}{shown(change.new)}{noted}"


def _noted(value: Json) -> str:
    """Return remarks about characters of a value that look like others, to be put after it."""
    return "".join(f"  ({one})" for one in remarks(value))


def _short(value: Json) -> str:
    return _cut(value if isinstance(value, str) else to_json(value).decode())


def _cut(text: str) -> str:
    if len(text) <= _VALUE_CHARS_MAX:
        return text
    return f"{text[:_VALUE_CHARS_MAX]}... ({len(text)} characters)"
