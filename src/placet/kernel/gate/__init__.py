"""The gate: one table of the stages that a batch passes, which code, tests and docs read.

Theory of operation
===================

**The table is the gate.** Admission comes first, outside the kernel and outside the log: load,
time-outs and tokens depend on the moment. Then come the seven stages of the gate. They read logged
inputs alone, so replay and verification decide as the live world did. A batch is refused at the
first stage that fails for one of its intents, and its refusals are all failures of that stage.

**Two clocks.** A batch *arrives* once and is *due* once. Without `sim_time`, or at a time that has
passed, both are the same moment. A batch for a later time passes the stages up to back-pressure on
arrival, leaves a record, and waits in the schedule. Its rules run when it is due.

**A due batch skips three stages.** Dedup, quota and back-pressure accepted the request on arrival:
its req_ids are in the window, its charge is paid, its place in the schedule is taken. Their answer
stands, because the submitter has it. A due batch passes structure again, because the kinds may be
newer than its record; agent, because the agent may be suspended by now; and staleness, by its
footprint alone: the global threshold would refuse every batch that was scheduled far ahead.

**Final refusals.** A refusal on arrival is final where the same request would be refused again,
because it depends on the state that the agent saw: staleness and the rules of the domain. It is a
record, and its req_ids are remembered. (A stale req_id with a newer `context_seq` is a new try:
`dedup.py`.) `leased` and `budget_exceeded` are refusals of the domain stage that pass with time, so
they are not final. All other refusals depend on load, rates or the request itself. They leave no
trace, so the same req_ids may be sent again. When a batch is due, every refusal is a record and
final: no submitter waits for it any more, and silence would lose the request.

**Quota is charged at commit.** A stage reads and changes nothing. The quota stage computes the
charges once (`context.charges`), and the commit applies them if the batch passes every later stage.
So a refused batch pays for nothing, all buckets are charged or none, and a replay charges the same
from the record. Admission meters refused batches and dry runs.

**Single batches take a separate path.** A tick of a simulation is thousands of batches of one
intent. `kernel/decide/single/` passes each through these stages in one loop with the stages
inlined, because five calls a batch would cost more than its rule. Where a stage would look closely
or refuse, the batch takes the calls of this table. So refusals have one source, and a stage that
the loop does not inline (`INLINED` there) is called for every batch.

A new stage is a file here, a row, its codes in `schemas/refusal.py`, and its explanation in
`kernel/log/explain_stages.py`: docs/internals/add_a_stage.md.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from placet.kernel.context import GateContext
from placet.kernel.gate import agent, backpressure, dedup, quota, staleness
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import STAGE_OF, Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict

StageCheck: TypeAlias = Callable[[CheckedBatch, GateContext], list[Refusal] | Verdict | None]
"""Checks a whole batch; None passes it to the next stage, a verdict repeats an earlier one."""


class RunsAt(StrEnum):
    """The moments at which a stage checks a batch; a batch without `sim_time` is due on arrival."""

    ARRIVAL = "on arrival"
    DUE = "when due"
    BOTH = "on arrival and when due"


class StageRow(NamedTuple):
    """A stage of the table.

    Attributes:
        stage: Its name in refusals, logs and metrics.
        place: Its code, below `src/placet/`.
        check: Its function; None where it is called elsewhere: admission by the actors, and the
            rules in `decide_batch`, which hands them the draft to undo.
        runs_at: When it checks a batch.
        reads: State and inputs that it compares.
        codes: Its codes in order of precedence, each with its HTTP status.
        is_final: Its refusals on arrival are records, and final for their req_ids; the others
            leave no trace. When the batch is due, a refusal of any stage is a record and final.
    """

    stage: Stage
    place: str
    check: StageCheck | None
    runs_at: RunsAt
    reads: str
    codes: Mapping[RefusalCode, int]
    is_final: bool = False


def _check_recorded(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Upcast and validate a due batch: it was read from its record, and kinds may be newer."""
    assert batch.due_of is not None, "only a scheduled batch is read back"
    versions = context.ledger.scheduled[batch.due_of].versions
    return context.check_recorded(batch, versions)


_Code = RefusalCode  # a name that fits into a row

