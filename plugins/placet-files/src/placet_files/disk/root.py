"""Access to one folder and nothing outside it: every step starts from an open descriptor.

A path is never passed to the system as a whole. No step follows a link, so `..`, a symlink, or a
folder swapped during the walk cannot lead outside. A write is atomic: the file is created under a
temporary name beside its target, made durable, and then renamed.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from placet.schemas.effect import OutcomeUnknown
from placet.schemas.errors import PlacetError
from placet_files import FileRefused
from placet_files.paths import TEMPORARY_PREFIX, path_fault

_CHUNK_BYTES: Final = 1 << 16
_CODES: Final = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "already_exists",
    errno.ELOOP: "symlink_refused",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_regular_file",
    errno.ENXIO: "not_a_regular_file",
}


class RootUnusable(PlacetError):  # noqa: N818  # the name states the fault
    """The folder cannot be a root, or this system lacks the calls that confine access to it."""


class FileRoot:
    """Reads and writes files below one folder.

    Args:
        path: An existing folder; this path itself may be a link.

    Raises:
        RootUnusable: The path is no folder, or the system cannot open files relative to a
            descriptor.
    """

    def __init__(self, path: str) -> None:
        _require_descriptors()
        self._path = Path(path).absolute()
        try:
            self._identity = _identity(self._path.stat())
            os.close(self._open())
        except OSError as error:
            raise RootUnusable(f"{path!r} cannot be the root of files: {error}") from error
        self._lock = Lock()
        self._latest: dict[str, object] = {}

    def read(self, path: str, bytes_max: int) -> bytes:
        """Read a regular file without other hard links.

        Raises:
            FileRefused: The path is no such file, does not exist, or is larger.
        """
        with _refusing(path), self._folder_of(path) as (folder, name):
            # Without O_NONBLOCK the open of a FIFO would wait for a writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=folder)
            try:
                _require_plain(os.fstat(file), path)
                return _read_all(file, path, bytes_max)
            finally:
                os.close(file)

    def create(self, path: str, data: bytes, *, overwrites: bool, key: str) -> None:
        """Write a file durably, and the folders that lead to it.

        Args:
            path: Path below the root.
            data: Content.
            overwrites: Replace an existing file; otherwise it is an error.
            key: Key of the effect; files left by a crash are recognized by it.

        Raises:
            FileRefused: Nothing was written.
            OutcomeUnknown: The file was written, perhaps not durably or not in the intended folder.
        """
        turn = object()
        with self._lock:
            self._latest[path] = turn
        try:
            with _refusing(path), self._folder_of(path, make=True) as (folder, name):
                temporary = f"{_temporaries_of(key)}{secrets.token_hex(4)}"
                try:
                    _write(folder, temporary, data)
                    self._put(path, folder, (temporary, name), turn, overwrites=overwrites)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder)
                with _unknown_if_it_fails(path):
                    self._require_reached(path, folder, name, overwrites=overwrites)
                    os.fsync(folder)
        finally:
            with self._lock:
                if self._latest.get(path) is turn:
                    del self._latest[path]

    def sweep(self, path: str, key: str) -> None:
        """Remove the temporary files of an effect's interrupted attempts."""
        prefix = _temporaries_of(key)
        with suppress(FileNotFoundError), self._folder_of(path) as (folder, _):
            for name in os.listdir(folder):  # noqa: PTH208  # of a descriptor, not of a path
                if name.startswith(prefix):
                    os.unlink(name, dir_fd=folder)

    def sha256_of(self, path: str, bytes_max: int) -> str | None:
        """Return the hash of the file; None if it does not exist.

        Raises:
            FileRefused: The path is no regular file without other hard links, or it is larger.
        """
        try:
            return hashlib.sha256(self.read(path, bytes_max)).hexdigest()
        except FileRefused as refused:
            if refused.code == "not_found":
                return None
            raise

    def sync(self, path: str) -> None:
        """Make an existing file as durable as `create` would.

        Raises:
            FileRefused: The file does not exist, or the disk fails.
        """
        with _refusing(path), self._folder_of(path) as (folder, name):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)

    # the way there

    def _open(self) -> int:
        root = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if _identity(os.fstat(root)) == self._identity:
            return root
        os.close(root)
        raise FileRefused("io_error", "the root is another folder than the world was opened with")

    @contextmanager
    def _folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that contains the file; yield it with the file's name."""
        fault = path_fault(path)
        if fault is not None:  # the domain has judged it; here it is what keeps us inside
            raise FileRefused(*fault)
        *steps, name = path.split("/")
        folder = self._open()
        try:
            for step in steps:
                deeper = _step(folder, step, make=make)
                os.close(folder)
                folder = deeper
            yield folder, name
        finally:
            os.close(folder)

    # the write

    def _put(
        self, path: str, folder: int, names: tuple[str, str], turn: object, *, overwrites: bool
    ) -> None:
        """Move the finished file to its target, unless a newer attempt has started.

        An attempt that was abandoned because the disk hung must not put old content over new.
        """
        temporary, name = names
        with self._lock:
            if self._latest.get(path) is not turn:
                raise FileRefused("io_error", f"{path!r} was written by a later attempt")
            if not overwrites:
                os.link(
                    temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False
                )
                return
            with suppress(FileNotFoundError):
                _require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _require_reached(self, path: str, folder: int, name: str, *, overwrites: bool) -> None:
        """Check that the path still leads to the folder that holds the file."""
        try:
            with _refusing(path), self._folder_of(path) as (reached, _):
                if _identity(os.fstat(reached)) == _identity(os.fstat(folder)):
                    return
        except FileRefused:
            pass
        if overwrites:
            raise OutcomeUnknown(f"a folder of {path!r} was moved while it was written")
        os.unlink(name, dir_fd=folder)
        raise FileRefused("symlink_refused", f"a folder of {path!r} was moved while it was written")


