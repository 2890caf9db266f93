"""The messages of a turn that ends because of its budget: the rest, and how to raise it."""

from decimal import Decimal
from typing import Final

_RAISE_USD: Final = "raise the limit of a turn (--max-usd, max_usd, in Python cost_usd_max)"
_RAISE_TOKENS: Final = "raise the limit of a turn (--max-tokens, max_tokens, in Python tokens_max)"


def tokens_message(request_tokens: int, answer_tokens: int, left: int) -> str:
    """Return the message of a request that the remaining tokens of the turn do not allow.

    Args:
        request_tokens: Estimated tokens of the request.
        answer_tokens: Tokens that its answer needs at least.
        left: Remaining tokens of the turn.
    """
    answer = f", its answer at least {answer_tokens}" if answer_tokens else ""
    return (
        f"the next request has about {request_tokens} tokens{answer}, and {max(0, left)} are left: "
        f"{_RAISE_TOKENS}"
    )


def cost_message(cost: Decimal, request_tokens: int, answer_tokens: int, left: Decimal) -> str:
    """Return the message of a request that the remaining money of the turn does not allow.

    Args:
        cost: Most US dollars that the request may cost.
        request_tokens: Estimated tokens of the request.
        answer_tokens: Most tokens of its answer.
        left: Remaining US dollars of the turn.
    """
    return (
        f"the next request may cost {_usd(cost)} USD (about {request_tokens} tokens in, at most "
        f"{answer_tokens} out), and {_usd(max(Decimal(0), left))} USD are left: {_RAISE_USD}, or "
        "lower that of its tokens (--max-tokens, max_tokens, in Python tokens_max)"
    )


def spent_message(cost: Decimal) -> str:
    """Return the message of a turn that has cost all that it may, in US dollars."""
    return f"the turn has cost {_usd(cost)} USD, which is all that it may: {_RAISE_USD}"


def _usd(amount: Decimal) -> str:
    """Write US dollars with six decimals at most, rounded up so that no cost is shown as 0."""
    return f"{amount.quantize(Decimal('0.000001'), 'ROUND_UP').normalize():f}"
