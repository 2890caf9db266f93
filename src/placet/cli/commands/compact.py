"""`placet compact`: remove the beginning of a log."""

from pathlib import Path
from typing import Annotated, Final

import typer

from placet.cli.progress import read_log
from placet.cli.terminal import Output, StoreArgument, number, pluralize, with_json
from placet.stores.snapshots.files import snapshots_of
from placet.stores.url import file_of

_KEEP_SEQS: Final = 10_000


@with_json
def compact(
    store: StoreArgument,
    keep: Annotated[
        int, typer.Option(min=1, metavar="SEQS", help="Keep at least this many of the last seqs.")
    ] = _KEEP_SEQS,
) -> Output:
    """Remove the beginning of a log.

    Two snapshots replace it. The state is unchanged, but the removed records can no longer be
    replayed, verified or explained. The log must not be in use; a running world compacts its own
    log (`placet run --compact`).
    """
    from placet.stores.snapshots.compaction import compact as compact_log  # noqa: PLC0415  # and SQLite with it

    log = read_log(store, "compact")
    files, path = snapshots_of(log), file_of(log)
    assert files is not None, "a log that can be read again has snapshots"
    before = _size_of(path)
    done = compact_log(log, path, files, keep_seqs=keep)
    after = _size_of(path)
    value = {
        "removed_records": done.removed_records,
        "first_record": done.after.record,
        "after_seq": done.after.seq,
        "seq": done.seq,
        **({} if path is None else {"file_bytes": {"before": before, "after": after}}),
    }
    sizes = f"{number(before / 1e3)} kB became {number(after / 1e3)} kB"
    if not done.removed_records:
        line = (
            f"{store}: nothing to remove; it has seq {done.before.seq} to {done.seq}, and at least "
            f"{pluralize(keep, 'seq')} must stay{f'; {sizes}' if after < before else ''}"
        )
        return Output(value, [line])
    count = pluralize(done.removed_records, "record")
    line = (
        f"{store} now begins at record {done.after.record}, after seq {done.after.seq}: "
        f"{count} removed{'' if path is None else f', {sizes}'}"
    )
    where = f"The state there is in {files.where}, which belongs to the log: copy and move them "
    return Output(value, [line, f"{where}together."])


def _size_of(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.is_file() else 0
