"""Refusals: stages, codes, and the refusal itself.

The order of `RefusalCode` is the order of precedence: a batch is refused at the first stage where
any of its intents fails. `kernel/gate/__init__.py` has the table of the stages, and compares it
with this enum at import.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf, nextafter, ulp
from typing import Final

import msgspec

from placet.schemas.codec import Json
from placet.schemas.limits import SECOND_NS


class Stage(StrEnum):
    """The stages of the gate, in the order in which they check a batch."""

    ADMISSION = "admission"
    STRUCTURE = "structure"
    AGENT = "agent"
    DEDUP = "dedup"
    STALENESS = "staleness"
    QUOTA = "quota"
    BACKPRESSURE = "backpressure"
    DOMAIN = "domain"


class RefusalCode(StrEnum):
    """The refusal codes of the gate, in order of precedence.

    A domain adds codes of the form `<domain>.<code>`; they belong to the stage `domain`.
    """

    QUEUE_FULL = "queue_full"
    """The queue, the agent's share of it, or the place for answers that wait is full;
    `details.signal` says which. Send the batch again after `retry_after`.
    """

    OVERLOADED = "overloaded"
    """The oldest queued batch waits too long, the event loop is late, or the operator drains the
    world. Send the batch again after `retry_after`; `details.signal` says which.
    """

    SHED = "shed"
    """The queued batch was displaced by one of higher priority, or the world closes; nothing was
    done. Send it again later, after `retry_after` where there is one.
    """

    TIMEOUT = "timeout"
    """The batch was queued for longer than its `valid_for_s`; nothing was done. Send it again, or
    allow more seconds.
    """

    INGRESS_RATE_EXCEEDED = "ingress_rate_exceeded"
    """The submitter sends batches faster than the limit; refused ones count too. Send fewer, and
    this one after `retry_after`.
    """

    LOG_RATE_EXCEEDED = "log_rate_exceeded"
    """The refused batches of an agent add bytes to the log faster than the limit. Refresh the view
    before the next try, after `retry_after`.
    """

    UNAUTHORIZED = "unauthorized"
    """The handle is of an agent that was removed. Register the agent and use the new handle."""

    BATCH_EMPTY = "batch_empty"
    """The batch has no intents; send at least one."""

    BATCH_TOO_LARGE = "batch_too_large"
    """The batch has too many intents, values or bytes; split it."""

    FIELD_MISSING = "field_missing"
    """A required field is absent; `details.missing` lists the absent fields. Add them."""

    FIELD_INVALID = "field_invalid"
    """A field has the wrong type or range, or the batch is no batch; `at` points to it. The message
    says what was expected.
    """

    FIELD_UNKNOWN = "field_unknown"
    """There is no such field; `suggestions` has the nearest names. Correct the name, or leave the
    field out.
    """

    VERSION_UNSUPPORTED = "version_unsupported"
    """The `schema_version` of the intent has another major number than the one that the world
    reads. Send the version that the message names.
    """

    KIND_UNKNOWN = "kind_unknown"
    """No domain of the world declares the kind; `suggestions` has the nearest kinds."""

    PAYLOAD_INVALID = "payload_invalid"
    """The payload does not fit the model of its kind; `at` points to the value, and the message
    says what was expected.
    """

    PAYLOAD_TOO_LARGE = "payload_too_large"
    """The payload has too many bytes or is nested too deeply. Send less, or split it over intents.
    """

    AGENT_UNKNOWN = "agent_unknown"
    """No agent of this id is registered. Register it before it proposes."""

    AGENT_SUSPENDED = "agent_suspended"
    """The operator suspended the agent. It may propose again once the operator resumes it."""

    AGENT_NOT_YOURS = "agent_not_yours"
    """The submitter is neither the agent, nor its owner, nor the operator; the agent may not even
    exist. Submit through the handle or the token of the agent.
    """

    PERMISSION_DENIED = "permission_denied"
    """The agent may not propose this kind; the message lists the kinds that it may."""

    REQ_ID_REUSED = "req_id_reused"
    """The `req_id` was used before with other content or in another batch. Take a new one."""

    REQ_ID_TOO_OLD = "req_id_too_old"
    """The number of the `req_id` is below the remembered part of its sequence, so the intent may
    have been decided before. Look at the state, then take a newer number.
    """

    CONTEXT_FROM_FUTURE = "context_from_future"
    """`context_seq` is larger than the seq of the world. Send the seq of a view of this world."""

    EXPIRED = "expired"
    """`valid_until` of the intent, in simulated seconds, has passed. Propose anew with a new
    `req_id`.
    """

    STALE_CONTEXT = "stale_context"
    """Another agent changed an entity that the intent reads after `context_seq`, or the context is
    too far behind. `changed` has the changes; refresh the view and decide again.
    """

    CONDITION_FAILED = "condition_failed"
    """A value named in `expect` is another; `details` has its path and the value found. Decide
    again with the value found.
    """

    CONTEXT_TOO_OLD = "context_too_old"
    """`context_seq` is older than the tracked changes of an entity that the intent reads. Refresh
    the view and decide again.
    """

    QUOTA_EXCEEDED = "quota_exceeded"
    """A quota of the agent or of all agents has too little left. Send the same batch again after
    `retry_after`; without it, another quota is too small for the batch: split it.
    """

    BATCH_EXCEEDS_BURST = "batch_exceeds_burst"
    """The batch has more intents than the burst of a quota, so waiting cannot help; split it."""

    WORK_EXCEEDED = "work_exceeded"
    """The work of the batch, or the unpaid work of the agent, is over a limit. With `retry_after`
    wait; without it split the batch.
    """

    EXECUTOR_BUSY = "executor_busy"
    """The outbox of an executor of its effects, or the agent's share of it, is full. Send the batch
    again after `retry_after`.
    """

    SCHEDULE_FULL = "schedule_full"
    """The schedule of the world, or the agent's share of it, has no place for another batch. Send
    it again after `retry_after`, or without `sim_time`.
    """

    SIM_TIME_TOO_FAR = "sim_time_too_far"
    """`sim_time` is further ahead than the schedule reaches. Send an earlier one, or this one after
    `retry_after`.
    """

    CONFLICT = "conflict"
    """A rule found that another batch of the same group claimed the resource first;
    `details.winner` is its agent. Refresh the view and decide again.
    """

    INVARIANT_VIOLATED = "invariant_violated"
    """The state after the batch breaks an invariant of the domain, `details.invariant`, or the
    batch has too many effects. Propose another change.
    """

    RULE_ERROR = "rule_error"
    """Code of the domain raised an exception; the batch changed nothing. Do not send it again:
    report it to the author of the domain.
    """

    LEASED = "leased"
    """Another agent has a lease of an entity that the batch changes. Send the same batch after
    `retry_after`, when the lease has ended at the latest, or lease the entity first.
    """

    LEASE_UNKNOWN = "lease_unknown"
    """The lease names an entity that is not in the agent's view. Lease entities of the view."""

    LEASE_REFUSED = "lease_refused"
    """The lease is too long, has too many entities, the agent has a ticket for others, or no ticket
    is free. The message says which, and what is allowed.
    """

    BUDGET_EXCEEDED = "budget_exceeded"
    """The account named in the refusal has too little for the cost. Send the same batch again after
    the account was funded.
    """

    TOOL_UNREGISTERED = "tool_unregistered"
    """No executor is registered for an effect of the batch. The operator registers one; then send
    the batch with a new `req_id`.
    """


