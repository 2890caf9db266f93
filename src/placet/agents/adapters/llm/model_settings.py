"""The settings of a request: known by name, and with a limit of output tokens in any case."""

import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.models import Model
from pydantic_ai.settings import CacheConfig, ModelSettings

from placet.schemas.name_suggestions import nearest

OUTPUT_TOKENS_MAX: Final = 4_096
"""Limit of the tokens of an answer, where the caller sets none: no answer is unbounded."""

THINKING_TOKENS_MAX: Final = 32_768
"""Tokens of an answer for which money is reserved where the client limits the answer."""

_THINKING_COUNTS: Final = frozenset({"anthropic"})
"""Providers whose client sends a limit in any case, with room for what the model thinks."""

_PROFILE_FIELD: Final = "openai_chat_supports_max_completion_tokens"


def request_settings(model: Model, settings: ModelSettings | None) -> ModelSettings:
    """Return the settings of every request to a model.

    Args:
        model: The model; its class decides which settings there are.
        settings: The caller's settings, which go over the defaults.

    Raises:
        ValueError: There is no such setting.
    """
    chosen = settings or {}
    known = _names(model)
    for name in chosen:
        if name not in known:
            near = nearest(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
            raise ValueError(f"{model.model_name} has no setting {name!r}; {hint}")
    merged = ModelSettings(cache=CacheConfig(messages=False))
    stated = ModelSettings(**(model.settings or {}))
    stated.update(chosen)
    is_clients = model.system in _THINKING_COUNTS and _thinks(stated)
    if "max_tokens" in stated or not is_clients:
        merged["max_tokens"] = stated.get("max_tokens", OUTPUT_TOKENS_MAX)
    merged.update(chosen)
    merged["max_retries"] = 0  # `Requests` has the only say
    return merged


def answer_tokens_max(settings: ModelSettings, tokens_left: int) -> int | None:
    """Return the limit of tokens of the next answer; None if the model's client sets it.

    Args:
        settings: Settings of every request (`request_settings`).
        tokens_left: Tokens that the turn has left for the answer, at least 1. They do not
            bound a model that thinks, because its thoughts count and have a limit already.
    """
    limit = settings.get("max_tokens")
    return limit if limit is None or _thinks(settings) else min(limit, tokens_left)


def _thinks(settings: Mapping[str, object]) -> bool:
    return any("thinking" in name and value for name, value in settings.items())


def limit_fields(model: Model) -> list[str]:
    """Return the fields of a chat completion in which a model's server may take the token limit.

    The likelier field is first. OpenAI refuses `max_tokens` for its newer models. Other servers of
    the same format take `max_tokens`, and several of them ignore `max_completion_tokens`: their
    answers were unbounded. Empty if the model's own client decides.
    """
    is_chat = any(base.__name__ == "OpenAIChatModel" for base in type(model).__mro__)
    if not is_chat or _PROFILE_FIELD in model.profile:
        return []
    host = urlsplit(model.base_url or "").hostname or ""
    fields = ["max_tokens", "max_completion_tokens"]
    return fields[::-1] if f".{host}".endswith(".openai.com") else fields


def limited_by(settings: ModelSettings, field: str) -> ModelSettings:
    """Return settings that send the limit of output tokens in this field."""
    limited = ModelSettings(**settings)
    limit = limited.pop("max_tokens", OUTPUT_TOKENS_MAX)
    further = limited.get("extra_body")
    limited["extra_body"] = {field: limit, **(further if isinstance(further, Mapping) else {})}
    return limited


def _names(model: Model) -> frozenset[str]:
    """Return the names of settings: those of every model, and those of the model's provider."""
    kinds = [ModelSettings] + [
        value
        for base in type(model).__mro__
        for name, value in vars(sys.modules[base.__module__]).items()
        if name.endswith("ModelSettings")
    ]
    return frozenset[str]().union(*(getattr(kind, "__annotations__", ()) for kind in kinds))
