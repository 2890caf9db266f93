"""Makes the world of a conversation: of a domain, or from an existing log."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeAlias

import typer

from placet.agents.loop.recorder import UNPROPOSED
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.modes import MODES, mode_of
from placet.agents.session.opener import session_name
from placet.agents.session.session import Session
from placet.cli.world_options import list_overrides, world_settings
from placet.kernel.plugin.domain import Domain
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator

ModeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help=f"Confirmation of the agent's actions: {', '.join(MODES)}. Default: the mode "
        "of the latest turn; assisted in a new conversation.",
    ),
]
SessionOption: TypeAlias = Annotated[
    str,
    typer.Option(metavar="NAME", help="Name of the conversation; an existing one is continued."),
]


def check_words(mode: str | None, session: str) -> None:
    """Check the options `--mode` and `--session` of a command before anything is opened.

    Raises:
        BadParameter: There is no such mode, or the session's name is invalid.
    """
    try:
        if mode is not None:
            mode_of(mode)
        session_name(session)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def conversation_world(
    command: str, domain: str | None, store: str | None, assignments: Sequence[str] | None
) -> tuple[list[Domain], OrchestratorConfig]:
    """Return the domains and the configuration of a world for conversations.

    The session domain is added to the domains. A log is continued with the domains and settings
    that it records; each override is printed.

    Args:
        command: Name of the command, for messages.
        domain: Value of `--domain`.
        store: URL or path of the log, which may be empty or not exist yet; None stores none.
        assignments: Values of `--set`.

    Raises:
        BadParameter: There is neither a log nor a domain.
        SettingsError: A setting is invalid, or the log has no room for the session's records.
        DomainNotFound, DomainNotRemade: The domains cannot be created.
        StoreError: The log cannot be read.
    """
    settings = world_settings(domain, store, assignments)
    if settings.recorded is None and domain is None:
        raise typer.BadParameter(
            "there is neither a domain nor a log; type for example "
            f"`placet {command} --domain world`, or --store with an existing log"
        )
    domains = settings.make_domains(sessions=True)
    list_overrides(settings, domains, command)
    return domains, settings.world


@asynccontextmanager
async def opened_session(
    domains: Sequence[Domain],
    config: OrchestratorConfig,
    **options: Any,  # noqa: ANN401  # those of Session.open
) -> AsyncIterator[Session]:
    """Open a world and a session in it; both are closed at the end."""
    async with (
        Orchestrator(domains, config) as world,
        Session.open(world=world, **options) as session,
    ):
        yield session


async def catalogue_of(session: Session) -> Catalogue:
    """Return the kinds that the agent of a session may propose."""
    world = session.world
    permitted = await world.gateway.permitted(session.agent_id)
    kinds = world.gateway.registry.kinds if permitted is None else permitted
    return Catalogue(
        world.gateway.registry, frozenset(kinds) - UNPROPOSED, await world.gateway.executed()
    )
