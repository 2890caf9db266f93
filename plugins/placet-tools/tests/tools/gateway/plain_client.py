"""A client of JSON lines, without the SDK, of a gateway that runs as a process."""

import asyncio
import json
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parent / "plain_server.py"
LINE_BYTES_MAX = 256 * 1024 * 1024
SECONDS_MAX = 60


def tool(name: str, **fields: Any) -> dict[str, Any]:
    """Return the declaration of a tool."""
    return {"name": name, "description": f"Do {name}.", "inputSchema": {"type": "object"}, **fields}


class Folder:
    """The folder of a server, and of the log.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = f"sqlite:///{path}/gate.db"

    def has_tools(self, *tools: dict[str, Any]) -> None:
        (self.path / "tools.json").write_text(json.dumps(tools))

    def ran(self) -> Counter[str]:
        """Return how often each call ran: its tool and its arguments as JSON."""
        outside = self.path / "outside"
        return Counter(outside.read_text().splitlines() if outside.exists() else [])

    def server(self) -> str:
        return shlex.join([sys.executable, str(SERVER), str(self.path)])


class PlainClient:
    """A client of a gateway: an async context manager."""

    def __init__(self, folder: Folder, *options: str, capabilities: Any = None) -> None:
        self._command = ["-m", "placet", "gateway", folder.server(), *options]
        self._capabilities = capabilities or {}
        self._numbers = iter(range(1, 10**9))
        self.others: list[dict[str, Any]] = []
        self.line = b""

    async def __aenter__(self) -> "PlainClient":
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=LINE_BYTES_MAX,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self._stderr = process, process.stderr
        self._writer, self._reader = process.stdin, process.stdout
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        async with asyncio.timeout(SECONDS_MAX):
            self.stderr = (await self._stderr.read()).decode()
            await self.process.wait()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    async def begin(self) -> Any:
        """Agree on the protocol, as a client of 2025-11-25."""
        answer = await self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities=self._capabilities,
            clientInfo={"name": "plain", "version": "1"},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def send(self, message: Any) -> None:
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        self._writer.write(line + b"\n")

    async def receive(self) -> Any:
        """Return the next message; None at the end. `line` keeps its bytes."""
        async with asyncio.timeout(SECONDS_MAX):
            self.line = await self._reader.readline()
        return json.loads(self.line) if self.line else None

    def request(self, method: str, **params: Any) -> int:
        """Send a request, and return its id."""
        number = next(self._numbers)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def answer(self, number: int | str | None) -> Any:
        """Return the answer to a request; messages before it are kept as `others`."""
        while (message := await self.receive()) is not None:
            if "method" not in message and message.get("id") == number:
                return message
            self.others.append(message)
        raise EOFError((await self._stderr.read()).decode())

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.answer(self.request(method, **params))

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool, and return its result."""
        answer = await self.ask("tools/call", name=name, arguments=arguments)
        return answer.get("result", answer)

    async def tools(self) -> dict[str, Any]:
        """Return the listed tools by name."""
        answer = await self.ask("tools/list")
        return {one["name"]: one for one in answer["result"]["tools"]}


def told(result: Any) -> dict[str, Any]:
    """Return what the gateway says in a result."""
    (part,) = result["content"]
    said: dict[str, Any] = json.loads(part["text"])
    return said
