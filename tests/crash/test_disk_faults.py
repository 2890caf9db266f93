"""The disk is full, or may not be written: a clear error, a stop, nothing lost (G2, G19).

A world that could not write has stopped: it answers nothing more, and says which store failed and
why. What it had answered is there, and once there is space it goes on.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.crash import audit
from tests.crash.process_forker import Told, Zygote
from tests.crash.single_client import config_of

NOBODY = 65534
KB = 1024
CLERK = "tests.crash.single_client:live"
IS_ROOT = os.geteuid() == 0


def mounted(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of 512 KiB."""
    if not (IS_ROOT and mounted("-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path))):
        pytest.skip("mounting a file system takes the right to")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def complaints(store: str, told: list[Told]) -> list[str]:
    found = audit.audit(store, config_of(store).kernel_config(), told)
    return found + [line["what"] for line in told if line["what"] == "answered after the failure"]


def goes_on(zygote: Zygote, store: str, told: list[Told]) -> None:
    """Open the store again; what was told before is still so, and more is."""
    life = zygote.fork(CLERK, store=store, name="after")
    life.wait_for("answer")
    told += life.kill()
    assert complaints(store, told) == []


def failure_of(zygote: Zygote, store: str, **how: object) -> tuple[str, list[Told]]:
    """Let a clerk work until the store fails, and give the message and what was told."""
    told = zygote.fork(CLERK, store=store, name="a", **how).wait()
    (failed,) = [line for line in told if line["what"] == "failed"]
    assert failed["store"] in failed["message"]
    return failed["message"], told


def test_a_full_disk_stops_the_world_and_loses_nothing(zygote, small_disk):
    store = f"sqlite:///{small_disk}/a.db"
    message, told = failure_of(zygote, store, bytes_each=3 * KB)
    assert "the disk is full" in message
    assert "free some space" in message
    assert sum(line["what"] == "answer" for line in told) > 10
    assert complaints(store, told) == []
    assert mounted("-o", "remount,size=8m", str(small_disk))
    goes_on(zygote, store, told)


def test_a_disk_that_has_become_read_only_is_told(zygote, small_disk):
    """As a system makes it after a fault: what was answered can be read, nothing can be opened."""
    store = f"sqlite:///{small_disk}/a.db"
    life = zygote.fork(CLERK, store=store, name="a")
    life.wait_for("answer")
    told = life.kill()
    assert mounted("-o", "remount,ro", str(small_disk))
    message, _ = failure_of(zygote, store)
    assert "read-only" in message
    assert mounted("-o", "remount,rw", str(small_disk))
    assert complaints(store, told) == []
    goes_on(zygote, store, told)


@pytest.mark.slow
def test_a_disk_that_is_full_from_the_start_is_told(zygote, small_disk):
    """With no space, and with ever more of it: until there is enough for a first answer."""
    ballast = small_disk / "ballast"
    outcomes = set()
    for free in range(0, 160 * KB, 8 * KB):
        store = f"sqlite:///{small_disk}/{free}.db"
        remaining = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
        ballast.write_bytes(bytes(remaining - free))
        message, told = failure_of(zygote, store, bytes_each=3 * KB)
        assert "full" in message or "disk" in message
        assert complaints(store, told) == []
        outcomes.add(any(line["what"] == "answer" for line in told))
        ballast.unlink()
        goes_on(zygote, store, told)
        for file in small_disk.iterdir():
            file.unlink()
    assert outcomes == {True, False}


@pytest.mark.slow
def test_a_file_that_may_grow_no_more_stops_the_world(zygote, folder):
    """The same for a limit of the process, at any length: needs no right to mount."""
    for limit in range(64 * KB, 256 * KB, 17 * KB + 1):
        store = f"sqlite:///{folder}/{limit}.db"
        message, told = failure_of(zygote, store, bytes_each=3 * KB, file_bytes_max=limit)
        assert "disk" in message
        assert complaints(store, told) == []
        goes_on(zygote, store, told)


def test_a_full_disk_finds_a_committer_that_does_not_stop(zygote, small_disk):
    """The control: an answer is told although the write failed."""
    store = f"sqlite:///{small_disk}/a.db"
    told = zygote.fork(
        CLERK, store=store, name="a", bytes_each=3 * KB, plant="tell_before_append"
    ).wait()
    assert any(one.startswith(audit.UNTOLD) for one in complaints(store, told))


@pytest.mark.skipif(not IS_ROOT, reason="becomes another user")
def test_a_folder_that_is_closed_meanwhile_loses_nothing(zygote, folder):
    """A file that is open stays open: the world goes on, and what it answers is kept."""
    os.chown(folder, NOBODY, NOBODY)
    store = f"sqlite:///{folder}/a.db"
    life = zygote.fork(CLERK, store=store, name="a", user=NOBODY)
    life.wait_for("answer")
    close(folder)
    before = len(life.told)
    while len(life.told) < before + 10:
        life.wait_for("answer")
    told = life.kill()
    message, _ = failure_of(zygote, store, user=NOBODY)
    assert "permission" in message or "read-only" in message or "cannot be opened" in message
    assert complaints(store, told) == []
    open_again(folder)
    goes_on(zygote, store, told)


def close(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        os.chown(path, 0, 0)
        path.chmod(0o555 if path is folder else 0o444)


def open_again(folder: Path) -> None:
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777)
