"""On what terms effects of a kind are executed, and what one attempt came to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

import anyio

from placet.actors.ports import AsyncEffectHandler
from placet.schemas.attempt import Backoff, DoNotRetry, OutcomeUnknown, RetryAfter
from placet.schemas.codec import Json
from placet.schemas.effect import DELIVERIES, Delivery, Effect, Settlement

_WORDS_CHARS_MAX: Final = 1_000

InDoubtHook: TypeAlias = Callable[[Effect], Awaitable[Settlement | None]]
"""Finds out what became of an effect: its settlement, or None if that cannot be told either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """On what terms an executor works.

    Attributes:
        delivery: What a second attempt would do outside.
        concurrency: How many attempts run at a time: its credits.
        attempts_max: After so many that failed, an effect is given up.
        seconds_max: How long one attempt may take.
        outbox_max: How many effects may be unsettled before the gate answers `executor_busy`.
        backoff: The pauses between attempts.
        on_in_doubt: Asked what became of an effect that is in doubt.

    Raises:
        ValueError: One of them is unsound.
    """

    delivery: Delivery
    concurrency: int
    attempts_max: int
    seconds_max: float
    outbox_max: int
    backoff: Backoff = field(default_factory=Backoff)
    on_in_doubt: InDoubtHook | None = None

    def __post_init__(self) -> None:
        if self.delivery not in DELIVERIES:
            raise ValueError(f"delivery must be one of {DELIVERIES}, got {self.delivery!r}")
        for name in ("concurrency", "attempts_max", "outbox_max"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be an int >= 1, got {value!r}")
        seconds = self.seconds_max
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ValueError(f"seconds_max must be a number, got {seconds!r}")
        if not (isfinite(seconds) and seconds > 0):
            raise ValueError(f"seconds_max must be finite and > 0, got {seconds!r}")
        if self.is_once and self.attempts_max > 1:
            raise ValueError("what is done at most once has one attempt; leave out attempts_max")
        if self.on_in_doubt is not None and not self.is_once:
            raise ValueError(f"what is {self.delivery} is tried again, never in doubt")

    @property
    def is_once(self) -> bool:
        """There is one attempt, and what it came to may stay unknown."""
        return self.delivery == "at_most_once"


class AttemptResult(NamedTuple):
    """What one attempt came to.

    Attributes:
        succeeded: The handler returned.
        output: What it returned; or why it did not, in words.
        is_final: Another attempt would fail too.
        is_unknown: Nobody can tell whether the work was done.
        pause_s: How long to wait, where the handler was told; else None.
    """

    succeeded: bool
    output: Json
    is_final: bool = False
    is_unknown: bool = False
    pause_s: float | None = None


async def attempt(
    handler: AsyncEffectHandler,
    effect: Effect,
    seconds_max: float,
    on_error: Callable[[BaseException], None],
) -> AttemptResult:
    """Call a handler once; whatever it does is an outcome."""
    try:
        with anyio.move_on_after(seconds_max):
            return AttemptResult(True, await handler(effect))
    except RetryAfter as error:
        return AttemptResult(False, describe_error(error), pause_s=error.seconds)
    except DoNotRetry as error:
        return AttemptResult(False, describe_error(error), is_final=True)
    except OutcomeUnknown as error:
        on_error(error)
        return AttemptResult(False, describe_error(error), is_unknown=True)
    except Exception as error:  # noqa: BLE001  # the executor boundary: a failure is an outcome
        on_error(error)
        return AttemptResult(False, describe_error(error))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_canceled():
            raise
        # The handler's own: an exit, a panic of an extension, a cancellation of something that it
        # awaited. It is not for it to end the world.
        on_error(error)
        return AttemptResult(False, describe_error(error), is_unknown=True)
    return AttemptResult(False, f"the handler took longer than {seconds_max:g} s", is_unknown=True)


def describe_error(error: BaseException) -> str:
    """Return what an error says, as a log takes it: not at any length, and in valid Unicode.

    What cannot even be printed has at least a type.
    """
    name = type(error).__name__
    try:
        words = f"{name}: {error}"
    except Exception:  # noqa: BLE001  # the executor boundary: a hostile object
        return name
    return words[:_WORDS_CHARS_MAX].encode("utf-8", "replace").decode()


def is_canceled() -> bool:
    """Return whether this very task is being canceled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
