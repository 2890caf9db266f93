"""The file operations whose durability matters: few, each one call.

One seam, so that a test can substitute a disk that loses power: unsynced data may be lost, whatever
the order of operations.
"""

import os
from pathlib import Path
from typing import Protocol


class FileOperations(Protocol):
    """A disk. All of them raise `OSError` as the system does."""

    def make_dir(self, folder: Path) -> None:
        """Make a folder; harmless if it is there."""

    def write_new(self, path: Path, data: bytes) -> None:
        """Make a file that is not there yet and write it. Not durable until `fsync`."""

    def fsync(self, path: Path) -> None:
        """Make a file's content durable; its name becomes durable by `sync_dir`."""

    def replace(self, source: Path, target: Path) -> None:
        """Return a file another name in the same folder, over what has that name."""

    def sync_dir(self, folder: Path) -> None:
        """Make the names in a folder durable."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def list(self, folder: Path) -> list[str]:
        """List the names in a folder, unordered; empty if there is no such folder."""

    def read(self, path: Path) -> bytes:
        """Read a whole file."""


class Disk:
    """The disk of the machine."""

    def make_dir(self, folder: Path) -> None:
        """Make a folder; harmless if it is there."""
        folder.mkdir(exist_ok=True)

    def write_new(self, path: Path, data: bytes) -> None:
        """Make a file that is not there yet and write it."""
        with path.open("xb") as file:
            file.write(data)

    def fsync(self, path: Path) -> None:
        """Make a file's content durable."""
        _fsync(path, os.O_RDWR)

    def replace(self, source: Path, target: Path) -> None:
        """Return a file another name in the same folder, over what has that name."""
        source.replace(target)

    def rename_new(self, source: Path, target: Path) -> None:
        """Return a file another name in the same folder, which nothing has.

        Of several who do so at once, one has it.

        Raises:
            FileExistsError: Something has it.
            OSError: As the system says.
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
