"""`Gate(url=...)`: a server decides and records the calls, and this program runs its functions."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from inspect import iscoroutinefunction
from typing import Any, Final, NoReturn, Self
from urllib.parse import quote

import httpx
from anyio import to_thread
from msgspec.json import decode

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval
from placet.schemas.codec import ENCODE_ERRORS, Json, to_json
from placet.schemas.effect import DoNotRetry, Effect, EffectKey
from placet.schemas.errors import ClosedError, PlacetError, describe_error
from placet_tools.frontend.background import BackgroundTasks
from placet_tools.frontend.calls import NOT_ENDED, ToolCall
from placet_tools.frontend.claims import GRACE_SECONDS, Ending
from placet_tools.frontend.executors import handler_of
from placet_tools.frontend.gate import WAIT_S, Gate
from placet_tools.frontend.policy_file import domain_of
from placet_tools.outcome import Outcome, RequestDecision
from placet_tools.tool import ToolError
from placet_tools.tools import Tools

_WORLDS: Final = "/api/v1/worlds/"
_WAIT_SECONDS: Final = 20.0
"""Seconds for which one request waits at the server."""

_LOOK_SECONDS: Final = 0.5
"""Pause between two looks at a request for approval."""

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.5


class GateUnreachable(ClosedError):  # noqa: N818  # the name states the fault
    """The error of a server that cannot be reached, or that refuses this program.

    A call may have been admitted: ask again with the same key.
    """


class RemoteGate(Gate):
    """A gate whose world is on a server. Make it by `Gate(tools, url=...)`.

    Args:
        tools: The tools, declared as on the server.
        url: Address of the server, or of one of its worlds.
        token: Token of the server's operator.
        wait_s: Real seconds for which `call`, `plan` and `outcome` wait for tools to end.
        **others: None: the other arguments of `Gate` are the server's.

    Raises:
        ToolError: A tool has secrets or personal data, whose values stay in one process.
        ValueError: An argument is the server's.
    """

    def __init__(
        self,
        tools: Tools,
        *,
        url: str,
        token: str = "",
        wait_s: float = WAIT_S,
        **others: Any,  # noqa: ANN401  # refused
    ) -> None:
        if others:
            raise ValueError(f"with a url, {min(others)} is the server's; leave it out here")
        self._domain = domain_of(tools, "high", None)
        marked = [tool.name for tool in self._domain.tools.values() if tool.marks]
        if marked:
            raise ToolError(
                f"tool {marked[0]} has secrets or personal data, whose values stay in the process "
                "of the gate; call it by a Gate with a store"
            )
        self._kinds = frozenset[str]()
        self._url = url.rstrip("/") if _WORLDS in url else f"{url.rstrip('/')}{_WORLDS}world"
        self._token = token
        self._wait_s = wait_s
        self._portal = ExitStack()
        self._tasks = BackgroundTasks()
        self.loop = None

    def __repr__(self) -> str:
        return f"<Gate of {self._domain.name} at {self._url}>"

    @property
    def world(self) -> Orchestrator:  # type: ignore[override]  # there is none here
        """The world of this gate is on the server, so there is none to return.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"the world of this gate is on the server {self._url}")

    async def __aenter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        timeout = httpx.Timeout(_WAIT_SECONDS + 10.0)
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout)
        try:
            self._compare(await self._ask("GET", "tools"))
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        await self._client.aclose()

    def _compare(self, known: Mapping[str, Json]) -> None:
        """Check that the tools are declared here as on the server.

        Raises:
            ToolError: They are not.
        """
        here, there = self._domain.versions(), known["tools"]
        if known["name"] != self._domain.name:
            raise ToolError(f"the server has the tools {known['name']!r}, not {self.name!r}")
        differ = sorted(name for name in here if there.get(name) != here[name])
        if differ:
            raise ToolError(
                f"the server declares {', '.join(differ)} otherwise, or not at all; start it and "
                "this program with the same version of the tools"
            )

    # calls

    async def _decide(
        self, calls: Sequence[ToolCall], agent: str, *, is_new: bool, runs: bool = True
    ) -> list[Outcome]:
        body: dict[str, Json] = {
            "agent": agent,
            "calls": [
                {"key": one.key, "tool": self._tool_of(one), "args": one.payload} for one in calls
            ],
            "is_new": is_new,
            "runs": runs,
        }
        try:
            to_json(body)
        except ENCODE_ERRORS as error:
            message = f"the arguments are no JSON: {error}"
            refused = Outcome("refused", message=message, codes=("payload_invalid",))
            return [refused] * len(calls)
        outcomes = await self._until_ended("POST", "calls", body)
        return outcomes or [Outcome("running", message=NOT_ENDED, key=one.key) for one in calls]

    def _tool_of(self, call: ToolCall) -> str:
        tool = self._domain.tool_of(call.kind)
        return call.kind.removeprefix(f"{self.name}.") if tool is None else tool.name

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key; run the call, if it waits for a worker.

        Raises:
            LookupError: The server has no such call.
            GateUnreachable: The server cannot be reached, or refuses this program.
        """
        path = f"calls/{_segment(key)}?claims=true"
        outcomes = await self._tasks.shielded(self._until_ended("GET", path, None))
        return outcomes[0] if outcomes else Outcome("running", message=NOT_ENDED, key=key)

    async def _until_ended(self, method: str, path: str, body: Json) -> list[Outcome] | None:
        """Repeat a request until its calls have ended; run the calls that the answers claim."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait_s
        while (left := end - loop.time()) > 0:
            wait_s = min(left, _WAIT_SECONDS)
            if method == "GET":
                answer = await self._ask(method, f"{path}&wait_s={wait_s}")
            else:
                answer = await self._ask(method, path, {**body, "wait_s": wait_s})
                body = {**body, "is_new": False}
            if answer["outcomes"] is not None:
                return [
                    Outcome(**{**one, "codes": tuple(one["codes"])}) for one in answer["outcomes"]
                ]
            await asyncio.gather(*[self._run(claim) for claim in answer["claims"]])
        return None

    async def _run(self, claim: Mapping[str, Json]) -> None:
        """Run a call that this program has claimed, and settle it."""
        ending, output = await self._ended(claim)
        body = {"claim": claim["id"], "ending": ending, "output": output}
        try:
            to_json(body)
        except ENCODE_ERRORS as error:
            body["output"] = {"not_recorded": f"the output is no JSON: {error}"}
        try:
            await self._ask("POST", f"effects/{_segment(claim['key'])}", body)
        except LookupError:
            return  # the claim is over: the outcome of the call has the doubt

    async def _ended(self, claim: Mapping[str, Json]) -> tuple[Ending, Json]:
        tool = self._domain.tools[claim["tool"]]
        kind, payload = (
            self._domain.kind_of(tool.name),
            {"key": claim["key"], "args": claim["args"]},
        )
        effect = Effect(EffectKey(self.name, 0, 0), kind, payload, "")
        handler, seconds = handler_of(tool, None), claim["seconds"] - GRACE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                if iscoroutinefunction(handler):
                    return "done", await handler(effect)
                return "done", await to_thread.run_sync(handler, effect, abandon_on_cancel=True)
        except DoNotRetry as error:
            return "not_done", str(error)
        except TimeoutError:
            return "doubt", f"it took over {seconds:g} s"
        except Exception as error:  # of the function  # noqa: BLE001
            return "doubt", describe_error(error)

    async def settle(
        self, key: str, *, done: bool, output: Json = None, by: str = "", reason: str = ""
    ) -> Outcome:
        """Settle a call that is in doubt, as `Gate.settle` does.

        Raises:
            LookupError: No call of this key is in doubt.
            ValueError: The person is the agent of the call, or there is a reason and no person.
            GateUnreachable: The server cannot be reached, or refuses this program.
        """
        body: dict[str, Json] = {"ending": "done" if done else "not_done", "output": output}
        body |= {"by": by, "reason": reason} if by or reason else {}
        (outcome,) = (await self._ask("POST", f"effects/{_segment(key)}", body))["outcomes"]
        return Outcome(**{**outcome, "codes": tuple(outcome["codes"])})

    # approvals

    async def decision(self, approval: Approval | str) -> RequestDecision:
        """Wait until a request is decided or expired, as `Gate.decision` does.

        Raises:
            LookupError: The server has no such request.
            GateUnreachable: The server cannot be reached, or refuses this program.
        """
        request = approval if isinstance(approval, str) else approval.id
        found = await self._ask("GET", f"approvals/{_segment(request)}")
        while found["state"] == "open":
            await asyncio.sleep(_LOOK_SECONDS)
            found = await self._ask("GET", f"approvals/{_segment(request)}")
        applied = found
        if found["amended_by"]:
            applied = await self._ask("GET", f"approvals/{found['amended_by']}")
        outcomes = [await self.outcome(one["key"]) for one in applied["calls"]]
        return RequestDecision(found["state"], found["by"], found["reason"], tuple(outcomes))

    async def approvals(self) -> NoReturn:
        """Refuse: people decide at the server.

        Raises:
            PlacetError: Always.
        """
        self._refuse_here()

    async def request(self, request: str) -> NoReturn:
        """Refuse: people decide at the server.

        Raises:
            PlacetError: Always.
        """
        self._refuse_here()

    async def doubts(self) -> NoReturn:
        """Refuse: the server lists its effects in doubt.

        Raises:
            PlacetError: Always.
        """
        self._refuse_here()

    async def decide(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401  # refused
        """Refuse: people decide at the server.

        Raises:
            PlacetError: Always.
        """
        self._refuse_here()

    async def erase(self, subject: str) -> bool:
        """Refuse: the tools of this gate have no personal data.

        Raises:
            PlacetError: Always.
        """
        raise PlacetError("the tools of a gate with a url have no personal data")

    def _refuse_here(self) -> NoReturn:
        raise PlacetError(f"people decide at the server: {self._url.split(_WORLDS)[0]}/approvals")

    # requests

    async def _ask(self, method: str, path: str, body: Json = None) -> Any:  # noqa: ANN401  # JSON
        """Send a request, again if the server cannot be reached; return the answer.

        Raises:
            LookupError: The server does not know this, or the claim is over.
            ValueError: The server cannot read the request.
            GateUnreachable: The server cannot be reached, or refuses this program.
        """
        fault: Exception | None = None
        for number in range(_TRIES):
            await asyncio.sleep(number * _PAUSE_SECONDS)
            try:
                answer = await self._client.request(
                    method,
                    f"{self._url}/{path}",
                    content=None if body is None else to_json(body),
                    headers={"content-type": "application/json"},
                )
            except httpx.HTTPError as error:
                fault = error
                continue
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return self._checked(answer)
            fault = RuntimeError(_detail(answer))
        why = describe_error(fault) if fault else ""
        raise GateUnreachable(f"the server {self._url} cannot be reached: {why}")

    def _checked(self, answer: httpx.Response) -> Json:
        if answer.is_success:
            return decode(answer.content)
        detail = _detail(answer)
        if answer.status_code in {httpx.codes.NOT_FOUND, httpx.codes.CONFLICT}:
            raise LookupError(detail)
        if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
            raise ValueError(detail)
        raise GateUnreachable(f"the server {self._url} answered {answer.status_code}: {detail}")


def _segment(name: str) -> str:
    """Return a name as one segment of a path: `r1#2` and `r1?2` are other calls than `r1`."""
    return quote(name, safe="").replace(".", "%2E")  # the client would resolve `..`


def _detail(answer: httpx.Response) -> str:
    """Return the sentence of a problem document."""
    try:
        return str(decode(answer.content)["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
