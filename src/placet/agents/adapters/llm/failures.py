"""The cause of a failed request to a model, in words that a person can act on.

A provider's own text is never used, because it may hold a key or a body of a message: a cause is
made of the class of the error, its status, the model's name, and the host that was called.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model

from placet.agents.adapters.llm.bounded_answers import refused_answer

_VARIABLES: Final = {
    name: f"{name.upper()}_API_KEY"
    for name in ("anthropic", "deepseek", "google", "groq", "mistral", "ollama", "openai")
} | {"cohere": "CO_API_KEY", "google-gla": "GOOGLE_API_KEY", "openrouter": "OPENROUTER_API_KEY"}
"""Environment variables from which a provider's client reads its key, by the provider's name."""

_CHECK_ADDRESS: Final = (
    "check that this is the address of its API, which for servers of OpenAI's format ends in /v1"
)

_NO_ADDRESS: Final = "{at} has nothing at this address{status}: " + _CHECK_ADDRESS
_PAGE: Final = "{at} sent no model's answer in JSON, but perhaps a page: " + _CHECK_ADDRESS


def host_of(model: Model) -> str | None:
    """Return host and port of the server that a model is asked at; None if the model has none."""
    address = urlsplit(model.base_url or "")
    if not address.hostname:
        return None
    return address.hostname if address.port is None else f"{address.hostname}:{address.port}"


def cause_of(error: Exception, model: Model, key_advice: str = "") -> str:
    """Return why a request failed and what to do; for an unknown error its class.

    Args:
        error: The error of the model's client.
        model: The model.
        key_advice: What to do about a key that is refused; empty for the provider's variable.
    """
    name = type(error).__name__.removeprefix("_HTTP")
    refused = refused_answer(error)
    text = next((text for kind, text in _CAUSES if isinstance(error, kind)), name)
    status, after = "", None
    if refused is not None:
        text = str(refused)
    elif isinstance(error, ModelHTTPError):
        status, after = f" ({error.status_code})", error.retry_after
        if isinstance(error, ModelNotFoundError) and not isinstance(error.body, Mapping):
            text = _NO_ADDRESS  # the address is wrong: an API reports an unknown model as JSON
    elif type(error) is ModelAPIError and "JSON" in error.message:
        text = _PAGE
    variable = _VARIABLES.get(model.system)
    place_of_key = f"environment variable {variable}" if variable else "key of this provider"
    return text.format(
        at=host_of(model) or model.system,
        model=repr(model.model_name),
        status=status,
        key=key_advice or f"check the {place_of_key}",
        later="later" if after is None else f"in {ceil(after)} s",
    )


_SLOW: Final = (
    "{at} did not answer in time: if it is slow, raise the limits of a turn and of a request "
    "(--max-seconds, --max-request-seconds, in Python seconds_max, attempt_seconds_max)"
)

_CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ModelAuthenticationError, "{at} refused the key{status}: {key}"),
    (
        ModelNotFoundError,
        "{at} does not know the model {model}{status}: check its name, and that the server has it",
    ),
    (ModelQuotaExceededError, "the account's quota at {at} is used up{status}: check its plan"),
    (ModelRateLimitError, "{at} limits the rate of requests{status}: ask again {later}"),
    (
        ModelContextWindowExceededError,
        "the request is longer than {model} takes{status}: shorten the context",
    ),
    (ModelRequestRejectedError, "{at} rejected the request{status}: check the model's settings"),
    (ModelRequestTimeout, _SLOW),
    (ModelConnectionError, "no connection to {at}: check that a server runs at this address"),
    (ModelServerError, "the server at {at} failed{status}: ask again {later}"),
    (ModelUnavailableError, "the server at {at} is not available{status}: ask again {later}"),
    (UnexpectedModelBehavior, _PAGE),
    (ModelAPIError, "the request to {at} failed{status}"),
)
"""Causes by the class of the error; the first that fits counts."""
