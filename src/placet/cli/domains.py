"""Resolves the name of a domain, as typed, to the domain with default settings."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from placet.cli import completion
from placet.cli.terminal import CommandError
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import find_domain, make_domain, remake
from placet.schemas.errors import DomainError

if TYPE_CHECKING:
    from placet.kernel.log.verify import Maker

DomainOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--domain",
        metavar="D",
        help="An installed domain, or module:attribute of your own.",
        autocompletion=completion.domains,
    ),
]

AgainBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="D",
        help="Domain to re-execute the log with, if the log does not have its settings: an "
        "installed name or module:attribute. Repeat it for each domain.",
        autocompletion=completion.domains,
    ),
]


def again_by(names: list[str] | None) -> "Maker":
    """Return a function that recreates the domains of a log; `names` are those of `--domain`."""
    return partial(remake, given=names or ())


def open_plain(spec: str) -> Domain:
    """Create a domain by its name or `module:Class`, without settings.

    Raises:
        CommandError: The domain cannot be created without settings.
        DomainError: Its code raised, or it is none.
        DomainNotFound: There is no such domain.
    """
    factory = find_domain(spec)
    try:
        return make_domain(spec, factory)
    except DomainError:
        raise
    except (TypeError, ValueError) as error:
        raise CommandError(f"domain {spec!r} cannot be made without settings: {error}") from error
