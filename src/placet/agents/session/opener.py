"""Opens a session in a world: one that is passed in, or one opened for the session."""

from collections.abc import Iterable, Sequence
from typing import Final

from placet.agents.loop.model_calls import ModelCalls
from placet.agents.loop.recorder import UNPROPOSED, SessionError, row_of
from placet.agents.ports import Handle, InboxPort, WorldPort
from placet.domains.accounts import KINDS as ACCOUNT_KINDS
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
from placet.runtime.executors.fork_handlers import LiveHandler
from placet.runtime.inbox import Inbox
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.identity import is_identity
from placet.schemas.names import name_fault

AGENT: Final = "agent"
"""Default id of the agent of a new session."""

MODE: Final = "assisted"
"""Default mode of a new session."""


async def agent_handle(
    world: WorldPort, agent_id: str, permissions: Iterable[str] | None
) -> Handle:
    """Register the agent of a session, or return the handle of the registered one.

    An existing one keeps its permissions unless some are passed.
    """
    known = world.gateway.registry.kinds
    if permissions is None and await world.gateway.is_registered(agent_id):
        return await world.register_agent(agent_id)
    # A budget limits its agent only as long as the agent does not resolve reservations itself.
    kinds = known.keys() - ACCOUNT_KINDS if permissions is None else permissions
    return await world.register_agent(agent_id, permissions=set(kinds) - UNPROPOSED)


async def recorder_handle(world: WorldPort) -> Handle:
    """Register the session recorder; in a world with accounts it draws on them too."""
    kinds = KINDS | (ACCOUNT_KINDS & world.gateway.registry.kinds.keys())
    return await world.register_agent(RECORDER, permissions=kinds)


def require_sessions(world: WorldPort) -> None:
    """Check that a world has the domain `session`, and the domain `approvals` that it needs.

    Raises:
        ValueError: It has not.
    """
    if not world.gateway.registry.kinds.keys() >= UNPROPOSED:
        raise ValueError(
            "this world has no domain 'session'; open it with placet.domains.session."
            "Sessions() among its domains, so that the log keeps the conversation"
        )


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


async def model_calls(world: WorldPort) -> ModelCalls:
    """Return the executor of a world's model calls.

    Calls of a fork's own sessions are made; a call that was open in its parent is the parent's.

    Raises:
        ValueError: Another object executes this world's model calls.
    """
    return await ModelCalls.of(world, LiveHandler)


def inbox_of(world: WorldPort) -> InboxPort:
    """Return the requests for approval of a world."""
    assert isinstance(world, Orchestrator), "only a world of this process has an inbox"
    return Inbox(world)


async def latest_mode(world: WorldPort, session: str) -> str:
    """Return the mode of the latest turn of a session, else the default."""
    row = await row_of(world, session)
    if row is None:
        return MODE
    latest = turn_id(session, row["turns"])
    turns = await world.gateway.entities(TURNS, [latest])
    # An operator may delete the turn.
    return str(turns[latest]["mode"]) if latest in turns else MODE


def world_of(domain: str | Domain | Sequence[Domain] | None, store: str) -> Orchestrator:
    """Make a world of the requested domains and the domain `session`; it is not open.

    Args:
        domain: A name, a domain, several, or None for the default.
        store: URL of its log.

    Raises:
        DomainNotFound: There is no domain of this name.
    """
    if isinstance(domain, str | None):
        name = domain or "world"
        chosen: Domain | Sequence[Domain] = make_domain(name, find_domain(name))
    else:
        chosen = domain
    domains = list(chosen) if isinstance(chosen, Sequence) else [chosen]
    if not any(isinstance(part, Sessions) for part in domains):
        domains.append(Sessions())
    return Orchestrator(domains, OrchestratorConfig(store=store))
