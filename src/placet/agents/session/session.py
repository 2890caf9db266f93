"""A conversation with an agent about one world.

async with Session.open(domain="world", mode="assisted", adapter=adapter) as session:
    turn = await session.send("take the lantern to the gate")
    if turn.approval_id:
        turn = await session.resolve(turn.approval_id, "approve", by="ann")

Turns, model calls, approvals and grants are entries of the world's log: a session is reopened by
its name, and no recorded model call is repeated.
"""

from collections.abc import (
    AsyncIterator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

import anyio

from placet.actors.policies.contention import check_lease_after
from placet.actors.supervisor import HomeLoop
from placet.agents.adapters import as_adapter
from placet.agents.adapters.legacy import confirms, plan_of_answer
from placet.agents.loop.held_plans import HeldPlans, end_of_request, end_of_unknown
from placet.agents.loop.model_calls import ModelCalls, digest_of, request_digest
from placet.agents.loop.plan_executor import PlanExecutor
from placet.agents.loop.planning_loop import PlanningLoop, decided, end_of, end_of_stop
from placet.agents.loop.recorder import (
    GONE,
    GONE_SECONDS,
    UNPROPOSED,
    SessionRecorder,
    SystemIntentFactory,
)
from placet.agents.loop.shared_budget import SharedBudget, require_account
from placet.agents.loop.turn_lease import TurnLease
from placet.agents.ports import Handle, InboxPort, WorldPort
from placet.agents.proposal.adapter import Adapter, Media, PlannerInput, PlannerOutput
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.codes import TABLE, Code
from placet.agents.proposal.legacy import ChatIntent, ExecutionPlan
from placet.agents.proposal.limits import MESSAGE_BYTES_MAX, AgentLimits
from placet.agents.proposal.modes import ApprovalPolicy, Mode, ModeName, mode_of
from placet.agents.proposal.plan import Issue, Plan, plan_json
from placet.agents.proposal.plan_parser import parse
from placet.agents.proposal.turn_result import (
    ApprovalRequest,
    Attempt,
    PlanResult,
    Route,
    Turn,
    TurnEnd,
)
from placet.agents.proposal.view_json import cut, plain_view
from placet.agents.session.active_turn import ActiveTurn
from placet.agents.session.context_builder import ContextBuilder
from placet.agents.session.message_route import MessageCommand, parse_command
from placet.agents.session.session_opener import SessionOpener
from placet.kernel.ledger.leases import LEASE_KINDS
from placet.schemas.codec import Json
from placet.schemas.errors import ClosedError, StoreError

if TYPE_CHECKING:
    from placet.kernel.plugin.domain import Domain


DecisionName = Literal["approve", "deny", "edit"]

_OF_REQUEST: Final = "approvals."
_DECISIONS: Final = frozenset({"approve", "deny", "edit"})
_CATALOGUES_MAX: Final = 2


class Session:
    """A conversation with one agent. Open it with `Session.open`; its turns run one at a time.

    Attributes:
        name: Name of the session in the log.
        world: The world in which the agent acts.
        closing: Exit stack of resources: the world, if it was opened for this session.
    """

    def __init__(
        self,
        name: str,
        world: WorldPort,
        agent: Handle,
        system_intents: Handle,
        calls: ModelCalls,
        inbox: InboxPort,
        *,
        mode: str,
        adapter: object,
        limits: AgentLimits,
        policy: ApprovalPolicy | None,
        budget: str | None,
        lease_after: int | None,
    ) -> None:
        self.name = name
        self.world = world
        self._limits = limits
        self._mode = mode_of(mode)
        self._agent = agent
        self._calls = calls
        self._lease_after = lease_after
        self._adapter = None if adapter is None else as_adapter(adapter)
        own = SystemIntentFactory(world, system_intents)
        self._inbox = inbox
        self._held_plans = HeldPlans(inbox, name, agent.agent_id)
        self._recorder = SessionRecorder(world, own, name, agent)
        self._budget = None if budget is None else SharedBudget(budget, agent.agent_id, world, own)
        self._plan_executor = PlanExecutor(
            world, name, agent, own, inbox, limits=limits, policy=policy
        )
        self._context_builder = ContextBuilder(agent, limits)
        # Held from the record of a turn's beginning to that of its end: turns never overlap.
        self._turn_lock = anyio.Lock()
        # Set while a turn asks an adapter. Written under the lock; `stop` reads it without, which
        # one event loop permits.
        self._planning_loop: PlanningLoop | None = None
        # True iff `stop` was called since the latest turn began: a turn that is still being
        # recorded has no loop yet that `stop` could reach.
        self._is_stopped = False
        self._is_closed = False  # never false again
        # At most two entries: of the kinds and executors that the agent has now, with and without
        # the kinds of leases.
        self._catalogues: dict[object, Catalogue] = {}
        # Empty until the session is open; then it alone owns the world that was opened for it.
        self.closing = AsyncExitStack()
        self._home = HomeLoop()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<Session {self.name!r}, agent {self.agent_id!r}, {self.mode}{closed}>"

    @classmethod
    def open(
        cls,
        *,
        domain: "str | Domain | Sequence[Domain] | None" = None,
        mode: ModeName | None = None,
        adapter: object = None,
        world: WorldPort | None = None,
        store: str = "memory://",
        session: str = "main",
        agent: str | None = None,
        permissions: Iterable[str] | None = None,
        limits: AgentLimits | None = None,
        policy: ApprovalPolicy | None = None,
        budget: str | None = None,
        lease_after: int | None = 1,
    ) -> SessionOpener["Session"]:
        """Open a session: `async with Session.open(...) as session`, or await it and `close` it.

        Args:
            domain: Domain of a world that is opened for the session: a name, a domain, or several.
            mode: How much the agent may do by itself; None is as in the session's latest turn,
                `assisted` in a new one.
            adapter: Proposes plans: an adapter, an `AgentAdapter`, or a function of a context.
            world: An open world to talk in, instead of `domain` and `store`. It must have the
                domain `session` (`placet.domains.session.Sessions`) besides its own.
            store: URL of the log of a world that is opened for the session.
            session: Name of the session, at most 64 characters; an existing one is continued.
            agent: Id of the agent in whose name the adapter proposes; None is the agent of the
                existing session, `agent` in a new one. A session belongs to one agent.
            permissions: Kinds that the agent may use; None is all.
            limits: Limits of the agent: requests, tokens, cost, time.
            policy: A rule about whole plans; it can only be stricter than the mode.
            budget: Name of the account on which model calls draw, shared with all that draw on it
                (domain `accounts`); None draws on none.
            lease_after: Number of plans that a turn loses to changes or leases of other agents
                before it leases these entities and asks the adapter again, in a world with leases;
                None never leases. An adapter that answers within 20 ms never leases.

        Raises:
            ValueError: The mode is unknown, the name is invalid, `lease_after` is no count, the
                world has no domain `session`, or it has no account of the name `budget`.
            SessionError: `session.agent_other`: the session belongs to another agent. Or it is new,
                and the rule for names refuses its name.
            TypeError: The adapter is no adapter.
        """
        from placet.agents.session import opener  # noqa: PLC0415  # loads the runtime

        opener.session_name(session)
        check_lease_after(lease_after)

        async def open_in(closing: AsyncExitStack) -> Session:
            opened: WorldPort
            if world is None:
                opened = await closing.enter_async_context(opener.world_of(domain, store))
            else:
                opened = world
            opener.require_sessions(opened)
            if budget is not None:
                await require_account(opened, budget)
            agent_id = await opener.agent_of(opened, session, agent)
            proposer = await opener.agent_handle(opened, agent_id, permissions)
            recorder = await opener.recorder_handle(opened)
            return cls(
                session,
                opened,
                proposer,
                recorder,
                await opener.model_calls(opened),
                opener.inbox_of(opened),
                mode=mode or await opener.latest_mode(opened, session),
                adapter=adapter,
                limits=limits or AgentLimits(),
                policy=policy,
                budget=budget,
                lease_after=lease_after,
            )

        return SessionOpener(open_in)

    async def send(
        self, message: str, *, adapter: object = None, media: Sequence[Media] = ()
    ) -> Turn:
        """Send a message, and return the completed turn.

        Args:
            message: A command (`/kind key=value`, or a sentence that a domain defines), which is
                parsed without an adapter; any other text goes to the adapter.
            adapter: The adapter that answers this message; None is the session's.
            media: References to images and other media for the adapter.

        Raises:
            SessionError: The turn cannot begin, or its end cannot be recorded (`has_started`).
            TypeError: The adapter is no adapter.
            ClosedError, StoreError: The session or the world is closed, or has failed.
        """
        chosen = self._adapter if adapter is None else as_adapter(adapter)
        async with self._turn_lock:
            catalogue = await self._catalogue()
            is_long = len(message.encode("utf-8", "replace")) > MESSAGE_BYTES_MAX
            command = None if is_long else parse_command(message, catalogue.commands)
            async with self._turn(message, "agent" if command is None else "command") as turn:
                if is_long:
                    text = f"a message has at most {MESSAGE_BYTES_MAX} bytes; say it in less"
                    return await turn.end(TurnEnd("failed", Code.CONTEXT_TOO_LARGE, text))
                if command is not None:
                    return await self._run_command(turn, command, catalogue)
                if chosen is None:
                    code = Code.PLANNER_UNCONFIGURED
                    return await turn.end(TurnEnd("failed", code, TABLE[code].text))
                if self._lease_after is not None:  # the loop leases, not the adapter
                    catalogue = await self._catalogue(without=LEASE_KINDS)
                return await self._ask_agent(turn, chosen, catalogue, media)

    async def hand_off(self, intent: ChatIntent | ExecutionPlan, *, state: Json = None) -> Turn:
        """Submit an intent that a custom adapter made of a message, and return its turn.

        Args:
            intent: The intent, or a plan.
            state: View that it was decided on, as `state` returned it: it has the values of
                `if_unchanged`. None if it was decided without one, so that it may name no paths.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async with self._turn_lock:
            catalogue = await self._catalogue()
            goal = intent.question if isinstance(intent, ChatIntent) else intent.goal
            goal = goal or "(handed over)"
            message = f"{goal} (confirmed: ignored)" if confirms(intent) else goal
            context = PlannerInput(goal, "", self.world.seq, catalogue, state)
            async with self._turn(message, "agent") as turn:
                plan, issues = parse(
                    plan_of_answer(intent, context),
                    domain=catalogue,
                    limits=self.limits,
                    actions_max=self._mode.actions_max,
                )
                plan, issues = decided(plan, issues, context)
                return await self._carry_out(turn, plan, issues)

    # approval requests and grants: nothing passed to `resolve` changes the stored plan

    async def resolve(
        self, approval_id: str, decision: DecisionName, by: str, *, role: str = ""
    ) -> Turn:
        """Decide about an approval request: apply its plan, deny it, or replace it.

        Args:
            approval_id: Id of the approval request.
            decision: Apply the plan; deny it; or deny it because another will be proposed.
            by: Name of the person who decides; not the proposer.
            role: Role of the person, as the host knows it.

        Returns:
            The resulting turn. If the plan would now do something else because the world changed,
            it is `held` again under a new id.

        Raises:
            ValueError: The decision is unknown.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if decision not in _DECISIONS:
            raise ValueError(f"a decision is approve, deny or edit, got {decision!r}")
        async with (
            self._turn_lock,
            self._turn(f"{decision} {approval_id}, by {by}", "person") as turn,
        ):
            held = await self._held_plans.get(approval_id)
            if held is None:
                return await turn.end(end_of_unknown(approval_id))
            if decision == "approve":
                result = await self._plan_executor.approve(
                    held, by, role, seconds_left=self.limits.seconds_max
                )
                return await self._decided(turn, result, approval_id)
            answer = await self._inbox.decide(held.id, "deny", by=by, role=role, digest=held.digest)
            text = answer.message or f"{decision} by {by}"
            end = TurnEnd("refused", Code.DENIED, text)
            return await turn.end(end, ended=await self._held_plans.ended([approval_id]))

    async def edit(
        self,
        approval_id: str,
        actions: Sequence[tuple[str, Mapping[str, Json]]],
        by: str,
        *,
        role: str = "",
    ) -> Turn:
        """Apply a person's actions in the place of an approval request; return the turn.

        Args:
            approval_id: Id of the approval request; it stays open if the actions are refused.
            actions: Kinds and payloads of the person's actions.
            by: Name of the person.
            role: Role of the person, as the host knows it.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async with (
            self._turn_lock,
            self._turn(f"instead of {approval_id}, by {by}", "person") as turn,
        ):
            held = await self._held_plans.get(approval_id)
            if held is None:
                return await turn.end(end_of_unknown(approval_id))
            proposal = plan_json(turn.message, self.world.seq, actions)
            catalogue = await self._catalogue()
            plan, issues = parse(proposal, domain=catalogue, limits=self.limits)
            if plan is None or plan.stop is not None:
                return await self._carry_out(turn, plan, issues)
            result = await self._plan_executor.amend(
                held, plan, by, role, seconds_left=self.limits.seconds_max
            )
            return await self._decided(turn, result, approval_id)

    async def grant(
        self,
        kinds: str,
        *,
        by: str,
        uses: int = 1,
        seconds: float = 3_600.0,
        equals: Mapping[str, Json] | None = None,
    ) -> str:
        """Approve kinds in advance, for a number of uses and a time; return the grant's name.

        Plans of these kinds then need no approval.

        Args:
            kinds: A kind, or a pattern such as `files.*`.
            by: Name of the person who permits the kinds; not the proposer.
            uses: Number of actions.
            seconds: Duration in simulated seconds.
            equals: Payload fields that must have these values.

        Returns:
            Name of the grant.

        Raises:
            PermissionError: The gate refused the grant, or the agent was removed.
            ClosedError: The session was closed.
        """
        self._require_open()
        return await self._recorder.grant(kinds, equals or {}, uses, seconds, by)

    async def approvals(self) -> list[ApprovalRequest]:
        """Return the approval requests of this session, newest last.

        An expired request has the state `expired`. O(requests that the world keeps).
        """
        return await self._held_plans.all()

    # state

    async def turns(self) -> list[dict[str, Json]]:
        """Return the turns of this session that are in the state, oldest first."""
        return await self._recorder.turns()

    async def state(self) -> Json:
        """Return the agent's view of the world as plain JSON."""
        return plain_view(await self._agent.refresh_view())

    @property
    def is_closed(self) -> bool:
        """Whether the session was closed, so that it takes no more messages."""
        return self._is_closed

    @property
    def limits(self) -> AgentLimits:
        """The agent's limits."""
        return self._limits

    @property
    def mode(self) -> str:
        """Mode of the session: how much the agent may do by itself; set it for the next plans."""
        return self._mode.name

    @mode.setter
    def mode(self, name: str) -> None:
        self._mode = mode_of(name)

    @property
    def agent_id(self) -> str:
        """Id of the agent in whose name the adapter proposes."""
        return self._agent.agent_id

    async def has_agent(self) -> bool:
        """Return whether the session's agent is registered.

        False if it was removed, also if another agent was registered under its name since.
        """
        return await self.world.gateway.is_registered(self.agent_id, self._agent.generation)

    # end

    def stop(self) -> None:
        """Stop the running turn, if any: cancel its current request, apply nothing.

        A plan that is being submitted already is decided, and the turn then says so.
        """
        self._is_stopped = True
        if self._planning_loop is not None:
            self._planning_loop.stop()

    async def close_stale_turns(self) -> None:
        """Record an end for the turns that a dead process left running; `open` calls this."""
        for number in await self._recorder.running():
            if (self.name, number) not in self._calls.turns:
                text = "the process ended during the turn; check which actions were applied"
                await self._recorder.end(number, TurnEnd("failed", Code.INTERNAL, text))

    async def close(self) -> None:
        """Accept no more messages, stop the running turn, and close the session's resources.

        The records in the log stay, and open approval requests stay open; reopen the session to
        continue.
        """
        self._home.require()
        self._is_closed = True
        self.stop()
        await self.closing.aclose()

    # turns

    async def _run_command(
        self, turn: ActiveTurn, command: MessageCommand, catalogue: Catalogue
    ) -> Turn:
        if command.error:
            return await turn.end(TurnEnd("refused", Code.ENVELOPE_INVALID, command.error))
        plan, issues = parse(
            command.plan(turn.message, self.world.seq), domain=catalogue, limits=self.limits
        )
        return await self._carry_out(turn, plan, issues)

    async def _ask_agent(
        self, turn: ActiveTurn, adapter: Adapter, catalogue: Catalogue, media: Sequence[Media]
    ) -> Turn:
        count = max(self._limits.turns_last, self._limits.results_last)
        past = await self._recorder.turns(count, before=turn.number)

        async def ask(number: int, context: PlannerInput) -> PlannerOutput:
            name, digest = type(adapter).__name__, digest_of(context)
            request = request_digest(adapter, context)
            intent = self._recorder.ask(turn.number, number, name, digest, request)
            if self._budget is not None:
                return await self._budget.ask(self._calls, intent, adapter, context)
            return await self._calls.ask(self.world, intent, adapter, context)

        planning_loop = self._planning_loop = PlanningLoop(
            adapter,
            plan_executor=self._plan_executor,
            mode=self._mode,
            limits=self.limits,
            look=self._context_builder.begin(turn.message, catalogue, past, media),
            ask=ask,
            lease=TurnLease(self._agent, self._lease_after),
            clock=anyio.current_time,
        )
        if self._is_stopped:  # `stop` was called while the turn was being recorded
            planning_loop.stop()
        try:
            end = await planning_loop.run()
        except (ClosedError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug must end the turn, not leave it running
            end = TurnEnd("failed", Code.INTERNAL, type(error).__name__)
        finally:
            self._planning_loop = None
        return await turn.end(end, planning_loop.attempts, planning_loop.counters.usage)

    # requests for approval

    async def _decided(self, turn: ActiveTurn, result: PlanResult, approval_id: str) -> Turn:
        """End the turn that records a person's decision about a request."""
        end = end_of(result)
        if result.status == "rejected" and end.stop.startswith(_OF_REQUEST):
            end = TurnEnd("refused", Code.DENIED, end.message)  # of the decision, not of the plan
        return await turn.end(end, ended=await self._held_plans.ended([approval_id]))

    async def record_decisions(self) -> None:
        """Record a turn for each decision about a request that was made outside of the session."""
        for name in await self._held_plans.ended(await self._recorder.waiting()):
            request = await self._held_plans.get(name)
            end = end_of_unknown(name) if request is None else end_of_request(request)
            async with self._recorded_turn(end.message, "person") as turn:
                await turn.end(end, ended=[name])

    async def _carry_out(
        self, turn: ActiveTurn, plan: Plan | None, issues: list[Issue], mode: Mode | None = None
    ) -> Turn:
        """Submit a plan once: its proposer is not asked again if it fails."""
        if plan is None:
            attempt = Attempt(n=1, status="invalid", issues=tuple(issues))
            return await turn.end(TurnEnd("refused", issues[0].code, issues[0].message), [attempt])
        if plan.stop is not None:
            return await turn.end(end_of_stop(plan.stop), [Attempt(n=1, status="stop")])
        result = await self._plan_executor.submit(
            plan, mode or self._mode, seconds_left=self.limits.seconds_max
        )
        attempt = Attempt(
            n=1,
            status=result.status,
            actions=tuple(action.kind for action in plan.actions),
            issues=result.issues,
        )
        return await turn.end(end_of(result), [attempt])

    def _require_open(self) -> None:
        self._home.require()
        if self._is_closed:
            raise ClosedError(f"the session {self.name!r} was closed; open it again")

    @asynccontextmanager
    async def _turn(self, message: str, route: Route) -> AsyncIterator[ActiveTurn]:
        """Record the decisions that were made outside of the session, and begin a turn."""
        self._require_open()
        self._is_stopped = False
        await self.record_decisions()
        async with self._recorded_turn(message, route) as turn:
            yield turn

    @asynccontextmanager
    async def _recorded_turn(self, message: str, route: Route) -> AsyncIterator[ActiveTurn]:
        """Begin a turn, and record its end also when its body raises or is canceled."""
        message = cut(message, MESSAGE_BYTES_MAX)
        mode = self.mode
        number = await self._recorder.begin(message, mode, route)
        turn = ActiveTurn(self.name, self.agent_id, self._recorder, number, message, route, mode)
        key = (self.name, number)
        self._calls.turns.add(key)
        try:
            yield turn
        except (ClosedError, StoreError):
            raise  # nothing can be recorded now; the next `open` of the session ends the turn
        except Exception as error:
            await turn.end(TurnEnd("failed", Code.INTERNAL, type(error).__name__))
            raise
        except BaseException:  # the caller was canceled
            with anyio.move_on_after(GONE_SECONDS, shield=True):
                await turn.end(GONE)
            raise
        finally:
            self._calls.turns.discard(key)

    async def _catalogue(self, without: frozenset[str] = frozenset()) -> Catalogue:
        permitted = await self.world.gateway.permitted(self.agent_id)
        known = self.world.gateway.registry.kinds if permitted is None else permitted
        kinds = frozenset(known) - UNPROPOSED - without
        executed = await self.world.gateway.executed()
        catalogue = self._catalogues.get((kinds, executed))
        if catalogue is None:  # compiled again only when the kinds or executors of the agent change
            catalogue = Catalogue(self.world.gateway.registry, kinds, executed)
            if len(self._catalogues) == _CATALOGUES_MAX:
                self._catalogues.clear()
            self._catalogues[kinds, executed] = catalogue
        return catalogue
