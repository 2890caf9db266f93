"""The player of a run in progress: a separate process, and the commands of its operator.

The player only reads the log. It writes the operator's commands as JSON lines to its standard
output; the run executes them between two ticks. So a player costs the run only processor time.
A run that the player itself starts, such as a fork with other settings, gets its commands as lines
of its standard input.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from queue import Empty, Queue
from threading import Thread
from time import monotonic
from typing import IO, Final

from placet.cli.signals import StopSignals
from placet.cli.terminal import CommandError, notify
from placet.scenarios.engine import OpenRun
from placet.schemas.codec import Json, from_json
from placet.schemas.errors import AgentError

_LOOK_SECONDS: Final = 0.2


class Steering:
    """Executes the commands of an operator between two ticks, and waits until the next is due.

    Args:
        is_stopped: Returns whether the run was told to end; a pause ends then.
        ticks_per_second: Most ticks in a second of real time, which a command can change; None is
            no limit.
    """

    def __init__(
        self, is_stopped: Callable[[], bool], ticks_per_second: float | None = None
    ) -> None:
        self._is_stopped = is_stopped
        self._commands: Queue[dict[str, Json]] = Queue()
        self._run: OpenRun | None = None
        self._is_paused = self._is_ended = False
        self._ticks_per_second = ticks_per_second
        self._began = self._due = -inf

    def open(self, run: OpenRun) -> None:
        """Read the commands for an open run from standard input, whose end ends the run."""
        self._run = run
        self._start_reading(sys.stdin)

    def note_tick(self) -> None:
        """Note the end of a tick, from which the time of the next one is computed."""
        self._began = monotonic()
        self._set_due()

    def is_stopped(self) -> bool:
        """Execute the new commands, wait until a tick is due, and return whether the run ends."""
        while not (self._is_ended or self._is_stopped()):
            wait_s = _LOOK_SECONDS if self._is_paused else self._due - monotonic()
            try:
                if wait_s > 0:
                    command = self._commands.get(timeout=min(wait_s, _LOOK_SECONDS))
                else:
                    command = self._commands.get_nowait()
            except Empty:
                if wait_s <= 0:
                    return False
                continue
            if self._do(command):
                return False
        return True

    def end(self, *, stays: bool) -> None:
        """End the reader of the commands."""

    def _do(self, command: dict[str, Json]) -> bool:
        """Do one command, and return whether one tick is to be run now."""
        what = command["command"]
        if what in {"suspended", "resumed"}:
            self._change_agent(command["agent"], what)
        elif what == "speed":
            self._ticks_per_second = command["ticks_per_second"]
            self._set_due()
        elif what == "end":
            self._is_ended = True
        else:
            self._is_paused = what != "resume"
        return bool(what == "step")

    def _set_due(self) -> None:
        speed = self._ticks_per_second
        self._due = -inf if speed is None else self._began + 1 / speed

    def _change_agent(self, agent_id: str, change: str) -> None:
        assert self._run is not None, "commands come for an open run"
        try:
            self._run.change_agent(agent_id, change)
        except AgentError as error:
            notify(f"placet run: {error}")

    def _start_reading(self, lines: IO[str]) -> None:
        Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._commands.put(from_json(line))
        self._at_end_of_commands()

    def _at_end_of_commands(self) -> None:
        self._commands.put({"command": "end"})


class Watch(Steering):
    """Watches a run in the browser.

    Args:
        store: The store of the run, which another process can read.
        is_stopped: As in `Steering`.
        domains: Names of the domains that the player is given, `module:attribute`.
        portrayal: Name or path of the scenario whose portrayal the player uses; None for none.
        ticks_per_second: As in `Steering`; the page can change it.
        is_paced: The page may set that number: the clock of the run waits.
        options: Options of `placet run` for the runs that the page starts.
    """

    def __init__(
        self,
        store: str,
        is_stopped: Callable[[], bool],
        domains: Sequence[str] = (),
        portrayal: str | None = None,
        ticks_per_second: float | None = None,
        *,
        is_paced: bool = True,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(is_stopped, ticks_per_second)
        self._store, self._domains = store, domains
        self._portrayal = portrayal
        self._process: subprocess.Popen[str] | None = None
        self._is_paced, self._options = is_paced, options
        self.page = ""

    def open(self, run: OpenRun) -> None:
        """Start the player of an open run, and print its address.

        Raises:
            CommandError: The player did not start.
        """
        self._run = run
        command = [sys.executable, "-P", "-m", "placet", "play", self._store, "--json", "--control"]
        command += [f"--domain={name}" for name in self._domains]
        command += [f"--run-option={option}" for option in self._options]
        if self._is_paced:
            command.append("--paced")
        if self._ticks_per_second is not None:
            command.append(f"--ticks-per-second={self._ticks_per_second}")
        if self._portrayal is not None:
            command.append(f"--portrayal={self._portrayal}")
        # In another session: Ctrl-C stops the run, whose end ends the player.
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first:
            raise CommandError("the player did not start; run without --watch")
        self.page = from_json(first)["page"]
        notify(f"placet run: watch it at {self.page}")
        self._start_reading(self._process.stdout)

    def end(self, *, stays: bool) -> None:
        """End the player; on a terminal, if it stays, only once a signal comes."""
        process = self._process
        if process is None:
            return
        if stays and sys.stderr.isatty():
            notify(f"placet run: the player stays at {self.page}; Ctrl-C ends it")
            with StopSignals() as stop:
                while process.poll() is None and not stop.is_set():
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_LOOK_SECONDS)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()

    def _at_end_of_commands(self) -> None:
        """Go on without the player: the run does not depend on it."""
