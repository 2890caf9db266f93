"""`placet pack`: write a log into one file, to share it."""

from pathlib import Path
from typing import Annotated

import typer

from placet.cli.progress import read_log
from placet.cli.terminal import (
    CommandError,
    Output,
    StoreArgument,
    is_text,
    number,
    pluralize,
    with_json,
)


@with_json
def pack(
    store: StoreArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Path of the new file; it must not exist.")
    ],
    from_seq: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="SEQ", help="Leave out the records before this seq."),
    ] = None,
) -> Output:
    """Pack a whole log into one file.

    The file has a description (world, rules, settings), the snapshot of a compacted log, and a
    checksum. The same log gives the same bytes. `placet check` checks it on any machine; log,
    replay, verify, explain, diff and fork read it like a store.
    """
    if "://" in file:
        raise CommandError(f"a packed log is a file; give a path, got {file!r}")
    if not Path(file).absolute().parent.is_dir():
        raise CommandError(f"cannot pack into {file}: there is no such directory")
    from placet.history.pack import pack as pack_log  # noqa: PLC0415  # and pydantic with it

    done = pack_log(read_log(store, "pack"), Path(file), from_seq=from_seq)
    name, about = file if is_text(file) else ascii(file)[1:-1], done.about
    line = (
        f"{file}: {pluralize(about['records'], 'record')} of world {about['world']}, seq "
        f"{about['after_seq']} to {about['seq']}, digest {about['state_digest']}, "
        f"{number(done.size_bytes / 1e3)} kB"
    )
    return Output({"file": name, "bytes": done.size_bytes, "about": about}, [line])
