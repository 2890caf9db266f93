"""Calls of tools by a client: decided by the gate, held ones decided by the client's user."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from uuid import uuid4

from msgspec import Raw

from placet.runtime.inbox import Decision
from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet_tools.domain import ROLE
from placet_tools.frontend import jsonrpc
from placet_tools.frontend.gateway import results
from placet_tools.frontend.gateway.declarations import OUTCOME_TOOL, PLAN_TOOL
from placet_tools.frontend.gateway.tool_gate import (
    GATE_ERRORS,
    LiveCall,
    ServerConnection,
    ServerFault,
    ToolGate,
)
from placet_tools.frontend.jsonrpc import MessageInvalid
from placet_tools.outcome import Outcome

_PROTOCOL: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_STATE: Final = "placet:"
_WAIT_S_MAX: Final = 60.0
_CALLS_MAX: Final = 256

_T = TypeVar("_T")

Call = tuple[str, Mapping[str, Json]]


class Client(ServerConnection, Protocol):
    """A client, and its connection to the server."""

    def see_meta(self, meta: Mapping[str, Json]) -> None:
        """Keep the fields of a request that name protocol and client."""

    async def ensure_listed(self) -> None:
        """List the tools of the server, if that was not done since they changed."""

    def start(self, work: Coroutine[object, object, _T]) -> "asyncio.Task[_T]":
        """Start work that ends with the session."""

    async def ask_client(self, method: str, params: Json) -> Json:
        """Send a request to the client; return the result, or None for an error."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call as a client asks for it.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments.
        meta: Field `_meta` of the request.
    """

    tool: str
    arguments: Mapping[str, Json]
    meta: Mapping[str, Json]

    @property
    def is_modern(self) -> bool:
        """Whether its protocol asks by an answer, and is asked again."""
        return _PROTOCOL in self.meta

    @property
    def calls(self) -> list[Call]:
        """The calls of the plan.

        Raises:
            MessageInvalid: The calls of a plan are of another form.
        """
        if self.tool != PLAN_TOOL:
            return [(self.tool, self.arguments)]
        return _calls_of(self.arguments)


class Calls:
    """Answers the calls of one client.

    Args:
        gate: The gate.
        client: The client.
    """

    def __init__(self, gate: ToolGate, client: Client) -> None:
        self._gate = gate
        self._client = client
        self._may_ask = False
        self._paused: dict[str, tuple[asyncio.Task[Json | Raw], LiveCall, list[Call]]] = {}

    def take_capabilities(self, params: Mapping[str, Json]) -> None:
        """Read whether the client can ask its user by a form, from `initialize`."""
        self._may_ask = _takes_forms(params.get("capabilities"))

    async def answer(self, params: Mapping[str, Json]) -> Json | Raw:
        """Return the result of a call.

        Args:
            params: Parameters of the request.

        Raises:
            MessageInvalid: The parameters are of another form.
        """
        meta = params.get("_meta")
        request = CallRequest(
            *_call_of(params, "params"), meta if isinstance(meta, Mapping) else {}
        )
        if "task" in params:
            fault = "placet gateway runs no tool as a task; call it without `task`"
            raise MessageInvalid(jsonrpc.INVALID_PARAMS, fault)
        live = LiveCall(self._client, request.meta)
        try:
            self._client.see_meta(request.meta)
            await self._client.ensure_listed()
            if request.tool == OUTCOME_TOOL:
                result = await self._outcome(request.arguments)
            elif params.get("requestState") is not None:
                result = await self._continued(request, params, live)
            elif request.is_modern:
                deciding = self._client.start(self._called(request, live))
                result = await self._first(request, deciding, live)
            else:
                result = await self._called(request, live)
        except (*GATE_ERRORS, ServerFault) as error:
            result = results.failed_gate(error)
        if request.is_modern and isinstance(result, Mapping):
            return {"resultType": "complete", **result}
        return result

    async def _called(self, request: CallRequest, live: LiveCall) -> Json | Raw:
        """Decide a call, and return its result, or the question to the client's user."""
        calls = request.calls
        outcomes: Sequence[Outcome] = await self._gate.call(calls, uuid4().hex, live)
        approval = await self._to_ask(request, outcomes)
        if approval is not None:
            now, gate = self._gate.gate.world.sim_time, self._gate
            form = results.form_of(approval, now, gate.gate.tool_name, gate.where_whole)
            if request.is_modern:
                return results.question(form, _STATE + approval.id)
            outcomes = await self._elicited(approval, form, outcomes, live)
        return self._result(request, outcomes, live)

    def _result(
        self, request: CallRequest, outcomes: Sequence[Outcome], live: LiveCall
    ) -> Json | Raw:
        if request.tool == PLAN_TOOL:
            return results.results_of(outcomes, self._gate.where)
        return results.result_of(outcomes[0], live.result, self._gate.where)

    # the client's user

    async def _to_ask(self, request: CallRequest, outcomes: Sequence[Outcome]) -> Approval | None:
        """Return the request that the client's user decides; None to ask no person."""
        may_ask = (
            _takes_forms(request.meta.get(_CAPABILITIES)) if request.is_modern else self._may_ask
        )
        if outcomes[0].status != "held" or not may_ask or not self._gate.options.person:
            return None
        approval = await self._open_request(outcomes[0].approval)
        return approval if approval is not None and approval.role in {"", ROLE} else None

    async def _open_request(self, request: str) -> Approval | None:
        requests = await self._gate.gate.approvals()
        return next((one for one in requests if one.id == request), None)

    async def _elicited(
        self,
        approval: Approval,
        form: Json,
        outcomes: Sequence[Outcome],
        live: LiveCall,
    ) -> Sequence[Outcome]:
        """Ask the client's user about a request, unless another person decides it first."""
        asking = asyncio.create_task(self._client.ask_client("elicitation/create", form))
        deciding = asyncio.create_task(self._gate.gate.decision(approval))
        try:
            with self._gate.waiting([one.key for one in outcomes], live):
                await asyncio.wait({asking, deciding}, return_when=asyncio.FIRST_COMPLETED)
                if deciding.done():
                    return deciding.result().outcomes
                return await self._decided(approval, asking.result(), outcomes)
        finally:
            for task in (asking, deciding):
                task.cancel()
            await asyncio.gather(asking, deciding, return_exceptions=True)

    async def _decided(
        self, approval: Approval, answer: Json, outcomes: Sequence[Outcome]
    ) -> Sequence[Outcome]:
        """Record the answer of the client's user.

        A form that was closed leaves the calls held, and so does one that did not show all of them
        and was accepted.
        """
        verb = _verb_of(answer)
        is_unread = not results.takes_yes(approval, self._gate.gate.tool_name)
        if verb is None or (is_unread and _is_accepted(answer)):
            return outcomes
        with self._gate.in_use() as gate:
            decision = await gate.decide(approval, verb, by=self._gate.options.person)
        return decision.outcomes

    # requests that come again with an answer (from protocol 2026-07-28 on)

    async def _continued(
        self, request: CallRequest, params: Mapping[str, Json], live: LiveCall
    ) -> Json | Raw:
        """Take a call that comes again with the answer of the client's user."""
        state, answers = str(params["requestState"]), params.get("inputResponses")
        if state in self._paused:
            deciding, paused, first = self._paused.pop(state)
            if first != request.calls:
                paused.answer.cancel()
                return results.refusal("request_changed", "the answer is of another call")
            paused.answer.set_result(answers)
            return await self._first(request, deciding, paused)
        approval = await self._open_request(state.removeprefix(_STATE))
        if approval is None or not self._gate.gate.is_of(approval, request.calls):
            message = "the answer is about no call that is held; call again"
            return results.refusal("request_changed", message)
        keys = [one["key"] for one in approval.own_intents]
        held = [Outcome("held", approval=approval.id, key=key) for key in keys]
        answer = answers.get(results.CONFIRM) if isinstance(answers, Mapping) else None
        if await self._to_ask(request, held) is None:
            return self._result(request, held, live)
        with self._gate.waiting(keys, live):
            return self._result(request, await self._decided(approval, answer, held), live)

    async def _first(
        self, request: CallRequest, deciding: "asyncio.Task[Json | Raw]", live: LiveCall
    ) -> Json | Raw:
        """Return the result of a call, or a question of the server that comes before it."""
        questions = asyncio.ensure_future(live.questions.get())
        await asyncio.wait({deciding, questions}, return_when=asyncio.FIRST_COMPLETED)
        if deciding.done():
            questions.cancel()
            return deciding.result()
        state = f"{_STATE}{uuid4().hex}"
        self._paused[state] = (deciding, live, request.calls)
        deciding.add_done_callback(lambda _: self._paused.pop(state, None))
        return {**questions.result(), "requestState": state}

    # the gateway's own tool

    async def _outcome(self, arguments: Mapping[str, Json]) -> Json | Raw:
        """Return the outcome of a call by its key."""
        key, wait_s = arguments.get("key"), arguments.get("wait_s", 0)
        if not isinstance(key, str) or not isinstance(wait_s, int | float):
            raise MessageInvalid(jsonrpc.INVALID_PARAMS, f"{OUTCOME_TOOL} takes a key and wait_s")
        try:
            wait_s = min(max(wait_s, 0.0), _WAIT_S_MAX)
            outcome = await self._gate.gate.outcome_within(key, wait_s)
        except LookupError as error:
            return results.refusal("key_unknown", str(error))
        return results.result_of(outcome, self._gate.result_of(outcome), self._gate.where)


