"""Estimates the most that the next request may cost, before it is sent.

A request that is estimated to exceed the rest of a turn's budget is not sent. Its tokens are
estimated from its size: messages and tools, 4 bytes a token, and a fixed count for a picture. Dense
text (digits, identifiers, base64) has more tokens, so such a request can exceed the budget; the
reported tokens count from its answer on.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from placet.agents.adapters.llm.model_settings import THINKING_TOKENS_MAX, answer_tokens_max
from placet.agents.adapters.llm.prices import Pricing, bare_answer, cost_of
from placet.agents.adapters.llm.responses import account_of
from placet.agents.proposal.adapter import PlannerInput, PlannerOverBudget, Usage
from placet.agents.proposal.budget_messages import cost_message, tokens_message
from placet.agents.proposal.codes import Code
from placet.agents.proposal.context_text import BYTES_PER_TOKEN, tokens_of

ANSWER_TOKENS_MIN: Final = 256
"""A shorter answer is cut off before it is of use, so its request is not sent."""

REQUESTS_MAX: Final = 2
"""Requests for one answer: one is repeated where that may help."""

_MEDIUM_TOKENS: Final = 1_600
"""Of a picture, whose bytes are no measure: providers count 258 to 1 600."""


def reserve(
    model: Model,
    pricing: Pricing,
    settings: ModelSettings,
    context: PlannerInput,
    used: Usage,
    request_tokens: int,
) -> int | None:
    """Return the limit of tokens of the next answer; None if the model's client sets it.

    Args:
        model: The model.
        pricing: Its price.
        settings: Settings of every request.
        context: The planner input, with the rest of the turn's budget.
        used: Usage of earlier requests for the same input.
        request_tokens: Estimated tokens of the request.

    Raises:
        PlannerOverBudget: The request is estimated to exceed the tokens or the money that are left.
    """
    left = context.tokens_left - used.input_tokens - used.output_tokens
    needed = min(ANSWER_TOKENS_MIN, settings.get("max_tokens", ANSWER_TOKENS_MIN))
    if request_tokens + needed > left:
        raise PlannerOverBudget(tokens_message(request_tokens, needed, left), Code.TOKENS_EXHAUSTED)
    limit = answer_tokens_max(settings, left - request_tokens)
    answer_tokens = THINKING_TOKENS_MAX if limit is None else limit
    cost = cost_of(bare_answer(model, request_tokens, answer_tokens), pricing.prices)
    if context.usd_left is not None and cost is not None and used.cost_usd is not None:
        usd_left = context.usd_left - used.cost_usd
        if cost > max(Decimal(0), usd_left):
            message = cost_message(cost, request_tokens, answer_tokens, usd_left)
            raise PlannerOverBudget(message, Code.COST_EXHAUSTED)
    return limit


def worst_case(
    model: Model,
    pricing: Pricing,
    settings: ModelSettings,
    context: PlannerInput,
    request_tokens: int,
) -> Usage:
    """Return the most that a request and its one repetition may use.

    No text has more tokens than bytes, so each byte counts as a token.

    Args:
        model: The model.
        pricing: Its price.
        settings: Settings of every request.
        context: The planner input, with the rest of the turn's budget.
        request_tokens: Estimated tokens of the request.
    """
    read = request_tokens * BYTES_PER_TOKEN
    limit = answer_tokens_max(settings, max(1, context.tokens_left - request_tokens))
    written = THINKING_TOKENS_MAX if limit is None else limit
    cost = cost_of(bare_answer(model, read, written), pricing.prices)
    return Usage(REQUESTS_MAX, read, written, cost)


def tokens_of_request(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> int:
    """Return the estimated tokens of a request: its messages and the tools that it offers."""
    tools = "".join(
        f"{tool.name}{tool.description}{tool.parameters_json_schema}"
        for tool in parameters.function_tools
    )
    texts, media = _without_media(messages)
    return tokens_of(str(account_of(texts))) + tokens_of(tools) + media * _MEDIUM_TOKENS


def tokens_of_answer(answer: ModelResponse) -> int:
    """Return the estimated tokens of an answer."""
    return tokens_of(str(account_of([answer])))


def _without_media(messages: Sequence[ModelMessage]) -> tuple[list[ModelMessage], int]:
    """Return messages without their pictures, and the number of pictures."""
    texts, count = list(messages), 0
    for place, message in enumerate(texts):
        parts = list(message.parts)
        for index, part in enumerate(parts):
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                content = [one for one in part.content if not isinstance(one, BinaryContent)]
                count += len(part.content) - len(content)
                parts[index] = replace(part, content=content)
        texts[place] = replace(message, parts=parts)  # type: ignore[arg-type]  # parts of its type
    return texts, count
