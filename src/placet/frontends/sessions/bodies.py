"""The bodies of sessions over HTTP, and the adapter that one names."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from placet.agents.proposal.modes import ModeName
from placet.cli.terminal import CommandError
from placet.domains.session.payloads import ROLE_CHARS_MAX, SESSION_CHARS_MAX
from placet.frontends.adapter_names import proposer
from placet.schemas.codec import Json
from placet.server.http.parameters import Fields, Identity, PathPart
from placet.server.http.problems import Problem

_SessionName = Annotated[PathPart, Meta(max_length=SESSION_CHARS_MAX)]
_Role = Annotated[str, Meta(max_length=ROLE_CHARS_MAX)]
_Price = Annotated[list[Annotated[float, Meta(ge=0)]], Meta(min_length=2, max_length=3)]
_People = Annotated[dict[Identity, _Role], Meta(description="name -> role, which may be empty")]


class SessionOpening(Fields, frozen=True):
    """Request body that opens a session; without an agent, the session keeps its present agent.

    `price` is that of the model, US dollars for a million tokens of input, output, and of cached
    input if that differs. `max_usd` (null: no limit) and `max_tokens` limit a turn.
    """

    session: _SessionName = "main"
    agent: Identity | None = None
    mode: ModeName | None = None
    proposer: Annotated[str | None, Meta(description="scripted, a model, or null")] = "scripted"
    people: _People = field(default_factory=dict)
    price: _Price | None = None
    max_usd: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    max_tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET

    def limits(self) -> dict[str, Json]:
        """Return the limits of the agent that the body states, as fields of `AgentLimits`."""
        chosen = {"cost_usd_max": self.max_usd, "tokens_max": self.max_tokens}
        return {name: value for name, value in chosen.items() if value is not UNSET}


class SessionMode(Fields, frozen=True):
    """Request body that sets how much an agent may do without confirmation."""

    mode: ModeName


class SessionMessage(Fields, frozen=True):
    """Request body with a message to the agent of a session; it is not blank."""

    message: Annotated[str, Meta(min_length=1, pattern=r"\S", description="not blank")]


class ReplacementAction(Fields, frozen=True):
    """An action in an `ApprovalDecision`, which a person submits instead of a proposed one."""

    kind: str
    payload: dict[str, Json] = field(default_factory=dict)


class ApprovalDecision(Fields, frozen=True):
    """Request body with a person's decision about a held plan; `actions` are for an edit."""

    decision: Literal["approve", "deny", "edit"]
    actions: Annotated[list[ReplacementAction], Meta(min_length=1)] | UnsetType = UNSET


def adapter_of(
    name: str | None, price: list[float] | None = None, *, has_limit: bool = True
) -> object:
    """Return the proposer adapter of this name, or None for None.

    Raises:
        Problem: The name is unknown, or `human`, since a person cannot be asked over HTTP; or the
            price is invalid, not for a model, or unknown although a turn has a limit in money.
    """
    if name is None:
        return None
    if name == "human":
        raise Problem("request_invalid", "proposer must be 'scripted', a model, or null")
    try:
        return proposer(name, price, has_limit=has_limit)
    except CommandError as error:
        raise Problem("request_invalid", str(error)) from error
