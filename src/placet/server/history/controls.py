"""Control of the run that is played: pause, single steps, suspension of agents."""

from collections.abc import Callable
from typing import Protocol

from placet.schemas.codec import Json


class Controls(Protocol):
    """The control of one world.

    Attributes:
        commands: Permitted commands, of `approvals`, `pause`, `step`, `suspend`; none where it is
            only read.
        is_paused: The world is paused.
    """

    @property
    def commands(self) -> list[str]:
        """Return what can be done."""

    @property
    def is_paused(self) -> bool:
        """Return whether the world is paused."""


class NoControls:
    """The control of a world that is only read."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.is_paused = False


class SentControls:
    """The control of a run in another process, which gets each command as one JSON object.

    Args:
        send: Sends a command.

    Attributes:
        commands: What can be done.
        is_paused: The run was told to pause; a started tick is completed first.
    """

    def __init__(self, send: Callable[[dict[str, Json]], None]) -> None:
        self.commands = ["pause", "step", "suspend"]
        self.is_paused = False
        self._send = send

    def pause(self) -> None:
        """Pause the run after its present tick."""
        self.is_paused = True
        self._send({"command": "pause"})

    def resume(self) -> None:
        """Go on with the run."""
        self.is_paused = False
        self._send({"command": "resume"})

    def step(self) -> None:
        """Run one tick, and pause after it."""
        self.is_paused = True
        self._send({"command": "step"})

    def change_agent(self, agent_id: str, change: str) -> None:
        """Change an agent before the next tick; `change` is `suspended` or `resumed`."""
        self._send({"command": change, "agent": agent_id})
