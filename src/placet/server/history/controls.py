"""Control of the run that is played: pause, single steps, suspension of agents."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from placet.schemas.codec import Json


class Controls(NamedTuple):
    """The control of one world.

    Attributes:
        commands: Permitted commands, of `approvals`, `end`, `pause`, `speed`, `step`, `suspend`;
            none where it is only read.
        is_paused: The world is paused.
        ticks_per_second: Most ticks in a second of real time; None is no limit.
        run: The run that it controls, and where it came from, as `History.run`; None where no
            other run can be started from it.
    """

    commands: Sequence[str] = ()
    is_paused: bool = False
    ticks_per_second: float | None = None
    run: Json = None


class SentControls:
    """The control of a run in another process, which gets each command as one JSON object.

    Args:
        send: Sends a command.
        ticks_per_second: As the run was started with.
        is_paced: The clock of the run waits, so its speed can be set.
        ends: The run may be told to end.

    Attributes:
        commands: What can be done.
        is_paused: The run was told to pause; a started tick is completed first.
        ticks_per_second: Most ticks in a second of real time; None is no limit.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Json]], None],
        ticks_per_second: float | None = None,
        *,
        is_paced: bool = True,
        ends: bool = False,
    ) -> None:
        paced = ["speed"] if is_paced else []
        self.commands = [*(["end"] if ends else ()), "pause", *paced, "step", "suspend"]
        self.is_paused = False
        self.ticks_per_second = ticks_per_second
        self._send = send

    def order(self, command: str) -> None:
        """Order `pause` or `end` after the present tick, `resume`, or `step`: one tick, a pause."""
        self.is_paused = command != "resume"
        self._send({"command": command})

    def set_speed(self, ticks_per_second: float | None) -> None:
        """Limit the ticks in a second of real time; None is no limit."""
        self.ticks_per_second = ticks_per_second
        self._send({"command": "speed", "ticks_per_second": ticks_per_second})

    def change_agent(self, agent_id: str, change: str) -> None:
        """Change an agent before the next tick; `change` is `suspended` or `resumed`."""
        self._send({"command": change, "agent": agent_id})
