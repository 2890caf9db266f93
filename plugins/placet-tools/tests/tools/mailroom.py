"""Tools whose calls have secrets and personal data: a mail room, and children that are killed."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
from pydantic import Field
from tests.tools.killed_shop import config

from placet import OrchestratorConfig
from placet_tools import Gate, NotDone, Personal, Secret, Tools
from placet_tools.frontend.parts.part_store import PartStore
from tests.crash.process_forker import Report


class MailRoom:
    """A mail room.

    Attributes:
        ran: Name and arguments of each function that ran, in order.
        tools: Its tools.
    """

    def __init__(self) -> None:  # noqa: C901  # one function for each tool
        self.ran: list[tuple[object, ...]] = []
        self.tools = Tools("mail")
        ran = self.ran

        @self.tools.tool()
        def login(user: str, password: Annotated[str, Field(min_length=4), Secret]) -> object:
            """Log in."""
            ran.append(("login", user, password))
            if user == "echo":
                return {"message": f"the password is {password}"}
            if user == "wrong":
                raise NotDone(f"wrong password {password}")
            if user == "broken":
                raise OSError(f"broken by {password}")
            return "logged in"

        @self.tools.tool(risk="high")
        def rotate(user: str, password: Annotated[str, Secret]) -> str:
            """Change a password."""
            ran.append(("rotate", user, password))
            return "changed"

        @self.tools.tool()
        def poll(password: Annotated[str, Secret], idempotency_key: str) -> str:
            """Ask for new mail."""
            ran.append(("poll", password, idempotency_key))
            return "none"

        @self.tools.tool(risk="medium")
        async def recall(
            order: str, to: Annotated[str, Personal(subject="order")], output: dict[str, str]
        ) -> str:
            """Call a mail back."""
            ran.append(("recall", order, to, output))
            return "called back"

        @self.tools.tool(undo=recall)
        async def mail(order: str, to: Annotated[str, Personal(subject="order")]) -> object:
            """Send a mail."""
            ran.append(("mail", order, to))
            if order == "bounce":
                raise NotDone(f"no such address: {to}")
            if order == "break":
                raise OSError(f"lost while sending to {to}")
            return {"sent to": to}

        @self.tools.tool(risk="high")
        def letter(
            address: Annotated[dict[str, str], Personal(subject="letters")], text: str
        ) -> str:
            """Send a letter."""
            ran.append(("letter", address, text))
            return f"sent to {address['street']}"

        @self.tools.tool(risk="read")
        def report() -> str:
            """Write a report, which is large."""
            return "x" * 5_000

        @self.tools.tool(not_done=(ValueError,))
        def fail() -> None:
            """Do nothing."""
            raise ValueError("closed")


domain = MailRoom().tools.domain()  # for `--domain`


def mail_and_die(report: Report, *, store: str, point: str) -> None:
    """Send a mail, and be killed at a point: after its parts are durable, or its batch is."""
    room = MailRoom()

    def die(*_: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    kill: Any = die

    async def main() -> None:
        async with Gate(room.tools, store=store, config=config()) as gate:
            if point == "parts":
                gate.world.submit = kill  # type: ignore[method-assign]
            elif point in {"held", "done"}:
                gate._values.settle = kill  # type: ignore[method-assign]
            elif point == "erased":
                await gate.call("mail", key="k", order="A7", to="bob@example.org")
                PartStore._delete_parts = kill  # type: ignore[method-assign]
                await gate.erase("A7")
            if point == "held":
                await gate.call("letter", address={"street": "bob@example.org"}, text="hello")
            await gate.call("mail", key="t1", order="A7", to="bob@example.org")

    asyncio.run(main())


def login_and_die(report: Report, *, store: str, tool: str) -> None:
    """Call with a secret, and be killed once the call is in the log and before it runs."""
    from placet.actors.effects.dispatcher import Executors

    Executors.take = lambda self, effects: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    room = MailRoom()

    async def main() -> None:
        async with Gate(room.tools, store=store, config=config()) as gate:
            arguments = {"user": "ann"} if tool == "login" else {}
            await gate.call(tool, key="t1", password="tulip-4711", **arguments)

    asyncio.run(main())


async def live(store: str, secret: str, person: str) -> None:
    """Make calls of all outcomes with a secret and personal data, and erase the data."""
    room = MailRoom()
    config = OrchestratorConfig(log_level="debug", snapshot_every_seqs=5)
    async with Gate(room.tools, store=store, config=config) as gate:
        for user in ("ann", "echo", "wrong", "broken", ""):
            await gate.call("login", user=user, password=secret)
        await gate.call("login", user=7, password=secret)
        await gate.call("login", user="ann", pasword=secret)
        await gate.call("login", user={"password": secret})
        await gate.call("logn", user="ann", password=secret)
        await gate.call("mial", order="A7", to=person)
        await gate.call("poll", key="poll", password=secret)
        await gate.call("rotate", user="ann", password=secret)
        await gate.call("letter", address={"street": person}, text="hello")
        for request in await gate.approvals():
            assert secret not in repr(request)
            await gate.decide(request, "approve", by="bob")
        await gate.call("rotate", user="eve", password=secret)  # is held
        await gate.call("letter", address={"street": person}, text="held")
        for order in ("A7", "bounce", "break"):
            await gate.call("mail", key=order, order=order, to=person)
        await gate.settle("break", done=False, output=f"{person} did not get it")
        await gate.plan([("mail", {"order": "A7", "to": person}), ("fail", {})])
        copies = Path(store.removeprefix("sqlite:///")).parent
        for _ in range(2_000):
            if list(copies.glob("*.snapshots/*.snapshot")):
                break
            await gate.call("fail")
        # By a process of its own: one that closes a file of SQLite loses all its locks on it.
        script = 'for file in *; do if [ -f "$file" ]; then cp "$file" "$file.backup"; fi; done'
        await anyio.run_process(["sh", "-c", script], cwd=copies)
        for subject in ("A7", "bounce", "break", "letters"):
            assert await gate.erase(subject)
        shown = [*await gate.approvals(), await gate.outcome("A7"), await gate.outcome("bounce")]
        assert "erased" in repr(shown)
        sys.stdout.write(f"{shown}")


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:]))
