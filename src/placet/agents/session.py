"""A conversation with an agent about one world.

async with Session.open(domain="design", mode="assisted", adapter=adapter) as session:
    turn = await session.say("set the beam to 9 m")
    if turn.hold_id:
        turn = await session.resolve(turn.hold_id, "approve", by="ann")

Turns, model calls, holds and grants are entries of the world's own log: a session is opened again
by its name, and what was asked once is not asked again.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

import anyio

from placet.agents.adapter import Adapter, Context, Media, Raw
from placet.agents.adapters import as_adapter
from placet.agents.adapters.subclassed import plan_of_answer
from placet.agents.catalogue import Catalogue
from placet.agents.chat_intent import ChatIntent, ExecutionPlan
from placet.agents.clerk import Clerk
from placet.agents.codes import TABLE, Code
from placet.agents.contract import parse
from placet.agents.desk import Desk
from placet.agents.limits import AgentLimits
from placet.agents.looking import Looker
from placet.agents.model_calls import ModelCalls, digest_of
from placet.agents.modes import Mode, ModeName, Policy, mode_of
from placet.agents.open_turn import OpenTurn
from placet.agents.plan import VERSION, Issue, Plan
from placet.agents.ports import Handle, World
from placet.agents.record import Attempt, Hold, Route, Spent, Turn
from placet.agents.route import Commanded, route
from placet.agents.turn import End, Proposing, end_of, end_of_stop
from placet.agents.views import plain_view, rows_of
from placet.domains.session import KINDS
from placet.schemas.codec import Json
from placet.schemas.errors import ClosedError, StoreError

if TYPE_CHECKING:
    from placet.agents.opening import Opening
    from placet.kernel.domain import Domain

_MESSAGE_CHARS_MAX: Final = 32_000
_BY_HAND: Final = Mode("autonomous", 32, frozenset({"read", "low", "medium", "high"}), 1)
"""What a person does by their own hand needs nobody's word."""


