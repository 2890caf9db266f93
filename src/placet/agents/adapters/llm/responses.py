"""Parses a model's answer into the calls and texts that count, and the JSON kept for repairs.

Only parts that the request asked for are kept: text, thinking, and tool calls. Results of a
provider's own tools (a search, executed code) are dropped from the answer and from its record,
because nothing here has allowed them.
"""

from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from placet.agents.proposal.plan_parser import Call
from placet.schemas.codec import Json, to_json

_LEFT_OUT: Final = frozenset({"timestamp", "usage", "state"})
"""Neither sent back to a provider nor needed by one; times would make equal answers differ."""


def kept(response: ModelResponse) -> ModelResponse:
    """Return a model's response without the provider's own tools, addresses and details."""
    parts = [part for part in response.parts if isinstance(part, _KEPT)]
    return ModelResponse(
        parts=parts,
        model_name=response.model_name,
        provider_name=response.provider_name,
        canonical_system=response.canonical_system,
    )


def call_of(part: ToolCallPart) -> Call:
    """Convert a tool call of a response to a `Call`; its arguments stay as the model wrote them."""
    arguments = part.args if isinstance(part.args, str) else to_json(part.args or {}).decode()
    return Call(part.tool_name, arguments, part.tool_call_id)


def account_of(messages: Sequence[ModelMessage]) -> Json:
    """Return a model's messages as plain JSON for the log: its tool searches and its answer."""
    account = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return [
        {**_pruned(message), "parts": [_pruned(part) for part in message["parts"]]}
        for message in account
    ]


def messages_of(account: Json) -> list[ModelMessage]:
    """Decode the messages of a model from the JSON that `account_of` made of them.

    Raises:
        pydantic.ValidationError: The value is not such JSON.
    """
    return ModelMessagesTypeAdapter.validate_json(to_json(account))


def _pruned(value: dict[str, Json]) -> dict[str, Json]:
    return {key: part for key, part in value.items() if part is not None and key not in _LEFT_OUT}


_KEPT: Final = (TextPart, ThinkingPart, ToolCallPart)
