"""Finds a model by its name, its server by an address, and its key by a variable's name."""

import os
import re
from functools import partial
from typing import Any, Final

from pydantic_ai import models
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.providers import Provider, infer_provider_class

_RENAMED: Final = {"google-gla:": "google:"}
_NO_KEY: Final = "api-key-not-set"
"""Clients refuse to be made without a key, and servers that need none ignore it."""

_UNSET: Final = re.compile(r"Set the `(\w+)` environment variable")
_NAMES: Final = (
    "name a provider and its model, such as anthropic:claude-haiku-4-5 or openai:gpt-5-mini; "
    "openai-chat:NAME is a model of any server with OpenAI's chat completions"
)


def find_model(name: str, base_url: str | None = None, api_key_env: str | None = None) -> Model:
    """Return the model of this name.

    Args:
        name: `provider:model`, or `test`.
        base_url: Address of its server; None is the provider's, or that of the variable which the
            provider's client reads.
        api_key_env: Environment variable with the key; None is the one that the provider's client
            reads. With `base_url` it must be named, or no key is sent: a key of one server is not
            sent to another.

    Raises:
        ValueError: There is no such model, or its key, its address or its client is missing.
    """
    for old, new in _RENAMED.items():
        name = new + name.removeprefix(old) if name.startswith(old) else name
    key = None
    if api_key_env is not None and not (key := os.environ.get(api_key_env)):
        raise ValueError(
            f"the environment variable {api_key_env} is not set, and api_key_env names it as the "
            "one with the key"
        )
    try:
        if base_url is None and key is None:
            return models.infer_model(name)
        return models.infer_model(name, partial(_provider, base_url=base_url, key=key))
    except (UserError, ImportError) as error:  # a key, or the provider's own package, is missing
        raise ValueError(_reason(name, error)) from error


def key_advice(base_url: str | None, api_key_env: str | None) -> str:
    """Return what to do about a key that a server refuses; empty if the provider's client knows."""
    if api_key_env is not None:
        return f"check the environment variable {api_key_env}"
    if base_url is not None:
        return (
            "none was sent to this base_url; name the environment variable that has it "
            "(api_key_env)"
        )
    return ""


def _provider(name: str, *, base_url: str | None, key: str | None) -> Provider[Any]:
    try:
        kind = infer_provider_class(name)
    except ValueError as error:
        raise UserError(f"Unknown model: {name}") from error
    options = {"api_key": key or _NO_KEY}
    if base_url is not None:
        options["base_url"] = base_url
    try:
        return kind(**options)
    except TypeError as error:
        raise ValueError(
            f"the provider {name!r} takes no {list(options)[-1]}; a model of a server with "
            "OpenAI's chat completions is named openai-chat:NAME"
        ) from error


def _reason(name: str, error: Exception) -> str:
    text = str(error)
    unset = _UNSET.match(text)
    if unset is not None:
        return f"the environment variable {unset[1]} is not set"
    if text.startswith("Unknown model"):
        near = re.search(r"Did you mean '(.+)'", text)
        hint = f"did you mean {near[1]!r}? " if near else ""
        return f"there is no model {name!r}; {hint}{_NAMES}"
    return text
