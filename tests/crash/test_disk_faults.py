"""A full or read-only disk stops the world with a clear error and loses nothing (G2, G19).

A world that could not write has stopped: it answers nothing more, and says which store failed and
why. What it had answered is there, and once there is space it goes on.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.crash import audit
from tests.crash.process_forker import Message, ProcessForker
from tests.crash.single_client import config_of

NOBODY = 65534
KB = 1024
CLIENT = "tests.crash.single_client:run"
READER = "tests.crash.reading_client:run"
IS_ROOT = os.geteuid() == 0


def mounted(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A separate file system of 512 KiB."""
    if not (IS_ROOT and mounted("-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path))):
        pytest.skip("mounting a file system takes the right to")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def complaints(store: str, messages: list[Message]) -> list[str]:
    found = audit.audit(store, config_of(store).kernel_config(), messages)
    return found + [
        line["what"] for line in messages if line["what"] == "answered after the failure"
    ]


def goes_on(forker: ProcessForker, store: str, messages: list[Message]) -> None:
    """Open the store again; earlier answers still hold, and new ones follow."""
    child = forker.fork(CLIENT, store=store, name="after")
    child.wait_for("answer")
    messages += child.kill()
    assert complaints(store, messages) == []


def failure_of(forker: ProcessForker, store: str, **how: object) -> tuple[str, list[Message]]:
    """Run a client until the store fails, and return its message and all messages."""
    messages = forker.fork(CLIENT, store=store, name="a", **how).wait()
    (failed,) = [line for line in messages if line["what"] == "failed"]
    assert failed["store"] in failed["message"]
    return failed["message"], messages


def test_a_full_disk_stops_the_world_and_loses_nothing(forker, small_disk):
    store = f"sqlite:///{small_disk}/a.db"
    message, messages = failure_of(forker, store, bytes_each=3 * KB)
    assert "the disk is full" in message
    assert "free some space" in message
    assert sum(line["what"] == "answer" for line in messages) > 10
    assert complaints(store, messages) == []
    assert mounted("-o", "remount,size=8m", str(small_disk))
    goes_on(forker, store, messages)


def test_a_read_only_disk_is_reported(forker, small_disk):
    """A system remounts a disk read-only after a fault: the log is readable, but no world opens."""
    store = f"sqlite:///{small_disk}/a.db"
    child = forker.fork(CLIENT, store=store, name="a")
    child.wait_for("answer")
    messages = child.kill()
    assert mounted("-o", "remount,ro", str(small_disk))
    message, _ = failure_of(forker, store)
    assert "read-only" in message
    assert mounted("-o", "remount,rw", str(small_disk))
    assert complaints(store, messages) == []
    goes_on(forker, store, messages)


@pytest.mark.slow
def test_a_disk_full_at_the_start_is_reported(forker, small_disk):
    """With no space, and with ever more of it: until there is enough for a first answer."""
    ballast = small_disk / "ballast"
    outcomes = set()
    for free in range(0, 160 * KB, 24 * KB):
        store = f"sqlite:///{small_disk}/{free}.db"
        remaining = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
        ballast.write_bytes(bytes(remaining - free))
        message, messages = failure_of(forker, store, bytes_each=3 * KB)
        assert "full" in message or "disk" in message
        assert complaints(store, messages) == []
        outcomes.add(any(line["what"] == "answer" for line in messages))
        ballast.unlink()
        goes_on(forker, store, messages)
        for file in small_disk.iterdir():
            file.unlink()
    assert outcomes == {True, False}


@pytest.mark.slow
def test_a_file_size_limit_stops_the_world(forker, folder):
    """The same for a limit of the process, at any length: needs no right to mount."""
    for limit in range(64 * KB, 256 * KB, 51 * KB + 1):
        store = f"sqlite:///{folder}/{limit}.db"
        message, messages = failure_of(forker, store, bytes_each=3 * KB, file_bytes_max=limit)
        assert "disk" in message
        assert complaints(store, messages) == []
        goes_on(forker, store, messages)


@pytest.mark.slow
def test_a_full_disk_finds_a_committer_that_does_not_stop(forker, small_disk):
    """The control: an answer is sent although the write failed."""
    store = f"sqlite:///{small_disk}/a.db"
    messages = forker.fork(
        CLIENT, store=store, name="a", bytes_each=3 * KB, plant="tell_before_append"
    ).wait()
    assert any(one.startswith(audit.UNSENT) for one in complaints(store, messages))


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="becomes another user")
def test_a_folder_made_inaccessible_meanwhile_loses_nothing(forker, folder):
    """An open file stays open: the world continues, and its answers are kept."""
    os.chown(folder, NOBODY, NOBODY)
    store = f"sqlite:///{folder}/a.db"
    child = forker.fork(CLIENT, store=store, name="a", user=NOBODY)
    child.wait_for("answer")
    close(folder)
    before = len(child.messages)
    while len(child.messages) < before + 10:
        child.wait_for("answer")
    messages = child.kill()
    message, _ = failure_of(forker, store, user=NOBODY)
    assert "permission" in message or "read-only" in message or "cannot be opened" in message
    assert complaints(store, messages) == []
    open_again(folder)
    goes_on(forker, store, messages)


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="becomes another user")
def test_a_user_who_may_only_read_follows_a_log_beside_its_writer(forker, folder):
    """The file and the folder belong to another user, who writes."""
    folder.chmod(0o755)
    store = f"sqlite:///{folder}/a.db"
    writer = forker.fork(CLIENT, store=store, name="a")
    writer.wait_for("answer")
    for path in folder.iterdir():
        path.chmod(0o644)  # its owner shares the log
    before = sorted(path.name for path in folder.iterdir())
    reader = forker.fork(READER, store=store, user=NOBODY)
    opened = reader.wait_for("opened")
    seqs = [reader.wait_for("event")["seq"] for _ in range(10)]
    assert seqs == list(range(opened["seq"] + 1, opened["seq"] + 11))
    assert sorted(path.name for path in folder.iterdir()) == before
    reader.kill()
    assert complaints(store, writer.kill()) == []


def close(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        os.chown(path, 0, 0)
        path.chmod(0o555 if path is folder else 0o444)


def open_again(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777)
