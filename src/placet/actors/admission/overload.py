"""The load signals of the admission stage, judged before a batch is checked, and its refusals.

Its refusals depend on the moment, are not written to the log, and leave no trace but metrics.
Signals are queue length and bytes, the age of the oldest batch, and the event-loop lag. Each
refusal names its signal, its value and its limit. `ingress.py` limits the submission rates.
"""

import asyncio
from typing import Final, NamedTuple

from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

_MS_NS: Final = 1_000_000
_CACHED_NS: Final = _MS_NS
"""How long a cached refusal is reused."""

_RATE_INTERVAL_NS: Final = 20 * _MS_NS
"""The shortest interval over which the drain rate is measured."""

_SPREAD_NS: Final = 2 * SECOND_NS
"""Retry times of refused batches are spread over this interval, then start over."""

CACHED_USES_MAX: Final = 32
"""Number of refusals in a row that may share one answer: as many as a group has batches."""

DRAINING: Final = "draining"
"""The signal of a draining world; its value is the number of queued batches."""

_QUEUE_FULL: Final = RefusalCode.QUEUE_FULL
_OVERLOADED: Final = RefusalCode.OVERLOADED


def admission_refusal(
    code: RefusalCode,
    message: str,
    *,
    retry_after: float | None = None,
    **details: int | float | str,
) -> Refusal:
    """Build a refusal of the admission stage; it concerns the batch as a whole, no single intent.

    `retry_after` is in seconds; `details` become the refusal's details.
    """
    return Refusal(code.value, message, Stage.ADMISSION, retry_after=retry_after, details=details)


class Overload(NamedTuple):
    """A load signal that is over its limit: the reason not to admit one more batch.

    Attributes:
        code: `queue_full` or `overloaded`.
        signal: Name of the signal, such as `mailbox_batches`.
        value: Present value of the signal.
        limit: Limit of the signal.
        clears_ns: Estimate of how long the signal stays over its limit.
        is_for_all: The limit applies to every submitter until a batch leaves the queue.
    """

    code: RefusalCode
    signal: str
    value: int
    limit: int
    clears_ns: int = 50 * _MS_NS
    is_for_all: bool = False


class CachedRefusal:
    """A cached overload refusal. Submitters rejected for the same load at the same moment share it.

    Attributes:
        load: The signal that is over its limit.
        verdict: The answer.
        reply: A completed future of the answer.
        seq: The durable seq when the answer was made.
        code: Code of its only refusal.
        until_ns: Monotonic time at which it expires.
        left: Number of submissions that may still share it.
    """

    __slots__ = ("code", "left", "load", "reply", "seq", "until_ns", "verdict")

    def __init__(self, load: Overload, verdict: Verdict, now_ns: int) -> None:
        self.load = load
        self.verdict = verdict
        self.seq = verdict.current_seq
        self.code = verdict.refusals[0].code
        self.reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.reply.set_result(verdict)
        self.until_ns = now_ns + _CACHED_NS
        self.left = CACHED_USES_MAX - 1


