"""The settings of a request: known by name, and with a limit of output tokens in any case."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic_ai.models import Model
from pydantic_ai.settings import CacheConfig, ModelSettings

from placet.schemas.name_suggestions import nearest

OUTPUT_TOKENS_MAX: Final = 4_096
"""Limit of the tokens of an answer, where the caller sets none: no answer is unbounded."""

_LIMITED_BY_CLIENT: Final = frozenset({"anthropic"})
"""Providers whose client sends a limit in any case, with room for what the model thinks."""


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
    if model.system not in _LIMITED_BY_CLIENT:
        merged["max_tokens"] = (model.settings or {}).get("max_tokens", OUTPUT_TOKENS_MAX)
    merged.update(chosen)
    merged["max_retries"] = 0  # `Requests` has the only say
    return merged


def _names(model: Model) -> frozenset[str]:
    """Return the names of settings: those of every model, and those of the model's provider."""
    kinds = [
        value
        for base in type(model).__mro__
        for name, value in vars(sys.modules[base.__module__]).items()
        if name.endswith("ModelSettings")
    ]
    return frozenset(_annotated([ModelSettings, *kinds]))


def _annotated(kinds: Iterable[Any]) -> Iterable[str]:
    for kind in kinds:
        annotations: Mapping[str, Any] = getattr(kind, "__annotations__", {})
        yield from annotations
