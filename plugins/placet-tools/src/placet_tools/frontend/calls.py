"""Calls as the gate submits them: their intents, and the outcomes that their records show."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final
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
from placet_tools.parts.marks import hidden, names_alone, plain_name
from placet_tools.tool import DeclaredTool

KEY_CHARS_MAX: Final = 80
"""Characters of the key of a call; the req_id of each submission adds a suffix to it."""

_WITHOUT_VALUES: Final = frozenset(
    {
        "bool_parsing", "bool_type", "dict_type", "enum", "float_parsing", "float_type",
        "greater_than", "greater_than_equal", "int_from_float", "int_parsing", "int_type",
        "less_than", "less_than_equal", "list_type", "literal_error", "missing", "multiple_of",
        "string_pattern_mismatch", "string_too_long", "string_too_short", "string_type",
    }
)  # fmt: skip
"""Faults whose texts, of pydantic, have values of the declaration alone."""

IN_DOUBT: Final = "it may have been done; do not repeat it"
_SKIPPED: Final = "another call of the plan was refused, so none ran"
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
        is_checked: The arguments fit.
        fault: Why the arguments do not fit, of a gate with marks: its payload has no values then,
            and is not submitted. Empty if the kernel decides whether they fit.
    """

    key: str
    kind: str
    payload: dict[str, Json] = field(repr=False)
    is_checked: bool = True
    fault: str = ""

    def intent(self, agent: str, suffix: str, seq: int) -> Intent:
        """Return the intent of one submission; its req_id is the key, a slash and the suffix."""
        assert not self.fault, "a payload without its values is not submitted: it could fit"
        return new_intent(self.kind, self.payload, agent, f"{self.key}/{suffix}", seq)

    def digest(self, agent: str) -> str:
        """Return the digest of tool, arguments and agent, as the record of the call has it."""
        return digest_of(self.kind, self.payload, agent)


def make_call(domain: ToolsDomain, key: str, name: str, arguments: Mapping[str, Json]) -> ToolCall:
    """Make a call of a tool; the gate refuses arguments that do not fit, and unknown tools.

    If a tool of the domain has marks, the call has no value of which it is not known whether it is
    marked: none of an unknown tool, none that is not declared, and none that does not fit.
    """
    kind = domain.kind_of(name)
    tool = domain.tool_of(kind)
    if tool is None:
        if not domain.has_marks:
            return ToolCall(key, kind, dict(arguments))
        shown = names_alone(arguments, "unknown tool")
        return ToolCall(key, domain.prefixed(plain_name(name)), shown, is_checked=False)
    try:
        return ToolCall(key, kind, tool.plain(arguments))
    except ValidationError as error:
        if not domain.has_marks:
            return ToolCall(key, kind, dict(arguments), is_checked=False)
        return unfit(
            kind, key, tool, arguments, error.errors(include_input=False, include_context=False)
        )


def unfit(
    kind: str,
    key: str,
    tool: DeclaredTool,
    arguments: Mapping[str, Json],
    faults: Sequence[Mapping[str, Any]],
) -> ToolCall:
    """Make a call whose arguments do not fit, without their values.

    Args:
        kind: Kind of the call.
        key: Key of the call.
        tool: The tool.
        arguments: The arguments.
        faults: Errors of pydantic: `type`, `loc` and `msg` of each.
    """
    of_names = {str(one["loc"][0]): str(one["type"]) for one in faults if one["loc"]}
    shown = hidden(arguments, tool.parameters, tool.marks, of_names)
    why = "; ".join(dict.fromkeys(_why_unfit(kind, tool, one) for one in faults))
    return ToolCall(key, kind, shown, is_checked=False, fault=why)


def _why_unfit(kind: str, tool: DeclaredTool, fault: Mapping[str, Any]) -> str:
    """Return why an argument does not fit, without a word of its value."""
    if not fault["loc"]:
        return f"payload of {kind}: invalid ({fault['type']})"
    name, declared = str(fault["loc"][0]), tool.parameters
    if name not in declared:
        name = plain_name(name)
        return f"payload of {kind}/{name}: no such argument; {did_you_mean(name, declared)}"
    said = f": {fault['msg']}" if fault["type"] in _WITHOUT_VALUES else ""
    return f"payload of {kind}/{name}: invalid ({fault['type']}){said}"


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
            outcomes.append(Outcome("skipped", message=_SKIPPED, key=call.key))
            continue
        faults = ours or own or verdict.refusals
        message = "; ".join(_message(domain, call, one) for one in faults)
        codes = tuple(one.code for one in faults)
        outcomes.append(Outcome("refused", message=message, codes=codes, key=call.key))
    return outcomes


def refused_unfit(calls: Sequence[ToolCall]) -> list[Outcome]:
    """Return the outcomes of a plan of which a call has a fault; the others are skipped."""
    codes = (RefusalCode.PAYLOAD_INVALID.value,)
    return [
        Outcome("refused", message=call.fault, codes=codes, key=call.key)
        if call.fault
        else Outcome("skipped", message=_SKIPPED, key=call.key)
        for call in calls
    ]


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
