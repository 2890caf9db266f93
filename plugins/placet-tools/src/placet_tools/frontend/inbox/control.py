"""The control socket of a gate, by which a person at a terminal decides and settles calls.

A log has one writer, which is the program of the gate. So the command `placet inbox` asks it, over
a socket beside the log that only the same user of the system may open.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from stat import S_ISSOCK
from typing import Final, Protocol

from placet.runtime.inbox import Decision
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.stores.files import behind_link
from placet.stores.url import file_of, open_event_log
from placet_tools.frontend import jsonrpc
from placet_tools.frontend.inbox.request_text import head_of, lines_of
from placet_tools.frontend.jsonrpc import Message, MessageInvalid
from placet_tools.outcome import Outcome, RequestDecision

_SUFFIX: Final = ".inbox"
LINE_BYTES_MAX: Final = 256 * 1024
"""Bytes of a request: of names, and of a reason."""

_LINE_SECONDS_MAX: Final = 10.0
_CONNECT_SECONDS_MAX: Final = 2.0
_OWNER_ONLY: Final = 0o600
_TOO_LONG: Final = f"a request has at most {LINE_BYTES_MAX} bytes; shorten the reason"
_WORDS: Final = ("id", "decision", "by", "role", "digest", "reason")


class InboxGate(Protocol):
    """The part of an open `Gate` that `placet inbox` uses."""

    world: Orchestrator

    async def approvals(self) -> list[Approval]:
        """As `Gate.approvals`."""

    async def request(self, request: str) -> Approval:
        """As `Gate.request`."""

    async def doubts(self) -> list[dict[str, Json]]:
        """As `Gate.doubts`."""

    async def settle(
        self, key: str, *, done: bool, output: Json = None, by: str = "", reason: str = ""
    ) -> Outcome:
        """As `Gate.settle`."""

    async def decide(
        self, approval: Approval | str, decision: Decision, *, by: str, role: str, reason: str
    ) -> RequestDecision:
        """As `Gate.decide`."""


class ControlError(Exception):
    """The error of a gate that cannot be asked, or did not decide."""


def socket_of(store: str) -> Path | None:
    """Return the path of the control socket of a log; None for a log that is no file.

    Raises:
        StoreError: The text names no log.
    """
    file = file_of(open_event_log(store))
    if file is None:
        return None
    log = behind_link(file)  # by whichever name the log was opened
    return log.with_name(log.name + _SUFFIX)


@asynccontextmanager
async def control_socket(
    path: Path, gate_of: Callable[[], AbstractContextManager[InboxGate]]
) -> AsyncIterator[None]:
    """Answer on a control socket.

    Args:
        path: Path of the socket.
        gate_of: Returns a context with the open gate, for one request: a gateway opens another
            when its tools change.

    Raises:
        OSError: The socket cannot be made.
    """
    answering: set[asyncio.Task[object]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "the server runs it in a task"
        answering.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):  # it went away, or the gate closes
                writer.write(await _answer(gate_of, reader) + b"\n")
                await writer.drain()
        finally:
            answering.discard(task)
            writer.close()

    bound = _bound(path)
    server = await asyncio.start_unix_server(answer, sock=bound, limit=LINE_BYTES_MAX)
    try:
        yield
    finally:
        server.close()
        _remove(path)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _bound(path: Path) -> socket.socket:
    """Return a socket at a path; one that a killed process left is replaced.

    Raises:
        OSError: Another process answers there, a file is there that is no socket, or the path is
            too long or may not be written.
    """
    with suppress(FileNotFoundError):
        if not S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError("a file is there that is no socket; move it away")
        _require_unused(path)
        _remove(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(_OWNER_ONLY)  # no process can connect before the socket listens
    except OSError:
        made.close()
        raise
    return made


def _require_unused(path: Path) -> None:
    """Check that no process answers at a socket.

    Raises:
        OSError: One does.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_CONNECT_SECONDS_MAX)
        with suppress(ConnectionRefusedError):
            asking.connect(str(path))
            raise OSError("another gate has it")


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Read the line of a request.

    Raises:
        MessageInvalid: It is too long, or its end does not come.
    """
    try:
        async with asyncio.timeout(_LINE_SECONDS_MAX):
            return await reader.readline()
    except ValueError:
        raise MessageInvalid(jsonrpc.INVALID_REQUEST, _TOO_LONG) from None
    except TimeoutError:
        fault = f"no whole line came in {_LINE_SECONDS_MAX:g} s"
        raise MessageInvalid(jsonrpc.INVALID_REQUEST, fault) from None


async def _answer(
    gate_of: Callable[[], AbstractContextManager[InboxGate]], reader: asyncio.StreamReader
) -> bytes:
    try:
        message = jsonrpc.read(await _line(reader))
        with gate_of() as gate:
            answer = await _result(gate, message)
        return jsonrpc.response(0, answer)
    except MessageInvalid as error:
        return jsonrpc.failure(0, error.code, str(error))
    except (PlacetError, OSError, LookupError, ValueError) as error:
        return jsonrpc.failure(0, jsonrpc.SERVER_ERROR, str(error))


async def _result(gate: InboxGate, message: Message) -> Json:
    params = jsonrpc.object_of(message, "params")
    match jsonrpc.value_of(message, "method"):
        case "decide":
            return await _decide(gate, params)
        case "settle":
            return await _settle(gate, params)
        case "inbox":
            now = gate.world.sim_time
            requests = [_shown(one, now) for one in await gate.approvals()]
            return {"requests": requests, "doubts": await gate.doubts()}
        case other:
            fault = f"there is no method {other!r:.80}; there are inbox, decide and settle"
            raise MessageInvalid(jsonrpc.METHOD_NOT_FOUND, fault)


def _shown(approval: Approval, now: float) -> dict[str, Json]:
    """Return a request for the inbox: its fields, its times, and its text."""
    return {
        **asdict(approval),
        "asks": list(approval.asks),
        "age_s": None if approval.requested is None else max(0.0, now - approval.requested),
        "left_s": max(0.0, approval.expires - now),
        "text": [head_of(approval, now), *lines_of(approval, str)],
    }


async def _decide(gate: InboxGate, params: Mapping[str, Json]) -> Json:
    words = [params.get(name, "") for name in _WORDS]
    if not all(isinstance(word, str) for word in words):
        raise MessageInvalid(jsonrpc.INVALID_PARAMS, f"{', '.join(_WORDS)} must be texts")
    request, decision, by, role, digest, reason = words
    shown = await gate.request(request)
    if digest and digest != shown.digest:
        raise ValueError("the request has changed since it was shown; look at it again")
    answer = await gate.decide(shown, _decision(decision), by=by, role=role, reason=reason)
    return asdict(answer)


async def _settle(gate: InboxGate, params: Mapping[str, Json]) -> Json:
    words = [params.get(name, "") for name in ("key", "by", "reason")]
    is_done = params.get("is_done")
    if not all(isinstance(word, str) for word in words) or not isinstance(is_done, bool):
        fault = "key, by and reason must be texts, is_done a boolean"
        raise MessageInvalid(jsonrpc.INVALID_PARAMS, fault)
    key, by, reason = words
    return asdict(await gate.settle(key, done=is_done, by=by, reason=reason))


def _decision(word: str) -> Decision:
    if word == "approve":
        return "approve"
    if word == "deny":
        return "deny"
    raise ValueError(f"a person decides approve or deny, got {word!r}")


def ask_gate(path: Path, method: str, params: Mapping[str, Json]) -> Json:
    """Ask a gate that is open, and return its answer. Blocking.

    Args:
        path: Path of its control socket.
        method: `inbox`, `decide` or `settle`.
        params: Parameters.

    Raises:
        ControlError: No gate is open there, or its answer is an error.
    """
    line = jsonrpc.request(0, method, dict(params)) + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise ControlError(_TOO_LONG)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.connect(str(path))
            asking.sendall(line)
            with asking.makefile("rb") as answers:
                answer = answers.readline()
    except OSError as error:
        why = error.strerror or error
        raise ControlError(
            f"no gate answers at {path}: {why}; its program must run, with Gate(..., inbox=True) "
            "or as `placet gateway --store`"
        ) from error
    if not answer.endswith(b"\n"):
        raise ControlError(
            "the program of the gate ended before it had answered; look at the inbox again"
        )
    read: dict[str, Json] = json.loads(answer)
    if "result" not in read:
        raise ControlError(read["error"]["message"])
    return read["result"]
