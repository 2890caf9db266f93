"""Resolves the name of a domain, as typed, to the domain with default settings."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from placet.cli import completion
from placet.cli.terminal import CommandError, notify
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import DomainNotRemade, find_domain, make_domain, remake
from placet.schemas.errors import DomainError

if TYPE_CHECKING:
    from placet.actors.ports import EventLog
    from placet.kernel.log.verify import Maker
    from placet.kernel.plugin.rules_version import Rules

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


def again_by(names: list[str] | None, *logs: "EventLog") -> "Maker":
    """Return a function that recreates the domains of logs; `names` are those of `--domain`.

    A domain that the scenario of a log names is found in the current folder, which a line says.
    """

    @cache
    def by_scenario() -> "Maker":
        from placet.scenarios.recorded_domain import domains_of  # noqa: PLC0415  # pydantic

        return domains_of(*logs, given=names, on_named=_tell)

    def make(rules: "Rules") -> Sequence[Domain]:
        try:
            return remake(rules, names or ())
        except DomainNotRemade:
            return by_scenario()(rules)

    return make


def _tell(spec: str, file: Path) -> None:
    notify(f"placet: the domain is {spec} of {file}, which the scenario in the log names")


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
