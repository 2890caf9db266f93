"""Decides the route of a message: a command, or a message for the agent.

A command never falls through to the agent: a typo must not become a prompt. And it is matched as a
whole, never inside a sentence: "prune the list and run" is no command `run`.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from placet.agents.proposal.plan import plan_json
from placet.kernel.plugin.domain import Command
from placet.schemas.codec import Json, from_json

_SLASH: Final = re.compile(r"/[A-Za-z]")


class MessageCommand(NamedTuple):
    """A user's message that is a command: an intent without an adapter.

    Attributes:
        kind: Kind of the intent; it need not exist.
        payload: Payload of the intent, not validated yet.
        error: Reason why the command cannot be parsed; empty if it can.
    """

    kind: str
    payload: dict[str, Json]
    error: str = ""

    def plan(self, goal: str, base_seq: int) -> dict[str, Json]:
        """Return the command as a plan of one action, in the form that the plan parser reads."""
        return plan_json(goal, base_seq, [(self.kind[:64], self.payload)])


def parse_command(message: str, commands: Sequence[Command] = ()) -> MessageCommand | None:
    """Parse a message as a command; return None if it is none and goes to the adapter.

    Args:
        message: The user's message. `/kind key=value …` names a kind; values are JSON or text.
        commands: Sentence patterns that stand for intents.
    """
    text = message.strip()
    if _SLASH.match(text):
        return _slash(text[1:])
    for command in commands:
        match = re.fullmatch(command.pattern, text, re.IGNORECASE)
        if match is not None:
            return MessageCommand(command.kind, command.payload(match.groupdict(default="")))
    return None


def _slash(text: str) -> MessageCommand:
    try:
        kind, *words = shlex.split(text)
    except ValueError as error:
        return MessageCommand(text.split(maxsplit=1)[0], {}, f"the command cannot be read: {error}")
    payload: dict[str, Json] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            return MessageCommand(kind, payload, f"expected key=value, got {word!r}")
        if key in payload:
            return MessageCommand(kind, payload, f"{key!r} is given twice")
        payload[key] = _value(value)
    return MessageCommand(kind, payload)


def _value(text: str) -> Json:
    """Read a value as JSON where it is, else as text."""
    try:
        return from_json(text)
    except ValueError:
        return text
