"""The cost of an answer: by given prices, or by the price list of pydantic-ai.

An unknown price is None and stays None: a session with a limit in money does not call such a model
(`AgentLimits.on_unknown_price`).
"""

from dataclasses import dataclass
from decimal import Decimal
from ipaddress import ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

_MILLION: Final = 1_000_000

Price: TypeAlias = Decimal | float


@dataclass(frozen=True, slots=True, init=False)
class Prices:
    """Prices in US dollars for a million tokens.

    Args:
        input_usd: US dollars per million input tokens, a finite number of at least 0.
        output_usd: US dollars per million output tokens.
        cached_input_usd: US dollars per million input tokens read from the provider's cache; None
            is the price of other input.

    Raises:
        ValueError: A price is not such a number.
    """

    input_usd: Decimal
    output_usd: Decimal
    cached_input_usd: Decimal | None

    def __init__(
        self, input_usd: Price, output_usd: Price, cached_input_usd: Price | None = None
    ) -> None:
        cached = None if cached_input_usd is None else _amount("cached_input_usd", cached_input_usd)
        object.__setattr__(self, "input_usd", _amount("input_usd", input_usd))
        object.__setattr__(self, "output_usd", _amount("output_usd", output_usd))
        object.__setattr__(self, "cached_input_usd", cached)

    def cost(self, usage: RequestUsage) -> Decimal:
        """Return the cost of one request to a model, from its token counts, in US dollars."""
        cached_usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        fresh = usage.input_tokens - usage.cache_read_tokens
        return (
            fresh * self.input_usd
            + usage.cache_read_tokens * cached_usd
            + usage.output_tokens * self.output_usd
        ) / _MILLION


def _amount(name: str, value: Price) -> Decimal:
    is_number = type(value) in {int, float, Decimal}
    amount = Decimal(str(value)) if is_number else None  # as written: 0.1 and not its 55 digits
    if amount is None or not amount.is_finite() or amount < 0:
        raise ValueError(
            f"{name} must be US dollars for a million tokens, a finite number >= 0, got {value!r}"
        )
    return amount


FREE: Final = Prices(0, 0)
"""Of models that run in this process or on this machine."""


def prices_of(model: Model) -> Prices | None:
    """Return zero prices for a model that runs here; None for any other model.

    A model runs here if it is a function, or if its server is on the loopback interface and the
    price list does not know its name: a proxy on this machine may serve a model that costs.
    """
    if isinstance(model, FunctionModel | TestModel):
        return FREE
    return FREE if is_on_loopback(model) and not is_priced(model) else None


def is_on_loopback(model: Model) -> bool:
    """Return whether the server of a model is on the loopback interface of this machine."""
    host = urlsplit(model.base_url or "").hostname
    if host is None or host == "localhost":
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:  # another name
        return False


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
