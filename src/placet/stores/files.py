"""File operations whose durability matters, and paths in the URLs of stores.

Stores and snapshots write files only through `FileOperations`, so that a test can substitute a disk
that loses power: data that was not synced may be lost, whatever the order of operations. A file
name is bytes, and not always UTF-8; a URL may contain `?`, `%` and `#` only escaped.
"""

import os
from pathlib import Path, PurePath
from typing import Protocol
from urllib.parse import quote, unquote_to_bytes


def quoted(path: str | PurePath) -> str:
    """Return a path percent-encoded for a URL."""
    return quote(os.fsencode(path))


def unquoted(text: str) -> str:
    """Return the path of a percent-encoded part of a URL."""
    return os.fsdecode(unquote_to_bytes(os.fsencode(text)))


def behind_link(path: Path) -> Path:
    """Return the target of a symbolic link; a path that is no link is returned unchanged.

    Names beside a log, such as its `-wal`, are derived from the target.
    """
    # Not `is_symlink`, which raises where one may not look; the store says that in its own words.
    return Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114


class FileOperations(Protocol):
    """The interface to a disk. Each method raises `OSError` if the system refuses."""

    def make_dir(self, folder: Path) -> None:
        """Create a folder; do nothing if it exists."""

    def write_new(self, path: Path, data: bytes) -> None:
        """Create a file and write it; it must not exist. Not durable until `fsync`."""

    def fsync(self, path: Path) -> None:
        """Make a file's content durable; its name becomes durable by `sync_dir`."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file within its folder, atomically; a file that has the new name is replaced."""

    def sync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def list(self, folder: Path) -> list[str]:
        """List the names in a folder, unordered; empty if there is no such folder."""

    def read(self, path: Path) -> bytes:
        """Read a whole file."""


class Disk:
    """File operations on the machine's disk."""

    def make_dir(self, folder: Path) -> None:
        """Create a folder; do nothing if it exists."""
        folder.mkdir(exist_ok=True)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create a file and write it; it must not exist."""
        with path.open("xb") as file:
            file.write(data)

    def fsync(self, path: Path) -> None:
        """Make a file's content durable."""
        _fsync(path, os.O_RDWR)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file within its folder, atomically; a file that has the new name is replaced."""
        source.replace(target)

    def rename_new(self, source: Path, target: Path) -> None:
        """Rename a file within its folder, to a name that must not exist.

        If several processes rename to one name at the same time, one succeeds.

        Raises:
            FileExistsError: The name is taken.
            OSError: The system refused.
        """
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links; a crash here leaves an empty file
            target.touch(exist_ok=False)
            source.replace(target)
        else:
            source.unlink()

    def sync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        _fsync(folder, os.O_RDONLY)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def list(self, folder: Path) -> list[str]:
        """List the names in a folder, unordered; empty if there is no such folder."""
        return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []

    def read(self, path: Path) -> bytes:
        """Read a whole file."""
        return path.read_bytes()


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
