"""`Outcome`: the answer to one call of a tool, for a program and for a model."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from placet.schemas.approval import ApprovalState
from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords

Status: TypeAlias = Literal[
    "done", "failed", "refused", "skipped", "held", "denied", "expired", "stale", "doubt",
    "running", "undone", "amended", "gate_failed",
]  # fmt: skip
"""State of a call.

`done`: it ran. `failed`: it was certainly not done. `refused`: the gate did not admit it.
`skipped`: another call of its plan was refused. `held`: a person decides. `denied`, `expired`,
`stale`: a person denied it, did not decide in time, or approved a plan that would not do what was
shown. `doubt`: it was started and its outcome is unknown. `running`: it has not ended yet.
`undone`: it was done, another call of its plan failed, and the tool of `undo` has undone it.
`amended`: a person changed it, and approved what ran in its place.
`gate_failed`: the gate is closed or its store has failed, and nothing runs that is not in the log;
only the tools of a framework return it, `Gate.call` raises.
"""


@explain_keywords
@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one call.

    Attributes:
        status: State of the call: `done`, `failed` (certainly not done), `refused`, `skipped` with
            a refused plan, `held` for a person, `denied`, `expired`, `stale`, `doubt` (started, and
            the outcome is unknown), `running`, `undone`, `amended`, `gate_failed`.
        output: Return value of the tool as plain JSON, of a call that is `done` or `undone`. Of one
            that is `amended`, the calls that ran in the place of its plan: each with `tool`,
            `arguments`, `status`, and `output` or `message`.
        message: Why it is not done, and what to do.
        codes: Codes of the refusals.
        approval: Id of the request for approval; empty if there is none.
        key: Key of the call: a call with the same key is the same call, and never runs again.
    """

    status: Status
    output: Json = None
    message: str = ""
    codes: tuple[str, ...] = ()
    approval: str = ""
    key: str = ""

    @property
    def for_model(self) -> Json:
        """The answer for a model: the output of a call that is done, or why it is not."""
        if self.status == "done" and (self.output is not None or not self.message):
            return self.output
        answer: dict[str, Json] = {"status": self.status, "message": self.message}
        if self.status == "amended":
            answer["output"] = self.output
        if self.codes:
            answer["codes"] = list(self.codes)
        if self.approval:
            answer["approval"] = self.approval
        return answer


@explain_keywords
@dataclass(frozen=True, slots=True)
class RequestDecision:
    """The decision about a request for approval, and the outcomes of its calls.

    Attributes:
        state: State of the request; `open` if the decision was not recorded.
        by: The person who decided.
        reason: Reason of the decision.
        outcomes: Outcome of each call of the request; of an `amended` one, of each call that ran
            in its place.
        codes: Codes of the refusals of the decision.
        message: Why the decision was not recorded.
    """

    state: ApprovalState
    by: str = ""
    reason: str = ""
    outcomes: tuple[Outcome, ...] = ()
    codes: tuple[str, ...] = ()
    message: str = ""