_FIRST_OF_STAGE: Final = {
    RefusalCode.QUEUE_FULL: Stage.ADMISSION,
    RefusalCode.BATCH_EMPTY: Stage.STRUCTURE,
    RefusalCode.AGENT_UNKNOWN: Stage.AGENT,
    RefusalCode.REQ_ID_REUSED: Stage.DEDUP,
    RefusalCode.CONTEXT_FROM_FUTURE: Stage.STALENESS,
    RefusalCode.QUOTA_EXCEEDED: Stage.QUOTA,
    RefusalCode.EXECUTOR_BUSY: Stage.BACKPRESSURE,
    RefusalCode.CONFLICT: Stage.DOMAIN,
}


def _stages() -> dict[str, Stage]:
    table: dict[str, Stage] = {}
    stage = Stage.ADMISSION
    for code in RefusalCode:
        stage = _FIRST_OF_STAGE.get(code, stage)
        table[code.value] = stage
    return table


STAGE_OF: Final[Mapping[str, Stage]] = _stages()
"""Code -> stage that returns it; any other code belongs to a domain."""


class Refusal(msgspec.Struct, frozen=True):
    """The reason why one intent, or a whole batch, was refused.

    Attributes:
        index: Position of the intent in the submitted batch, 0-based; None for the whole batch.
        req_id: The intent's req_id where it could be read.
        stage: Stage that refused.
        code: Machine-readable reason, one of `RefusalCode` or `<domain>.<code>`.
        message: Failed check, expected value, actual value, and the remedy.
        at: JSON pointer into the batch.
        retry_after: Seconds after which the same batch may pass; None where waiting cannot help.
        suggestions: Nearest valid values, best first.
        changed: Changes of other agents, for stale contexts, conflicts and rules that name it:
            `{entity, seq, by, now}`, restricted to the agent's view.
        details: Facts as data: `agent_id`, `kind`, `context_seq`, `winner`, `signal`, `value`,
            `limit`; of a condition its `path` and the value `found`; of missing fields their
            names, `missing`; of an exception of plug-in code its type, `error`, and for the
            operator alone its text, `message`, and its `place`.
    """

    code: str
    message: str
    stage: Stage = Stage.DOMAIN
    index: int | None = None
    req_id: str | None = None
    at: str = ""
    retry_after: float | None = None
    suggestions: tuple[str, ...] = ()
    changed: tuple[Mapping[str, Json], ...] = ()
    details: Mapping[str, Json] = {}

    def __repr__(self) -> str:
        where = "batch" if self.index is None else f"intent {self.index}"
        return f"<Refusal {self.code} at {self.stage.value} of {where}: {self.reason}>"

    @property
    def reason(self) -> str:
        """The message, and of an exception of plug-in code its text and place, if they are known.

        They are known to the operator, who may see more than the agent.
        """
        if "place" not in self.details:
            return self.message
        place = f"{self.details['place']}: " if self.details["place"] else ""
        return f"{self.message} [{place}{self.details['message']}]"

    def as_dict(self) -> dict[str, Json]:
        """Return the refusal in the form of a verdict on the wire."""
        return {
            "index": self.index,
            "req_id": self.req_id,
            "stage": self.stage.value,
            "code": self.code,
            "message": self.message,
            "at": self.at,
            "retry_after": self.retry_after,
            "suggestions": list(self.suggestions),
            "changed": [dict(change) for change in self.changed],
            "details": dict(self.details),
        }


class Notice(msgspec.Struct, frozen=True):
    """A warning: an intent passed after a change, such as a clamp or a dropped field."""

    code: str
    message: str
    at: str = ""

    def as_dict(self) -> dict[str, Json]:
        """Return the warning in the form of a verdict on the wire."""
        return {"code": self.code, "message": self.message, "at": self.at}


def seconds_until(due_ns: int, now_ns: int) -> float:
    """Return the seconds from `now_ns` to `due_ns`, safe to add to a float of now.

    Above about 10⁶ s a float of seconds cannot represent nanoseconds: the sum would be too small,
    and a retry at it too early. The delay is then longer by at most three steps of such a float: a
    step is 2 ns at 10⁷ s, and 1 µs at the end of time.
    """
    seconds, now = (due_ns - now_ns) / SECOND_NS, now_ns / SECOND_NS
    before = nextafter(now, -inf)
    if round(before * SECOND_NS) == now_ns:  # the same nanosecond as now, and the smaller float
        now = before
    while round((now + seconds) * SECOND_NS) < due_ns:
        seconds += ulp(now + seconds)
    return seconds
