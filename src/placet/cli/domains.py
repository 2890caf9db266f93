"""Resolves the name of a domain, as typed, to the domain with default settings."""

from typing import Annotated, Final, TypeAlias

import typer

from placet.cli import completion
from placet.cli.terminal import CommandError
from placet.kernel.domain import Domain
from placet.runtime.plugins import find_domain

DomainOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--domain",
        metavar="D",
        help="An installed domain, or module:attribute of your own.",
        autocompletion=completion.domains,
    ),
]

AgainBy: Final = typer.Option(
    "--domain",
    metavar="D",
    help="Domain to re-execute the log with, if the log does not have its settings: an installed "
    "name or module:attribute. Repeat it for each domain.",
    autocompletion=completion.domains,
)


def open_plain(spec: str) -> Domain:
    """Create a domain by its name or `module:Class`, without settings.

    Raises:
        CommandError: The domain cannot be created without settings.
        DomainNotFound: There is no such domain.
    """
    factory = find_domain(spec)
    try:
        domain = factory()
    except (TypeError, ValueError) as error:
        raise CommandError(f"domain {spec!r} cannot be made without settings: {error}") from error
    if not isinstance(domain, Domain):
        raise CommandError(
            f"{spec!r} makes no domain: expected a subclass of placet.Domain, got {domain!r}"
        )
    return domain
