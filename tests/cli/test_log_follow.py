"""`placet log --follow`: new records of a growing log, until it is stopped."""

import json
import signal

import pytest

from placet.domains.world import World
from placet.kernel import Kernel
from placet.schemas.log.record import LogAppend
from placet.stores.url import open_event_log
from tests.cli.command_line import Process, move


class Writer:
    """A world that writes records while its log is followed."""

    def __init__(self, url: str) -> None:
        self.records: list[bytes] = []
        self.kernel = Kernel(World(), sink=self.records.append)
        self._log = open_event_log(url)
        self._epoch = self._log.open()
        self._written = (0, 0)
        self.write()

    def write(self) -> None:
        """Append the records decided since the last call."""
        count, seq = self._written
        append = LogAppend(count, seq, self.kernel.seq, tuple(self.records[count:]))
        self._log.append(append, self._epoch)
        self._written = (len(self.records), self.kernel.seq)

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def step(self) -> None:
        """Decide one tick."""
        self.kernel.tick(self.kernel.seq)
        self.write()


@pytest.fixture
def writer(tmp_path):
    writer = Writer(f"sqlite:///{tmp_path}/live.db")
    yield writer
    writer.close()


def followed(writer, folder, *arguments):
    return Process("log", "live.db", "--follow", *arguments, folder=folder)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_new_records_are_shown_until_a_signal(writer, tmp_path, number, code):
    with followed(writer, tmp_path, "--json") as command:
        assert json.loads(command.out.readline())["type"] == "header"
        assert json.loads(command.out.readline())["type"] == "configured"
        for n in range(3):
            writer.step()
            event = json.loads(command.out.readline())
            assert (event["type"], event["seq"]) == ("tick", n + 2)
        command.send_signal(number)
        outcome = command.end()
    assert (outcome.code, outcome.out, outcome.err) == (code, "", "")


def test_since_starts_after_a_seq(writer, tmp_path):
    writer.step()
    with followed(writer, tmp_path, "--since", "2") as command:
        head = command.out.readline()
        writer.step()
        assert head.split() == [b"record", b"seq", b"time", b"what"]
        assert command.out.readline().split()[1] == b"3"
        command.send_signal(signal.SIGINT)
        assert command.wait() == 130


def test_follow_ends_when_its_reader_closes(writer, tmp_path):
    with followed(writer, tmp_path) as command:
        command.out.readline()
        command.out.close()
        assert command.wait() in {0, 1}
        assert command.err.read() == b""


@pytest.mark.slow
def test_follow_takes_no_fence_and_polls_seldom(writer, tmp_path):
    with followed(writer, tmp_path, "--since", "1") as command:
        command.out.readline()
        for _ in range(20):
            writer.step()  # would raise if the writer were fenced
        for n in range(20):
            assert command.out.readline().split()[1] == str(n + 2).encode()
        command.send_signal(signal.SIGTERM)
        assert command.wait() == 143


def test_follow_with_to_or_two_starts_is_a_usage_error(placet, writer):
    outcome = placet("log", "live.db", "--follow", "--to", "3")
    assert (outcome.code, "--follow has no end" in outcome.err) == (2, True)
    outcome = placet("log", "live.db", "--from", "1", "--since", "3")
    assert (outcome.code, "give --from or --since" in outcome.err) == (2, True)
    assert placet("log", "live.db", "--since", "0", "--json").json()[0]["type"] == "configured"
    assert placet("log", "nowhere.db", "--follow").code == 1


@pytest.fixture
def abandoned(monkeypatch):
    """The reader of the output closes it after one poll."""
    monkeypatch.setattr("placet.cli.commands.log._is_abandoned", lambda news: True)


@pytest.mark.usefixtures("abandoned")
def test_existing_records_are_shown_immediately(placet, writer):
    outcome = placet("log", "live.db", "--follow", "--since", "1")
    assert (outcome.code, len(outcome.out.splitlines())) == (0, 1)
    assert placet("log", "live.db", "--follow", "--json").out.count("\n") == 2


@pytest.mark.usefixtures("abandoned")
def test_a_batch_that_reaches_into_the_range_is_shown(placet, writer):
    writer.kernel.register_agent("ann")
    writer.kernel.decide([move(number=0, context_seq=2), move(number=1, context_seq=2)])
    writer.write()
    (event,) = map(
        json.loads, placet("log", "live.db", "-f", "--since", "3", "--json").out.splitlines()
    )
    assert (event["type"], event["seq"]) == ("batch", 4)