def _takes_forms(capabilities: Json) -> bool:
    forms = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(forms, Mapping) and ("form" in forms or "url" not in forms)


def _verb_of(answer: Json) -> Decision | None:
    """Return the decision of a form; None if the person did not decide."""
    if not isinstance(answer, Mapping) or answer.get("action") not in {"accept", "decline"}:
        return None
    content = answer.get("content")
    is_yes = isinstance(content, Mapping) and content.get(results.CONFIRM) is True
    return "approve" if _is_accepted(answer) and is_yes else "deny"


def _is_accepted(answer: Json) -> bool:
    return isinstance(answer, Mapping) and answer.get("action") == "accept"


def _call_of(fields: Json, where: str, tool: str = "name") -> Call:
    """Read a call.

    Raises:
        MessageInvalid: It is of another form.
    """
    name = fields.get(tool) if isinstance(fields, Mapping) else None
    if not isinstance(name, str):
        raise MessageInvalid(jsonrpc.INVALID_PARAMS, f"{where}/{tool} must be a text")
    arguments = fields.get("arguments")
    if arguments is None:
        return name, {}
    if not isinstance(arguments, dict):
        raise MessageInvalid(jsonrpc.INVALID_PARAMS, f"{where}/arguments must be an object")
    return name, arguments


def _calls_of(arguments: Mapping[str, Json]) -> list[Call]:
    calls = arguments.get("calls")
    if not isinstance(calls, list) or not 1 <= len(calls) <= _CALLS_MAX:
        fault = f"{PLAN_TOOL} takes 1 to {_CALLS_MAX} calls"
        raise MessageInvalid(jsonrpc.INVALID_PARAMS, fault)
    return [_call_of(one, f"calls/{number}", "tool") for number, one in enumerate(calls)]
