"""The limits of an agent: sizes, counts, tokens, money and time."""

from decimal import Decimal
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

MESSAGE_BYTES_MAX: Final = 32_000
"""Maximum bytes of the message of one turn; the log keeps it."""


class AgentLimits(BaseModel):
    """The limits of one agent's turns; each can be overridden for an agent.

    Attributes:
        actions_max: Actions of a plan; the mode has a limit too.
        plan_bytes_max: Bytes of a plan as text.
        payload_bytes_max: Bytes of an action's payload as JSON.
        output_bytes_max: Bytes of an action's output that are shown to the agent.
        repairs_max: Invalid answers of a turn that the agent may correct.
        attempts_max: Plans of a turn that may be submitted; the mode has a limit too.
        tokens_max: Tokens of a turn, input and output.
        cost_usd_max: US dollars of a turn; None for no limit.
        on_unknown_price: `deny` a request whose price is unknown, or count its `tokens_only`.
        seconds_max: Real seconds of a turn.
        context_tokens_max: Tokens of the planner input.
        tools_max: Kinds that are offered as tools; for more, two tools search and propose kinds.
        turns_last: Turns of the conversation in the planner input.
        results_last: Results in the planner input.
        facts_max: Facts in the planner input.
        confirm_seconds_max: Simulated seconds that an approval request waits for a confirmation.
        approve_seconds_max: Simulated seconds that an approval request waits for an approval.
        line_bytes_max: Bytes of one line of the transcript.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    actions_max: int = Field(default=32, ge=1)
    plan_bytes_max: int = Field(default=256 * 1024, ge=1)
    payload_bytes_max: int = Field(default=64 * 1024, ge=1)
    output_bytes_max: int = Field(default=4 * 1024, ge=1)
    repairs_max: int = Field(default=2, ge=0)
    attempts_max: int = Field(default=3, ge=1)
    tokens_max: int = Field(default=50_000, ge=1)
    cost_usd_max: Decimal | None = Field(default=Decimal("1.00"), ge=0)
    on_unknown_price: Literal["deny", "tokens_only"] = "deny"
    seconds_max: float = Field(default=120.0, gt=0)
    context_tokens_max: int = Field(default=16_000, ge=1)
    tools_max: int = Field(default=48, ge=3)
    turns_last: int = Field(default=12, ge=0)
    results_last: int = Field(default=8, ge=0)
    facts_max: int = Field(default=64, ge=0)
    confirm_seconds_max: float = Field(default=300.0, gt=0)
    approve_seconds_max: float = Field(default=86_400.0, gt=0)
    line_bytes_max: int = Field(default=4 * 1024, ge=1)
