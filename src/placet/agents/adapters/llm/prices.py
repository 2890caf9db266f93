"""The cost of an answer: by given prices, or by the price list of pydantic-ai.

An unknown price is None and stays None: a session with a limit in money does not call such a model
(`AgentLimits.on_unknown_price`).
"""

from dataclasses import dataclass
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from placet.schemas.keywords import explain_keywords

_MILLION: Final = 1_000_000

Price: TypeAlias = Decimal | float


@explain_keywords
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

    def __str__(self) -> str:
        prices = [self.input_usd, self.output_usd, self.cached_input_usd]
        return ",".join(f"{price.normalize():f}" for price in prices if price is not None)


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

_PRIVATE_NAMES: Final = (".local", ".internal", ".lan", ".home.arpa")


class Pricing(NamedTuple):
    """The price of a model, and how it is known.

    Attributes:
        prices: Prices that were stated or assumed; None uses the server's report or the price list.
        source: Where the price is from, for the record of a turn; empty for a function.
        is_known: Whether the cost of an answer can be computed.
    """

    prices: Prices | None
    source: str
    is_known: bool


def pricing_of(model: Model, stated: Prices | None = None) -> Pricing:
    """Return the price of a model.

    A function costs nothing. Nor does a server on the loopback interface, unless the price list
    knows the model's name: a proxy on this machine may serve a model that costs.

    Args:
        model: The model.
        stated: Prices that the caller states; they take precedence.
    """
    if stated is not None:
        return Pricing(stated, f"stated {stated}", True)
    if isinstance(model, FunctionModel | TestModel):
        return Pricing(FREE, "", True)
    if is_priced(model):
        return Pricing(None, "price list", True)
    host = address_of(model)
    if is_loopback(host):
        return Pricing(FREE, f"assumed 0 ({host})", True)
    return Pricing(None, "unknown", False)


def address_of(model: Model) -> str:
    """Return the host name or IP address of a model's server; empty if it has none."""
    return (urlsplit(model.base_url or "").hostname or "").rstrip(".")


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine's loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _ip_address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_private(host: str) -> bool:
    """Return whether a host name or IP address is that of a private network.

    Names are judged as they are written: `*.local`, `*.internal`, `*.lan`, `*.home.arpa`, and names
    without a dot, such as that of a container. No name is looked up.
    """
    address = _ip_address(host)
    if address is not None:
        return address.is_private and not is_loopback(host)
    is_short = bool(host) and "." not in host
    return (is_short or host.endswith(_PRIVATE_NAMES)) and not is_loopback(host)


def _ip_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_priced(model: Model) -> bool:
    """Return whether pydantic-ai's price list has a model."""
    return cost_of(bare_answer(model, 1, 1), None) is not None


def bare_answer(model: Model, input_tokens: int, output_tokens: int) -> ModelResponse:
    """Return an answer of a model without parts, of so many tokens."""
    usage = RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    name, provider = model.model_name, model.system
    return ModelResponse(parts=[], usage=usage, model_name=name, provider_name=provider)


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
