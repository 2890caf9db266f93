"""The control results of an effect handler, and the pause before the next attempt."""

from dataclasses import dataclass
from typing import Final

from placet.schemas.errors import PlacetError

_SECONDS_MAX: Final = 1e9


class DoNotRetry(PlacetError):  # noqa: N818  # an instruction, as `StopIteration` is
    """Raised by a handler: it knows that another attempt would fail too; the effect is given up."""


class RetryAfter(PlacetError):  # noqa: N818  # likewise
    """Raised by a handler that was told when to come again.

    Attributes:
        seconds: The pause, in place of the back-off; 0 to 1e9.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"asked to come again in {seconds:g} s")
        if not 0 <= seconds <= _SECONDS_MAX:
            raise ValueError(f"seconds must be in 0..{_SECONDS_MAX:g}, got {seconds!r}")
        self.seconds = seconds

    def __reduce__(self) -> tuple[type["RetryAfter"], tuple[float, str]]:
        """Return what makes it again, in the process of the executor."""
        return type(self), (self.seconds, str(self))


class OutcomeUnknown(PlacetError):  # noqa: N818  # what is known, which is nothing
    """Raised by a handler that cannot tell whether it did the work, as after a lost connection.

    An effect that is done at most once is in doubt then; any other is tried again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between the attempts at an effect: `first_s`, times `factor` each, up to `max_s`.

    Attributes:
        first_s: Before the second attempt, seconds.
        factor: By which each pause is longer than the one before.
        max_s: No pause is longer, seconds.
        jitter: Random share of a pause, 0 to 1: attempts that failed together do not retry
            together.
    """

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.max_s < float("inf"):
            raise ValueError(
                f"a back-off has 0 <= first_s <= max_s, got {self.first_s!r} and {self.max_s!r}"
            )
        if not 1 <= self.factor < float("inf"):
            raise ValueError(f"factor must be 1 or more, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be 0 to 1, got {self.jitter!r}")

    def pause_s(self, attempt: int, chance: float) -> float:
        """Return the pause after an attempt, seconds.

        Args:
            attempt: Which failed, from 1.
            chance: Uniform in [0, 1).
        """
        longest = self.first_s
        for _ in range(attempt - 1):
            if longest >= self.max_s:
                break
            longest *= self.factor
        return min(longest, self.max_s) * (1 - self.jitter * chance)
