"""Pydantic models of a proposer's output (the planner contract). No field grants a permission.

Mode, permissions, prices and approvers come from the session and the registry. A field that is not
defined here (`confirmed`, `role`) is an error that the proposer may repair.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from placet.agents.proposal.codes import facts_of
from placet.schemas.codec import Json
from placet.schemas.condition import CONDITIONS_MAX, PATH_STEPS_MAX, Condition, path_text, steps_of
from placet.schemas.refusal import Refusal, RefusalCode

VERSION: Final = "placet.plan/1"

IF_UNCHANGED: Final = "if_unchanged"
"""Name of the field of an action, and of the parameter of a tool, that has the paths of values."""

_KINDS_SHOWN: Final = 4
_PATH_CHARS_MAX: Final = 2_048


def _checked_path(path: str) -> str:
    try:
        steps_of(path)
    except ValueError:
        raise PydanticCustomError(
            "path",
            "a path is collection/entity or collection/entity/field as in the view, of at most "
            f"{PATH_STEPS_MAX} steps",
        ) from None
    return path


Path: TypeAlias = Annotated[str, Field(max_length=_PATH_CHARS_MAX), AfterValidator(_checked_path)]
Paths: TypeAlias = Annotated[
    tuple[Path, ...],
    Field(
        max_length=CONDITIONS_MAX,
        description=(
            "Paths of values that it rests on, such as world.objects/lamp/holder. It is done if "
            "these are as in the view, and no other change makes it stale."
        ),
    ),
]
"""Paths of values that must not have changed since the view of the proposer. The values are taken
from that view: a proposer names only paths, so it cannot write a wrong value."""

StopCode = Literal["clarification_needed", "unsupported_goal", "unsafe_goal"]


class Strict(BaseModel):
    """The base of the plan's models: immutable, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Action(Strict):
    """One intent that a plan proposes.

    Attributes:
        id: Name of the action inside the plan, for results to point at; may be empty.
        kind: Kind of the intent; for an unknown kind, the answer lists the nearest names.
        payload: Payload of the intent.
        if_unchanged: Paths of the values that the decision rests on, such as
            `world.objects/lamp/holder`. The action is refused if one is not as in the view that the
            plan was decided on, and no other change makes it stale. Empty: it depends on the
            entities that its kind reads.
        why: Comment for people, without effect.
    """

    id: str = Field(default="", pattern=r"^(?:[a-z][a-z0-9_]{0,31})?$")
    kind: str = Field(max_length=64)
    payload: dict[str, JsonValue] = {}
    if_unchanged: Paths = ()
    why: str = Field(default="", max_length=500)

    def to_row(self) -> dict[str, Json]:
        """Return the action as an approval request records it, without empty conditions."""
        row: dict[str, Json] = {
            "id": self.id,
            "kind": self.kind,
            "payload": self.payload,
            "why": self.why,
        }
        return {**row, IF_UNCHANGED: list(self.if_unchanged)} if self.if_unchanged else row


class DecidedAction(Action):
    """An action of a plan whose view is known: its paths have the values that it saw.

    Attributes:
        expect: Conditions of the intent.
    """

    expect: tuple[Condition, ...] = ()

    def to_row(self) -> dict[str, Json]:
        """Return the action as plain JSON, without empty conditions."""
        return {**super().to_row(), **({"expect": list(self.expect)} if self.expect else {})}


def kinds_text(kinds: Iterable[str]) -> str:
    """Return the first kinds of a plan as a short text for a `__repr__`."""
    names = list(kinds)
    more = f" and {len(names) - _KINDS_SHOWN} more" if len(names) > _KINDS_SHOWN else ""
    return (", ".join(names[:_KINDS_SHOWN]) or "no actions") + more


class Stop(Strict):
    """The reason why a proposer proposes no actions.

    Attributes:
        code: Kind of the reason, one of three.
        message: The question, or the reason, for the user.
        choices: Answers to choose from.
    """

    code: StopCode
    message: str = Field(min_length=1, max_length=500)
    choices: tuple[Annotated[str, Field(max_length=120)], ...] = Field(default=(), max_length=8)


class Plan(Strict):
    """A proposal: actions, all or none of which will be done, or a reason to stop.

    Attributes:
        version: `placet.plan/1`; there is no default, so that nothing is guessed.
        goal: The user's goal, as the proposer understood it.
        base_seq: Sequence number of the world that the proposer saw.
        actions: In order of execution.
        stop: Reason to propose no actions; None if there are actions.
        notes: Comment for people, without effect.
    """

    version: Literal["placet.plan/1"]
    goal: str = Field(max_length=2000)
    base_seq: int = Field(ge=0, le=2**53)
    actions: tuple[Action, ...] = ()
    stop: Stop | None = None
    notes: str = Field(default="", max_length=2000)

    def __repr__(self) -> str:
        content = kinds_text(action.kind for action in self.actions)
        if self.stop is not None:
            content = f"stop {self.stop.code}"
        return f"<Plan at seq {self.base_seq}: {content}>"


def plan_json(
    goal: str, base_seq: int, actions: Iterable[tuple[str, Mapping[str, Json]]]
) -> dict[str, Json]:
    """Return a plan as plain JSON, in the form that the plan parser reads.

    Args:
        goal: The goal; its first 2 000 characters are kept.
        base_seq: Sequence number of the world that the proposer saw.
        actions: Kind and payload of each action.
    """
    listed = [{"kind": kind, "payload": dict(payload)} for kind, payload in actions]
    return {"version": VERSION, "goal": goal[:2000], "base_seq": base_seq, "actions": listed}


class Issue(Strict):
    """A fault of a proposal, safe to show to its proposer.

    Attributes:
        code: Code of the agent layer, of the gate, or of a domain.
        message: Failed check, expected value, actual value, and the remedy.
        at: JSON pointer into the plan.
        suggestions: Nearest valid values, best first.
        changed: Visible changes by other agents that led to the refusal: `{path, by, seq, new}`;
            where a proposer is asked again, the changed fields, also with `old`. Of a condition
            `{path, new}`.
    """

    code: str
    message: str
    at: str = ""
    suggestions: tuple[str, ...] = ()
    changed: tuple[dict[str, JsonValue], ...] = ()

    @property
    def is_repairable(self) -> bool:
        """Whether another proposal in the same turn may succeed."""
        return facts_of(self.code).is_repairable

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> "Issue":
        """Convert a refusal of the gate to an issue, whose path points into the plan."""
        at = refusal.at or ""
        if at.startswith("/intents/"):
            at = "/actions/" + at.removeprefix("/intents/").replace("/expect/", f"/{IF_UNCHANGED}/")
        return cls(
            code=refusal.code,
            message=refusal.message,
            at=at,
            suggestions=tuple(refusal.suggestions),
            changed=_changes_of(refusal),
        )


def _changes_of(refusal: Refusal) -> tuple[dict[str, JsonValue], ...]:
    if refusal.code == RefusalCode.CONDITION_FAILED:
        return ({"path": path_text(refusal.details["path"]), "new": refusal.details["found"]},)
    return tuple(
        {"path": one["entity"], "by": one["by"], "seq": one["seq"], "new": one["now"]}
        for one in refusal.changed
    )
