"""What the host program holds of one agent: its way to look, and its way to propose."""

from itertools import count
from typing import TYPE_CHECKING, Protocol

from placet.actors.ticket import Ticket
from placet.runtime.intent_errors import RaisesRefusals
from placet.schemas.codec import Json
from placet.schemas.intent import SCHEMA_VERSION, Intent
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from asyncio import Future

DEFAULT_PRIORITY = 10


class AgentDoor(Protocol):
    """What a handle needs of its world."""

    @property
    def seq(self) -> int:
        """The durable sequence number."""

    def post_as(self, handle: "AgentHandle", batch: object, dry_run: bool) -> "Future[Verdict]":
        """Hand in a batch for this agent alone."""

    async def view_for(self, handle: "AgentHandle") -> View:
        """Look for this agent alone."""


class AgentHandle(RaisesRefusals):
    """Speaks for one agent, and for no other.

    Attributes:
        agent_id: The agent.
        incarnation: How often its name was registered; a handle of an earlier one is refused.
        view_seq: Of the latest view it was given; fills in `context_seq`.

    Args:
        door: The world.
        agent_id: The agent.
        incarnation: As above.
        sequence: Name of the req_ids that it makes, which no other handle has.
    """

    __slots__ = ("_door", "_numbers", "_sequence", "agent_id", "incarnation", "view_seq")

    def __init__(self, door: AgentDoor, agent_id: str, incarnation: int, sequence: str) -> None:
        self._door = door
        self.agent_id = agent_id
        self.incarnation = incarnation
        self.view_seq = door.seq
        self._sequence = sequence
        self._numbers = count()

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload; the other fields are filled in.

        The req_id is of the sequence form, `context_seq` is that of the latest view.
        """
        return {
            "kind": kind,
            "payload": payload,
            "agent_id": self.agent_id,
            "req_id": f"{self._sequence}:{next(self._numbers)}",
            "context_seq": self.view_seq,
            "priority": DEFAULT_PRIORITY,
            "schema_version": SCHEMA_VERSION,
        }

    async def submit(self, batch: object, *, dry_run: bool = False) -> Verdict:
        """Submit a batch of this agent's own; never raises for a refusal."""
        return await self._door.post_as(self, batch, dry_run)

    def post(self, batch: object, *, dry_run: bool = False) -> Ticket:
        """Hand in a batch of this agent's own and go on; await the ticket for its verdict."""
        return Ticket(self._door.post_as(self, batch, dry_run))

    async def refresh_view(self) -> View:
        """Look: an atomic cut of what the agent may see, at the latest durable seq.

        Raises:
            PermissionDeniedError: The agent was removed since.
        """
        view = await self._door.view_for(self)
        self.view_seq = view.view_seq
        return view

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent_id!r} at view {self.view_seq}>"
