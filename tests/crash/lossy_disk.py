"""A disk that loses power, and every state that it may have afterwards.

The rules are the weak ones, so that no file system is weaker. What was written to a file and not
synced may be gone, cut short, or zeros of the right length. What a folder was told and not synced
(a new name, a new name for an old file, a name less) may have happened or not, each by itself and
whatever came after it; a rename alone is one thing that happens or does not. A folder that was made
is a name in the folder above it.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

Names = dict[str, int | None]
"""What one entry in a folder's journal says: name -> file, or None where the name is gone."""


class _FolderChange(NamedTuple):
    """One change of a folder, durable from the `synced` of the disk's history on."""

    folder: Path
    names: Names


class LossyDisk:
    """`FileOperations` in memory, with the states that a loss of power would leave.

    Attributes:
        history: The operations so far that change something, in words.
    """

    def __init__(self) -> None:
        self.history: list[str] = []
        self._contents: list[bytes] = []
        self._is_synced: list[bool] = []
        self._durable: dict[Path, Names] = {}
        self._pending: list[_FolderChange] = []

    # what a program asks

    def make_dir(self, folder: Path) -> None:
        if folder.name not in self._names(folder.parent):
            self._note(f"make_dir {folder.name}", folder.parent, {folder.name: self._new(b"")})
            self._is_synced[-1] = True

    def write_new(self, path: Path, data: bytes) -> None:
        if path.name in self._names(path.parent):
            raise FileExistsError(path)
        self._note(f"write_new {path.name}", path.parent, {path.name: self._new(data)})

    def fsync(self, path: Path) -> None:
        self._is_synced[self._file(path)] = True
        self.history.append(f"fsync {path.name}")

    def replace(self, source: Path, target: Path) -> None:
        names: Names = {target.name: self._file(source), source.name: None}
        self._note(f"replace {target.name}", source.parent, names)

    def rename_new(self, source: Path, target: Path) -> None:
        if target.name in self._names(target.parent):
            raise FileExistsError(target)
        self.replace(source, target)

    def sync_dir(self, folder: Path) -> None:
        for entry in self._pending:
            if entry.folder == folder:
                self._durable.setdefault(folder, {}).update(entry.names)
        self._pending = [entry for entry in self._pending if entry.folder != folder]
        self.history.append(f"sync_dir {folder.name}")

    def remove(self, path: Path) -> None:
        self._file(path)
        self._note(f"remove {path.name}", path.parent, {path.name: None})

    def list(self, folder: Path) -> list[str]:
        return [name for name, file in self._names(folder).items() if file is not None]

    def read(self, path: Path) -> bytes:
        return self._contents[self._file(path)]

    # what is left of it

    def after_power_loss(self) -> Iterator["Remains"]:
        """Return every state that a power loss at this moment may leave."""
        for kept in product((False, True), repeat=len(self._pending)):
            folders = {folder: dict(names) for folder, names in self._durable.items()}
            for entry, is_kept in zip(self._pending, kept, strict=True):
                if is_kept:
                    folders.setdefault(entry.folder, {}).update(entry.names)
            yield from self._with_contents(folders)

    def _with_contents(self, folders: dict[Path, Names]) -> Iterator["Remains"]:
        places = [
            (folder / name, file)
            for folder, names in folders.items()
            for name, file in names.items()
            if file is not None and self._is_there(folder, folders)
        ]
        for contents in product(*(self._left_of(file) for _, file in places)):
            paths = (path for path, _ in places)
            yield Remains(dict(zip(paths, contents, strict=True)))

    def _is_there(self, folder: Path, folders: dict[Path, Names]) -> bool:
        """A folder exists if its name does, or if it is the root."""
        above = folders.get(folder.parent)
        known = {entry.folder for entry in self._pending} | self._durable.keys()
        return folder.parent not in known or bool(above and above.get(folder.name) is not None)

    def _left_of(self, file: int) -> set[bytes]:
        whole = self._contents[file]
        if self._is_synced[file]:
            return {whole}
        return {whole, b"", whole[: len(whole) // 2], bytes(len(whole))}

    # what is there now

    def _names(self, folder: Path) -> Names:
        names = dict(self._durable.get(folder, {}))
        for entry in self._pending:
            if entry.folder == folder:
                names.update(entry.names)
        return {name: file for name, file in names.items() if file is not None}

    def _file(self, path: Path) -> int:
        file = self._names(path.parent).get(path.name)
        if file is None:
            raise FileNotFoundError(path)
        return file

    def _new(self, data: bytes) -> int:
        self._contents.append(data)
        self._is_synced.append(False)
        return len(self._contents) - 1

    def _note(self, what: str, folder: Path, names: Names) -> None:
        self._pending.append(_FolderChange(folder, names))
        self.history.append(what)


class Remains(LossyDisk):
    """The content of a disk after the power is back."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        super().__init__()
        for path, data in files.items():
            self._durable.setdefault(path.parent, {})[path.name] = self._new(data)
            self._is_synced[-1] = True
