"""`placet compact`: forget how a world came to be where it is."""

from typing import Annotated, Final

import typer

from placet.runtime.cli.stores import log_to_read
from placet.runtime.cli.terminal import AsJson, StoreArgument, counted, number, say, say_json
from placet.runtime.snapshots.compaction import compact as compact_log
from placet.runtime.snapshots.files import snapshots_of
from placet.runtime.stores.event_log_url import file_of

_KEEP_SEQS: Final = 10_000


def compact(
    store: StoreArgument,
    keep: Annotated[
        int, typer.Option(min=1, metavar="SEQS", help="How many of the last seqs stay at least.")
    ] = _KEEP_SEQS,
    *,
    as_json: AsJson = False,
) -> None:
    """Remove the beginning of a log, and keep two snapshots in its place.

    The world goes on as it was. What is removed can no longer be replayed, verified or explained.
    The log must not be in use; a running world compacts its own (`placet run --compact`).
    """
    log = log_to_read(store)
    files, path = snapshots_of(log), file_of(log)
    assert files is not None, "a log that can be read again is in a file"
    assert path is not None, "likewise"
    bytes_before = path.stat().st_size if path.is_file() else 0
    done = compact_log(log, path, files, keep_seqs=keep)
    bytes_after = path.stat().st_size
    if as_json:
        say_json(
            {
                "removed_records": done.removed_records,
                "first_record": done.after.record,
                "after_seq": done.after.seq,
                "seq": done.seq,
                "file_bytes": {"before": bytes_before, "after": bytes_after},
            }
        )
        return
    if not done.removed_records:
        say(
            f"{store}: nothing to remove; it reaches from seq {done.before.seq} to {done.seq}, "
            f"and {counted(keep, 'seq')} stay"
        )
        return
    say(
        f"{store} begins at record {done.after.record} now, after seq {done.after.seq}: "
        f"{counted(done.removed_records, 'record')} removed, "
        f"{number(bytes_before / 1e3)} kB became {number(bytes_after / 1e3)} kB"
    )
    say(f"What led there is in {files.folder}: it belongs to the log, copy and move both together.")
