"""Completions of the shell: scenarios, domains, tables, and the agents and kinds of a store.

A completion never fails: where a store cannot be read, there is nothing to suggest.
"""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from shlex import split
from typing import Final

import typer

from placet.schemas.errors import PlacetError
from placet.schemas.log.record import Header, Record, agents_of

_RECORDS_READ_MAX: Final = 10_000
"""Agents are registered at the beginning of nearly every log; a person waits for the answer."""


def scenarios(incomplete: str) -> list[str]:
    """Return the bundled scenarios, and the scenario files of this folder."""
    from placet.scenarios.loader import bundled  # noqa: PLC0415  # only when asked

    files = sorted(str(path) for path in Path().glob("*.toml") if path.name != "pyproject.toml")
    return [name for name in (*bundled(), *files) if name.startswith(incomplete)]


def domains(incomplete: str) -> list[str]:
    """Return the installed domains."""
    from placet.plugins.domains import domain_names  # noqa: PLC0415  # only when asked

    return [name for name in domain_names() if name.startswith(incomplete)]


def tables(incomplete: str) -> list[str]:
    """Return the names of the tables of an export."""
    from placet.tables.definitions import DEFINITIONS  # noqa: PLC0415  # only when asked

    return [name for name in DEFINITIONS if name.startswith(incomplete)]


def agents(context: typer.Context, incomplete: str) -> list[str]:
    """Return the agents registered at the beginning of the store on the command line."""
    records = _records_of(context)
    names = {change.agent_id for record in records for change in agents_of(record)}
    return sorted(name for name in names if name.startswith(incomplete))


def kinds(context: typer.Context, incomplete: str) -> list[str]:
    """Return the kinds of the world in the store on the command line."""
    names = {
        name
        for record in islice(_records_of(context), 1)
        if isinstance(record, Header)
        for name in record.kinds
    }
    return sorted(name for name in names if name.startswith(incomplete))


def _records_of(context: typer.Context) -> Iterator[Record]:
    """Yield the first records of the store on the command line; nothing if it cannot be read."""
    from placet.stores.reading import log_to_read  # noqa: PLC0415  # only when asked
    from placet.stores.snapshots.recovery import decode  # noqa: PLC0415  # only when asked

    store = context.params.get("store") or _store_typed()
    if not isinstance(store, str):
        return
    try:
        with closing(log_to_read(store)) as log:
            for ordinal, data in islice(log.read(), _RECORDS_READ_MAX):
                yield decode(data, ordinal)
    except (PlacetError, OSError):
        return


def _store_typed() -> str | None:
    """Return the store in the words typed so far; None if there is none.

    The parser knows no argument of a command line that ends with an option without its value.
    """
    typed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    words: list[str] = []
    with suppress(ValueError):  # a quotation mark that is not closed yet
        words = split(typed)[2:]
    return next((word for word in words if "://" in word or Path(word).is_file()), None)
