"""A root, a folder outside of it that must stay untouched, and checks for leftovers."""

from contextlib import suppress
from pathlib import Path

from placet_files import Files
from placet_files.disk.root import FileRoot

SECRET = "s3cret"


class Folders:
    """Two folders side by side: `root`, and `outside` with a secret in it."""

    def __init__(self, base: Path) -> None:
        self.root, self.outside = base / "root", base / "outside"
        for folder in (self.root, self.outside):
            folder.mkdir()
        (self.outside / "secret").write_text(SECRET)

    def file_root(self) -> FileRoot:
        return FileRoot(str(self.root))

    def domain(self, **settings) -> Files:
        return Files(self.root, **settings)

    def assert_nothing_escaped(self) -> None:
        """Check that the folder outside is unchanged and that no temporary file is left."""
        assert [path.name for path in self.outside.iterdir()] == ["secret"]
        assert (self.outside / "secret").read_text() == SECRET
        assert self.leftovers() == []

    def leftovers(self) -> list[str]:
        return [path.name for path in self.root.rglob(".placet-*")]


def open_descriptors() -> set[str]:
    """Return the files that this process has open."""
    found = set()
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the one by which we look is gone
            found.add(f"{descriptor.name} {descriptor.readlink()}")
    return found
