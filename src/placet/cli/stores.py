"""Resolves a store, as typed, to a log: an existing one to read, or a new one to write."""

from itertools import chain, count
from pathlib import Path
from re import sub
from shlex import quote
from typing import Annotated, TypeAlias

import typer

from placet.cli.terminal import CommandError
from placet.stores.append_rules import NoWorldError
from placet.stores.snapshots.files import files_beside
from placet.stores.url import file_of, is_lasting, open_event_log

TakeOver: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Open the store even if another process writes it; that process stops at its next "
        "write.",
    ),
]


def fresh_store(name: str) -> str:
    """Return an unused file name for a store in the current folder: town.db, else town-2.db, ..."""
    stem = sub(r"[^\w.-]+", "_", name) or "world"
    names = chain((f"{stem}.db",), (f"{stem}-{number}.db" for number in count(2)))
    return next(name for name in names if not any(map(Path.exists, _files_of(Path(name)))))


def _files_of(log: Path) -> tuple[Path, ...]:
    """Return the paths of a log, its snapshots and its collected rows."""
    from placet.tables.parts import collected_beside  # noqa: PLC0415  # Arrow tables are not free

    return log, files_beside(log).folder, collected_beside(log)


def require_fresh(store: str) -> None:
    """Raise if a store has a world already; else do nothing.

    Raises:
        CommandError: The store has a world.
        StoreError: The URL names no store, or the file is no log.
    """
    log = open_event_log(store)
    if not is_lasting(log):
        return
    try:
        records = log.count()
    except NoWorldError:
        return
    if not records:
        return
    # Here, because scenarios and what checks them are 60 ms that only a run needs.
    from placet.scenarios.resume import find_run  # noqa: PLC0415  # see above

    name = str(file_of(log) or log.url)
    begun = find_run(log)
    if begun is not None and not begun.is_finished:
        raise CommandError(
            f"{name} has an unfinished run of {begun.scenario.name}, at tick {begun.ticks} of "
            f"{begun.scenario.ticks}; to resume it: placet run --resume {quote(name)}. "
            "To start another run, leave out --store or name another store"
        )
    raise CommandError(
        f"{name} already has a world, with {records} records, and a run starts a new one; leave "
        "out --store to get a new file, name another store, or delete this one. "
        f"To see its records: placet log {quote(name)}"
    )
