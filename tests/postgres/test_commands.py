"""The commands read a log in PostgreSQL as they read a file, and no password is printed."""

import json
import signal
from shlex import quote

import httpx
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.log.snapshot import SnapshotPosition
from placet.stores.snapshots.files import snapshots_of
from placet.stores.snapshots.recovery import recover
from placet.stores.snapshots.writer import SnapshotProcess, take_snapshot
from placet.stores.url import environment_of, open_event_log
from tests.cli.command_line import CommandLine, Process
from tests.kernel.builders import add
from tests.kernel.domains import Lab
from tests.postgres.server import Server

SECRET = "tr0ub4dor"


@pytest.fixture
def placet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys, tmp_path)


@pytest.fixture(scope="module")
def locked(postgres):
    """A server that requires a password."""
    with Server(postgres.programs, password=SECRET) as server:
        yield server


@pytest.fixture
def url(locked):
    return locked.url(password=SECRET)


RUN = ("run", "town", "--agents", "8", "--ticks", "4")


@pytest.mark.slow
def test_every_command_reads_a_run_stored_on_a_server(placet, url):
    done = placet(*RUN, "--store", url)
    assert (done.code, done.err) == (0, "")
    assert "is verified" in done.out
    outcomes = [
        done,
        placet("log", url),
        placet("replay", url, "--path", "world.agents"),
        placet("verify", url),
        placet("compact", url, "--keep", "5"),
        placet("log", url),
        placet("verify", url, "--json"),
    ]
    assert [one.code for one in outcomes] == [0] * len(outcomes)
    assert "table snapshots" in outcomes[4].out
    assert outcomes[-1].json()["compacted"]["first_record"] > 0
    again = placet(*RUN, "--store", url)
    assert (again.code, "already has a world" in again.err) == (1, True)
    assert again.err.endswith(f": placet log {quote(open_event_log(url).url)}\n")  # it holds an &
    for one in (*outcomes, again):
        assert SECRET not in one.out + one.err


def test_a_missing_world_is_reported_without_its_secret(placet, url):
    for command in (("log",), ("verify",), ("replay",), ("compact",), ("explain", "--seq", "1")):
        outcome = placet(command[0], url, *command[1:])
        assert (outcome.code, SECRET in outcome.err) == (1, False)
        assert "no such world in the database" in outcome.err


def test_a_request_is_explained_from_the_server(placet, url):
    placet(*RUN, "--store", url)
    records = placet("log", url, "--json").json()
    batch = next(one for one in records if one["type"] == "batch")
    intent = batch["intents"][0]
    outcome = placet("explain", url, intent["agent_id"], intent["req_id"], "--json")
    assert (outcome.code, outcome.json()["answer"]) == (0, "admitted")


@pytest.mark.slow
async def test_a_log_is_followed_by_listening(postgres, tmp_path):
    url = postgres.url()
    config = OrchestratorConfig(store=url, snapshot_every_seqs=None)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("ada")
        with Process("log", url, "--follow", "--json", folder=tmp_path) as command:
            for expected in ("header", "configured", "registered"):
                assert json.loads(command.out.readline())["type"] == expected
            fence = world._open.log.fence  # type: ignore[attr-defined]
            while not fence.is_followed:
                fence._ended.wait(0.01)
            for number in range(3):
                await world.submit([add(f"r:{number}", 1, agent_id="ada")])
                assert json.loads(command.out.readline())["type"] == "batch"
            command.send_signal(signal.SIGINT)
            assert command.end().code == 130


@pytest.mark.slow
def test_a_standby_serves_after_its_primary_has_ended(postgres, tmp_path):
    url = postgres.url()
    arguments = ("serve", "--port", "0", "--json", "--store", url)
    with Process(*arguments, folder=tmp_path) as primary:
        messages = json.loads(primary.out.readline())
        assert httpx.get(f"{messages['url']}/readyz").status_code == 200
        with Process(*arguments, "--standby", folder=tmp_path) as standby:
            primary.send_signal(signal.SIGKILL)
            messages = json.loads(standby.out.readline())
            assert httpx.get(f"{messages['url']}/readyz").status_code == 200
            standby.send_signal(signal.SIGTERM)
            assert standby.end().code == 143


# snapshots


async def world_of_adds(url, count):
    config = OrchestratorConfig(store=url, snapshot_every_seqs=None)
    async with Orchestrator(Lab(), config) as world:
        await world.register_agent("ada")
        for number in range(count):
            await world.submit([add(f"r:{number}", 1, agent_id="ada")])
        return await world.digest()


async def test_a_separate_process_takes_a_snapshot_on_the_server(url):
    digest = await world_of_adds(url, 5)
    log = open_event_log(url)
    assert SECRET not in log.url
    taken = SnapshotProcess(log.url, 2, 60, environment_of(log)).run()
    assert taken is not None
    recovery = recover(log)
    assert recovery.snapshot == SnapshotPosition(taken.records, taken.seq)
    assert (recovery.folded, recovery.past.state.digest().hex()) == (0, digest)


async def test_a_snapshot_stored_in_parts_is_whole_or_absent(url, monkeypatch):
    monkeypatch.setattr("placet.stores.postgres.snapshots.PART_BYTES", 100)
    await world_of_adds(url, 5)
    log = open_event_log(url)
    files = snapshots_of(log)
    assert files is not None
    older = take_snapshot(log, files, to_seq=4)
    newer = take_snapshot(log, files)
    assert min(older.size_bytes, newer.size_bytes) > 300
    places = [SnapshotPosition(one.records, one.seq) for one in (newer, older)]
    assert files.places() == places
    kept = files.read(places[0])
    files.write(kept)  # once more, by somebody else
    assert files.read(places[0]) == kept
    files.remove([*places[1:], SnapshotPosition(999, 999)])  # one that was removed before
    assert files.places() == places[:1]
    with pytest.raises(FileNotFoundError):
        files.read(places[1])
    assert recover(log).folded == 0
