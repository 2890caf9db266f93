"""The messages of a turn that ends because of its budget: what is left, and how to raise it."""

from decimal import Decimal
from typing import Final

_RAISE_USD: Final = "raise the limit of a turn (--max-usd, max_usd, in Python cost_usd_max)"
_RAISE_TOKENS: Final = "raise the limit of a turn (--max-tokens, max_tokens, in Python tokens_max)"


def tokens_message(asked: int, answered: int, left: int) -> str:
    """Return the message of a request that the remaining tokens of the turn do not allow.

    Args:
        asked: Estimated tokens of the request.
        answered: Tokens that its answer needs at least.
        left: Remaining tokens of the turn.
    """
    answer = f", its answer at least {answered}" if answered else ""
    return (
        f"the next request has about {asked} tokens{answer}, and {max(0, left)} are left: "
        f"{_RAISE_TOKENS}"
    )


def cost_message(cost: Decimal, asked: int, answered: int, left: Decimal) -> str:
    """Return the message of a request that the remaining money of the turn does not allow.

    Args:
        cost: Most US dollars that the request may cost.
        asked: Estimated tokens of the request.
        answered: Most tokens of its answer.
        left: Remaining US dollars of the turn.
    """
    return (
        f"the next request may cost {_usd(cost)} USD (about {asked} tokens in, at most {answered} "
        f"out), and {_usd(max(Decimal(0), left))} USD are left: {_RAISE_USD}, or lower that of its "
        "tokens (--max-tokens, max_tokens, in Python tokens_max)"
    )


def spent_message(cost: Decimal) -> str:
    """Return the message of a turn that has cost all that it may, in US dollars."""
    return f"the turn has cost {_usd(cost)} USD, which is all that it may: {_RAISE_USD}"


def _usd(amount: Decimal) -> str:
    """Write US dollars with six decimals at most, rounded up so that no cost is shown as 0."""
    return f"{amount.quantize(Decimal('0.000001'), 'ROUND_UP').normalize():f}"
