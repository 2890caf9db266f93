"""The price of a model and the limits of a turn, as a person or a client states them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from pydantic import ValidationError

from placet.agents.proposal.limits import AgentLimits
from placet.cli.terminal import CommandError
from placet.schemas.codec import Json

NO_LIMIT: Final = "none"
"""As `--max-usd`: no limit in money."""

_PRICES: Final = (2, 3)


def read_price(text: str) -> tuple[float, ...]:
    """Parse `IN,OUT` or `IN,OUT,CACHED`: US dollars for a million tokens.

    Raises:
        CommandError: The text is not two or three numbers.
    """
    try:
        price = tuple(map(float, text.split(",")))
    except ValueError:
        price = ()
    if len(price) not in _PRICES:
        raise CommandError(
            f"--price takes IN,OUT or IN,OUT,CACHED in US dollars for a million tokens, such as "
            f"0.25,2 (a model of your own: 0,0), got {text!r}"
        )
    return price


def read_max_usd(text: str) -> Decimal | None:
    """Parse a limit in US dollars, or `none`.

    Raises:
        CommandError: The text is neither.
    """
    if text == NO_LIMIT:
        return None
    try:
        amount = Decimal(text)
    except ArithmeticError:
        amount = Decimal("nan")
    if not amount.is_finite() or amount < 0:
        raise CommandError(
            f"--max-usd takes US dollars for a turn, such as 0.5, or {NO_LIMIT}, got {text!r}"
        )
    return amount


def agent_limits(chosen: Mapping[str, Json]) -> AgentLimits:
    """Return the limits of an agent with some of them chosen.

    Args:
        chosen: Fields of `AgentLimits`.

    Raises:
        CommandError: A limit is out of range.
    """
    try:
        return AgentLimits(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise CommandError(f"{name}: {first['msg']}, got {first['input']!r}") from error
