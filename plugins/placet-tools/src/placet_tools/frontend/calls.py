"""Calls as the gate submits them: their intents, and the outcomes that their records show."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final
from uuid import uuid4

from pydantic import ValidationError

from placet.kernel.plugin.approved import digest_of
from placet.runtime.executors import EffectOutcome
from placet.schemas.codec import Json
from placet.schemas.intent import Intent, new_intent
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict
from placet_tools.domain import ToolsDomain
from placet_tools.outcome import Outcome

KEY_CHARS_MAX: Final = 80
"""Characters of the key of a call; the req_id of each submission adds a suffix to it."""

IN_DOUBT: Final = "it may have been done; do not repeat it"
NOT_ENDED: Final = "it has not ended yet; ask again by its key"


class KeyInvalid(ValueError):  # noqa: N818  # the name states the fault
    """The error of a key that a call cannot have."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One intent of a plan: a call of a tool, or an intent of another domain.

    Attributes:
        key: Key of the call.
        kind: Kind of the intent.
        payload: Checked arguments, with defaults; unchecked if they do not fit. The repr leaves it
            out: it may have values that no log line may have.
        is_checked: The arguments fit; marked ones that do not are hidden.
    """

    key: str
    kind: str
    payload: dict[str, Json] = field(repr=False)
    is_checked: bool = True

    def intent(self, agent: str, suffix: str, seq: int) -> Intent:
        """Return the intent of one submission; its req_id is the key, a slash and the suffix."""
        return new_intent(self.kind, self.payload, agent, f"{self.key}/{suffix}", seq)

    def digest(self, agent: str) -> str:
        """Return the digest of tool, arguments and agent, as the record of the call has it."""
        return digest_of(self.kind, self.payload, agent)


def make_call(domain: ToolsDomain, key: str, kind: str, arguments: Mapping[str, Json]) -> ToolCall:
    """Make a call; the gate refuses arguments that do not fit."""
    tool = domain.tool_of(kind)
    if tool is None:
        return ToolCall(key, kind, dict(arguments))
    try:
        return ToolCall(key, kind, tool.plain(arguments))
    except ValidationError as error:
        return ToolCall(key, kind, tool.hidden(arguments, error), is_checked=False)


def new_key(key: str | None) -> str:
    """Return a key that is checked, or a new one for None.

    Raises:
        KeyInvalid: The key is empty or too long.
    """
    if key is None:
        return uuid4().hex
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise KeyInvalid(f"a key must be 1 to {KEY_CHARS_MAX} characters, got {key!r:.200}")
    return key


def digest_of_place(*parts: object) -> str:
    """Return the key of a call by its place in a conversation, hexadecimal.

    Args:
        *parts: Values as a JSON parser returns them, including values that the gate refuses, such
            as infinity. A framework repeats them when it resumes a run.
    """
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def refused(
    domain: ToolsDomain, calls: Sequence[ToolCall], verdict: Verdict, ahead: int = 0
) -> list[Outcome]:
    """Return the outcomes of a refused batch; calls without a refusal are skipped.

    Args:
        domain: The domain of the tools.
        calls: The calls.
        verdict: Verdict of the batch.
        ahead: Number of the recorder's intents before those of the calls.
    """
    first = [one for one in verdict.refusals if one.index is not None and one.index < ahead]
    ours = first[:1]  # the others follow from it
    at_fault = {one.index for one in verdict.refusals if one.index is not None}
    outcomes = []
    for number, call in enumerate(calls, ahead):
        own = [one for one in verdict.refusals if one.index == number]
        if at_fault and not ours and not own:
            message = "another call of the plan was refused, so none ran"
            outcomes.append(Outcome("skipped", message=message, key=call.key))
            continue
        faults = ours or own or verdict.refusals
        message = "; ".join(_message(domain, call, one) for one in faults)
        codes = tuple(one.code for one in faults)
        outcomes.append(Outcome("refused", message=message, codes=codes, key=call.key))
    return outcomes


def _message(domain: ToolsDomain, call: ToolCall, refusal: Refusal) -> str:
    """Return the message of a refusal; for a misspelled tool with the names of tools alone."""
    if refusal.code == RefusalCode.QUOTA_EXCEEDED:
        return refusal.message.replace(f" may propose {call.kind} ", f" may call {call.kind} ", 1)
    tool = call.kind.removeprefix(f"{domain.name}.")
    if refusal.code != RefusalCode.KIND_UNKNOWN or not domain.tools or "." in tool:
        return refusal.message
    return f"there is no tool {tool!r}; {did_you_mean(tool, domain.tools)}"


def of_effect(call: ToolCall, effect: EffectOutcome) -> Outcome:
    """Return the outcome of a call by that of its effect."""
    if effect.succeeded:
        return Outcome("done", effect.output, key=call.key)
    if effect.succeeded is not None:
        return Outcome("failed", message=reason(effect.output), key=call.key)
    return Outcome("running", message=NOT_ENDED, key=call.key)


def of_record(key: str, record: Mapping[str, Json]) -> Outcome:
    """Return the outcome of a call that has ended, by its record."""
    state, output = record["state"], record["output"]
    if state == "failed":
        return Outcome("failed", message=reason(output), key=key)
    message = (
        "its output is too large for the state; it is in the log" if "is_cut" in record else ""
    )
    return Outcome(state, output, message, key=key)


def reason(output: Json) -> str:
    """Return the reason of a failure, which is its output; empty if a person settled without."""
    return "" if output is None else str(output)
