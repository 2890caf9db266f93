"""One request to a provider: its time limit, one retry where that may help, and its errors.

The provider's client does not retry, so that the number and time of tries are decided here. The
text of a provider's error is never reported, because it may hold a key or a message body
(`failures.py`).
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from time import monotonic
from typing import Any, Final, NamedTuple, Self

import anyio
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

from placet.agents.adapters.llm.bounded_answers import refused_answer
from placet.agents.adapters.llm.failures import cause_of
from placet.agents.adapters.llm.model_settings import limit_fields, limited_by
from placet.agents.proposal.adapter import PlannerTimedOut, PlannerUnavailable

_PASSING: Final = (
    ModelConnectionError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
)
"""Errors that may pass, so that the request is repeated."""
_REFUSED_FIELD: Final = frozenset({400, 422})
"""Statuses by which servers refuse a field of a request."""
_WAIT_SECONDS: Final = 0.5
"""Before the second try, where the provider names no time; half as much to half as much again."""
_OVER_SECONDS: Final = 0.01
"""A failure this close to the end of a turn counts as a timeout of the turn."""


class Failed(NamedTuple):
    """The failure of one attempt to reach a model.

    Attributes:
        cause: Why it failed, and what to do.
        wait_seconds: Seconds after which another attempt may succeed; None if none will.
    """

    cause: str
    wait_seconds: float | None = None


class Requests:
    """A sender of requests to one model; it keeps connections open while it is entered.

    Args:
        model: The model.
        settings: Settings of each request.
        attempt_seconds_max: Maximum seconds of one attempt.
        on_text: Called with the text of an answer as it streams; None waits for the whole answer.
        key_advice: What to do about a key that is refused; empty for the provider's variable.
        sleep: Function that waits a number of seconds.
    """

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        *,
        attempt_seconds_max: float,
        on_text: Callable[[str], None] | None = None,
        key_advice: str = "",
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._key_advice = key_advice
        self._model = model
        self._settings = settings
        self._attempt_seconds_max = attempt_seconds_max
        self._on_text = on_text
        self._sleep = sleep
        # The first is sent; a server that refuses it by name gets the other from then on.
        self._limit_fields = limit_fields(model)

    async def __aenter__(self) -> Self:
        await self._model.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:  # noqa: ANN401  # passed on
        with anyio.CancelScope(shield=True):  # a canceled caller closes its connections too
            await self._model.__aexit__(*error)

    async def send(
        self,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        ends_at: float,
        answer_tokens_max: int | None = None,
    ) -> tuple[ModelResponse | None, int]:
        """Send a request, and once more if that may help and there is time; return the answer.

        Args:
            messages: The messages to send.
            parameters: The offered tools.
            ends_at: Deadline, in seconds of the monotonic clock.
            answer_tokens_max: Limit of tokens of this answer; None is that of the settings.

        Returns:
            The answer, None if a content filter stopped it; and the number of requests sent.

        Raises:
            PlannerTimedOut: There is no answer before the deadline.
            PlannerUnavailable: There is no answer.
        """
        settings = ModelSettings(**self._settings)
        if answer_tokens_max is not None:
            settings["max_tokens"] = answer_tokens_max
        outcome = await self._try(messages, parameters, ends_at, settings)
        requests = 1
        wait = outcome.wait_seconds if isinstance(outcome, Failed) else None
        if wait is not None and monotonic() + wait < ends_at:
            await self._sleep(wait)
            outcome = await self._try(messages, parameters, ends_at, settings)
            requests += 1
        if isinstance(outcome, Failed):  # raised without a cause: its text may hold keys
            if monotonic() >= ends_at - _OVER_SECONDS:
                raise PlannerTimedOut(outcome.cause)
            raise PlannerUnavailable(outcome.cause)
        return outcome, requests

    async def _try(
        self,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
        ends_at: float,
        settings: ModelSettings,
    ) -> ModelResponse | Failed | None:
        seconds = min(self._attempt_seconds_max, max(0.001, ends_at - monotonic()))
        settings = ModelSettings(**settings)
        settings["request_timeout"] = seconds
        was_shown = False

        def show(text: str) -> None:
            nonlocal was_shown
            was_shown = True
            if self._on_text is not None:
                self._on_text(text)

        if self._limit_fields:
            settings = limited_by(settings, self._limit_fields[0])
        arguments: dict[str, Any] = {
            "model_settings": settings,
            "model_request_parameters": parameters,
            "instrument": False,
        }
        try:
            if self._on_text is None:
                return await model_request(self._model, messages, **arguments)
            return await _streamed(model_request_stream(self._model, messages, **arguments), show)
        except ContentFilterError:
            return None
        except Exception as error:  # noqa: BLE001  # a provider's own; only its name leaves this
            wait = None if was_shown else _wait_seconds(error)  # no word is shown twice
            if self._has_other_limit_field(error):
                wait = 0.0
            return Failed(cause_of(error, self._model, self._key_advice), wait)

    def _has_other_limit_field(self, error: Exception) -> bool:
        """Return whether the server refused the field of the token limit; the other is used then.

        Both fields are tried once; the one that was taken is kept.
        """
        fields = self._limit_fields
        is_refusal = isinstance(error, ModelHTTPError) and error.status_code in _REFUSED_FIELD
        if not (fields[1:] and is_refusal and fields[0] in str(getattr(error, "body", ""))):
            return False
        del fields[0]
        return True


async def _streamed(
    opened: AbstractAsyncContextManager[StreamedResponse], show: Callable[[str], None]
) -> ModelResponse:
    async with opened as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                text = event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                text = event.delta.content_delta
            else:
                continue
            if text:
                show(text)
        return stream.get()


def _wait_seconds(error: Exception) -> float | None:
    """Return how long to wait before another try; None where none would help."""
    if not isinstance(error, _PASSING) or refused_answer(error) is not None:
        return None
    if isinstance(error, ModelHTTPError) and error.provider_retry_hint is False:
        return None
    jitter = random.uniform(0.5, 1.5)  # so that callers that failed together do not retry together
    if error.retry_after is None:
        return _WAIT_SECONDS * jitter
    # Never before the time that the provider named.
    return error.retry_after + _WAIT_SECONDS * (jitter - 0.5)
