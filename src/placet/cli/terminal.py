"""Output for a person or a program: results on stdout, errors as one line on stderr."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from re import compile as pattern
from typing import Annotated, Final, TypeAlias

import typer

from placet.schemas.codec import Json, to_json
from placet.schemas.errors import PlacetError
from placet.schemas.limits import SECOND_NS
from placet.schemas.printable import printable, printable_json

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
_NUMBER: Final = pattern(r"[-+]?[\d ]*\.?\d*(?:e[-+]?\d+)?%?")
_JSON_CHARACTERS_MAX: Final = 160
_TEXT_CHARACTERS_MAX: Final = 400


class CommandError(PlacetError):
    """The error of a command that cannot do its work; the message is shown to the user."""


def say(text: str = "", color: str | None = None) -> None:
    """Print a line of a command's result; unseen characters are escaped, line breaks too."""
    sys.stdout.write(colored(printable(redact(text)), color) + "\n")


def say_json(value: Json) -> None:
    """Print a JSON document on one line, at once: a program may wait for it."""
    sys.stdout.write(redact(printable_json(value)) + "\n")
    sys.stdout.flush()


def notify(text: str) -> None:
    """Print a line beside the result, on stderr; unseen characters are escaped."""
    sys.stderr.write(printable(redact(text)) + "\n")
    sys.stderr.flush()


def complain(message: str) -> None:
    """Print an error message as one line."""
    notify(f"placet: {' '.join(message.split())}")


@contextmanager
def needs_extra(command: str) -> Iterator[None]:
    """Name the extra `serve` as the remedy, if a module that the block imports is not installed.

    Raises:
        CommandError: A module is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`placet {command}` needs {error.name}, which is not installed: "
            "pip install '.[serve]' in a clone of placet"
        ) from error


def show_help_alone(context: typer.Context) -> None:
    """Print the help of a command group that was called without a command, as a usage error."""
    if context.invoked_subcommand is None:
        say_lines(context.get_help().splitlines())
        raise typer.Exit(USAGE_EXIT)


def redact(text: str) -> str:
    """Return a text with the passwords of URLs removed."""
    if "postgres" not in text:
        return text
    return _SECRET.sub(lambda match: match["user"] or "", text)


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of cells: drawn by rich on a terminal, as wide as it is; plain aligned text elsewhere.

    Attributes:
        rows: Cells, row by row. A row may end early.
        head: Names of the columns; None for a list of names and values.
        indent: Space before each line.
    """

    rows: Sequence[Sequence[str]]
    head: Sequence[str] | None = None
    indent: str = "  "

    def lines(self) -> list[str]:
        """Return the plain text: columns are aligned, the last cell of a row is not padded."""
        rows = self.rows if self.head is None else [self.head, *self.rows]
        widths: dict[int, int] = {}
        for row in rows:
            for column, cell in enumerate(row[:-1]):
                widths[column] = max(widths.get(column, 0), len(cell))
        return [
            self.indent
            + _GAP.join([*(c.ljust(widths[i]) for i, c in enumerate(row[:-1])), row[-1]]).rstrip()
            for row in rows
        ]

    def draw(self) -> None:
        """Print the table on a terminal; a cell that is too wide is continued below itself."""
        # Here, because it costs a sixth of a second, which only a person sees.
        from rich.console import Console  # noqa: PLC0415  # see above
        from rich.padding import Padding  # noqa: PLC0415  # see above
        from rich.table import Table as RichTable  # noqa: PLC0415  # see above
        from rich.text import Text  # noqa: PLC0415  # see above

        drawn = RichTable(
            box=None, show_header=self.head is not None, header_style="bold cyan", pad_edge=False
        )
        columns = max(map(len, [*self.rows, self.head or ()]), default=0)
        for column, name in enumerate(self.head or [""] * columns):
            cells = [row[column].strip() for row in self.rows if column < len(row)]
            is_number = self.head is not None and all(map(_NUMBER.fullmatch, cells))
            drawn.add_column(
                Text(printable(name)),
                justify="right" if is_number else "left",
                no_wrap=is_number,
                overflow="fold",
                style="cyan" if self.head is None and not column and columns > 1 else "",
            )
        for row in self.rows:
            drawn.add_row(*(Text(printable(redact(cell))) for cell in row))
        Console().print(Padding(drawn, (0, 0, 0, len(self.indent)), expand=False))


@dataclass(frozen=True, slots=True)
class ColoredLine:
    """A line of text with its color on a terminal."""

    text: str
    color: str


Line: TypeAlias = str | ColoredLine | TextTable
"""A part of a command's result: a line of text, or a table of several lines."""


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a command: a document for a program, and lines for a person.

    Attributes:
        value: The JSON document, or a function that returns it.
        lines: The text. A generator runs only if the text is printed.
        is_ok: Exit code 0; else 1, as after a refusal or where two logs differ.
    """

    value: Json
    lines: Iterable[Line] = ()
    is_ok: bool = True


def with_json(command: Callable[..., Output]) -> Callable[..., int]:
    """Return a command with the option `--json`, which prints its result and returns its exit code.

    The options of a command are read from its signature, so the new signature has one more.
    """

    @wraps(command)
    def run(*given: object, as_json: bool = False, **options: object) -> int:
        result = command(*given, **options)
        if as_json:
            say_json(result.value() if callable(result.value) else result.value)
        else:
            say_lines(result.lines)
        return 0 if result.is_ok else 1

    option = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    parameters = [*signature(command).parameters.values(), option]
    run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]  # read by inspect
    run.__annotations__ = {**command.__annotations__, "as_json": AsJson}
    return run


def say_lines(lines: Iterable[Line]) -> None:
    """Print lines and tables of a command's result."""
    if not sys.stdout.isatty():
        for text in plain_lines(lines):
            say(text)
        return
    for line in lines:
        if isinstance(line, TextTable):
            line.draw()
        elif isinstance(line, ColoredLine):
            say(line.text, line.color)
        else:
            say(line)


def plain_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Yield lines and tables as plain lines of text."""
    for line in lines:
        if isinstance(line, TextTable):
            yield from line.lines()
        else:
            yield line.text if isinstance(line, ColoredLine) else line


def shorten(text: str, characters_max: int) -> str:
    """Return a text cut to a number of characters, with … at its end if it was longer."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def json_line(value: Json) -> str:
    """Return a value as JSON on one line, cut to 160 characters."""
    return shorten(to_json(value).decode(), _JSON_CHARACTERS_MAX)


def rounded_json(value: Json) -> str:
    """Return a value as JSON for people, with numbers of at most six digits."""
    return to_json(_rounded(value)).decode()


def rounded_line(value: Json) -> str:
    """Return a value as JSON for people on one line: rounded, and cut to 160 characters."""
    return shorten(rounded_json(value), _JSON_CHARACTERS_MAX)


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
