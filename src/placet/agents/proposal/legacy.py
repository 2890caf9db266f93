"""Types of the agent-layer protocol.

An adapter's answers, and the base class that integrations subclass.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class ChatIntent(BaseModel):
    """One proposed action, or a question.

    Attributes:
        type: `action_call`, or `clarification_request`.
        action_id: Kind of the intent.
        inputs: Payload of the intent.
        question: Question to the user.
        confirmed: Ignored: a proposer cannot confirm its own proposal.
    """

    model_config = ConfigDict(extra="forbid")

    type: Literal["action_call", "clarification_request"]
    action_id: str | None = None
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    question: str | None = None
    confirmed: bool = False


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
            message: Raw text from the user.
            history: Past turns of the conversation.
            state: Snapshot of the agent's view.
            registry: `{"actions": kinds with schema, risk and cost, "components": state schema}`.
            media: Data of an image or document.
        """
