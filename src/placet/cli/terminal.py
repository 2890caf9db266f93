"""Output for a person or a program: results on stdout, errors as one line on stderr."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from re import compile as pattern
from typing import Annotated, Final, TypeAlias

import typer

from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SECOND_NS

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.")
]
StoreArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="STORE", help="A log: a path such as town.db, or a URL."),
]

USAGE_EXIT: Final = 2

_SECRET: Final = pattern(
    r"(?<=://)(?P<user>[^\s:/@?'\"]*):[^\s@'\"]*(?=@)|(?:(?<=[?&])(?:ssl)?password=[^&\s'\"]*&?)"
)
"""The passwords in a URL: between the user's name and the @, and in the option `password`."""

_GAP: Final = "  "
_JSON_CHARACTERS_MAX: Final = 160
_TEXT_CHARACTERS_MAX: Final = 400


class CommandError(PlacetError):
    """The error of a command that cannot do its work; the message is shown to the user."""


def say(text: str = "") -> None:
    """Print a line of a command's result."""
    sys.stdout.write(redact(text) + "\n")


def say_lines(lines: Iterable[str]) -> None:
    """Print lines of a command's result; control characters are escaped."""
    for line in lines:
        say(printable(line))


def say_json(value: Json) -> None:
    """Print a command's result as one JSON document."""
    say(to_json(value).decode())


def complain(message: str) -> None:
    """Print an error message as one line."""
    sys.stderr.write(f"placet: {printable(redact(' '.join(message.split())))}\n")


def show_help_alone(context: typer.Context) -> None:
    """Print the help of a command group that was called without a command, as a usage error."""
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(USAGE_EXIT)


def redact(text: str) -> str:
    """Return a text with the passwords of URLs removed."""
    if "postgres" not in text:
        return text
    return _SECRET.sub(lambda match: match["user"] or "", text)


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows of cells as aligned lines; the last cell of a row is not padded."""
    widths: dict[int, int] = {}
    for row in rows:
        for column, cell in enumerate(row[:-1]):
            widths[column] = max(widths.get(column, 0), len(cell))
    return [
        indent
        + _GAP.join([*(c.ljust(widths[i]) for i, c in enumerate(row[:-1])), row[-1]]).rstrip()
        for row in rows
    ]


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells: as a table with a colored head on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        say_lines(table([head, *rows], indent=""))
        return
    # Here, because it costs a sixth of a second, which only a person sees.
    from rich.console import Console  # noqa: PLC0415  # see above
    from rich.table import Table  # noqa: PLC0415  # see above
    from rich.text import Text  # noqa: PLC0415  # see above

    shown = Table(box=None, header_style="bold cyan", pad_edge=False)
    for name in head:
        shown.add_column(name)
    for row in rows:
        shown.add_row(*(Text(printable(redact(cell))) for cell in row))
    Console().print(shown)


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that it is safe to print."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, characters_max: int) -> str:
    """Return a text cut to a number of characters, with … at its end if it was longer."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def json_line(value: Json) -> str:
    """Return a value as JSON on one line, cut to 160 characters."""
    return shorten(to_json(value).decode(), _JSON_CHARACTERS_MAX)


def rounded_json(value: Json) -> str:
    """Return a value as JSON for people, with numbers of at most six digits."""
    return to_json(_rounded(value)).decode()


def _rounded(value: Json) -> Json:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return value


def text_or_json(value: Json) -> str:
    """Return a string unchanged, any other value as JSON; cut to 400 characters."""
    text = value if isinstance(value, str) else to_json(value).decode()
    return shorten(text, _TEXT_CHARACTERS_MAX)


def quotas_text(quotas: Mapping[str, Sequence[int]], world_quota: Sequence[int] | None) -> str:
    """Return recorded quotas, `[interval_ns, burst]` by kind, as text with rates per second."""
    named = {"all kinds" if kind == "*" else kind: quota for kind, quota in sorted(quotas.items())}
    if world_quota is not None:
        named["all agents together"] = world_quota
    rates = (f"{name} {SECOND_NS / ns:g}/s (burst {burst})" for name, (ns, burst) in named.items())
    return ", ".join(rates) or "none"


def colored(text: str, color: str | None) -> str:
    """Return a text for a terminal in a color; plain without a color, or if NO_COLOR is set."""
    return text if color is None or os.environ.get("NO_COLOR") else typer.style(text, fg=color)


def is_text(argument: str) -> bool:
    """Return whether an argument was valid UTF-8; invalid bytes appear in it as lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in argument)


def pluralize(count: int, singular: str, more: str | None = None) -> str:
    """Return a count with its noun: "1 tick", "300 ticks"."""
    return f"{number(count)} {singular if count == 1 else more or singular + 's'}"


def number(value: float) -> str:
    """Return a count with groups of three digits: "56 907"."""
    return f"{value:,.0f}".replace(",", " ")
