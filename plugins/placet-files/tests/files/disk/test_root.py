"""No file outside the root is read or written, for any content of it; no file is left over."""

import errno
import os
import resource
import stat
import sys
import threading

import pytest
from tests.files.disk.file_folders import SECRET, Folders, open_descriptors
from tests.files.test_paths import BAD_PATHS

from placet.schemas.effect import OutcomeUnknown
from placet_files import FileRefused
from placet_files.disk import root as file_root
from placet_files.disk.root import FileRoot, RootUnusable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts open files by /proc")

KEY = "world/7/0"
BYTES_MAX = 1 << 20


@pytest.fixture
def folders(tmp_path):
    """Yield the folders; afterwards check for files written outside, left over or left open."""
    folders, before = Folders(tmp_path), open_descriptors()
    yield folders
    assert open_descriptors() == before
    folders.assert_nothing_escaped()


def create(root, path, data=b"new", *, overwrites=False, key=KEY):
    root.create(path, data, overwrites=overwrites, key=key)


def code_of(act, *given, **named):
    with pytest.raises(FileRefused) as raised:
        act(*given, **named)
    return raised.value.code


def test_a_file_is_written_with_its_parent_folders(folders):
    create(folders.file_root(), "a/b/c.txt", b"hello")
    assert (folders.root / "a/b/c.txt").read_bytes() == b"hello"
    assert folders.file_root().read("a/b/c.txt", 5) == b"hello"


def test_an_existing_file_is_replaced_only_on_request(folders):
    root = folders.file_root()
    create(root, "a", b"old")
    assert code_of(create, root, "a") == "already_exists"
    assert root.read("a", BYTES_MAX) == b"old"
    create(root, "a", b"new", overwrites=True)
    assert root.read("a", BYTES_MAX) == b"new"


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_bad_path_is_refused(folders, path):
    root = folders.file_root()
    assert code_of(create, root, path) == BAD_PATHS[path]
    assert code_of(root.read, path, BYTES_MAX) == BAD_PATHS[path]
    assert list(folders.root.iterdir()) == []


# what may stand in the way


def test_a_linked_folder_is_not_followed(folders):
    (folders.root / "d").symlink_to(folders.outside)
    root = folders.file_root()
    assert code_of(create, root, "d/evil") == "symlink_refused"
    assert code_of(create, root, "d/secret", overwrites=True) == "symlink_refused"
    assert code_of(create, root, "d/deeper/evil") == "symlink_refused"
    assert code_of(root.read, "d/secret", BYTES_MAX) == "symlink_refused"


def test_a_link_is_neither_read_nor_replaced(folders):
    (folders.root / "link").symlink_to(folders.outside / "secret")
    root = folders.file_root()
    assert code_of(root.read, "link", BYTES_MAX) == "symlink_refused"
    assert code_of(create, root, "link", overwrites=True) == "symlink_refused"
    assert code_of(create, root, "link") == "already_exists"
    assert (folders.root / "link").is_symlink()


def test_a_dangling_link_creates_nothing_outside(folders):
    (folders.root / "link").symlink_to(folders.outside / "evil")
    root = folders.file_root()
    assert code_of(create, root, "link", overwrites=True) == "symlink_refused"
    assert code_of(create, root, "link") == "already_exists"


def test_a_hard_linked_file_is_neither_read_nor_replaced(folders):
    (folders.root / "hard").hardlink_to(folders.outside / "secret")
    root = folders.file_root()
    assert code_of(root.read, "hard", BYTES_MAX) == "hardlink_refused"
    assert code_of(create, root, "hard", overwrites=True) == "hardlink_refused"
    (folders.root / "hard").unlink()


@pytest.mark.timeout(10)
def test_a_fifo_does_not_block(folders):
    os.mkfifo(folders.root / "fifo")
    root = folders.file_root()
    assert code_of(root.read, "fifo", BYTES_MAX) == "not_a_regular_file"
    assert code_of(create, root, "fifo", overwrites=True) == "not_a_regular_file"
    assert stat.S_ISFIFO((folders.root / "fifo").stat().st_mode)


