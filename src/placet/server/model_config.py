"""The configuration of the language model of conversations: the section `[model]`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final
from urllib.parse import urlsplit

SECONDS_MAX: Final = 86_400
"""Longest limit of a turn or of a request, real seconds: a day."""

_REQUESTS_OF_A_TURN: Final = 2
_PRICES: Final = (2, 3)
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The language model of conversations, and the limits of a turn.

    Attributes:
        name: Name of the model, such as `anthropic:claude-haiku-4-5`; None asks no model.
        base_url: Address of the model's server; None is its provider's. With an address, no key is
            sent unless `api_key_env` names it.
        api_key_env: Name of the environment variable with the key; None is the one that the
            provider's client reads.
        price: US dollars for a million tokens: input, output, and of cached input if that differs;
            None for the price list.
        max_usd: Limit of a turn in US dollars; None for no limit.
        max_tokens: Limit of a turn in tokens, input and output.
        max_seconds: Limit of a turn in real seconds, at most a day.
        max_request_seconds: Limit of one request to the model in real seconds; None is half of
            `max_seconds`, so that there is time for a second one.
        max_output_tokens: Limit of the tokens of one answer; None is the adapter's, 4 096.
        budget: Name of the account on which the calls of all conversations draw (domain
            `accounts`); None draws on none.

    Raises:
        ValueError: A value is none of these.
    """

    name: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    price: list[float] | None = None
    max_usd: float | None = 1.0
    max_tokens: int = 50_000
    max_seconds: float = 120.0
    max_request_seconds: float | None = None
    max_output_tokens: int | None = None
    budget: str | None = None

    def __post_init__(self) -> None:
        _check_url(self.base_url)
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise ValueError(  # without the value, which may be the key
                "api_key_env must be the name of an environment variable in capitals, not the key"
            )
        if self.price is not None and not is_price(self.price):
            raise ValueError(
                "price must be [IN, OUT] or [IN, OUT, CACHED] in US dollars for a million tokens, "
                f"each at least 0, got {self.price!r}"
            )
        if self.max_usd is not None and not (isfinite(self.max_usd) and self.max_usd >= 0):
            raise ValueError(f"max_usd must be US dollars of at least 0, got {self.max_usd!r}")
        for key in ("max_tokens", "max_output_tokens"):
            if (count := getattr(self, key)) is not None and count < 1:
                raise ValueError(f"{key} must be at least 1, got {count!r}")
        for key in ("max_seconds", "max_request_seconds"):
            seconds = getattr(self, key)
            if seconds is not None and not 0 < seconds <= SECONDS_MAX:
                raise ValueError(
                    f"{key} must be seconds above 0 and at most {SECONDS_MAX}, got {seconds!r}"
                )

    @property
    def request_seconds(self) -> float:
        """Limit of one request to the model, real seconds."""
        if self.max_request_seconds is not None:
            return self.max_request_seconds
        return self.max_seconds / _REQUESTS_OF_A_TURN

    def of_model(self, name: str | None) -> "ModelConfig":
        """Return the configuration for a model; address, key and price are those of `name` only."""
        if self.name in {None, name}:
            return replace(self, name=name)
        return replace(self, name=name, base_url=None, api_key_env=None, price=None)


def is_price(price: Sequence[float]) -> bool:
    """Return whether a price is two or three finite numbers of at least 0."""
    return len(price) in _PRICES and all(isfinite(one) and one >= 0 for one in price)


def _check_url(url: str | None) -> None:
    """Raise unless an address is http or https, with a host and without a password.

    Raises:
        ValueError: It is another; the message does not repeat it, because it may hold a key.
    """
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        has_secret = parts.username is not None or parts.port == 0
    except ValueError:
        is_address = has_secret = False
    if not is_address or has_secret:
        raise ValueError(
            "base_url must be the address of an API without name and password, such as "
            "http://127.0.0.1:11434/v1; a key is read from the variable that api_key_env names"
        )
