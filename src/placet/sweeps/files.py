"""Write a file that a question makes: whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placet.sweeps.errors import LabError


@contextmanager
def replaced_whole(target: Path) -> Iterator[Path]:
    """Return a path to write to, which replaces `target` when the block ends without an error.

    Raises:
        LabError: The disk is full, or the folder cannot be written. The old file is left.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield draft
        draft.replace(target)
    except OSError as error:
        raise LabError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