def test_a_folder_is_not_read_as_a_file_nor_a_file_as_a_folder(folders):
    root = folders.file_root()
    create(root, "d/file")
    assert code_of(root.read, "d", BYTES_MAX) == "not_a_regular_file"
    assert code_of(create, root, "d", overwrites=True) == "not_a_regular_file"
    assert code_of(create, root, "d") == "already_exists"
    assert code_of(create, root, "d/file/x") == "not_a_directory"
    assert code_of(root.read, "d/file/x", BYTES_MAX) == "not_a_directory"


def test_a_missing_file_is_not_found(folders):
    root = folders.file_root()
    assert code_of(root.read, "nope", BYTES_MAX) == "not_found"
    assert code_of(root.read, "no/where", BYTES_MAX) == "not_found"
    assert root.sha256_of("no/where", BYTES_MAX) is None


def test_a_file_is_read_up_to_a_bound(folders):
    root = folders.file_root()
    create(root, "a", b"x" * 11)
    assert code_of(root.read, "a", 10) == "file_too_large"
    assert code_of(root.sha256_of, "a", 10) == "file_too_large"
    assert len(root.read("a", 11)) == 11


def test_a_file_growing_during_the_read_is_read_up_to_its_bound(folders, monkeypatch):
    root = folders.file_root()
    create(root, "a", b"x" * 10)
    read = os.read

    def growing(file, count):
        with (folders.root / "a").open("ab") as more:
            more.write(b"y" * 1_000)
        return read(file, min(count, 10))

    monkeypatch.setattr(os, "read", growing)
    assert code_of(root.read, "a", 100) == "file_too_large"


# what changes under our hands


@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize("is_moved_outside", [False, True])
def test_a_folder_swapped_for_a_link_during_the_write_is_not_followed(
    folders, monkeypatch, overwrites, is_moved_outside
):
    root = folders.file_root()
    create(root, "d/first", b"old")
    away = folders.root.parent / "away" if is_moved_outside else folders.root / "away"
    write = file_root._write

    def swapping(folder, name, data):
        write(folder, name, data)
        (folders.root / "d").rename(away)
        (folders.root / "d").symlink_to(folders.outside)

    monkeypatch.setattr(file_root, "_write", swapping)
    if overwrites:
        with pytest.raises(OutcomeUnknown, match="was moved while it was written"):
            create(root, "d/first", overwrites=True)
    else:
        assert code_of(create, root, "d/evil") == "symlink_refused"
    assert [path.name for path in away.iterdir()] == ["first"]


def test_a_link_created_at_the_path_during_the_write_is_replaced_and_not_followed(
    folders, monkeypatch
):
    root = folders.file_root()
    require = file_root._require_plain

    def too_late(found, path):
        require(found, path)
        (folders.root / "a").unlink()
        (folders.root / "a").symlink_to(folders.outside / "secret")

    create(root, "a", b"old")
    monkeypatch.setattr(file_root, "_require_plain", too_late)
    create(root, "a", b"new", overwrites=True)
    assert not (folders.root / "a").is_symlink()
    assert (folders.root / "a").read_bytes() == b"new"


def test_a_folder_that_replaces_the_root_is_not_used(folders):
    root = folders.file_root()
    folders.root.rename(folders.root.parent / "old")
    folders.root.symlink_to(folders.outside)
    assert code_of(create, root, "evil") == "io_error"
    assert code_of(root.read, "secret", BYTES_MAX) == "io_error"
    folders.root.unlink()
    assert code_of(create, root, "evil") == "not_found"
    (folders.root.parent / "old").rename(folders.root)


def test_the_root_may_be_named_by_a_link(folders):
    link = folders.root.parent / "link"
    link.symlink_to(folders.root)
    create(FileRoot(str(link)), "a")
    assert (folders.root / "a").read_bytes() == b"new"


