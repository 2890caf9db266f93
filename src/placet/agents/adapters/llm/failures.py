"""The cause of a failed request to a model, in words that a person can act on.

A provider's own text is never used, because it may hold a key or a body of a message: a cause is
made of the class of the error, its status, the model's name, and the host that was called.
"""

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

_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "google-gla": "GOOGLE_API_KEY",
    "openai": "OPENAI_API_KEY",
}
"""Environment variables from which a provider's client reads its key, by the provider's name."""


def host_of(model: Model) -> str | None:
    """Return host and port of the server that a model is asked at; None if the model has none."""
    address = urlsplit(model.base_url or "")
    if not address.hostname:
        return None
    return address.hostname if address.port is None else f"{address.hostname}:{address.port}"


def cause_of(error: Exception, model: Model) -> str:
    """Return why a request failed and what to do, ending with the class of the error."""
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    sentence = _sentence(error, model, status)
    name = type(error).__name__.removeprefix("_HTTP")
    return f"{sentence} [{name}]" if sentence else name


def _sentence(error: Exception, model: Model, status: str) -> str | None:
    at, name = host_of(model) or model.system, model.model_name
    sentence = None
    match error:
        case ModelAuthenticationError():
            variable = _VARIABLES.get(model.system)
            where = f"check {variable}" if variable else "check the key of this provider"
            sentence = f"{at} refused the key{status}: {where}"
        case ModelNotFoundError():
            sentence = f"{at} does not know the model {name!r}{status}: check its name"
        case ModelQuotaExceededError():
            sentence = f"the account's quota at {at} is used up{status}: check its plan"
        case ModelRateLimitError():
            sentence = f"{at} limits the rate of requests{status}: ask again later"
        case ModelContextWindowExceededError():
            sentence = f"the request is longer than {name!r} takes{status}: shorten the context"
        case ModelRequestRejectedError():
            sentence = f"{at} rejected the request{status}: check the model's settings"
        case ModelRequestTimeout():
            sentence = f"{at} did not answer in time"
        case ModelConnectionError():
            sentence = f"no connection to {at}: check that a server runs at this address"
        case ModelServerError() | ModelUnavailableError():
            sentence = f"the server at {at} failed{status}: ask again later"
        case UnexpectedModelBehavior():
            sentence = f"{at} sent no answer of a model: check that this is the address of its API"
        case ModelAPIError():
            sentence = f"the request to {at} failed{status}"
        case _:
            pass
    return sentence
