"""The result of a turn.

Values that a person reads, a test compares and a front end sends as JSON.
"""

from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, PrivateAttr

from placet.agents.proposal.adapter import Usage
from placet.agents.proposal.plan import Issue, kinds_text
from placet.schemas.codec import Json
from placet.schemas.foreseen import UNDECIDED, FieldChange, Op

Route = Literal["command", "agent", "person"]
OutcomeName = Literal["applied", "held", "clarify", "refused", "said", "failed"]
Status = Literal["invalid", "applied", "held", "rejected", "failed", "stop", "said"]
DecisionKind = Literal["applied", "read", "held", "rejected", "failed", "skipped"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class StateChange(_Value):
    """A change of one field of the state that a plan made, or would make.

    Attributes:
        path: `collection/entity/field`.
        op: `add`, `replace`, `remove`, or `undecided`: the value is decided when the plan is
            applied.
        old: Value before.
        new: Value after.
    """

    _field_change: FieldChange = PrivateAttr()
    path: str
    op: Op
    old: Any = None
    new: Any = None

    @classmethod
    def of(cls, change: FieldChange) -> "StateChange":
        """Convert a change of a verdict to the form for people."""
        made = cls(path=change.path, op=change.op, old=change.old, new=change.new)
        made._field_change = change
        return made

    @property
    def field_change(self) -> FieldChange:
        """The change with its collection, entity and field apart."""
        return self._field_change

    def __str__(self) -> str:
        return f"{self.path} {UNDECIDED}" if self.op == "undecided" else super().__str__()


class ActionOutcome(_Value):
    """The outcome of one action.

    Attributes:
        id: Name of the action in the plan, or its number.
        kind: Kind of the intent.
        outcome: Outcome of the action.
        seq: Sequence number at which the action was applied.
        output: Output of its rule or effect, cut to the size that an agent is shown.
        is_truncated: The output was cut.
        issues: Reasons, if the action was not applied.
    """

    id: str
    kind: str
    outcome: DecisionKind
    seq: int | None = None
    output: Any = None
    is_truncated: bool = False
    issues: tuple[Issue, ...] = ()

    def to_row(self) -> dict[str, Json]:
        """Return the part that is shown to an agent and recorded in the log, as plain JSON."""
        fields: dict[str, Json] = {"id": self.id, "kind": self.kind, "outcome": self.outcome}
        if self.seq is not None:
            fields["seq"] = self.seq
        if self.output is not None:
            fields["output"] = self.output
        if self.is_truncated:
            fields["is_truncated"] = True
        if self.issues:
            fields["codes"] = [issue.code for issue in self.issues]
        return fields


class PlanResult(NamedTuple):
    """The result of submitting one plan.

    Attributes:
        status: `applied`, `held` (waits for a person), `rejected`, or `failed` (an effect failed).
        issues: The reasons, if it was not applied.
        results: One for each action.
        diff: State changes made, or previewed.
        approval_id: Of the approval request; empty if none was made.
        has_acted: An action that is more than a read took effect, or some of its effects were
            executed, so that another plan would not start from the same state.
        contested: Visible entities, `collection/entity`, for whose changes or lease by other agents
            it was refused.
    """

    status: Status
    issues: tuple[Issue, ...] = ()
    results: tuple[ActionOutcome, ...] = ()
    diff: tuple[StateChange, ...] = ()
    approval_id: str = ""
    has_acted: bool = False
    contested: tuple[str, ...] = ()


class TurnEnd(NamedTuple):
    """The end of a turn, before it is recorded.

    Attributes:
        outcome: Outcome of the turn, such as `applied`, `held` or `refused`.
        stop: The code of the reason why the turn ended.
        message: Text for the user.
        plan_result: Result of the last submitted plan; None if none was submitted.
        choices: Answers that the user may choose from, if the agent asked a question.
    """

    outcome: OutcomeName
    stop: str
    message: str = ""
    plan_result: PlanResult | None = None
    choices: tuple[str, ...] = ()


class Attempt(_Value):
    """One answer of an adapter in a turn, and its outcome."""

    n: int
    status: Status
    actions: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()
    adapter: str = ""
    model: str = ""


class Turn(_Value):
    """The result of one message to a session.

    Attributes:
        id: `<session>/<number>`.
        session: Name of the session.
        agent: Id of the agent in whose name plans were submitted.
        route: What made the plan: `command`, `agent` or `person`.
        mode: Mode of the session during the turn.
        outcome: Outcome of the turn, such as `applied`, `held` or `refused`.
        stop: The code of the reason why the turn ended.
        message: Text for the user.
        choices: Answers that the user may choose from, if the agent asked a question.
        attempts: Every answer of the adapter, in order.
        results: Outcomes of the actions of the last decided plan.
        diff: Changes that this plan made, or would make if it is held.
        approval_id: Id of the approval request of a held plan; empty if none is held.
        usage: Requests, tokens and cost of the adapter.
    """

    id: str
    session: str
    agent: str
    route: Route
    mode: str
    outcome: OutcomeName
    stop: str
    message: str = ""
    choices: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    results: tuple[ActionOutcome, ...] = ()
    diff: tuple[StateChange, ...] = ()
    approval_id: str = ""
    usage: Usage = Usage()

    def __repr__(self) -> str:
        kinds = kinds_text(result.kind for result in self.results)
        approval = f", approval {self.approval_id!r}" if self.approval_id else ""
        return f"<Turn {self.id!r} {self.outcome} ({self.stop}): {kinds}{approval}>"


class ApprovalRequest(_Value):
    """A plan that waits for a person's approval. Exactly this content is approved.

    Attributes:
        id: Id of the request, to be passed to `Session.resolve`.
        session: Name of the session of the plan.
        goal: The proposer's goal.
        actions: Kinds and payloads.
        base_seq: Sequence number at which the plan was judged.
        digest: Digest of the content that is approved.
        needs: The required decision: any person's confirmation, or the approval of a role.
        role: The role, if one is needed.
        proposer: Name of the proposing agent, which must not resolve the request.
        state: `open`, `approved`, `denied`, `amended`, `stale`, or `expired`.
        expires: Simulated time of its expiry, seconds.
        by: Name of the person who resolved the request.
        diff: Changes that a person is shown before deciding, at most 512.
    """

    id: str
    session: str
    goal: str
    actions: tuple[dict[str, Any], ...]
    base_seq: int
    digest: str
    needs: Literal["confirm", "approve"]
    role: str
    proposer: str
    state: str
    expires: float
    by: str = ""
    diff: tuple[StateChange, ...] = ()

    def __repr__(self) -> str:
        role = f" of {self.role!r}" if self.role else ""
        kinds = kinds_text(str(action["kind"]) for action in self.actions)
        return f"<ApprovalRequest {self.id!r} {self.state}, needs {self.needs}{role}: {kinds}>"
