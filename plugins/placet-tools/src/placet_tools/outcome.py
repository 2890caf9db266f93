"""`Outcome`: the answer to one call of a tool, for a program and for a model."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from placet.schemas.codec import Json
from placet.schemas.keywords import explain_keywords

Status: TypeAlias = Literal[
    "done", "failed", "refused", "skipped", "held", "denied", "expired", "stale", "doubt",
    "running", "undone",
]  # fmt: skip
"""State of a call.

`done`: it ran. `failed`: it was certainly not done. `refused`: the gate did not admit it.
`skipped`: another call of its plan was refused. `held`: a person decides. `denied`, `expired`,
`stale`: a person denied it, did not decide in time, or approved a plan that would not do what was
shown. `doubt`: it was started and its outcome is unknown. `running`: it has not ended yet.
`undone`: it was done, another call of its plan failed, and the tool of `undo` has undone it.
"""


@explain_keywords
@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one call.

    Attributes:
        status: State of the call.
        output: Return value of the tool as plain JSON, of a call that is `done` or `undone`.
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
        if self.status == "done":
            return self.output
        answer: dict[str, Json] = {"status": self.status, "message": self.message}
        if self.codes:
            answer["codes"] = list(self.codes)
        if self.approval:
            answer["approval"] = self.approval
        return answer
