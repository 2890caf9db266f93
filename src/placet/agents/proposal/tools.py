"""Kinds as the tool definitions of a model provider, and a tool call back into an intent."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from pydantic import Field, ValidationError

from placet.agents.proposal.catalogue import ASK, STOP, Catalogue, Vocabulary, wire_name
from placet.agents.proposal.legacy import ChatIntent, action_of
from placet.agents.proposal.plan import Issue, Stop, Strict, plan_json
from placet.agents.proposal.plan_parser import Call, parse, parse_calls
from placet.agents.proposal.tool_schema import tool_schema
from placet.kernel.plugin.domain import Kind
from placet.schemas.codec import Json, from_json, to_json
from placet.schemas.json_value import message_for, pointer

_DESCRIPTION_CHARS_MAX: Final = 1_024


class ToolDefinition(NamedTuple):
    """The definition of a tool for a model: name, description, JSON Schema of its arguments.

    The schema is an object without references, with a description for each property.
    """

    name: str
    description: str
    schema: Json


def definitions(*, domain: Vocabulary) -> list[ToolDefinition]:
    """Return the tool of each kind, by name, then the tools to ask the user and to stop.

    The list depends only on the kinds, so that a prompt cache can keep it.
    """
    catalogue = Catalogue.of(domain)
    schemas = catalogue.tool_schemas()
    tools = [
        ToolDefinition(wire_name(kind.name), description_of(kind), schemas[kind.name])
        for kind in catalogue
    ]
    return [*tools, *TALKING]


def description_of(kind: Kind) -> str:
    """Return the description of a kind as a tool, as long as every provider takes at most."""
    risk = f" Risk: {kind.risk}."
    return (kind.summary[: _DESCRIPTION_CHARS_MAX - len(risk)] + risk).strip()


def to_intent(name: str, arguments: str | Mapping[str, Json], *, domain: Vocabulary) -> ChatIntent:
    """Convert a model's tool call to a `ChatIntent`.

    Raises:
        ValueError: The tool or its arguments do not match an offered tool; the text is an error
            prompt for the model.
    """
    text = arguments if isinstance(arguments, str) else to_json(dict(arguments)).decode()
    plan, issues = parse_calls([Call(name, text)], goal=name, base_seq=0, domain=domain)
    if plan is None:
        raise ValueError(error_prompt(issues))
    if plan.stop is not None:
        return ChatIntent(type="clarification_request", question=plan.stop.message)
    action = plan.actions[0]
    return ChatIntent(
        type="action_call",
        action_id=action.kind,
        inputs=action.payload,
        if_unchanged=list(action.if_unchanged),
    )


def parse_intent(text: object, *, domain: Vocabulary) -> ChatIntent | str:
    """Parse a structured intent strictly.

    Returns:
        The intent, or the error prompt to send back to the model; it never raises.
    """
    try:
        value = from_json(text) if isinstance(text, str | bytes) else text
        intent = ChatIntent.model_validate(value)
    except ValidationError as error:
        faults = [
            f"{pointer(fault['loc']) or 'the intent'}: {message_for(fault)}"
            for fault in error.errors(include_url=False)
        ]
        return "The intent is not valid. " + "; ".join(faults)
    except (ValueError, RecursionError) as error:
        return f"The intent is no valid JSON: {error}. Send one JSON object and nothing else."
    if intent.type == "clarification_request":
        return intent
    plan = plan_json("one action", 0, [])
    _, issues = parse({**plan, "actions": [action_of(intent)]}, domain=domain)
    return error_prompt(issues) if issues else intent


def error_prompt(issues: list[Issue]) -> str:
    """Return the faults of an answer and the valid choices, as a text for the model."""
    return " ".join(
        f"{issue.message}."
        + (f" Did you mean {', '.join(issue.suggestions)}?" if issue.suggestions else "")
        for issue in issues
    )


class _Question(Strict):
    """Arguments of the tool `ask_clarification`."""

    question: str = Field(min_length=1, max_length=500, description="The question, for the user.")
    choices: tuple[Annotated[str, Field(max_length=120)], ...] = Field(
        default=(), max_length=8, description="Answers that the user may choose from."
    )


TALKING: Final = (
    ToolDefinition(
        ASK,
        "Ask the user the smallest question whose answer is needed. Proposes nothing.",
        tool_schema(_Question.model_json_schema()),
    ),
    ToolDefinition(
        STOP,
        "Say that the goal cannot or must not be reached. Proposes nothing.",
        tool_schema(Stop.model_json_schema()),
    ),
)
"""The tools that every proposer has besides the kinds."""