class AdmissionControl:
    """The overload control of one world: compares load signals with their limits.

    All times are monotonic nanoseconds.

    Attributes:
        full: The `Overload` of a full queue, built once.
        places: Maximum number of queued batches.
        is_lagging: The last measured lag of the event loop was over its limit.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._age_ns_max = limits.mailbox_age_ms_max * _MS_NS
        self._lag_ns_max = limits.loop_lag_ms_max * _MS_NS
        self._lag_ns = 0
        self._lag_seen_ns = 0
        self.is_lagging = False
        self._drain_rate = DrainRate()
        self.resize(limits.mailbox_places(0))

    def resize(self, places: int) -> None:
        """Set the maximum number of queued batches."""
        self.places = places
        # Made once: under overload it is needed for most submissions.
        self.full = Overload(_QUEUE_FULL, "mailbox_batches", places, places, is_for_all=True)

    def load(self, now_ns: int, waiting: int, oldest_ns: int | None) -> Overload | None:
        """Return the load signal that is over its limit, with one more batch; None if none is.

        Args:
            now_ns: Monotonic time.
            waiting: Number of batches in the queue.
            oldest_ns: Monotonic time at which the oldest queued batch entered the queue; None to
                skip the check of its age.
        """
        limits = self._limits
        if waiting >= self.places:
            return self.full
        if oldest_ns is not None and now_ns - oldest_ns > self._age_ns_max:
            age_ms = (now_ns - oldest_ns) // _MS_NS
            clears_ns = age_ms * _MS_NS  # the queue filled in that time, and drains in it
            return Overload(
                _OVERLOADED, "mailbox_age_ms", age_ms, limits.mailbox_age_ms_max, clears_ns
            )
        if self.is_lagging:
            left_ns = self._lag_seen_ns + self._lag_ns - now_ns
            if left_ns > 0:  # a lag counts for as long as it lasted: there is no newer measurement
                lag_ms = self._lag_ns // _MS_NS
                clears_ns = (left_ns // _MS_NS + 1) * _MS_NS
                return Overload(
                    _OVERLOADED, "loop_lag_ms", lag_ms, limits.loop_lag_ms_max, clears_ns
                )
        return None

    def note_lag(self, lag_ns: int, now_ns: int) -> None:
        """Record an event-loop lag: how long the orchestrator, once woken, waited until it ran."""
        self.is_lagging = lag_ns > self._lag_ns_max
        self._lag_ns = lag_ns
        self._lag_seen_ns = now_ns

    def refusal(self, load: Overload, now_ns: int, decided: int) -> Refusal:
        """Build the refusal for a load signal that is over its limit.

        Each call returns a later `retry_after`, spaced by the rate at which the queue empties, so
        that refused callers do not return together.

        Args:
            load: The load signal.
            now_ns: Monotonic time.
            decided: Number of batches taken from the queue so far; measures that rate.
        """
        code, signal, value, limit, clears_ns, _ = load
        retry_after = self._drain_rate.next_ns(now_ns, decided, clears_ns) / SECOND_NS
        reason = "the queue is full" if code is _QUEUE_FULL else "the system is overloaded"
        if signal is DRAINING:
            reason = "the world decides its queued batches and takes no more until it is resumed"
        message = (
            f"{reason}: {signal} is {value}, the limit is {limit}; retry in {retry_after:.2f} s"
        )
        details = {"signal": signal, "value": value, "limit": limit}
        return Refusal(
            code.value, message, Stage.ADMISSION, retry_after=retry_after, details=details
        )


class DrainRate:
    """An estimate of the rate at which the queue empties, to space the retries of refused batches.

    With one common retry time, all refused submitters would return as the same crowd. `retry_after`
    is a hint, not a reservation: a retry is judged like any other batch.
    """

    def __init__(self) -> None:
        self._ns_per_batch = _MS_NS
        self._measured_ns = 0
        self._decided = 0
        self._next_ns = 0

    def next_ns(self, now_ns: int, decided: int, earliest_ns: int) -> int:
        """Return the nanoseconds after which the next `CACHED_USES_MAX` refused batches retry.

        Args:
            now_ns: Monotonic time.
            decided: Number of batches taken from the queue so far; measures the rate.
            earliest_ns: Shortest time to return, nanoseconds from now.
        """
        elapsed_ns = now_ns - self._measured_ns
        if elapsed_ns >= _RATE_INTERVAL_NS:
            if decided > self._decided and elapsed_ns < SECOND_NS:  # else it was idle for a part
                self._ns_per_batch = elapsed_ns // (decided - self._decided)
            self._measured_ns, self._decided = now_ns, decided
        earliest_ns += now_ns
        if not earliest_ns <= self._next_ns <= earliest_ns + _SPREAD_NS:
            self._next_ns = earliest_ns
        chosen_ns = self._next_ns
        self._next_ns += self._ns_per_batch * CACHED_USES_MAX
        return chosen_ns - now_ns


def rate_exceeded(submitter: str, over_ns: int, limits: Limits) -> Refusal:
    """Build the refusal of a submitter that submits faster than its rate.

    Args:
        submitter: Name of the submitter.
        over_ns: Nanoseconds until it may submit again.
        limits: The limits in force.
    """
    rate, retry_after = limits.ingress_rate_per_second_max, over_ns / SECOND_NS
    return admission_refusal(
        RefusalCode.INGRESS_RATE_EXCEEDED,
        f"submitter {submitter!r} exceeds {rate}/s (burst {limits.ingress_burst_max}); "
        f"retry in {retry_after:.4f} s",
        retry_after=retry_after,
        signal="attempts_per_second",
        limit=rate,
    )


def timed_out(waited_ns: int, valid_for_ns: int) -> Refusal:
    """Build the refusal of a batch that was queued for longer than its `valid_for_s`.

    Both arguments are nanoseconds.
    """
    return admission_refusal(
        RefusalCode.TIMEOUT,
        f"the batch waited {waited_ns / SECOND_NS:.3f} s and was valid for "
        f"{valid_for_ns / SECOND_NS:.3f} s; nothing was done, submit it again",
        signal="waited_s",
        value=waited_ns / SECOND_NS,
        limit=valid_for_ns / SECOND_NS,
    )


def shed(why: str) -> Refusal:
    """Build the refusal of a queued batch that will not be decided; `why`: the reason."""
    message = f"the batch was not decided: {why}; submit it again later"
    return admission_refusal(RefusalCode.SHED, message)


def shed_for(refusal: Refusal, priority: int) -> Refusal:
    """Build the refusal of a queued batch that a batch of higher priority displaced.

    Args:
        refusal: The overload refusal that the other batch would have received.
        priority: Priority of the batch that is shed.
    """
    details = refusal.details
    message = (
        f"the batch was shed: one of higher priority than its {priority} came while "
        f"{details['signal']} was {details['value']}, the limit is {details['limit']}; "
        f"retry in {refusal.retry_after or 0:.2f} s"
    )
    return admission_refusal(
        RefusalCode.SHED, message, retry_after=refusal.retry_after, priority=priority, **details
    )


def unauthorized(agent_id: str) -> Refusal:
    """Build the refusal of a batch submitted by the handle of a removed agent.

    It applies even if an agent was registered again under the name.
    """
    return admission_refusal(
        RefusalCode.UNAUTHORIZED,
        f"this handle of agent {agent_id!r} is no longer valid: the agent was removed; "
        "register it and use the new handle",
        agent_id=agent_id,
    )
