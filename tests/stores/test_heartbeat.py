"""A log that a live process writes is opened by no other, unless it is asked to take over."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from threading import Event

import msgspec
import pytest

from placet.schemas.errors import StoreError
from placet.schemas.log.record import LogAppend
from placet.stores.append_rules import InUseError
from placet.stores.sqlite import heartbeat
from placet.stores.sqlite.heartbeat import Heartbeat, Writer
from placet.stores.sqlite.log import SqliteEventLog

WRITER = (
    "import sys; from placet.stores.sqlite.log import SqliteEventLog as S;"
    "from placet.schemas.log.record import LogAppend;"
    "log = S(sys.argv[1]); epoch = log.open(); print(epoch, flush=True);"
    "[log.append(LogAppend(n, n, n + 1, [b'x']), epoch) or print(n, flush=True)"
    " for n, _ in enumerate(sys.stdin)]"
)


class OtherWriter:
    """A process that has a log open, and appends a record for each line that it is sent."""

    def __init__(self, path: Path) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._popen.pid
        assert self._read() == "1\n"

    def append(self) -> str:
        """Append a record, and return its number; empty if the process failed."""
        assert self._popen.stdin is not None
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()
        return self._read()

    def kill(self, *, is_reaped: bool = True) -> None:
        self._popen.kill()
        if is_reaped:
            self._popen.wait()
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> str:
        """Stop the process and return its error output."""
        self._popen.send_signal(signal.SIGCONT)
        _, errors = self._popen.communicate()
        return errors

    def send_signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def _read(self) -> str:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def other(path):
    other = OtherWriter(path)
    yield other
    other.close()


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_log_of_a_live_writer_is_refused_with_the_writer_and_its_start(path, other):
    with pytest.raises(InUseError, match=rf"process {other.pid} at .* since 20\d\d-") as refused:
        SqliteEventLog(path).open()
    assert "--take-over" in str(refused.value)
    assert "`placet log`" in str(refused.value)
    assert other.append() == "0\n", "the writer was not disturbed"


def test_a_killed_writer_delays_no_other_process(path, other, monkeypatch):
    monkeypatch.setattr(Heartbeat, "_is_beating", lambda _: pytest.fail("it waited"))
    other.append()
    other.kill()
    assert Heartbeat(path).path.exists()
    log = SqliteEventLog(path)
    assert log.open() == 2
    log.close()


def test_a_zombie_process_delays_no_other_writer(path, other):
    other.kill(is_reaped=False)
    log = SqliteEventLog(path)
    assert log.open() == 2
    log.close()


def test_a_stopped_writer_is_alive(path, other):
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(InUseError):
        SqliteEventLog(path).open()


def test_a_writer_that_is_taken_over_is_fenced_with_a_reason(path, other):
    other.append()
    log = SqliteEventLog(path)
    log.append(LogAppend(1, 1, 2, [b"mine"]), log.open(take_over=True))
    assert other.append() == ""
    assert "this writer is fenced, it holds epoch 1 and the latest is 2" in other.close()
    writer = Heartbeat(path).read()
    assert writer is not None
    assert writer.pid == os.getpid(), "the fenced writer has not removed the other's heartbeat"
    assert [data for _, data in log.read()] == [b"x", b"mine"]
    log.close()


def test_a_second_handle_of_the_same_process_is_refused_until_the_first_is_closed(path):
    first, second = SqliteEventLog(path), SqliteEventLog(path)
    first.open()
    with pytest.raises(InUseError, match=f"this process \\({os.getpid()} at.* Close the other"):
        second.open()
    first.close()
    assert second.open() == 2
    second.close()
    assert names(path.parent) == {"a.db"}


def test_of_two_that_open_at_once_the_second_is_refused(path, monkeypatch):
    """The first opens the log just after the second has looked for a writer."""
    first, second = SqliteEventLog(path), SqliteEventLog(path)
    read = Heartbeat.read

    def read_too_early(heartbeat: Heartbeat) -> Writer | None:
        writer = read(heartbeat)
        monkeypatch.undo()
        first.open()
        return writer

    monkeypatch.setattr(Heartbeat, "read", read_too_early)
    with pytest.raises(InUseError):
        second.open()
    first.append(LogAppend(0, 0, 1, [b"a"]), 1)
    first.close()


def test_a_log_opened_by_its_link_has_one_heartbeat(path, tmp_path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "b.db"
    log = SqliteEventLog(path)
    log.open()
    link.symlink_to(path)
    with pytest.raises(InUseError):
        SqliteEventLog(link).open()
    assert names(link.parent) == {"b.db"}
    log.close()


def test_a_copy_of_a_log_that_is_written_is_opened(path, tmp_path):
    log = SqliteEventLog(path)
    log.append(LogAppend(0, 0, 1, [b"a"]), log.open())
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("a.db*"):
        shutil.copy(file, tmp_path / "copy")
    copy = SqliteEventLog(tmp_path / "copy" / "a.db")
    assert copy.open() == 2
    copy.close()
    log.close()


def test_a_writer_whose_append_failed_blocks_no_other_writer(path):
    first, second = SqliteEventLog(path), SqliteEventLog(path)
    epoch = first.open()
    with pytest.raises(StoreError):
        first.append(LogAppend(7, 7, 8, [b"misplaced"]), epoch)
    assert second.open() == 2
    second.close()
    first.close()


def test_a_dropped_handle_blocks_no_other_writer(path):
    log = SqliteEventLog(path)
    log.open()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Python 3.13 warns: nobody closed it
        del log
        gc.collect()
    again = SqliteEventLog(path)
    assert again.open() == 2
    again.close()


def test_a_heartbeat_that_cannot_be_written_costs_no_record(path):
    log = SqliteEventLog(path)
    blocked = Heartbeat(path).path
    blocked.mkdir()
    log.append(LogAppend(0, 0, 1, [b"a"]), log.open())
    log.close()
    assert names(path.parent) == {"a.db", blocked.name}


# A process that cannot be asked for: in another container, or on another machine.


@pytest.fixture
def elsewhere(path):
    """The heartbeat of a writer on another machine."""
    log = SqliteEventLog(path)
    log.open()
    own = Heartbeat(path)
    writer = own.read()
    assert writer is not None
    log.close()
    own.path.touch()
    inode = own.path.stat().st_ino
    there = msgspec.structs.replace(writer, host="elsewhere", boot="other", pid=1, inode=inode)
    own.path.write_bytes(msgspec.json.encode(there))
    return own.path


def beat(file: Path, *, seconds_ago: float = 0.0) -> None:
    now = os.stat(file).st_mtime_ns  # noqa: PTH116
    os.utime(file, ns=(now, now - int(seconds_ago * 1e9)))


@pytest.mark.parametrize("behind_s", [0, 60])
def test_a_writer_on_another_machine_that_beats_is_alive(path, elsewhere, behind_s):
    """Also if the clock that gives the file its time is behind."""
    beat(elsewhere, seconds_ago=behind_s)
    ended = Event()

    def beat_again(seconds: float) -> None:
        beat(elsewhere, seconds_ago=-1)

    class Clock(Event):
        def wait(self, timeout: float | None = None) -> bool:
            beat_again(timeout or 0)
            return ended.is_set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heartbeat, "Event", Clock)
        with pytest.raises(InUseError, match="process 1 at elsewhere"):
            SqliteEventLog(path).open()


def test_a_writer_on_another_machine_that_is_silent_is_dead(path, elsewhere, monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE_SECONDS", 0.3)
    log = SqliteEventLog(path)
    assert log.open() == 2
    log.close()


def test_a_writer_on_another_machine_with_an_old_heartbeat_delays_no_other(
    path, elsewhere, monkeypatch
):
    monkeypatch.setattr(heartbeat, "Event", lambda: pytest.fail("it waited"))
    beat(elsewhere, seconds_ago=600)
    writer = Heartbeat(path).read()
    assert writer is not None
    assert not Heartbeat(path).is_alive(writer)


@pytest.mark.parametrize(
    ("change", "is_alive"),
    [
        ({}, True),
        ({"started": "1"}, False),
        ({"boot": "an earlier one"}, False),
        ({"host": "renamed"}, True),
        ({"namespace": "pid:[1]"}, None),
        ({"boot": "another", "host": "another"}, None),
        ({"started": ""}, None),
        ({"boot": ""}, None),
    ],
    ids=str,
)
def test_a_process_on_this_boot_is_looked_up(path, change, is_alive):
    log = SqliteEventLog(path)
    log.open()
    writer = Heartbeat(path).read()
    assert writer is not None
    assert msgspec.structs.replace(writer, **change).is_alive() is is_alive
    log.close()


def test_a_heartbeat_that_cannot_be_read_is_judged_by_its_age(path):
    file = Heartbeat(path).path
    file.write_bytes(b'{"pid": 1')
    assert isinstance(Heartbeat(path).read(), Writer)
    beat(file, seconds_ago=600)
    log = SqliteEventLog(path)
    assert log.open() == 1
    log.close()


def test_one_thread_renews_the_heartbeats_of_all_open_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)
    logs = [SqliteEventLog(tmp_path / f"{n}.db") for n in range(3)]
    for log in logs:
        log.open()
    files = [Heartbeat(log.file).path for log in logs]
    for file in files:
        beat(file, seconds_ago=60)
    before = [file.stat().st_mtime for file in files]
    for _ in range(1_000):
        if all(file.stat().st_mtime > then for file, then in zip(files, before, strict=True)):
            break
        Event().wait(0.01)
    else:
        pytest.fail("a heartbeat was not renewed")
    for log in logs:
        log.close()
