"""Convert errors of a file that a question writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placet.stores.files import whole_file
from placet.sweeps.errors import LabError


@contextmanager
def replaced_whole(target: Path) -> Iterator[Path]:
    """Return a path to write to, which replaces `target` when the block ends without an error.

    Raises:
        LabError: The disk is full, or the folder cannot be written. The old file is left.
    """
    try:
        with whole_file(target) as draft:
            yield draft
    except OSError as error:
        raise LabError(f"cannot write {target}: {error.strerror or error}") from error
