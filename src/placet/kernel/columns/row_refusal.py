"""The refusal of one row of a column batch, as an ordinary intent of its agent has it.

It is made when it is asked for, out of the code of the row. So a batch of 10⁶ rows costs no
object a row, and changes by other agents are those of the moment of the question.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placet.kernel.arrays.row_codes import (
    CONFLICT,
    DENIED,
    FUTURE,
    LEASED,
    OWNER,
    PAYLOAD,
    QUOTA,
    REUSED,
    ROW_CODES,
    RULE_ERROR,
    STALE,
    SUSPENDED,
    TOO_FAR,
    TOO_OLD,
    WORLD_QUOTA,
)
from placet.kernel.columns.decide import quotas_of
from placet.kernel.gate.changes import foreign_changes
from placet.schemas.identity import Ref
from placet.schemas.limits import ROW_FAULTS_MAX
from placet.schemas.refusal import seconds_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from placet.kernel.columns.form import CheckedColumns
    from placet.kernel.context import GateContext
    from placet.kernel.ledger.members import Members
    from placet.kernel.plugin.domain import Kind
    from placet.kernel.plugin.rows import Rows64
    from placet.schemas.codec import Json
    from placet.schemas.config import Quota


class Submitted(NamedTuple):
    """The parts of a batch that messages name; its payload is not kept.

    Attributes:
        context: The world.
        kind: The kind.
        members: The population.
        req_id: The request.
        submitter: The submitter.
        numbers: Number of the member of each row.
        contexts: Context of all rows, or of each; None of a batch that was decided before, whose
            contexts were others.
        seq: Seq of the world when the batch was opened.
    """

    context: "GateContext"
    kind: "Kind"
    members: "Members"
    req_id: str
    submitter: str
    numbers: "Rows64"
    contexts: "int | Rows64 | None"
    seq: int

    @classmethod
    def of(cls, batch: "CheckedColumns", context: "GateContext", seq: int | None) -> "Submitted":
        """Return the parts of a batch; `seq` None is one that was decided before."""
        return cls(
            context, batch.kind, batch.members, batch.req_id, batch.submitter, batch.numbers,
            None if seq is None else batch.contexts, seq or 0,
        )  # fmt: skip

    def agent_of(self, row: int) -> str:
        """Return the agent of a row."""
        return f"{self.members.name}:{int(self.numbers[row])}"

    def context_of(self, row: int) -> int | None:
        """Return the context of a row; None if it is not known."""
        if self.contexts is None or isinstance(self.contexts, int):
            return self.contexts
        return int(self.contexts[row])


def message_of(submitted: Submitted, code: int, row: int, retry_after: float | None) -> str:
    """Return the message of a refusal by the kernel: the check, the values, and the remedy."""
    agent, kind, members = submitted.agent_of(row), submitted.kind, submitted.members
    context_seq = submitted.context_of(row)
    if code == PAYLOAD:
        bounds = [f"{name} {one.limits[0]}..{one.limits[1]}" for name, one in kind.fields.items()]
        return f"a number of the payload is not finite or out of bounds: {', '.join(bounds)}"
    if code == OWNER:
        return (
            f"submitter {submitted.submitter!r} may not speak for population {members.name!r}; "
            f"submit as the operator or as {members.owner!r}"
        )
    if code == SUSPENDED:
        return f"agent {agent!r} is suspended; it may propose again once it is resumed"
    if code == DENIED:
        permitted = sorted(members.permissions or ())
        return (
            f"agent {agent!r} may not propose {kind.name}; it may propose {permitted or 'nothing'}"
        )
    if code in {REUSED, TOO_OLD}:
        return f"{ROW_CODES[code].message}: {submitted.req_id!r}; send it under a new req_id"
    if code in {FUTURE, TOO_FAR, STALE} and context_seq is not None:
        return _stale_message(submitted, code, agent, context_seq)
    if code == LEASED:
        return f"{ROW_CODES[code].message}; {_advice(retry_after)}, or lease the row first"
    if code in {QUOTA, WORLD_QUOTA}:
        return f"{ROW_CODES[code].message}; {_advice(retry_after)}"
    if code == RULE_ERROR:
        return (
            f"the rule of {kind.name} raised for this row, or named a row that its table does not "
            "have, or put into one that it does not claim; or it raised for "
            f"{ROW_FAULTS_MAX} rows before this one"
        )
    return ROW_CODES[code].message


def _stale_message(submitted: Submitted, code: int, agent: str, context_seq: int) -> str:
    if code == FUTURE:
        return (
            f"context_seq {context_seq} is ahead of the world, which is at seq {submitted.seq}; "
            "send the seq of a view you were given"
        )
    if code == TOO_FAR:
        return (
            f"context_seq {context_seq} is {submitted.seq - context_seq} behind the world at seq "
            f"{submitted.seq}; refresh the view and propose again"
        )
    return (
        f"{submitted.kind.table}/{agent} changed after context_seq {context_seq}; "
        "refresh the view and propose again"
    )


def _advice(retry_after: float | None) -> str:
    if retry_after is None:
        return "waiting does not help; send fewer rows at once"
    return f"retry in {retry_after:.2f} s"


def details_of(submitted: Submitted, code: int, row: int, winner: int) -> "dict[str, Json]":
    """Return the facts of a refusal as data; the winner only if the agent may know of it."""
    agent = submitted.agent_of(row)
    details: dict[str, Json] = {"agent_id": agent, "kind": submitted.kind.name}
    context_seq = submitted.context_of(row)
    if code in {FUTURE, TOO_FAR, STALE} and context_seq is not None:
        details["context_seq"] = context_seq
    if winner >= 0:
        name, context = f"{submitted.members.name}:{winner}", submitted.context
        if context.registry.may_know_agent(context.state, agent, name):
            details["winner"] = name
    return details


def changed_of(
    submitted: Submitted, code: int, row: int, winner: int
) -> "tuple[dict[str, Json], ...]":
    """Return the changes by other agents, as the agent may see them now.

    Of a stale row that is its own row of the table; of a lost claim, the row of the winner, if its
    own changed: the table of the claim is not kept.
    """
    agent, context = submitted.agent_of(row), submitted.context
    if code == STALE and submitted.kind.reads_self is not None:
        return foreign_changes([Ref(submitted.kind.reads_self, agent)], agent, context)
    if code == CONFLICT and winner >= 0:
        ref = Ref(submitted.members.table, f"{submitted.members.name}:{winner}")
        return foreign_changes([ref], agent, context)
    return ()


def waits(
    batch: "CheckedColumns", context: "GateContext", codes: "NDArray[np.uint8] | None"
) -> "NDArray[np.float64] | None":
    """Return the simulated seconds after which each row passes quotas and leases; None if all did.

    NaN for a row that no quota and no lease refused; infinite if the batch has more rows than the
    burst of the world's quota. For a leased row it is the end of the last running lease on a row of
    any table: by then all of these leases have ended.
    """
    if codes is None:
        return None
    is_over, is_leased, ledger = codes == QUOTA, codes == LEASED, context.ledger
    count = int(np.count_nonzero(codes == WORLD_QUOTA))
    if not count and not is_over.any() and not is_leased.any():
        return None
    seconds = np.full(len(codes), np.nan)
    if is_leased.any():
        seconds[is_leased] = _seconds_of_leases(context)
    rows, over_ns = batch.numbers[is_over], np.zeros(int(is_over.sum()), np.int64)
    for bucket, quota in quotas_of(ledger, batch.members, batch.kind.name):
        over_ns = np.maximum(over_ns, _over_ns(batch.members, bucket, quota, rows, context.now_ns))
    seconds[is_over] = _seconds_until(over_ns, context.now_ns)
    world = ledger.policy.world_quota
    if count and world is not None:
        wait_ns = world.over_ns(world.charged(ledger.world_tat, count, context.now_ns), 0)
        until = _seconds_until(np.array([wait_ns - context.now_ns]), context.now_ns)
        seconds[codes == WORLD_QUOTA] = until if count <= world.burst else np.inf
    return seconds


def _seconds_of_leases(context: "GateContext") -> float:
    """Return the seconds until the last running lease on a row has ended; 0 if none runs."""
    leases, now_ns = context.ledger.leases, context.now_ns
    held = {} if leases is None else leases.at(now_ns).held
    ends = [t.until_ns or 0 for ref, t in held.items() if ref.collection in context.state.tables]
    return seconds_until(max(ends, default=now_ns), now_ns)


def _over_ns(
    members: "Members", bucket: str, quota: "Quota", rows: "Rows64", now_ns: int
) -> "NDArray[np.int64]":
    """Return the nanoseconds until one more intent of each row passes a bucket."""
    tats = members.tats.get(bucket)
    begins = np.maximum(0 if tats is None else tats[rows], now_ns)
    over: NDArray[np.int64] = begins + quota.interval_ns - quota.burst * quota.interval_ns - now_ns
    return over


def _seconds_until(over_ns: "NDArray[np.int64]", now_ns: int) -> "NDArray[np.float64]":
    """Return nanoseconds as seconds that are safe to add to a float of now (`seconds_until`).

    Rows that wait alike are computed once: few times of charges differ.
    """
    waiting, place = np.unique(np.maximum(over_ns, 0), return_inverse=True)
    seconds = [seconds_until(now_ns + wait_ns, now_ns) for wait_ns in waiting.tolist()]
    return np.array(seconds, np.float64)[place]