class Session:
    """One conversation. Open it with `Session.open`; one turn is held at a time.

    Attributes:
        name: Of the session, in the log.
        world: Where it takes place.
        mode: How much the agent may do by itself; set it to change it.
        limits: What bounds the agent.
        closing: Closes what was opened for it.
    """

    def __init__(
        self,
        name: str,
        world: World,
        agent: Handle,
        voice: Handle,
        calls: ModelCalls,
        *,
        mode: str,
        adapter: object,
        limits: AgentLimits,
        policy: Policy | None,
    ) -> None:
        self.name = name
        self.world = world
        self.limits = limits
        self._mode = mode_of(mode)
        self._agent = agent
        self._calls = calls
        self._adapter = None if adapter is None else as_adapter(adapter)
        self._clerk = Clerk(world, voice, name, agent.agent_id)
        self._desk = Desk(world, name, agent, voice, limits, policy)
        self._looker = Looker(agent, limits)
        self._one_at_a_time = anyio.Lock()
        self.closing = AsyncExitStack()

    @classmethod
    def open(
        cls,
        *,
        domain: "str | Domain | Sequence[Domain] | None" = None,
        mode: ModeName = "assisted",
        adapter: object = None,
        world: World | None = None,
        store: str = "memory://",
        session: str = "main",
        agent: str = "agent",
        permissions: Iterable[str] | None = None,
        limits: AgentLimits | None = None,
        policy: Policy | None = None,
    ) -> "Opening[Session]":
        """Open a session: `async with Session.open(...) as session`, or await it and `close` it.

        Args:
            domain: Of a world that is opened for it; a name, one, or several.
            mode: How much the agent may do by itself.
            adapter: What proposes: an adapter, an `AgentAdapter`, or a function of a context.
            world: An open world to talk in, instead of `domain` and `store`. It must have the
                domain `session` (`placet.domains.session.Sessions`) besides its own.
            store: Where that world's log lies.
            session: Its name; a session of this name goes on.
            agent: In whose name the adapter proposes.
            permissions: Kinds that the agent may use; None is all.
            limits: What bounds the agent.
            policy: A rule about whole plans; it can only be stricter than the mode.

        Raises:
            ValueError: The mode is unknown, or the world has no domain `session`.
            TypeError: The adapter is none.
        """
        from placet.agents.opening import Opening, WorldWanted  # noqa: PLC0415  # loads the runtime

        def start(opened: World, proposer: Handle, voice: Handle, calls: ModelCalls) -> Session:
            return cls(
                session,
                opened,
                proposer,
                voice,
                calls,
                mode=mode,
                adapter=adapter,
                limits=limits or AgentLimits(),
                policy=policy,
            )

        return Opening(WorldWanted(world, domain, store), agent, permissions, start)

    async def close(self) -> None:
        """Close what was opened for it."""
        await self.closing.aclose()

    async def tidy(self) -> None:
        """End what a process that died has left running; `open` does it."""
        for number in await self._clerk.running():
            text = "the process ended before the turn did; say it again"
            await self._clerk.end(number, End("failed", Code.INTERNAL, text), (), "")

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

    # the conversation

    async def say(
        self, message: str, *, adapter: object = None, media: Sequence[Media] = ()
    ) -> Turn:
        """Say something, and give all that came of it.

        Args:
            message: A command (`/kind key=value`, or a sentence that a domain knows), or anything.
            adapter: Who answers, instead of the session's.
            media: References that come with it.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        chosen = self._adapter if adapter is None else as_adapter(adapter)
        async with self._one_at_a_time:
            catalogue = await self._catalogue()
            command = route(message, catalogue.commands)
            way: Route = "agent" if command is None else "command"
            turn = await self._begin(message, way)
            if len(message) > _MESSAGE_CHARS_MAX:
                text = f"a message has at most {_MESSAGE_CHARS_MAX} characters, got {len(message)}"
                return await turn.end(End("failed", Code.CONTEXT_TOO_LARGE, text))
            if command is not None:
                return await self._obey(turn, command, catalogue)
            if chosen is None:
                text = TABLE[Code.PLANNER_UNCONFIGURED].text
                return await turn.end(End("failed", Code.PLANNER_UNCONFIGURED, text))
            return await self._let_propose(turn, chosen, catalogue, media)

    async def hand_off(self, intent: ChatIntent | ExecutionPlan) -> Turn:
        """Hand over what an adapter of one's own has made of a message.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        async with self._one_at_a_time:
            catalogue = await self._catalogue()
            said = intent.question if isinstance(intent, ChatIntent) else intent.goal
            turn = await self._begin(said or "(handed over)", "agent")
            context = Context(said or "(handed over)", "", self.world.seq, catalogue)
            plan, issues = parse(
                plan_of_answer(intent, context),
                domain=catalogue,
                limits=self.limits,
                actions_max=self._mode.actions_max,
            )
            return await self._carry_out(turn, plan, issues)

    async def resolve(
        self,
        hold_id: str,
        decision: Literal["approve", "deny", "edit"],
        by: str,
        *,
        role: str = "",
    ) -> Turn:
        """Decide about what waits for a person. There is no way to hand in other content here.

        Args:
            hold_id: What waits.
            decision: Apply it; refuse it; or refuse it because something else will be proposed.
            by: Who decides; never the proposer.
            role: Their role, as the host knows it.

        Returns:
            What came of it. Where the world moved so that the plan would now do something else,
            it is `held` again, under a new name.

        Raises:
            ValueError: The decision is none of these.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if decision not in {"approve", "deny", "edit"}:
            raise ValueError(f"a decision is approve, deny or edit, got {decision!r}")
        async with self._one_at_a_time:
            turn = await self._begin(f"{decision} {hold_id}, by {by}", "person")
            held = (await rows_of(self.world, "session.holds")).get(hold_id)
            if held is None:
                issue = Issue(code="session.hold_unknown", message=f"there is no hold {hold_id!r}")
                return await turn.end(_denied(issue))
            issues = await self._desk.may_resolve(held, hold_id, decision, by, role)
            if issues:
                return await turn.end(_denied(issues[0]))
            if decision != "approve":
                issues = await self._desk.close_hold(held, hold_id, decision, by, role)
                text = issues[0].message if issues else f"{decision} by {by}"
                return await turn.end(End("refused", Code.DENIED, text))
            decided = await self._desk.resolve(
                held, hold_id, by, role, seconds_left=self.limits.seconds_max
            )
            return await turn.end(end_of(decided))

    async def edit(
        self, hold_id: str, actions: Sequence[tuple[str, Mapping[str, Json]]], by: str
    ) -> Turn:
        """Refuse what waits, and do something else instead, by a person's own hand.

        Args:
            hold_id: What waits.
            actions: Kinds and payloads, for which the person answers.
            by: Who it is.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        closed = await self.resolve(hold_id, "edit", by)
        if closed.stop != Code.DENIED or closed.message != f"edit by {by}":
            return closed
        async with self._one_at_a_time:
            catalogue = await self._catalogue()
            turn = await self._begin(f"instead of {hold_id}, by {by}", "person")
            proposal = {
                "version": VERSION,
                "goal": turn.message,
                "base_seq": self.world.seq,
                "actions": [{"kind": kind, "payload": dict(it)} for kind, it in actions],
            }
            plan, issues = parse(proposal, domain=catalogue, limits=self.limits)
            return await self._carry_out(turn, plan, issues, mode=_BY_HAND)

    async def grant(
        self,
        kinds: str,
        *,
        by: str,
        uses: int = 1,
        seconds: float = 3_600.0,
        equals: Mapping[str, Json] | None = None,
    ) -> str:
        """Permit the agent some kinds ahead, so that they are not held.

        Args:
            kinds: A kind, or a pattern such as `files.*`.
            by: Who permits it; never the proposer.
            uses: How many actions.
            seconds: For how long, simulated.
            equals: Payload fields that must have these values.

        Returns:
            Name of the grant.

        Raises:
            PermissionError: The gate refused it.
        """
        return await self._clerk.grant(kinds, equals or {}, uses, seconds, by)

    async def holds(self) -> list[Hold]:
        """List the holds of this session, newest last; what is past its time says `expired`."""
        return await self._clerk.holds()

    async def turns(self) -> list[dict[str, Json]]:
        """List what the state keeps of this session's turns, oldest first."""
        return await self._clerk.turns()

    async def state(self) -> Json:
        """Give what the agent may see of the world, as plain JSON."""
        return plain_view(await self._agent.refresh_view())

    # the ways of a message

    async def _obey(self, turn: OpenTurn, command: Commanded, catalogue: Catalogue) -> Turn:
        if command.error:
            return await turn.end(End("refused", Code.ENVELOPE_INVALID, command.error))
        plan, issues = parse(
            command.plan(turn.message, self.world.seq), domain=catalogue, limits=self.limits
        )
        return await self._carry_out(turn, plan, issues)

    async def _carry_out(
        self, turn: OpenTurn, plan: Plan | None, issues: list[Issue], mode: Mode | None = None
    ) -> Turn:
        """Submit a plan that nobody will mend."""
        if plan is None:
            attempt = Attempt(n=1, status="invalid", issues=tuple(issues))
            return await turn.end(End("refused", issues[0].code, issues[0].message), [attempt])
        if plan.stop is not None:
            return await turn.end(end_of_stop(plan.stop), [Attempt(n=1, status="stop")])
        decided = await self._desk.submit(
            plan, mode or self._mode, seconds_left=self.limits.seconds_max
        )
        attempt = Attempt(
            n=1,
            status=decided.status,
            actions=tuple(one.kind for one in plan.actions),
            issues=decided.issues,
        )
        return await turn.end(end_of(decided), [attempt])

    async def _let_propose(
        self, turn: OpenTurn, adapter: Adapter, catalogue: Catalogue, media: Sequence[Media]
    ) -> Turn:
        past = (await self._clerk.turns())[:-1]

        async def ask(number: int, context: Context) -> Raw:
            name, digest = type(adapter).__name__, digest_of(context)
            intent = self._clerk.ask(turn.number, number, name, digest)
            return await self._calls.ask(self.world, intent, adapter, context)

        proposing = Proposing(
            adapter,
            desk=self._desk,
            mode=self._mode,
            limits=self.limits,
            look=self._looker.begin(turn.message, catalogue, past, media),
            ask=ask,
            clock=monotonic,
        )
        try:
            end = await proposing.run()
        except (ClosedError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug must end the turn, not leave it running
            end = End("failed", Code.INTERNAL, type(error).__name__)
        return await turn.end(end, proposing.attempts, Spent.of(proposing.counters.usage))

    # parts

    async def _begin(self, message: str, way: Route) -> OpenTurn:
        told = message[:_MESSAGE_CHARS_MAX]
        number = await self._clerk.begin(told, self.mode, way)
        return OpenTurn(self, self._clerk, number, message, way)

    async def _catalogue(self) -> Catalogue:
        permitted = await self.world.permitted(self.agent_id)
        kinds = self.world.registry.kinds if permitted is None else permitted
        return Catalogue(self.world.registry, frozenset(kinds) - KINDS, await self.world.executed())


def _denied(issue: Issue) -> End:
    return End("refused", Code.DENIED, issue.message)
