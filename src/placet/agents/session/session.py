"""A conversation with an agent about one world.

async with Session.open(domain="design", mode="assisted", adapter=adapter) as session:
    turn = await session.send("set the beam to 9 m")
    if turn.approval_id:
        turn = await session.resolve(turn.approval_id, "approve", by="ann")

Turns, model calls, approvals and grants are entries of the world's log: a session is reopened by
its name, and no recorded model call is repeated.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from placet.agents.adapters import as_adapter
from placet.agents.adapters.legacy import confirms, plan_of_answer
from placet.agents.loop.model_calls import ModelCalls, digest_of
from placet.agents.loop.plan_executor import PlanExecutor
from placet.agents.loop.planning_loop import End, PlanningLoop
from placet.agents.loop.recorder import GONE, GONE_SECONDS, SessionRecorder
from placet.agents.loop.system_intents import SystemIntentFactory
from placet.agents.ports import Handle, WorldPort
from placet.agents.proposal.adapter import Adapter, Media, PlannerInput, PlannerOutput
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.codes import TABLE, Code
from placet.agents.proposal.contract import parse
from placet.agents.proposal.legacy import ChatIntent, ExecutionPlan
from placet.agents.proposal.limits import MESSAGE_BYTES_MAX, AgentLimits
from placet.agents.proposal.modes import ApprovalPolicy, ModeName, mode_of
from placet.agents.proposal.turn_result import Route, Spent, Turn
from placet.agents.proposal.view_json import cut, plain_view
from placet.agents.session.active_turn import ActiveTurn
from placet.agents.session.approvals import Approvals
from placet.agents.session.context_builder import ContextBuilder
from placet.agents.session.message_route import Commanded, route
from placet.domains.session import KINDS
from placet.schemas.codec import Json
from placet.schemas.errors import ClosedError, StoreError

if TYPE_CHECKING:
    from placet.agents.session.opener import SessionOpener
    from placet.kernel.domain import Domain


class Session(Approvals):
    """One conversation. Open it with `Session.open`; one turn is held at a time.

    Attributes:
        name: Of the session, in the log.
        world: Where it takes place.
        mode: How much the agent may do by itself; set it to change it.
        closing: Closes the resources opened for the session.
    """

    def __init__(
        self,
        name: str,
        world: WorldPort,
        agent: Handle,
        system_intents: Handle,
        calls: ModelCalls,
        *,
        mode: str,
        adapter: object,
        limits: AgentLimits,
        policy: ApprovalPolicy | None,
    ) -> None:
        self.name = name
        self.world = world
        self._limits = limits
        self._mode = mode_of(mode)
        self._agent = agent
        self._calls = calls
        self._adapter = None if adapter is None else as_adapter(adapter)
        own = SystemIntentFactory(world, system_intents)
        self._recorder = SessionRecorder(world, own, name, agent)
        self._plan_executor = PlanExecutor(world, name, agent, own, limits, policy)
        self._looker = ContextBuilder(agent, limits)
        self._one_at_a_time = anyio.Lock()
        self._proposing: PlanningLoop | None = None
        self._is_stopped = False
        self._is_closed = False
        self._catalogues: dict[object, Catalogue] = {}
        self.closing = AsyncExitStack()

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
    ) -> "SessionOpener[Session]":
        """Open a session: `async with Session.open(...) as session`, or await it and `close` it.

        Args:
            domain: Of a world that is opened for it; a name, one, or several.
            mode: How much the agent may do by itself; None is as in the session's latest turn,
                `assisted` in a new one.
            adapter: What proposes: an adapter, an `AgentAdapter`, or a function of a context.
            world: An open world to talk in, instead of `domain` and `store`. It must have the
                domain `session` (`placet.domains.session.Sessions`) besides its own.
            store: Where that world's log lies.
            session: Its name, at most 64 characters; an existing session of this name is continued.
            agent: In whose name the adapter proposes; None is whose the session is, `agent` in a
                new one. A session is one agent's.
            permissions: Kinds that the agent may use; None is all.
            limits: What bounds the agent.
            policy: A rule about whole plans; it can only be stricter than the mode.

        Raises:
            ValueError: The mode is unknown, the name is none, or the world has no domain `session`.
            SessionError: `session.agent_other`: the session is another agent's.
            TypeError: The adapter is none.
        """
        from placet.agents.session.opener import (  # noqa: PLC0415  # loads the runtime
            SessionOpener,
            WorldSpec,
            session_name,
        )

        session_name(session)

        def start(
            opened: WorldPort,
            proposer: Handle,
            system_intents: Handle,
            calls: ModelCalls,
            as_mode: str,
        ) -> Session:
            return cls(
                session,
                opened,
                proposer,
                system_intents,
                calls,
                mode=as_mode,
                adapter=adapter,
                limits=limits or AgentLimits(),
                policy=policy,
            )

        wanted = WorldSpec(world, domain, store)
        return SessionOpener(wanted, session, agent, permissions, mode, start)

    async def close(self) -> None:
        """Accept no more messages, stop the running turn, and close the session's resources.

        The records in the log stay, and open approval requests stay open; reopen the session to
        continue.
        """
        self._is_closed = True
        self.stop()
        await self.closing.aclose()

    async def close_stale_turns(self) -> None:
        """End the turns that a dead process left running; `open` does it."""
        for number in await self._recorder.running():
            if (self.name, number) not in self._calls.turns:
                text = "the process ended before the turn did; look what was done by then"
                await self._recorder.end(number, End("failed", Code.INTERNAL, text), (), "")

    def stop(self) -> None:
        """Stop the running turn, if any: its current request is abandoned, and nothing is applied.

        A plan that is being submitted already is decided, and the turn then says so.
        """
        self._is_stopped = True
        if self._proposing is not None:
            self._proposing.stop()

    @property
    def is_closed(self) -> bool:
        """Nothing more can be said here."""
        return self._is_closed

    @property
    def limits(self) -> AgentLimits:
        """The agent's limits."""
        return self._limits

    @property
    def mode(self) -> str:
        """How much the agent may do by itself."""
        return self._mode.name

    @mode.setter
    def mode(self, name: str) -> None:
        self._mode = mode_of(name)

    @property
    def agent_id(self) -> str:
        """In whose name the adapter proposes."""
        return self._agent.agent_id

    async def has_agent(self) -> bool:
        """Return whether the agent that it was opened for is there; the next of its name is not."""
        return await self.world.gateway.is_registered(self.agent_id, self._agent.generation)

    # the conversation

    async def send(
        self, message: str, *, adapter: object = None, media: Sequence[Media] = ()
    ) -> Turn:
        """Send a message, and return the completed turn.

        Args:
            message: A command (`/kind key=value`, or a sentence that a domain knows), or anything.
            adapter: Who answers, instead of the session's.
            media: References that come with it.

        Raises:
            SessionError: The turn cannot begin, or its end cannot be recorded (`has_begun`).
            ClosedError, StoreError: The session or the world is closed, or has failed.
        """
        chosen = self._adapter if adapter is None else as_adapter(adapter)
        async with self._one_at_a_time:
            catalogue = await self._catalogue()
            is_long = len(message.encode("utf-8", "replace")) > MESSAGE_BYTES_MAX
            command = None if is_long else route(message, catalogue.commands)
            async with self._turn(message, "agent" if command is None else "command") as turn:
                if is_long:
                    text = f"a message has at most {MESSAGE_BYTES_MAX} bytes; say it in less"
                    return await turn.end(End("failed", Code.CONTEXT_TOO_LARGE, text))
                if command is not None:
                    return await self._obey(turn, command, catalogue)
                if chosen is None:
                    text = TABLE[Code.PLANNER_UNCONFIGURED].text
                    return await turn.end(End("failed", Code.PLANNER_UNCONFIGURED, text))
                return await self._let_propose(turn, chosen, catalogue, media)

    async def hand_off(self, intent: ChatIntent | ExecutionPlan) -> Turn:
        """Submit an intent that a custom adapter made of a message.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async with self._one_at_a_time:
            catalogue = await self._catalogue()
            said = intent.question if isinstance(intent, ChatIntent) else intent.goal
            said = said or "(handed over)"
            told = f"{said} (confirmed: ignored)" if confirms(intent) else said
            context = PlannerInput(said, "", self.world.seq, catalogue)
            async with self._turn(told, "agent") as turn:
                plan, issues = parse(
                    plan_of_answer(intent, context),
                    domain=catalogue,
                    limits=self.limits,
                    actions_max=self._mode.actions_max,
                )
                return await self._carry_out(turn, plan, issues)

    async def turns(self) -> list[dict[str, Json]]:
        """List the turns of this session that the state keeps, oldest first."""
        return await self._recorder.turns()

    async def state(self) -> Json:
        """Return the agent's view of the world as plain JSON."""
        return plain_view(await self._agent.refresh_view())

    # the ways of a message

    async def _obey(self, turn: ActiveTurn, command: Commanded, catalogue: Catalogue) -> Turn:
        if command.error:
            return await turn.end(End("refused", Code.ENVELOPE_INVALID, command.error))
        plan, issues = parse(
            command.plan(turn.message, self.world.seq), domain=catalogue, limits=self.limits
        )
        return await self._carry_out(turn, plan, issues)

    async def _let_propose(
        self, turn: ActiveTurn, adapter: Adapter, catalogue: Catalogue, media: Sequence[Media]
    ) -> Turn:
        count = max(self._limits.turns_last, self._limits.results_last)
        past = await self._recorder.turns(count, before=turn.number)

        async def ask(number: int, context: PlannerInput) -> PlannerOutput:
            name, digest = type(adapter).__name__, digest_of(context)
            intent = self._recorder.ask(turn.number, number, name, digest)
            return await self._calls.ask(self.world, intent, adapter, context)

        proposing = self._proposing = PlanningLoop(
            adapter,
            plan_executor=self._plan_executor,
            mode=self._mode,
            limits=self.limits,
            look=self._looker.begin(turn.message, catalogue, past, media),
            ask=ask,
            clock=monotonic,
        )
        if self._is_stopped:  # while the turn began
            proposing.stop()
        try:
            end = await proposing.run()
        except (ClosedError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug must end the turn, not leave it running
            end = End("failed", Code.INTERNAL, type(error).__name__)
        finally:
            self._proposing = None
        return await turn.end(end, proposing.attempts, Spent.of(proposing.counters.usage))

    # parts

    def _require_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the session {self.name!r} was closed; open it again")

    @asynccontextmanager
    async def _turn(self, message: str, way: Route) -> AsyncIterator[ActiveTurn]:
        """Begin a turn; whatever happens in it, it ends."""
        self._require_open()
        self._is_stopped = False
        told = cut(message, MESSAGE_BYTES_MAX)
        mode = self.mode
        number = await self._recorder.begin(told, mode, way)
        turn = ActiveTurn(self, self._recorder, number, told, way, mode)
        key = (self.name, number)
        self._calls.turns.add(key)
        try:
            yield turn
        except (ClosedError, StoreError):
            raise  # nothing can be recorded; the next life of the world ends it
        except Exception as error:
            await turn.end(End("failed", Code.INTERNAL, type(error).__name__))
            raise
        except BaseException:  # the caller was cancelled
            with anyio.move_on_after(GONE_SECONDS, shield=True):
                await turn.end(GONE)
            raise
        finally:
            self._calls.turns.discard(key)

    async def _catalogue(self) -> Catalogue:
        permitted = await self.world.gateway.permitted(self.agent_id)
        kinds = (
            frozenset(self.world.gateway.registry.kinds if permitted is None else permitted) - KINDS
        )
        executed = await self.world.gateway.executed()
        catalogue = self._catalogues.get((kinds, executed))
        if catalogue is None:  # compiled once, for as long as the agent may use the same
            catalogue = Catalogue(self.world.gateway.registry, kinds, executed)
            self._catalogues = {(kinds, executed): catalogue}
        return catalogue
