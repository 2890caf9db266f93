"""The gate of a gateway: it opens with the tools that the server lists, and follows their changes.

The kinds of a world are those of its opening. So a list that changed is taken over by opening the
log again, while no call runs; until then a tool that changed is refused. A world in memory has no
log to open again, and keeps its tools.
"""

import asyncio
import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from msgspec import Raw
from msgspec.json import decode

from placet.runtime.config import OrchestratorConfig
from placet.schemas.codec import Json
from placet.schemas.effect import OutcomeUnknown
from placet.schemas.errors import ClosedError, PlacetError
from placet.schemas.limits import Limits
from placet_tools.frontend.gateway.declarations import raised, texts_of
from placet_tools.frontend.gateway.pinned_gate import PinnedGate
from placet_tools.frontend.gateway.policy import Declared, GatewayPolicy
from placet_tools.outcome import Outcome
from placet_tools.pinned import NAME, PinnedTools, parts_of
from placet_tools.policy import ToolPolicyError
from placet_tools.tool import NotDone, ToolError

SECONDS_MAX: Final = 600.0
"""Seconds for which a call of the server may run; after that it is in doubt."""

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
"""Bytes of the arguments of a call, and of a result that the log keeps as a whole."""

_RESULTS_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The options of a gateway.

    Attributes:
        name: Name of the domain of the tools.
        agent: Agent as which the clients call.
        person: Name of the client's user, who is asked about held calls; empty for no person.
        store: URL of the log.
        policy: The policy over the calls.
        approve_from: Least risk of a tool that needs an approval, where the policy names none.
    """

    name: str = NAME
    agent: str = "agent"
    person: str = "user"
    store: str = "memory://"
    policy: GatewayPolicy = field(default_factory=GatewayPolicy)
    approve_from: str = "high"


GATE_ERRORS: Final = (PlacetError, OSError, ToolError, ToolPolicyError)
"""Errors of a store, a world or a policy; nothing runs that is not in the log."""


class ServerFault(Exception):  # noqa: N818  # the name states the fault
    """The error of a request that a server answered with an error, or did not answer.

    Attributes:
        was_not_done: The server certainly did nothing.
    """

    def __init__(self, message: str, *, was_not_done: bool = False) -> None:
        super().__init__(message)
        self.was_not_done = was_not_done


class ServerConnection(Protocol):
    """A connection to the server, on which calls can be made."""

    async def run_tool(self, tool: str, arguments: Json, call: "LiveCall | None") -> Raw:
        """Call a tool, and return the unchanged result.

        Args:
            tool: Name of the tool.
            arguments: Arguments of the call.
            call: The call of a client that waits; None if none does.

        Raises:
            ServerFault: The server answered with an error, or did not answer.
        """


@dataclass(slots=True)
class LiveCall:
    """A call whose client waits for the answer.

    Attributes:
        server: The connection on which it is made.
        meta: The field `_meta` of the client's request.
        result: The unchanged result of the server; None until there is one.
        questions: Results in which the server asks for input before it continues.
        answer: The input for the latest question.
    """

    server: ServerConnection
    meta: Mapping[str, Json] = field(default_factory=dict)
    result: Raw | None = None
    questions: "asyncio.Queue[dict[str, Json]]" = field(default_factory=asyncio.Queue)
    answer: "asyncio.Future[Json]" = field(default_factory=asyncio.Future)


class ToolGate:
    """The gate of all clients of a gateway.

    Args:
        options: Options of the gateway.
        notify: Reports a line to the operator.
    """

    def __init__(self, options: GatewayOptions, notify: "Notify") -> None:
        self.options = options
        self._notify = notify
        self._gate: PinnedGate | None = None
        self._texts: dict[str, str] = {}
        self._listed: dict[str, str] = {}
        self._opening = asyncio.Lock()
        self._running = 0
        self._live: dict[str, LiveCall] = {}
        self._results: OrderedDict[str, bytes] = OrderedDict()
        self._results_bytes = 0
        self._servers: dict[int, ServerConnection] = {}

    @property
    def gate(self) -> PinnedGate:
        """The open gate.

        Raises:
            ClosedError: No tools were declared yet, or the gate is closed.
        """
        if self._gate is None:
            raise ClosedError("the gate is not open: the server has not listed its tools")
        return self._gate

    @contextmanager
    def in_use(self) -> Iterator[PinnedGate]:
        """Return a context with the open gate, which stays open in it when the tools change.

        Raises:
            ClosedError: No tools were declared yet, or the gate is closed.
        """
        gate = self.gate
        self._running += 1
        try:
            yield gate
        finally:
            self._running -= 1

    @property
    def where(self) -> str:
        """Where a person decides held calls."""
        if self.options.store.startswith("memory:"):
            return "the client's user; a log in memory has no other way"
        return f"a person, by {self.where_whole}"

    @property
    def where_whole(self) -> str:
        """Where a person reads and decides a request that a form cannot show as a whole."""
        if self.options.store.startswith("memory:"):
            return "start the gateway with --store, and use `placet inbox`"
        return f"`placet inbox {shlex.quote(self.options.store)}`"

    def connect(self, server: ServerConnection) -> None:
        """Add a connection, over which calls without a waiting client are made."""
        self._servers[id(server)] = server

    def disconnect(self, server: ServerConnection) -> None:
        """Remove a connection."""
        self._servers.pop(id(server), None)

    async def close(self) -> None:
        """Close the world."""
        gate, self._gate = self._gate, None
        if gate is not None:
            await gate.__aexit__()

    # declarations

    async def declare(self, listed: Sequence[Json]) -> list[str]:
        """Take over the list of the server's tools.

        Args:
            listed: The tools as the server lists them.

        Returns:
            Names of the tools that may be called.

        Raises:
            PlacetError, OSError: The gate cannot be opened.
        """
        texts, faults = texts_of(listed)
        async with self._opening:
            self._listed = texts
            if self._gate is None:
                await self._open(faults)
            elif texts != self._texts and self._may_reopen():
                await self.close()
                await self._open(faults)
        return [name for name in texts if name in self._texts]

    async def shown(self) -> dict[str, Mapping[str, Json]]:
        """Return the pinned declaration of each tool that has another one now.

        A model reads only declarations that are pinned.
        """
        pinned = await self.gate.pinned()
        return {
            name: parts_of(pinned[name])
            for name, text in self._listed.items()
            if name in pinned and pinned[name] != text
        }

    def _may_reopen(self) -> bool:
        if self.options.store.startswith("memory:"):
            self._notify("the tools of the server changed; a world in memory keeps its tools")
            return False
        return self._running == 0

    async def _open(self, faults: Sequence[str]) -> None:
        tools = PinnedTools(self.options.name)
        texts = {}
        for name, text in self._listed.items():
            try:
                self._declare(tools, name, text)
            except ToolError as error:
                if name in self.options.policy.declared:
                    raise
                faults = [*faults, str(error)]
            else:
                texts[name] = text
        for fault in faults:
            self._notify(f"a tool is left out: {fault}")
        config = OrchestratorConfig(
            log_level="critical", limits=Limits(payload_bytes_max=PAYLOAD_BYTES_MAX)
        )
        gate = PinnedGate(
            tools,
            store=self.options.store,
            policy=self.options.policy.rules,
            approve_from=self.options.approve_from,
            wait_s=SECONDS_MAX,
            config=config,
        )
        self._gate, self._texts = await gate.__aenter__(), texts
        pinned = await gate.pinned()
        for name, text in texts.items():
            if pinned[name] != text:
                self._notify(f"the tool {name!r} has changed since it was pinned, and is held")

    def _declare(self, tools: PinnedTools, name: str, text: str) -> None:
        declared = self.options.policy.declared.get(name, Declared())
        tools.declare(
            name,
            text,
            partial(self._run, name),
            risk=raised(declared.risk, parts_of(text)),
            once=declared.once,
            delivery=declared.delivery,
            seconds_max=SECONDS_MAX,
        )

    # calls

    async def call(
        self, calls: Sequence[tuple[str, Mapping[str, Json]]], key: str, live: LiveCall
    ) -> list[Outcome]:
        """Decide calls as one plan, and return their outcomes.

        Args:
            calls: Tool and arguments of each.
            key: Key of the plan, a new one.
            live: The call of the client; of one tool it receives the result.

        Raises:
            PlacetError, OSError: The gate failed; nothing runs that is not in the log.
        """
        async with self._opening:  # not while the log is opened again
            gate = self.gate
        for name, _ in calls:
            if self._listed.get(name) != self._texts.get(name):
                return [self._changed(name, key)] * len(calls)
        self._running += 1
        try:
            with self.waiting([f"{key}.{number}" for number in range(len(calls))], live):
                return await gate.plan(calls, agent=self.options.agent, key=key)
        finally:
            self._running -= 1

    @contextmanager
    def waiting(self, keys: Sequence[str], live: LiveCall) -> Iterator[None]:
        """Note that a client waits for calls; a call alone leaves it its result."""
        self._live.update(dict.fromkeys(keys, live))
        try:
            yield
        finally:
            for key in keys:
                self._live.pop(key, None)

    def result_of(self, outcome: Outcome) -> Raw | None:
        """Return the result of a call for which no client waited, unchanged; None if unknown."""
        kept = self._results.get(outcome.key)
        return None if kept is None else Raw(kept)

    def _changed(self, name: str, key: str) -> Outcome:
        message = (
            f"the declaration of {name!r} changed while calls run; list the tools again, and call "
            "it then"
        )
        return Outcome("refused", message=message, codes=("tool_changed",), key=key)

    async def _run(self, tool: str, arguments: Mapping[str, Json], key: str) -> Json:
        """Run an admitted call on the server."""
        declared = self.gate.tools[tool]
        live = self._live.get(key)
        server = live.server if live is not None else next(iter(self._servers.values()), None)
        if server is None:
            raise ConnectionError("there is no connection to the server")
        self._running += 1
        try:
            raw = await server.run_tool(tool, arguments, live)
        except ServerFault as fault:
            if fault.was_not_done:
                raise NotDone(str(fault)) from fault
            if declared.delivery == "at_most_once":
                raise OutcomeUnknown(str(fault)) from fault
            raise
        finally:
            self._running -= 1
        if live is not None:
            live.result = raw
        else:
            self._keep(key, raw)
        result = decode(raw)
        if is_error(result):
            self._raise_error(tool, f"the tool reports an error: {text_of_result(result):.2000}")
        return result

    def _raise_error(self, tool: str, text: str) -> None:
        """Raise the outcome of a result that is an error, unless the call counts as done.

        If the policy names no outcome, a call with `once` is in doubt: the text does not show
        whether the work was done, and it must not be repeated.
        """
        errors = self.options.policy.declared.get(tool, Declared()).errors
        if errors == "failed":
            raise NotDone(text)
        if errors == "doubt" or (self.gate.tools[tool].once and not errors):
            raise OutcomeUnknown(text)

    def _keep(self, key: str, raw: Raw) -> None:
        self._results_bytes -= len(self._results.pop(key, b""))  # of an earlier attempt
        self._results[key] = bytes(raw)
        self._results_bytes += len(self._results[key])
        while self._results_bytes > _RESULTS_BYTES_MAX:
            self._results_bytes -= len(self._results.popitem(last=False)[1])


class Notify(Protocol):
    """Reports a line to the operator."""

    def __call__(self, text: str) -> None:
        """Report a line."""


def is_error(result: Json) -> bool:
    """Return whether a result of a tool is an error that the tool reports."""
    return isinstance(result, Mapping) and result.get("isError") is True


def text_of_result(result: Mapping[str, Json]) -> str:
    """Return the texts of a result."""
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    texts = [one.get("text") for one in parts if isinstance(one, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
