"""File operations whose durability matters, and paths in the URLs of stores.

Every file that placet makes is made here. `whole_file` writes a draft with a random name, syncs it
and renames it, so that the file is there whole or not at all, whenever the process is killed.
`opened_private` opens a file that grows by appends. No symbolic link is followed, and the mode lets
the owner alone read the file.

Snapshots reach the disk through `FileOperations`, so that a test can substitute a disk that loses
power: data that was not synced may be lost, whatever the order of operations. A file name is bytes,
and not always UTF-8; a URL may contain `?`, `%` and `#` only escaped.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from secrets import token_hex
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote, unquote_to_bytes

FILE_MODE: Final = 0o600
"""Permissions of a file that placet makes: what a log holds, its owner alone may read."""

FOLDER_MODE: Final = 0o700
_DRAFT_BEGIN: Final = ".placet-"
_DRAFT_END: Final = ".unfinished"
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


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


def draft_beside(target: Path) -> Path:
    """Return a new path in the folder of a file, for a draft of it; no name is so long."""
    return target.with_name(f"{_DRAFT_BEGIN}{token_hex(8)}{_DRAFT_END}")


def is_draft(name: str) -> bool:
    """Return whether a name is that of a draft, which a killed process may have left."""
    return name.startswith(_DRAFT_BEGIN) and name.endswith(_DRAFT_END)


def opened_private(path: Path, flags: int) -> int:
    """Open a file by flags of `os.open`, make it if it is not there, and return its descriptor.

    Raises:
        OSError: The path is a symbolic link, or the system refused.
    """
    return os.open(path, flags | os.O_CREAT | _NO_LINK, FILE_MODE)


def opened_regular(path: Path) -> BinaryIO:
    """Open a regular file to read; a pipe in its place would keep the reader waiting.

    Raises:
        OSError: The path is a symbolic link or no regular file, or the system refused.
    """
    descriptor = os.open(path, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, and those above it; it may exist.

    Raises:
        OSError: The path is a symbolic link or no folder, or the system refused.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    if stat.S_ISLNK(os.lstat(folder).st_mode):
        reason = "it is a symbolic link, through which nothing is written; remove the link"
        raise OSError(errno.ELOOP, reason, str(folder))


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

    def rename_new(self, source: Path, target: Path) -> None:
        """Rename a file within its folder, to a name that must not exist."""

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
        make_folder(folder)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create a file and write it; it must not exist."""
        with os.fdopen(opened_private(path, os.O_WRONLY | os.O_EXCL), "wb") as file:
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
        except OSError:  # a file system without links
            _rename_unlinked(source, target)
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


_DISK: Final = Disk()


@contextmanager
def whole_file(
    target: Path,
    data: bytes = b"",
    *,
    is_new: bool = False,
    is_lasting: bool = True,
    disk: FileOperations = _DISK,
) -> Iterator[Path]:
    """Yield the path of a draft, which becomes `target` when the block ends without an error.

    The draft is in the folder of the target. A link that has the target's name is replaced itself.

    Args:
        target: The path of the file.
        data: First content of the draft; the block may write more.
        is_new: Raise if the name is taken, also by a process that takes it meanwhile. Otherwise a
            file that has the name is replaced.
        is_lasting: Make content and name durable before the block's end returns.
        disk: File operations.

    Raises:
        FileExistsError: The name is taken.
        OSError: The disk refused. No part of the file is left.
    """
    draft = draft_beside(target)
    try:
        disk.write_new(draft, data)
        yield draft
        keep_draft(draft, target, is_new=is_new, is_lasting=is_lasting, disk=disk)
    except BaseException:
        with suppress(OSError):  # the first error is the one that matters
            disk.remove(draft)
        raise


def keep_draft(
    draft: Path,
    target: Path,
    *,
    is_new: bool,
    is_lasting: bool = True,
    disk: FileOperations = _DISK,
) -> None:
    """Rename a complete draft to its target, as `whole_file` does."""
    if is_lasting:
        disk.fsync(draft)
    (disk.rename_new if is_new else disk.replace)(draft, target)
    if is_lasting:
        disk.sync_dir(target.absolute().parent)


def write_whole(
    target: Path, data: bytes, *, is_new: bool = False, is_lasting: bool = True
) -> None:
    """Write a file, whole or not at all; the arguments are those of `whole_file`.

    Raises:
        FileExistsError: The name is taken, and the file must be new.
        OSError: The disk refused.
    """
    with whole_file(target, data, is_new=is_new, is_lasting=is_lasting):
        pass


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield the path of a new folder, which becomes `target` when the block ends without an error.

    Raises:
        FileExistsError: The name is taken by a file, a link, or a folder that is not empty.
        OSError: The disk refused. No part of the folder is left.
    """
    draft = draft_beside(target)
    try:
        draft.mkdir(mode=FOLDER_MODE)
        yield draft
        for path in draft.iterdir():
            path.chmod(FILE_MODE)
            _DISK.fsync(path)
        _DISK.sync_dir(draft)
        draft.rename(target)  # a folder replaces no file, no link, and no folder with files
        _DISK.sync_dir(target.absolute().parent)
    except NotADirectoryError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename_unlinked(source: Path, target: Path) -> None:
    """Rename a file to a name that must not exist, under a lock of the folder.

    Not by an empty file that takes the name first: a killed process would leave it.
    """
    try:
        import fcntl  # noqa: PLC0415  # of POSIX alone
    except ImportError:
        source.rename(target)  # which Windows refuses where the name is taken
        return
    folder = os.open(target.absolute().parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        source.replace(target)
    finally:
        os.close(folder)  # which unlocks it


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
