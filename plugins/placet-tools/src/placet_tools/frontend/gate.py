"""The gate: an open world before the tools of a program.

Each call is one batch, or a part of one; it runs once its batch is durable, by the executor of its
tool. A call that needs a person is not admitted: a request is recorded that shows its changes, and
the batch of its approval is refused if it would do anything else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from anyio.from_thread import BlockingPortal, start_blocking_portal

from placet.kernel.plugin.approved import APPROVAL_REQUIRED
from placet.kernel.plugin.approved import RECORDER as APPROVALS_RECORDER
from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.inbox import Decision, Inbox
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.approval import Approval
from placet.schemas.codec import Json
from placet.schemas.errors import StoreError
from placet.schemas.keywords import explain_keywords
from placet.schemas.refusal import RefusalCode
from placet_tools.domain import KEY_KNOWN, ROLE, ToolsDomain
from placet_tools.frontend.approval_flow import ApprovalFlow
from placet_tools.frontend.background import BackgroundTasks
from placet_tools.frontend.call_records import CallRecords
from placet_tools.frontend.calls import ToolCall, make_call, new_key, refused, refused_unfit
from placet_tools.frontend.catch_up import catch_up
from placet_tools.frontend.earlier_calls import count_earlier_calls
from placet_tools.frontend.extras import extra
from placet_tools.frontend.inbox.control import control_socket, socket_of
from placet_tools.frontend.parts.erasure import Erasure
from placet_tools.frontend.parts.frames import hides_arguments
from placet_tools.frontend.parts.opening import values_beside
from placet_tools.frontend.parts.sealed_values import SealedValues
from placet_tools.frontend.plan_runner import PlanRunner
from placet_tools.frontend.policy_file import PolicySource, domain_of
from placet_tools.frontend.policy_limits import warn_of_dropped_policy
from placet_tools.frontend.recorder import Recorder
from placet_tools.frontend.refusal_records import RefusalRecords
from placet_tools.outcome import Outcome, RequestDecision
from placet_tools.refused_calls import STAGES
from placet_tools.tool import DeclaredTool
from placet_tools.tools import Tools

if TYPE_CHECKING:
    from agents import FunctionTool
    from langchain_core.tools import StructuredTool

    from placet_tools.frontend.openai_agents_tools import RunName
    from placet_tools.frontend.pydantic_ai_toolset import GateToolset


HOLD_S: Final = 3_600.0
WAIT_S: Final = 300.0
APPROVALS: Final = "approvals"


@hides_arguments
@explain_keywords
class Gate:
    """The gate before the tools of a program: an async context manager, in one event loop.

        async with Gate(tools, store="sqlite:///shop.db") as gate:
            outcome = await gate.call("refund", agent="support", order="A7", euro=42)

    A program without an event loop writes `with Gate(...) as gate` and calls without `await`: it
    gets a `SyncGate`, whose event loop runs in a thread.

    Args:
        tools: The tools.
        store: URL of the log; `memory://` is lost with the process.
        policy: Path of a policy's TOML file, or its values; None for none.
        approve_from: Least risk of a tool that needs an approval, where the policy names none:
            `read`, `low`, `medium`, `high` or `never`.
        hold_s: Seconds for which a call waits for a person; those in which no process has the log
            open count too.
        wait_s: Real seconds for which `call`, `plan` and `outcome` wait for tools to end.
        domains: Domains beside the tools, whose intents plans may have.
        config: Further configuration of the world; its store is `store`.
        url: Address of a server whose world has these tools, `https://host` or that of the world,
            `https://host/api/v1/worlds/NAME`: it decides and records the calls, and this program
            runs the functions. All arguments but `tools`, `token` and `wait_s` are then the
            server's.
        token: Token of the server's operator.
        inbox: Whether `placet inbox STORE` lists and decides the requests from a terminal. Any
            program of this user of the machine can do that, so leave it out where an agent can
            start programs.

    Raises:
        ToolError: `approve_from` is no risk, or the store cannot hold secrets and personal data.
        ToolPolicyError: The policy cannot be read, or does not fit the tools.
        ValueError: The configuration is invalid.

    Attributes:
        world: The world of the gate.
        loop: The event loop in which the gate was opened; None before.
    """

    def __new__(cls, *_: object, url: str = "", **__: object) -> Self:
        """Make a gate; with a `url`, the kind that asks a server."""
        if url and cls is Gate:
            with extra("remote"):  # by name: a remote gate is a gate, and imports this one
                module = import_module("placet_tools.frontend.remote.remote_gate")
            return super().__new__(module.RemoteGate)  # type: ignore[no-any-return]  # a gate
        return super().__new__(cls)

    def __init__(
        self,
        tools: Tools,
        *,
        store: str = "memory://",
        policy: PolicySource | None = None,
        approve_from: str = "high",
        hold_s: float = HOLD_S,
        wait_s: float = WAIT_S,
        domains: Sequence[Domain] = (),
        config: OrchestratorConfig | None = None,
        url: str = "",
        token: str = "",
        inbox: bool = False,
    ) -> None:
        if token and not url:
            raise ValueError("a token is for the server of a url, and there is no url")
        self._socket = socket_of(store) if inbox else None
        if inbox and self._socket is None:
            raise ValueError(f"inbox=True needs a log in a file, so that it is found; got {store}")
        domain = domain_of(tools, approve_from, policy)
        config = OrchestratorConfig() if config is None else config
        world = Orchestrator([domain, *domains], replace(config, store=store))
        self._prepare(world, domain, values_beside(domain, store), hold_s, wait_s)

    def _prepare(
        self,
        world: Orchestrator,
        domain: ToolsDomain,
        values: SealedValues,
        hold_s: float,
        wait_s: float,
    ) -> None:
        self.world = world
        self._domain = domain
        self._values = values
        beside = [one for one in world.domains if one is not domain and one.name != APPROVALS]
        self._kinds = frozenset(kind.name for one in beside for kind in one.kinds)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._portal = ExitStack()
        self._listening = AsyncExitStack()
        parts = (self.world, self._domain)
        self._recorder = Recorder(*parts)
        self._inbox = Inbox(self.world)
        self._records = CallRecords(*parts, self._inbox, wait_s, self._values)
        self._erasure = Erasure(self._values.store, *parts, self._recorder)
        self._refusals = RefusalRecords(*parts, self._recorder)
        self._runner = PlanRunner(*parts, self._recorder, self._records, wait_s)
        self._tasks: BackgroundTasks = self._runner
        self._approvals = ApprovalFlow(
            self._inbox, self._domain, self._recorder, self._records, self._runner, hold_s
        )

    def __repr__(self) -> str:
        return f"<Gate of {self._domain.name}: {self.world!r}>"

    async def __aenter__(self) -> Self:
        await self.world.__aenter__()
        try:
            warn_of_dropped_policy(self.world, self._domain)
            await catch_up(self.world, self._domain, self._recorder)
            await self._resume()
            if self._socket is not None:
                await self._listen(self._socket)
        except BaseException:
            await self.__aexit__()  # `async with` calls it of an opened gate alone
            raise
        return self

    async def _listen(self, path: Path) -> None:
        """Answer `placet inbox` until the gate is closed."""
        try:
            await self._listening.enter_async_context(
                control_socket(path, lambda: nullcontext(self))
            )
        except OSError as error:
            message = f"no terminal can decide the requests: {path}: {error}"
            raise StoreError(message) from error

    async def _resume(self) -> None:
        """Continue the work that an earlier process left."""
        self.loop = asyncio.get_running_loop()
        await count_earlier_calls(self.world, self._domain, self._recorder)
        if not self.world.config.read_only:
            await self._erasure.resume()
        await self._runner.resume()
        await self._approvals.resume()

    async def __aexit__(self, *_: object) -> None:
        await self._listening.aclose()
        await self._tasks.close()
        await self.world.close()
        self._values.close()

    def __enter__(self) -> "SyncGate":
        self._portal = ExitStack()
        try:
            portal = self._portal.enter_context(start_blocking_portal())
            self._portal.enter_context(portal.wrap_async_context_manager(self))
        except BaseException:
            self._portal.close()
            raise
        return SyncGate(self, portal)

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401  # passed on
        self._portal.__exit__(*error)

    # calls

    async def call(
        self, tool: str, /, *, agent: str = "agent", key: str | None = None, **arguments: Json
    ) -> Outcome:
        """Call a tool for an agent, and return the outcome; a call that is held returns at once.

            outcome = await gate.call("refund", agent="support", key="m17", order="A7", euro=42)

        A refusal, a failure of the tool, a doubt, and a tool that runs for longer than `wait_s` are
        outcomes, not exceptions. If the caller is canceled, the call continues.

        Args:
            tool: Name of the tool.
            agent: Name of the agent.
            key: Key of the call: a known key returns the outcome of its call, and runs nothing.
                None: a new one.
            **arguments: Arguments of the tool, plain JSON.

        Raises:
            KeyInvalid: The key is empty or too long.
            ValueError: The name of the agent is one of the gate's own.
            ClosedError, StoreError: The world is closed, or its store has failed; nothing runs that
                is not in the log.
        """
        call = self._made(new_key(key), (tool, arguments))
        return (await self._tasks.shielded(self._decide([call], agent, is_new=key is None)))[0]

    async def plan(
        self,
        calls: Sequence[tuple[str, Mapping[str, Json]]],
        *,
        agent: str = "agent",
        key: str | None = None,
    ) -> list[Outcome]:
        """Decide several calls as one batch: all are admitted, held or refused together.

        The tools run after that, in no order. If one fails, the calls that were done are undone in
        reverse order, by the tools of their `undo`:

            booked = await gate.plan([("hotel", {"city": "Rome"}), ("flight", {"to": "Rome"})])

        Args:
            calls: Tool and arguments of each call; or kind and payload of another domain's intent.
            agent: Name of the agent.
            key: Key of the plan; its calls have the keys `<key>.0`, `<key>.1` and so on.
                None: a new one.

        Returns:
            The outcome of each call, in the order of `calls`.

        Raises:
            KeyInvalid: The key is empty or too long.
            ValueError: There is no call, or the name of the agent is one of the gate's own.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        if not calls:
            raise ValueError("a plan has one call or more, got none")
        made = self._plan(new_key(key), calls)
        return await self._tasks.shielded(self._decide(made, agent, is_new=key is None))

    async def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key; wait for one that runs, not for a person.

        Of a refused call it has the code and the message, as long as its record is among the latest
        20 000 of the log; the key of a refused call may be used again.

        Raises:
            LookupError: There is no such call, or it is so old that only the log has it.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        return await self._records.outcome(key)

    async def settle(
        self, key: str, *, done: bool, output: Json = None, by: str = "", reason: str = ""
    ) -> Outcome:
        """Settle a call that is in doubt, as a person found out what happened.

            await gate.settle("m17", done=True, by="ann", reason="the bank shows it")

        Args:
            key: Key of the call.
            done: The work was done.
            output: Output of the call; of one that failed, its reason.
            by: Name of the person, recorded with the reason; empty if a program settles the call.
            reason: How the person found out, at most 2 000 characters; without an output, the
                reason of a failure too.

        Raises:
            LookupError: No call of this key is in doubt.
            ValueError: The person is the agent of the call, or there is a reason and no person.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        effect = await self._records.effect(key)
        if effect is None or effect.state != "in_doubt":
            raise LookupError(f"no call {key!r} is in doubt; look at its outcome")
        if reason and not by:
            raise ValueError("a reason is recorded with a person: pass by='ann'")
        output = reason or None if output is None and not done else output
        output = await self._values.settled_output(effect, output)
        if by:
            told = await self._values.settled_output(effect, reason) if reason else ""
            await self._inbox.settle(effect.key, done=done, by=by, reason=str(told), output=output)
        else:
            await self.world.resolve_effect(effect.key, succeeded=done, output=output)
        record = await self._records.record(key)
        assert record is not None, "a call has a record until it has ended"
        if record["plan"]:
            await self._runner.finish(record["plan"])
        outcome = await self.outcome(key)
        self._values.forget([outcome])
        return outcome

    # approvals

    async def approvals(self) -> list[Approval]:
        """Return the open requests for approval, the earliest to expire first.

        Raises:
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        return [await self._values.shown(one) for one in await self._inbox.open()]

    async def request(self, request: str) -> Approval:
        """Return a request for approval by its id.

        Raises:
            ApprovalUnknown: The state has no such request.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        return await self._values.shown(await self._inbox.get(request))

    async def doubts(self) -> list[dict[str, Json]]:
        """Return the calls that are in doubt: `key`, `tool`, `arguments` and `why` of each.

        Raises:
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        return [
            {
                "key": effect.payload["key"],
                "tool": tool.name,
                "arguments": await self._values.shown_arguments(tool, effect.payload),
                "why": effect.why,
            }
            for effect in await self.world.effects()
            if effect.state == "in_doubt" and (tool := self._domain.tool_of(effect.kind))
        ]

    async def decide(
        self,
        approval: Approval | str,
        decision: Decision,
        *,
        by: str,
        role: str = ROLE,
        reason: str = "",
        calls: Sequence[tuple[str, Mapping[str, Json]]] = (),
    ) -> RequestDecision:
        """Record a person's decision about a request; `approve` and `amend` run calls.

            for request in await gate.approvals():
                await gate.decide(request, "deny", by="ann", role=request.role, reason="too much")

        The program vouches for the name and the role of the person.

        Args:
            approval: The request as it was shown; an id stands for the request as it is now.
            decision: `approve`, `deny`, or `amend` to run other calls in its place. Then the
                outcome of the held call is `amended`, and its output lists the other calls.
            by: Name of the person, who must not be the agent.
            role: Role of the person.
            reason: Reason, at most 2 000 characters; the agent reads it in the outcome.
            calls: The calls of an amendment, in the form of `plan`.

        Returns:
            The decision. Its state is `open` if it was not recorded: the person does not have the
            role, a quota is exhausted, or the amendment is refused. It is `stale` if the calls
            would now do something else than was shown; then they do not run.

        Raises:
            ApprovalUnknown: The state has no such request.
            ValueError: There is no such decision, or an amendment has no calls, or another
                decision has some.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        submission = uuid4().hex
        made = await self._values.seal(self._plan(new_key(None), calls), submission)
        request = approval if isinstance(approval, str) else approval.id
        digest = "" if isinstance(approval, str) else approval.digest
        result = await self._tasks.shielded(
            self._approvals.decide(
                request, decision, by=by, role=role, reason=reason, digest=digest, calls=made
            )
        )
        keys = {call.key for call in made}
        ran = [one for one in result.outcomes if one.key in keys]
        await self._values.settle(made, ran, submission)
        self._values.forget(result.outcomes)
        return result

    async def request_approval(
        self, calls: Sequence[tuple[str, Mapping[str, Json]]], *, agent: str, key: str
    ) -> bool:
        """Request an approval of a plan if it needs one; return whether it waits for a person.

        No call runs; call `plan` with the same key to run the plan.

        Args:
            calls: The calls, in the form of `plan`.
            agent: Name of the agent.
            key: Key of the plan.

        Raises:
            KeyInvalid, ValueError, ClosedError, StoreError: As for `plan`.
        """
        made = self._plan(new_key(key), calls)
        decided = self._decide(made, agent, is_new=False, runs=False)
        return any(one.status == "held" for one in await self._tasks.shielded(decided))

    async def decision(self, approval: Approval | str) -> RequestDecision:
        """Wait until a request is decided or expired, and return the decision with its outcomes.

        Raises:
            ApprovalUnknown: The state has no such request.
            ClosedError, StoreError: The world is closed, or its store has failed.
        """
        request = approval if isinstance(approval, str) else approval.id
        return await self._approvals.decision(request)

    # personal data

    async def erase(self, subject: str) -> bool:
        """Erase the personal data of a subject: destroy its key, and record that.

        Calls that need them fail; outputs and requests say `erased`.

        Args:
            subject: The data subject, as `Personal(subject=...)` names it.

        Returns:
            False if there are no personal data of the subject.

        Raises:
            ValueError: The subject is no text.
            ClosedError, StoreError: The world is closed, or a store has failed. Data that are
                erased stay erased, and the next opening records it.
        """
        return await self._erasure.erase(subject)

    # frameworks

    @property
    def name(self) -> str:
        """Name of the domain of the tools."""
        return self._domain.name

    @property
    def tools(self) -> Mapping[str, DeclaredTool]:
        """The tools by name."""
        return self._domain.tools

    def pydantic_ai(
        self, agent: str, *, deferred: bool = False, atomic: bool = False
    ) -> "GateToolset":
        """Return the tools as a toolset of PydanticAI: `Agent(model, toolsets=[...])`.

        Args:
            agent: Name of the agent in the gate.
            deferred: A held call ends the run as a deferred tool that requires an approval; without
                it the call waits until a person has decided.
            atomic: The calls of one answer of the model are one plan.

        Raises:
            ImportError: PydanticAI is not installed.
        """
        with extra("pydantic-ai"):
            from placet_tools.frontend.pydantic_ai_toolset import GateToolset  # noqa: PLC0415  # an extra
        return GateToolset(self, agent, deferred=deferred, atomic=atomic)

    def langgraph(
        self, agent: str, *, deferred: bool = True, atomic: bool = False
    ) -> "list[StructuredTool]":
        """Return the tools for a `ToolNode` of LangGraph, or `create_agent` of LangChain.

        Args:
            agent: Name of the agent in the gate.
            deferred: A held call interrupts the graph until a person has decided; the graph needs
                a checkpointer. If False, the call waits for the person.
            atomic: The calls of one answer of the model are one plan.

        Raises:
            ImportError: LangGraph is not installed.
            ToolError: A tool has a parameter that LangChain fills, such as `config`.
        """
        with extra("langgraph"):
            from placet_tools.frontend.langgraph_tools import langgraph_tools  # noqa: PLC0415  # an extra
        return langgraph_tools(self, agent, deferred=deferred, atomic=atomic)

    def openai_agents(
        self, agent: str, *, run: "RunName", deferred: bool = True, atomic: bool = False
    ) -> "list[FunctionTool]":
        """Return the tools for an `Agent` of the OpenAI Agents SDK.

        Args:
            agent: Name of the agent in the gate.
            run: Name of the run, or a function of the context of the run that returns it. Each run
                must have another name; a resumed run keeps its name.
            deferred: A held call is an interruption of the run. If False, the call waits for the
                person.
            atomic: Must be False: the SDK does not pass a tool the other calls of the answer.

        Raises:
            ImportError: The SDK is not installed.
            ValueError: `atomic` is true.
        """
        with extra("openai-agents"):
            from placet_tools.frontend.openai_agents_tools import NOT_ATOMIC, openai_agents_tools  # noqa: PLC0415  # an extra
        if atomic:
            raise ValueError(NOT_ATOMIC)
        return openai_agents_tools(self, agent, run=run, deferred=deferred)

    # one batch

    def _plan(self, key: str, calls: Sequence[tuple[str, Mapping[str, Json]]]) -> list[ToolCall]:
        return [self._made(f"{key}.{n}", one) for n, one in enumerate(calls)]

    def _made(self, key: str, one: tuple[str, Mapping[str, Json]]) -> ToolCall:
        """Make a call of a tool, or an intent of a kind that no tool has."""
        name, arguments = one
        is_other = name in self._kinds and name not in self._domain.tools
        if is_other:
            return ToolCall(key, name, dict(arguments))
        return make_call(self._domain, key, name, arguments)

    async def _decide(
        self, calls: Sequence[ToolCall], agent: str, *, is_new: bool, runs: bool = True
    ) -> list[Outcome]:
        """Submit a plan, and return the outcomes of its calls; a known plan is not submitted again.

        Without `runs` the plan is only tried, by a dry run; an admitted plan has no outcomes.
        """
        if agent in {APPROVALS_RECORDER, self._domain.recorder}:
            raise ValueError(f"{agent!r} records for the gate; give the agent another name")
        submission = uuid4().hex
        calls = await self._values.seal(calls, submission)
        outcomes = await self._decide_once(calls, agent, is_new=is_new, runs=runs)
        is_removed = outcomes and all(RefusalCode.UNAUTHORIZED in one.codes for one in outcomes)
        if is_removed and await self._recorder.renew(agent):
            outcomes = await self._decide_once(calls, agent, is_new=is_new, runs=runs)
        await self._values.settle(calls, outcomes, submission)
        return outcomes

    async def _decide_once(
        self, calls: Sequence[ToolCall], agent: str, *, is_new: bool, runs: bool
    ) -> list[Outcome]:
        known = None if is_new else await self._records.known(calls, agent)
        if known is not None:
            return known
        handle = await self._recorder.handle(agent)
        if any(call.fault for call in calls):
            outcomes = refused_unfit(calls)
            if runs:
                await self._refusals.record(agent, calls, outcomes)
            return outcomes
        batch, ahead = await self._recorder.batch(agent, calls)
        verdict = await self.world.submit(batch, dry_run=not runs, identity=handle)
        if verdict.admitted:
            return await self._runner.run(calls, verdict, ahead) if runs else []
        if self._domain.prefixed(KEY_KNOWN) in verdict.codes:  # another task submitted it meanwhile
            known = await self._records.known(calls, agent)
            return known or refused(self._domain, calls, verdict, ahead)
        required = self._domain.prefixed(APPROVAL_REQUIRED)
        if all(code == required for code in verdict.codes):
            outcomes = await self._approvals.hold(handle, calls, verdict)
            is_recorded = outcomes[0].status == "held"
        else:
            outcomes = refused(self._domain, calls, verdict, ahead)
            is_recorded = not all(one.stage in STAGES for one in verdict.refusals)
        if runs and not is_recorded:
            await self._refusals.record(agent, calls, outcomes)
        return outcomes


@hides_arguments
class SyncGate:
    """The gate of a program without an event loop; `with Gate(...)` returns it.

    Its methods are those of `Gate`, without `await`. They may be called from any thread.

    Attributes:
        gate: The gate, which runs in the event loop of another thread.
        langgraph, openai_agents, pydantic_ai: The methods of the gate that return its tools.
    """

    def __init__(self, gate: Gate, portal: BlockingPortal) -> None:
        self.gate = gate
        self.langgraph = gate.langgraph
        self.openai_agents = gate.openai_agents
        self.pydantic_ai = gate.pydantic_ai
        self._portal = portal

    def __repr__(self) -> str:
        return f"<Sync{repr(self.gate)[1:]}"

    def call(
        self, tool: str, /, *, agent: str = "agent", key: str | None = None, **arguments: Json
    ) -> Outcome:
        """Call a tool for an agent, as `Gate.call` does."""
        return self._portal.call(
            lambda: self.gate.call(tool, agent=agent, key=key, **arguments)  # its repr has no value
        )

    def plan(
        self,
        calls: Sequence[tuple[str, Mapping[str, Json]]],
        *,
        agent: str = "agent",
        key: str | None = None,
    ) -> list[Outcome]:
        """Decide several calls as one batch, as `Gate.plan` does."""
        return self._portal.call(lambda: self.gate.plan(calls, agent=agent, key=key))

    def outcome(self, key: str) -> Outcome:
        """Return the outcome of a call by its key, as `Gate.outcome` does."""
        return self._portal.call(self.gate.outcome, key)

    def settle(
        self, key: str, *, done: bool, output: Json = None, by: str = "", reason: str = ""
    ) -> Outcome:
        """Settle a call that is in doubt, as `Gate.settle` does."""
        return self._portal.call(
            lambda: self.gate.settle(key, done=done, output=output, by=by, reason=reason)
        )

    def erase(self, subject: str) -> bool:
        """Erase the personal data of a subject, as `Gate.erase` does."""
        return self._portal.call(self.gate.erase, subject)

    def approvals(self) -> list[Approval]:
        """Return the open requests for approval, as `Gate.approvals` does."""
        return self._portal.call(self.gate.approvals)

    def request(self, request: str) -> Approval:
        """Return a request for approval by its id, as `Gate.request` does."""
        return self._portal.call(self.gate.request, request)

    def doubts(self) -> list[dict[str, Json]]:
        """Return the calls that are in doubt, as `Gate.doubts` does."""
        return self._portal.call(self.gate.doubts)

    def decide(
        self,
        approval: Approval | str,
        decision: Decision,
        *,
        by: str,
        role: str = ROLE,
        reason: str = "",
        calls: Sequence[tuple[str, Mapping[str, Json]]] = (),
    ) -> RequestDecision:
        """Record a person's decision about a request, as `Gate.decide` does."""
        return self._portal.call(
            lambda: self.gate.decide(
                approval, decision, by=by, role=role, reason=reason, calls=calls
            )
        )

    def request_approval(
        self, calls: Sequence[tuple[str, Mapping[str, Json]]], *, agent: str, key: str
    ) -> bool:
        """Request an approval of a plan if it needs one, as `Gate.request_approval` does."""
        return self._portal.call(lambda: self.gate.request_approval(calls, agent=agent, key=key))

    def decision(self, approval: Approval | str) -> RequestDecision:
        """Wait until a request is decided or expired, as `Gate.decision` does."""
        return self._portal.call(self.gate.decision, approval)
