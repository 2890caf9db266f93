"""The cost of an answer: by given prices, or by the price list of pydantic-ai.

An unknown price is None and stays None: a session with a limit in money does not call such a model
(`AgentLimits.on_unknown_price`).
"""

from decimal import Decimal
from typing import Final, NamedTuple

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

_MILLION: Final = 1_000_000


class Prices(NamedTuple):
    """Prices in US dollars for a million tokens.

    Attributes:
        input_usd: US dollars per million input tokens.
        output_usd: US dollars per million output tokens.
        cached_input_usd: US dollars per million input tokens read from the provider's cache; None
            is the price of other input.
    """

    input_usd: Decimal
    output_usd: Decimal
    cached_input_usd: Decimal | None = None

    def cost(self, usage: RequestUsage) -> Decimal:
        """Return the cost of one request to a model, from its token counts, in US dollars."""
        cached_usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh = usage.input_tokens - usage.cache_read_tokens
        return (
            fresh * self.input_usd
            + usage.cache_read_tokens * cached_usd
            + usage.output_tokens * self.output_usd
        ) / _MILLION


FREE: Final = Prices(Decimal(0), Decimal(0))
"""Of models that run here."""


def prices_of(model: Model) -> Prices | None:
    """Return zero prices for a model that runs in this process; None for any other model."""
    return FREE if isinstance(model, FunctionModel | TestModel) else None


def is_priced(model: Model) -> bool:
    """Return whether pydantic-ai's price list has a model."""
    one_token = RequestUsage(input_tokens=1, output_tokens=1)
    answer = ModelResponse(
        parts=[], usage=one_token, model_name=model.model_name, provider_name=model.system
    )
    return cost_of(answer, None) is not None


def cost_of(answer: ModelResponse, prices: Prices | None) -> Decimal | None:
    """Return the cost of an answer in US dollars; None if unknown."""
    if prices is not None:
        return prices.cost(answer.usage)
    if answer.usage.cost is not None:  # as some gateways report
        return answer.usage.cost
    if not answer.model_name:
        return None
    try:
        return answer.cost().total_price
    except (LookupError, ValueError):
        return None
