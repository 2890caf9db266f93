"""Options of the commands that open a world: `--domain`, `--store`, `--set` and `--tokens`.

The first three are read by the parser of the server's configuration, and a log that exists is
continued with the settings in it. An option that overrides one of them is listed.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from placet.cli.domains import DomainOption as DomainOption  # noqa: PLC0414  # one place for all
from placet.cli.terminal import CommandError, notify
from placet.kernel.plugin.domain import Domain
from placet.schemas.codec import Json

if TYPE_CHECKING:
    from placet.server.settings import ServerSettings

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Log of the world: a path ending in .db, or a URL. An existing log is continued with "
        "its own domain, settings, seed and limits. Default: no log is kept.",
    ),
]
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a key of the configuration, such as settings.max_step=2. Repeatable.",
    ),
]

TokensOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Token file; `placet token new` makes its entries."),
]

_NOT_OF_A_WORLD: Final = {
    "serve.": "a key of `placet serve`",
    "model.": "a key of `placet chat` and `placet serve`",
}


def world_settings(
    domain: str | None, store: str | None, assignments: Iterable[str] | None
) -> "ServerSettings":
    """Read the configuration of a world from a command's options, without file or environment.

    Raises:
        SettingsError: A key is unknown or belongs to the server, or a value is invalid.
        StoreError: The store's log cannot be read.
    """
    from placet.server.settings import (  # noqa: PLC0415  # not before the help is shown
        Given,
        SettingsError,
        load_settings,
        parse_assignment,
    )

    given = dict(parse_assignment(text) for text in assignments or ())
    for key in given:
        for prefix, of in _NOT_OF_A_WORLD.items():
            if key.startswith(prefix):
                raise SettingsError(f"--set {key}: it is {of}")
    options: dict[str, Json] = {"domain": domain, "store": store}
    given |= {
        key: Given(value, "--" + key.replace("_", "-"))
        for key, value in options.items()
        if value is not None
    }
    return load_settings(environ={}, arguments=given, has_file=False)


def list_overrides(settings: "ServerSettings", domains: Sequence[Domain], command: str) -> None:
    """Print a line for each value in an existing log that the configuration changes.

    Raises:
        CommandError: The world is opened to be read, and is as its log says; limits of the process
            may differ.
    """
    recorded = settings.recorded
    if recorded is None:
        return
    overrides = recorded.overrides(settings.world, domains)
    if settings.world.read_only:
        keys = [one.key for one in overrides if not one.key.startswith("limits.")]
        if keys:
            raise CommandError(
                f"--read-only shows {recorded.store} as it is written; leave out {', '.join(keys)}"
            )
        return
    for override in overrides:
        notify(f"placet {command}: {recorded.store}: {override}")