def _require_descriptors() -> None:
    needed = {os.open, os.mkdir, os.stat, os.link, os.rename, os.unlink}
    if not hasattr(os, "O_NOFOLLOW") or not needed <= os.supports_dir_fd:
        raise RootUnusable(
            "this system cannot open files relative to a folder without following links, so none "
            "are written here; leave out the root, or run the world on a POSIX system"
        )


def _step(folder: int, name: str, *, make: bool) -> int:
    """Open a folder inside a folder; with `make`, create it durably if it is missing."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
            os.fsync(folder)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError as error:
        # Linux says so of a link too, where a folder is asked for.
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def _write(folder: int, name: str, data: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o644, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)


def _read_all(file: int, path: str, bytes_max: int) -> bytes:
    """Read to the end, up to the limit: a file may grow while it is read."""
    parts: list[bytes] = []
    left = bytes_max + 1
    while left > 0:
        part = os.read(file, min(_CHUNK_BYTES, left))
        if not part:
            return b"".join(parts)
        parts.append(part)
        left -= len(part)
    raise FileRefused("file_too_large", f"{path!r} has more than {bytes_max} bytes")


def _require_plain(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise FileRefused("symlink_refused", f"{path!r} is a link")
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused("not_a_regular_file", f"{path!r} is no regular file")
    if status.st_nlink > 1:
        raise FileRefused("hardlink_refused", f"{path!r} has another name, perhaps outside")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _temporaries_of(key: str) -> str:
    """Return the prefix of the temporary names of an effect's files."""
    return f"{TEMPORARY_PREFIX}{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}-"


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Translate an operating system error into a refusal."""
    try:
        yield
    except OSError as error:
        code = _CODES.get(error.errno or 0, "io_error")
        reason = f"{errno.errorcode.get(error.errno or 0, '?')}, {error.strerror}"
        raise FileRefused(code, f"{path!r}: {reason}") from error


@contextmanager
def _unknown_if_it_fails(path: str) -> Iterator[None]:
    """Report a failure after the rename as unknown: the file may or may not survive a crash."""
    try:
        yield
    except OSError as error:
        raise OutcomeUnknown(f"{path!r} is written, and perhaps not durably: {error}") from error