STAGES: Final = (
    StageRow(
        Stage.ADMISSION,
        "actors/admission/",
        None,
        RunsAt.ARRIVAL,
        "queue, loop lag, deadlines, rate of attempts and debts of the submitter, tokens",
        codes={
            _Code.QUEUE_FULL: 503,
            _Code.OVERLOADED: 503,
            _Code.SHED: 503,
            _Code.TIMEOUT: 503,
            _Code.INGRESS_RATE_EXCEEDED: 429,
            _Code.LOG_RATE_EXCEEDED: 429,
            _Code.UNAUTHORIZED: 403,
        },
    ),
    StageRow(
        Stage.STRUCTURE,
        "kernel/gate/structure.py",
        _check_recorded,  # on arrival `Structure.check`, in the submitter's task
        RunsAt.BOTH,
        "the batch, its kinds and the limits",
        codes={
            _Code.BATCH_EMPTY: 422,
            _Code.BATCH_TOO_LARGE: 413,
            _Code.FIELD_MISSING: 422,
            _Code.FIELD_INVALID: 422,
            _Code.FIELD_UNKNOWN: 422,
            _Code.VERSION_UNSUPPORTED: 422,
            _Code.KIND_UNKNOWN: 422,
            _Code.PAYLOAD_INVALID: 422,
            _Code.PAYLOAD_TOO_LARGE: 413,
        },
    ),
    StageRow(
        Stage.AGENT,
        "kernel/gate/agent.py",
        agent.check,
        RunsAt.BOTH,
        "agents: owner, suspension, permissions",
        codes={
            _Code.AGENT_UNKNOWN: 404,
            _Code.AGENT_SUSPENDED: 403,
            _Code.AGENT_NOT_YOURS: 403,
            _Code.PERMISSION_DENIED: 403,
        },
    ),
    StageRow(
        Stage.DEDUP,
        "kernel/gate/dedup.py",
        dedup.check,
        RunsAt.ARRIVAL,
        "the agents' dedup windows",
        codes={_Code.REQ_ID_REUSED: 409, _Code.REQ_ID_TOO_OLD: 409},
    ),
    StageRow(
        Stage.STALENESS,
        "kernel/gate/staleness.py",
        staleness.check,
        RunsAt.BOTH,
        "the seq and the time of the world, conditions, stamps of the footprint",
        is_final=True,
        codes={
            _Code.CONTEXT_FROM_FUTURE: 409,
            _Code.EXPIRED: 409,
            _Code.STALE_CONTEXT: 409,
            _Code.CONDITION_FAILED: 409,
            _Code.CONTEXT_TOO_OLD: 409,
        },
    ),
    StageRow(
        Stage.QUOTA,
        "kernel/gate/quota.py",
        quota.check,
        RunsAt.ARRIVAL,
        "token buckets of intents and of work",
        codes={
            _Code.QUOTA_EXCEEDED: 429,
            # Waiting does not help, and clients repeat a 429 by themselves.
            _Code.BATCH_EXCEEDS_BURST: 422,
            # Of a batch that is too large by itself; with a `retry_after` it is 429.
            _Code.WORK_EXCEEDED: 422,
        },
    ),
    StageRow(
        Stage.BACKPRESSURE,
        "kernel/gate/backpressure.py",
        backpressure.check,
        RunsAt.ARRIVAL,
        "outboxes of the executors, and the schedule",
        codes={
            _Code.EXECUTOR_BUSY: 503,
            _Code.SCHEDULE_FULL: 503,
            _Code.SIM_TIME_TOO_FAR: 422,  # the request asks for too much; the world is not busy
        },
    ),
    StageRow(
        Stage.DOMAIN,
        "kernel/gate/domain_rules.py",
        None,
        RunsAt.DUE,
        "the state, through the draft, by the rules and invariants of the domains",
        is_final=True,
        codes={
            _Code.CONFLICT: 409,
            _Code.INVARIANT_VIOLATED: 422,
            _Code.RULE_ERROR: 500,  # a fault of the rule, not of the client
            _Code.LEASED: 409,
            _Code.LEASE_UNKNOWN: 404,
            _Code.LEASE_REFUSED: 409,
            _Code.BUDGET_EXCEEDED: 429,
            _Code.TOOL_UNREGISTERED: 422,
        },
    ),
)
"""Admission and the seven stages of the gate, in their order."""

STATUS_OF: Final[Mapping[str, int]] = {
    code.value: status for row in STAGES for code, status in row.codes.items()
}
"""HTTP status of each code. `server/http/verdict_status.py` makes answers of it."""

STATUS_OF_DOMAIN_CODE: Final = 422
"""HTTP status of a code `<domain>.<code>`, which the domain stage returns."""

GATE: Final = STAGES[1:]
"""The seven stages of the gate; admission comes before it."""

FINAL_STAGES: Final = frozenset(row.stage for row in GATE if row.is_final)

_PASSING: Final = frozenset({_Code.LEASED.value, _Code.BUDGET_EXCEEDED.value})
"""Codes of a final stage that pass with time, as a quota does: each try would be a record."""


def is_final(refusal: Refusal) -> bool:
    """Return whether a refusal on arrival is a record, and final for its req_ids (G6)."""
    return refusal.stage in FINAL_STAGES and refusal.code not in _PASSING


ON_ARRIVAL: Final = tuple(
    row.check for row in GATE[1:] if row.check is not None and row.runs_at is not RunsAt.DUE
)
"""The checks of `decide_batch` before the rules; structure was checked before the queue."""

WHEN_DUE: Final = tuple(
    row.check for row in GATE if row.check is not None and row.runs_at is not RunsAt.ARRIVAL
)
"""The checks that a scheduled batch passes again when it is due, before the rules."""

# The enum is public and must not import the kernel, so the two are compared here, at import.
assert tuple(row.stage for row in STAGES) == tuple(Stage), "each stage has one row, in order"
assert {code.value: row.stage for row in STAGES for code in row.codes} == STAGE_OF, "and its codes"
