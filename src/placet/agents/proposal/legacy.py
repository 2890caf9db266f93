"""Types of the agent-layer protocol.

An adapter's answers, and the base class that integrations subclass.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from placet.agents.proposal.plan import IF_UNCHANGED
from placet.schemas.codec import Json


class ChatIntent(BaseModel):
    """One proposed action, or a question.

    Attributes:
        type: `action_call`, or `clarification_request`.
        action_id: Kind of the intent; required in an `action_call`.
        inputs: Payload of the intent.
        if_unchanged: Paths of the values that the decision rests on; see `plan.Action`.
        question: Question to the user; required in a `clarification_request`.
        confirmed: Ignored: a proposer cannot confirm its own proposal.

    Raises:
        ValidationError: The field that the type requires is missing or empty.
    """

    model_config = ConfigDict(extra="forbid")

    type: Literal["action_call", "clarification_request"]
    action_id: str | None = None
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    if_unchanged: list[str] = Field(default_factory=list)
    question: str | None = None
    confirmed: bool = False

    @model_validator(mode="after")
    def _check_required_field(self) -> Self:
        name = "action_id" if self.type == "action_call" else "question"
        if not (getattr(self, name) or "").strip():
            raise ValueError(f"an intent of type {self.type!r} needs a text as {name!r}")
        return self


def action_of(intent: ChatIntent) -> dict[str, Json]:
    """Return an intent of type `action_call` as an action of a plan, plain JSON."""
    action: dict[str, Json] = {"kind": intent.action_id or "", "payload": intent.inputs}
    if intent.if_unchanged:
        action[IF_UNCHANGED] = intent.if_unchanged
    return action


class ExecutionPlan(BaseModel):
    """Several proposed actions; all or none of them will be done.

    Attributes:
        goal: The user's goal.
        actions: The actions, in order.
        notes: Comment for the user.
    """

    model_config = ConfigDict(extra="forbid")

    goal: str
    actions: list[ChatIntent]
    notes: str = ""


class AgentAdapter(ABC):
    """The older interface of a proposer, accepted as an adapter: override its one method.

    The method is called in a worker thread, within the deadline of the turn.
    """

    @abstractmethod
    def message_to_intent_or_plan(
        self,
        message: str,
        history: list[dict[str, Any]],
        state: dict[str, Any],
        registry: dict[str, Any],
        media: dict[str, Any] | None = None,
    ) -> ChatIntent | ExecutionPlan:
        """Convert a user message and its context into a structured intent.

        Args:
            message: Raw text from the user; if the method is called again for it, followed by the
                faults of its last answer.
            history: Past turns of the conversation, then the refused answers to this message with
                their faults.
            state: Snapshot of the agent's view.
            registry: `{"actions": kinds with schema, risk and cost, "components": state schema}`.
            media: Data of an image or document.
        """
