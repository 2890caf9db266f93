"""Stage 0, the door: what depends on the moment, outside the log, and leaves no trace but metrics.

Queue length and bytes, the age of what waits, the lag of the event loop, and how often one
submitter tries. Each refusal names its signal, its value and its limit.
"""

from collections import OrderedDict

from placet.schemas.limits import SECOND_NS, Limits
from placet.schemas.refusal import Refusal, RefusalCode, Stage

_MS_NS = 1_000_000


def door_refusal(
    code: RefusalCode,
    message: str,
    *,
    retry_after: float | None = None,
    **details: int | float | str,
) -> Refusal:
    """Refuse a batch at the door, as a whole."""
    return Refusal(code.value, message, Stage.DOOR, retry_after=retry_after, details=details)


class Door:
    """Judges whether there is room and time for one more batch.

    All times are monotonic nanoseconds.
    """

    __slots__ = ("_lag_ns", "_lag_seen_ns", "_limits", "_tats")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lag_ns = 0
        self._lag_seen_ns = 0
        self._tats: OrderedDict[str, int] = OrderedDict()

    def check(
        self, submitter: str, now_ns: int, waiting: int, oldest_ns: int | None
    ) -> Refusal | None:
        """Judge the moment before a batch is looked at.

        Args:
            submitter: Whose attempt is counted.
            now_ns: Monotonic time.
            waiting: Batches in the queue.
            oldest_ns: When the oldest of them was put there.
        """
        limits = self._limits
        if waiting >= limits.mailbox_batches_max:
            return self.queue_full("mailbox_batches", waiting, limits.mailbox_batches_max)
        if oldest_ns is not None and now_ns - oldest_ns > limits.mailbox_age_ms_max * _MS_NS:
            age_ms = (now_ns - oldest_ns) // _MS_NS
            return self._overloaded("mailbox_age_ms", age_ms, limits.mailbox_age_ms_max, age_ms)
        if self._lag_ns > limits.loop_lag_ms_max * _MS_NS:
            left_ns = self._lag_seen_ns + self._lag_ns - now_ns
            if left_ns > 0:  # a lag is believed for as long as it lasted
                lag_ms = self._lag_ns // _MS_NS
                return self._overloaded(
                    "loop_lag_ms", lag_ms, limits.loop_lag_ms_max, left_ns // _MS_NS + 1
                )
        return self._check_attempts(submitter, now_ns)

    def note_lag(self, lag_ns: int, now_ns: int) -> None:
        """Take in how long the orchestrator waited for its turn after it was woken."""
        self._lag_ns = lag_ns
        self._lag_seen_ns = now_ns

    def queue_full(self, signal: str, value: int, limit: int) -> Refusal:
        """Refuse because the queue is full."""
        return door_refusal(
            RefusalCode.QUEUE_FULL,
            f"the queue is full: {signal} is {value}, the limit is {limit}; retry in 0.05 s",
            retry_after=0.05,
            signal=signal,
            value=value,
            limit=limit,
        )

    def _overloaded(self, signal: str, value: int, limit: int, retry_ms: int) -> Refusal:
        retry_after = max(retry_ms, 1) / 1000
        return door_refusal(
            RefusalCode.OVERLOADED,
            f"the system is overloaded: {signal} is {value}, the limit is {limit}; "
            f"retry in {retry_after:.2f} s",
            retry_after=retry_after,
            signal=signal,
            value=value,
            limit=limit,
        )

    def _check_attempts(self, submitter: str, now_ns: int) -> Refusal | None:
        """Meter attempts by GCRA, refused ones too: an agent that loops on refusals is slowed."""
        limits = self._limits
        interval_ns = SECOND_NS // limits.attempts_per_second_max
        tats = self._tats
        tat = max(tats.get(submitter, 0), now_ns) + interval_ns
        over_ns = tat - now_ns - limits.attempts_burst_max * interval_ns
        if over_ns > 0:
            retry_after = over_ns / SECOND_NS
            return door_refusal(
                RefusalCode.ATTEMPTS_EXCEEDED,
                f"submitter {submitter!r} tries more often than {limits.attempts_per_second_max}/s "
                f"(burst {limits.attempts_burst_max}); retry in {retry_after:.4f} s",
                retry_after=retry_after,
                signal="attempts_per_second",
                limit=limits.attempts_per_second_max,
            )
        tats[submitter] = tat
        if len(tats) > limits.attempts_submitters_max:
            tats.popitem(last=False)
        return None


def timed_out(waited_ns: int, valid_for_ns: int) -> Refusal:
    """Refuse a batch whose deadline passed while it waited."""
    return door_refusal(
        RefusalCode.TIMEOUT,
        f"the batch waited {waited_ns / SECOND_NS:.3f} s and was valid for "
        f"{valid_for_ns / SECOND_NS:.3f} s; nothing was done, submit it again",
        signal="waited_s",
        value=waited_ns / SECOND_NS,
        limit=valid_for_ns / SECOND_NS,
    )


def shed(why: str) -> Refusal:
    """Refuse a batch that was waiting and will not be decided."""
    message = f"the batch was not decided: {why}; submit it again later"
    return door_refusal(RefusalCode.SHED, message)


def unauthorized(agent_id: str) -> Refusal:
    """Refuse a handle whose agent was removed since, even if the name is registered again."""
    return door_refusal(
        RefusalCode.UNAUTHORIZED,
        f"this handle of agent {agent_id!r} is no longer valid: the agent was removed; "
        "register it and use the new handle",
        agent_id=agent_id,
    )
