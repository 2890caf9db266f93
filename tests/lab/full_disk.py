"""A limit of this process on the size of files, in the place of a full disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(file_bytes: int = 0) -> Iterator[None]:
    """Return a context in which no file grows beyond a size; a write raises `OSError`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
