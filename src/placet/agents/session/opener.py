"""Opens a session in a world: one that is passed in, or one opened for the session."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from placet.agents.loop.model_calls import ModelCalls
from placet.agents.loop.recorder import SessionError, row_of
from placet.agents.ports import Handle, WorldPort
from placet.domains.session import (
    KINDS,
    RECORDER,
    SESSION_CHARS_MAX,
    Sessions,
    other_agent,
    turn_id,
)
from placet.domains.session.payloads import TURNS
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import find_domain, make_domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.identity import is_identity
from placet.schemas.names import name_fault

AGENT: Final = "agent"
"""Default id of the agent of a new session."""

MODE: Final = "assisted"
"""Default mode of a new session."""


class WorldSpec(NamedTuple):
    """The world for a session: an open world, or how to open one.

    Attributes:
        world: An open world; None opens one from `domain` and `store`.
        domain: Domain of the world to open: a name, a domain, several, or None for the default.
        store: URL of the log of the world to open.
    """

    world: WorldPort | None
    domain: str | Domain | Sequence[Domain] | None
    store: str


class Opened(Protocol):
    """The interface of an opened session to `SessionOpener`."""

    closing: AsyncExitStack

    async def close_stale_turns(self) -> None:
        """Record an end of the turns that a dead process left running."""

    async def close(self) -> None:
        """Accept no more messages, stop the running turn, and close the session's resources."""


S = TypeVar("S", bound=Opened)


class SessionOpener(Generic[S]):
    """A session that is being opened: await it, or use it as an async context manager.

    Args:
        wanted: The world to use or to open.
        session: Name of the session.
        agent: Id of the agent that proposes; None is the agent of the existing session.
        permissions: Kinds that the agent may use; None is all but the session's own.
        mode: How much the agent may do by itself; None uses the mode of the latest turn.
        start: Creates the session from an open world, the handles of the agent and of the recorder,
            the model calls, and the mode.
    """

    def __init__(
        self,
        wanted: WorldSpec,
        session: str,
        agent: str | None,
        permissions: Iterable[str] | None,
        mode: str | None,
        start: Callable[[WorldPort, Handle, Handle, ModelCalls, str], S],
    ) -> None:
        self._wanted = wanted
        self._name = session
        self._agent = agent
        self._permissions = permissions
        self._mode = mode
        self._start = start
        self._session: S | None = None

    def __await__(self) -> Generator[object, None, S]:
        return self._open().__await__()

    async def __aenter__(self) -> S:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def _open(self) -> S:
        async with AsyncExitStack() as closing:
            world = self._wanted.world
            if world is None:
                opened = await closing.enter_async_context(_made(self._wanted))
                world = opened
            if not world.gateway.registry.kinds.keys() >= KINDS:
                raise ValueError(
                    "this world has no domain 'session'; open it with placet.domains.session."
                    "Sessions() among its domains, so that the log keeps the conversation"
                )
            agent = await self._registered(world, await agent_of(world, self._name, self._agent))
            system_intents = await world.register_agent(RECORDER, permissions=KINDS)
            mode = self._mode or await _latest_mode(world, self._name)
            session = self._start(world, agent, system_intents, await ModelCalls.of(world), mode)
            await session.close_stale_turns()
            session.closing = closing.pop_all()
        return session

    async def _registered(self, world: WorldPort, agent_id: str) -> Handle:
        """Register the agent, or return the handle of the registered one.

        An existing one keeps its permissions unless some are passed.
        """
        permitted = self._permissions
        if permitted is None and await world.gateway.is_registered(agent_id):
            return await world.register_agent(agent_id)
        kinds = world.gateway.registry.kinds if permitted is None else permitted
        return await world.register_agent(agent_id, permissions=set(kinds) - KINDS)


def session_name(name: str) -> str:
    """Check that a session may have this name, old ones included, and return it.

    Raises:
        ValueError: The name is empty, too long, or has control characters.
    """
    if not 1 <= len(name) <= SESSION_CHARS_MAX:
        raise ValueError(
            f"the name of a session has 1 to {SESSION_CHARS_MAX} characters, got {len(name)}"
        )
    if not is_identity(name):
        raise ValueError(f"the name of a session {name_fault(name)}")
    return name


async def agent_of(world: WorldPort, session: str, agent: str | None) -> str:
    """Return the agent in whose name a session proposes.

    A session belongs to one agent, which sees its turns.

    Args:
        world: A world with the domain `session`.
        session: Name of the session.
        agent: Requested agent; None is the session's own, `agent` for a new session.

    Raises:
        ValueError: The agent is the session recorder.
        SessionError: `session.agent_other`: the session belongs to another agent. Or it is new,
            and the rule for names refuses its name.
    """
    if agent == RECORDER:
        raise ValueError(f"{RECORDER!r} is the session's own voice and proposes nothing")
    row = await row_of(world, session)
    if row is None:
        fault = name_fault(session)
        if fault:
            raise SessionError(f"the name of a session {fault}")
        return AGENT if agent is None else agent
    owner: str = row["agent"]
    if agent not in {None, owner}:
        message = other_agent(session, owner, str(agent))
        raise SessionError(message, code="session.agent_other")
    return owner


async def _latest_mode(world: WorldPort, session: str) -> str:
    """Return the mode of the latest turn of a session, else the default."""
    row = await row_of(world, session)
    if row is None:
        return MODE
    latest = turn_id(session, row["turns"])
    turns = await world.gateway.entities(TURNS, [latest])
    mode: str = (
        turns[latest]["mode"] if latest in turns else MODE
    )  # an operator may delete the turn
    return mode


def _made(wanted: WorldSpec) -> Orchestrator:
    """Make a world of the requested domains and the domain `session`.

    Raises:
        DomainNotFound: There is no domain of this name.
    """
    domain = wanted.domain
    if isinstance(domain, str | None):
        name = domain or "world"
        chosen: Domain | Sequence[Domain] = make_domain(name, find_domain(name))
    else:
        chosen = domain
    domains = list(chosen) if isinstance(chosen, Sequence) else [chosen]
    if not any(isinstance(part, Sessions) for part in domains):
        domains.append(Sessions())
    return Orchestrator(domains, OrchestratorConfig(store=wanted.store))
