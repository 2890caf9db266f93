"""The price of a model and the limits of a turn, as a person or a client states them."""

from decimal import Decimal
from math import isfinite, nan
from typing import Final

from placet.agents.proposal.limits import AgentLimits
from placet.cli.terminal import CommandError
from placet.schemas.codec import Json
from placet.server.model_config import ModelConfig

NO_LIMIT: Final = "none"
"""As `--max-usd`: no limit in money."""

_PRICES: Final = (2, 3)


def read_price(text: str) -> list[float]:
    """Parse `IN,OUT` or `IN,OUT,CACHED`: US dollars for a million tokens.

    Raises:
        CommandError: The text is not two or three numbers of at least 0.
    """
    try:
        price = [float(part) for part in text.split(",")]
    except ValueError:
        price = []
    if len(price) not in _PRICES or not all(isfinite(one) and one >= 0 for one in price):
        raise CommandError(
            f"--price takes IN,OUT or IN,OUT,CACHED in US dollars for a million tokens, such as "
            f"0.25,2 (a model of your own: 0,0), got {text!r}"
        )
    return price


def read_max_usd(text: str) -> float | None:
    """Parse a limit in US dollars, or `none`.

    Raises:
        CommandError: The text is neither.
    """
    if text == NO_LIMIT:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = nan
    if not isfinite(amount) or amount < 0:
        raise CommandError(
            f"--max-usd takes US dollars for a turn, such as 0.5, or {NO_LIMIT}, got {text!r}"
        )
    return amount


def agent_limits(model: ModelConfig, **more: Json) -> AgentLimits:
    """Return the limits of the turns of an agent.

    Args:
        model: The limits in money and tokens.
        **more: Other fields of `AgentLimits`.
    """
    usd = None if model.max_usd is None else Decimal(str(model.max_usd))
    return AgentLimits(cost_usd_max=usd, tokens_max=model.max_tokens, **more)
