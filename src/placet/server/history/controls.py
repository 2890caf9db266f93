"""Control of the run that is played: pause, single steps, suspension of agents."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from placet.schemas.codec import Json


class Controls(NamedTuple):
    """The control of one world.

    Attributes:
        commands: Permitted commands, of `approvals`, `pause`, `step`, `suspend`; none where it is
            only read.
        is_paused: The world is paused.
    """

    commands: Sequence[str] = ()
    is_paused: bool = False


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

    def order(self, command: str) -> None:
        """Order `pause` after the present tick, `resume`, or `step`: one tick, and a pause."""
        self.is_paused = command != "resume"
        self._send({"command": command})

    def change_agent(self, agent_id: str, change: str) -> None:
        """Change an agent before the next tick; `change` is `suspended` or `resumed`."""
        self._send({"command": change, "agent": agent_id})
