"""Decides the calls that a model makes inside a framework, for the adapters of all frameworks.

The key of a call is a hash of its place in the conversation and of its arguments, so a resumed run
finds the outcomes of its earlier calls. A refusal and a failure of the gate are outcomes, which the
model reads. An approval in a framework has no effect: a held call stays held until it is decided in
the gate. The gate runs in its own event loop; an adapter may call it from any loop or thread.
"""

import asyncio
import inspect
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from placet.schemas.codec import Json
from placet.schemas.errors import ClosedError, StoreError
from placet_tools.frontend.calls import digest_of_place
from placet_tools.outcome import Outcome
from placet_tools.parts.marks import plain_name
from placet_tools.tool import DeclaredTool

_T = TypeVar("_T")

_PLANS_MAX: Final = 64
"""Maximum number of answers of models for which the framework has not submitted every call."""

_LOOP_SECONDS_MAX: Final = 10.0
"""Real seconds in which the event loop of the gate must run a callback; else it is blocked."""


class CallGate(Protocol):
    """The part of a `Gate` that adapters call. The gate imports the adapters, not they the gate."""

    loop: asyncio.AbstractEventLoop | None

    @property
    def name(self) -> str:
        """Name of the domain of the tools."""

    @property
    def tools(self) -> Mapping[str, DeclaredTool]:
        """The tools by name."""

    async def plan(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, agent: str, key: str
    ) -> list[Outcome]:
        """Decide several calls as one batch."""

    async def request_approval(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, agent: str, key: str
    ) -> bool:
        """Request an approval of calls if they need one; return whether they wait for it."""

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key."""

    async def decision(self, approval: str) -> object:
        """Wait until a request is decided or expired."""


class ModelCall(NamedTuple):
    """One call in an answer of a model."""

    id: str
    tool: str
    arguments: Mapping[str, Json]


@dataclass(slots=True)
class _Plan:
    """The outcomes of all calls of an answer, and the ids of the calls that received them."""

    outcomes: "asyncio.Task[list[Outcome]]"
    received: set[str] = field(default_factory=set)


class FrameworkCalls:
    """Decides the calls of one agent's model.

    Args:
        gate: The gate.
        agent: Name of the agent.
        deferred: Return the outcome `held` at once; else wait until a person has decided.
    """

    def __init__(self, gate: CallGate, agent: str, *, deferred: bool) -> None:
        self._gate = gate
        self._agent = agent
        self._deferred = deferred
        self._plans: dict[str, _Plan] = {}

    async def outcome(
        self, place: Sequence[Json], calls: Sequence[ModelCall], call_id: str
    ) -> Outcome:
        """Return the outcome of one call; the status is `gate_failed` if the gate has failed.

        Args:
            place: Plain JSON that the framework repeats when it resumes the run.
            calls: The call alone, or all calls of the answer, which are decided as one plan.
            call_id: Id of the call.
        """
        try:
            return await self._in_loop(self._outcome(place, calls, call_id))
        except (ClosedError, StoreError) as error:
            return Outcome("gate_failed", message=str(error))

    def outcome_in_thread(
        self, place: Sequence[Json], calls: Sequence[ModelCall], call_id: str
    ) -> Outcome:
        """Return the outcome of one call, from a thread that has no event loop."""
        try:
            loop = self._turning_loop()
        except ClosedError as error:
            return Outcome("gate_failed", message=str(error))
        work = self.outcome(place, calls, call_id)
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def is_held(self, place: Sequence[Json], call: ModelCall) -> bool:
        """Return whether a call waits for a person; request the approval if there is no request.

        No call runs. Return False if the gate cannot decide: the outcome of the call has the error.
        """
        plan = [(call.tool, call.arguments)]
        key = self._key(place, [call])
        try:
            return await self._in_loop(
                self._gate.request_approval(plan, agent=self._agent, key=key)
            )
        except (ClosedError, StoreError):
            return False

    async def _outcome(
        self, place: Sequence[Json], calls: Sequence[ModelCall], call_id: str
    ) -> Outcome:
        key = self._key(place, calls)
        ids = [call.id for call in calls]
        if len(calls) == 1:
            return (await self._decide(key, calls))[0]
        plan = self._plans.get(key)
        if plan is None or call_id in plan.received:  # a resumed run submits it again
            plan = self._plans[key] = _Plan(asyncio.create_task(self._decide(key, calls)))
            if len(self._plans) > _PLANS_MAX:
                del self._plans[next(iter(self._plans))]
        plan.received.add(call_id)
        if plan.received.issuperset(ids):
            del self._plans[key]
        return (await asyncio.shield(plan.outcomes))[ids.index(call_id)]

    def _key(self, place: Sequence[Json], calls: Sequence[ModelCall]) -> str:
        """Return the key of calls at their place; it is in the log, so no marked argument is."""
        if not any(tool.marks for tool in self._gate.tools.values()):
            return digest_of_place(*place, calls)
        return digest_of_place(*place, [self._unmarked(call) for call in calls])

    def _unmarked(self, call: ModelCall) -> ModelCall:
        tool = self._gate.tools.get(call.tool)
        if tool is None:
            return call._replace(tool=plain_name(call.tool), arguments={})
        return call._replace(arguments=tool.unmarked(call.arguments))

    async def _decide(self, key: str, calls: Sequence[ModelCall]) -> list[Outcome]:
        plan = [(call.tool, call.arguments) for call in calls]
        outcomes = await self._gate.plan(plan, agent=self._agent, key=key)
        if outcomes[0].status != "held" or self._deferred:  # a plan is held as a whole
            return outcomes
        await self._gate.decision(outcomes[0].approval)
        return [await self._gate.outcome(outcome.key) for outcome in outcomes]

    async def _in_loop(self, work: Coroutine[object, object, _T]) -> _T:
        """Run work in the event loop of the gate.

        Raises:
            ClosedError: The gate is not open.
        """
        loop = self._gate.loop
        if loop is asyncio.get_running_loop():
            return await work
        if loop is None or loop.is_closed():
            work.close()
            raise ClosedError(_NOT_OPEN)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def _turning_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the gate, which runs in another thread, if it is not blocked.

        A call that waits in a blocked loop would run after its caller had received an error.

        Raises:
            ClosedError: The gate is not open, or its loop is blocked.
        """
        loop, turned = self._gate.loop, Event()
        if loop is None or loop.is_closed():
            raise ClosedError(_NOT_OPEN)
        loop.call_soon_threadsafe(turned.set)
        if not turned.wait(_LOOP_SECONDS_MAX):
            raise ClosedError(
                f"the event loop of the gate has been blocked for {_LOOP_SECONDS_MAX:g} s; in a "
                "program with an event loop await the graph (`ainvoke`), or call it in another "
                "thread"
            )
        return loop


_NOT_OPEN: Final = "the gate is not open; use `async with Gate(...)`, or `with`"


def description(tool: DeclaredTool) -> str:
    """Return the description of a tool for a model: the docstring of its function."""
    return inspect.getdoc(tool.function) or tool.name


def text(outcome: Outcome) -> str:
    """Return the answer for a model as text: a string unchanged, any other value as JSON."""
    answer = outcome.for_model
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