def test_a_late_attempt_does_not_overwrite_newer_content(folders, monkeypatch):
    """A hanging attempt was abandoned; content written since then stays."""
    root = folders.file_root()
    hangs, goes_on = threading.Event(), threading.Event()
    write = file_root._write

    def hanging(folder, name, data):
        write(folder, name, data)
        if data == b"old":
            hangs.set()
            assert goes_on.wait(60)

    monkeypatch.setattr(file_root, "_write", hanging)
    codes = []
    late = threading.Thread(
        target=lambda: codes.append(code_of(create, root, "a", b"old", overwrites=True))
    )
    late.start()
    assert hangs.wait(60)
    create(root, "a", b"new", overwrites=True, key="world/8/0")
    goes_on.set()
    late.join(60)
    assert codes == ["io_error"]
    assert root.read("a", BYTES_MAX) == b"new"
    assert root._latest == {}


# what a disk may do


def test_a_file_larger_than_the_system_allows_is_a_clear_failure(folders):
    """A limit on the size of files stands for a disk that is full: the write itself fails."""
    root = folders.file_root()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(FileRefused, match="io_error: 'd/a': EFBIG, File too large"):
            create(root, "d/a", b"x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((folders.root / "d").iterdir()) == []
    create(root, "d/a", b"x" * 2_000)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_disk_failure_before_the_rename_leaves_nothing(folders, monkeypatch, number, call):
    root = folders.file_root()

    def failing(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(FileRefused, match=f"io_error: 'a': {errno.errorcode[number]}, "):
            create(root, "a")
    assert list(folders.root.iterdir()) == []
    create(root, "a")


def test_a_disk_failure_after_the_rename_leaves_durability_unknown(folders, monkeypatch):
    root = folders.file_root()
    fsync = os.fsync

    def failing(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(file)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OutcomeUnknown, match="perhaps not durably"):
        create(root, "a")
    assert code_of(root.sync, "a") == "io_error"


def test_a_file_is_synced_before_the_rename_and_its_folder_after(folders, monkeypatch):
    root, calls = folders.file_root(), []

    def noted(name, call):
        def noting(*given, **named):
            is_file = name == "fsync" and stat.S_ISREG(os.fstat(given[0]).st_mode)
            calls.append(f"{name} file" if is_file else name)
            return call(*given, **named)

        return noting

    for name in ("fsync", "link", "rename", "mkdir"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    create(root, "d/a")
    assert calls == ["mkdir", "fsync", "fsync file", "link", "fsync"]
    calls.clear()
    create(root, "a", overwrites=True)
    assert calls == ["fsync file", "rename", "fsync"]


def test_only_temporary_files_of_a_crash_are_removed(folders):
    root = folders.file_root()
    create(root, "d/a")
    mine, others = file_root._temporaries_of(KEY), file_root._temporaries_of("world/8/0")
    for name in (f"{mine}0001", f"{mine}0002", f"{others}0001"):
        (folders.root / "d" / name).write_bytes(b"half")
    root.sweep("d/a", KEY)
    assert sorted(path.name for path in (folders.root / "d").iterdir()) == [f"{others}0001", "a"]
    (folders.root / "d" / f"{others}0001").unlink()
    root.sweep("never/made", KEY)


# roots


@pytest.mark.parametrize("name", ["missing", "file"])
def test_a_root_must_be_a_folder(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RootUnusable, match="cannot be the root of files"):
        FileRoot(str(tmp_path / name))


def test_a_system_without_descriptor_relative_files_has_no_root(tmp_path, monkeypatch):
    """Windows has no files relative to a descriptor."""
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(RootUnusable, match="leave out the root"):
        FileRoot(str(tmp_path))
    monkeypatch.undo()
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(RootUnusable):
        FileRoot(str(tmp_path))


def test_the_secret_outside_the_root_is_readable_by_this_process(folders):
    assert (folders.outside / "secret").read_text() == SECRET
