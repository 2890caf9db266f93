"""Makes the world of a conversation: of a domain, or from an existing log."""

from collections.abc import Sequence
from typing import Final

import typer

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.modes import MODES, mode_of
from placet.agents.session.opener import session_name
from placet.agents.session.session import Session
from placet.cli.domains import open_plain
from placet.cli.terminal import CommandError
from placet.domains.session import KINDS, Sessions
from placet.kernel.domain import Domain
from placet.kernel.rules_version import rules_in
from placet.runtime.plugins import find_domain, remake
from placet.runtime.snapshots.recovery import recover
from placet.runtime.stores.append_rules import NoWorldError
from placet.runtime.stores.url import file_of, is_lasting, open_event_log
from placet.schemas.log.record import Header

ModeOption: Final = typer.Option(
    "--mode",
    metavar="MODE",
    help=f"What the agent may do without confirmation: {', '.join(MODES)}. Default: the mode of "
    "the "
    "latest turn; assisted in a new conversation.",
)
"""The option `--mode` of the commands that hold a conversation."""


def check_words(mode: str | None, session: str) -> None:
    """Check the options of a conversation before anything is opened.

    Raises:
        BadParameter: There is no such mode, or the session's name is none.
    """
    try:
        if mode is not None:
            mode_of(mode)
        session_name(session)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def domains_for(spec: str | None, store: str) -> list[Domain]:
    """Make the domains to talk in, with the one of conversations beside them.

    A log is opened with its own domains and their settings; O(log after its newest snapshot).

    Args:
        spec: As `--domain` has it; a log's own by another name is refused.
        store: Of the log, which may be empty or not be there yet.

    Raises:
        BadParameter: There is neither a log nor a domain.
        CommandError: The domain needs settings, or the log has no room for the session's records.
        DomainNotFound, DomainNotRemade, StoreError: They cannot be made, or the log not be read.
    """
    if spec is not None:
        find_domain(spec)  # a typo is told of before a log is looked for
    header = _header(store)
    if header is not None:
        rules = rules_in(header)
        if Sessions.name not in [name for name, _ in rules.domains]:
            raise CommandError(
                f"{store} was begun without the domain 'session', so that nothing said can be kept "
                "in it; begin another by `placet chat --store`, or `placet serve --sessions`"
            )
        return remake(rules, () if spec is None else _given(spec))
    if spec is None:
        raise typer.BadParameter("name what to talk about, such as --domain design")
    return [open_plain(spec), Sessions()]


async def catalogue_of(session: Session) -> Catalogue:
    """Return the kinds that the agent of a session may propose."""
    world = session.world
    permitted = await world.gateway.permitted(session.agent_id)
    kinds = world.gateway.registry.kinds if permitted is None else permitted
    return Catalogue(
        world.gateway.registry, frozenset(kinds) - KINDS, await world.gateway.executed()
    )


def _given(spec: str) -> Sequence[str]:
    """Return a `module:Class`, which replaces the log's domain.

    For an installed name the log decides.
    """
    return (spec,) if ":" in spec else ()


def _header(store: str) -> Header | None:
    """Return the header of a log; None if it has none yet."""
    log = open_event_log(store)
    try:
        path = file_of(log)
        if not is_lasting(log) or (path is not None and not path.exists()):
            return None
        return recover(log).past.header
    except NoWorldError:
        return None
    finally:
        log.close()
