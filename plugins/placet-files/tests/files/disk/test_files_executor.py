"""Files in an open world: written once, durably, with receipts; interrupted writes are resolved."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from anyio import run_process, to_thread
from tests.files.archives import archive, link
from tests.files.disk.file_folders import Folders, open_descriptors
from tests.files.disk.interrupted_write import NEW, OLD, PATH, POINTS, config_of

from placet import Orchestrator, OrchestratorConfig
from placet.agents import ScriptedAdapter, Session
from placet.kernel import Domain
from placet.kernel.log.replay import Replayer
from placet.runtime.executors import LiveHandler
from placet.runtime.executors.domain_executors import ExecutorNotFound
from placet.stores.url import open_event_log
from placet_files import (
    ANALYZE,
    CREATE,
    INSPECT,
    RECEIPTS,
    USAGE,
    WRITES,
    FileRefused,
    Files,
)
from placet_files.disk import executor as executor_files
from placet_files.disk import root as file_root
from placet_files.disk.root import RootUnusable
from tests.server.process import running

QUIET = OrchestratorConfig(log_level="critical")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folders(tmp_path):
    """Yield the folders; afterwards check that nothing was written outside or left over."""
    folders = Folders(tmp_path)
    yield folders
    folders.assert_nothing_escaped()


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/files.db"


async def done(world, handle, kind, **payload):
    """Propose one intent, which is admitted, and return the outcome of its effect."""
    await handle.refresh_view()
    verdict = await handle.submit([handle.intent(kind, **payload)])
    assert verdict.codes == ()
    [outcome] = await world.gateway.outcomes(verdict)
    return outcome


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_file_is_created_analyzed_and_replaced(folders):
    before = open_descriptors()
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        created = await done(world, ann, CREATE, filename="a/b.txt", content="wide world\n")
        assert created.output == {"path": "a/b.txt", "bytes": 11, "sha256": sha256("wide world\n")}
        figures = await done(world, ann, ANALYZE, path="a/b.txt")
        assert (figures.output["words"], figures.output["path"]) == (2, "a/b.txt")
        await done(world, ann, CREATE, filename="a/b.txt", content="x", overwrite=True)
        assert (folders.root / "a/b.txt").read_text() == "x"
        receipts = await world.state(RECEIPTS)
        assert receipts["a/b.txt"]["sha256"] == sha256("x")
        assert await world.state(USAGE) == {"all": {"files": 1, "bytes": 1}}
    assert open_descriptors() == before


async def test_a_plan_may_read_a_file_it_creates(folders):
    """Each kind of effect has a separate executor, and they do not wait for each other."""
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        plan = [
            ann.intent(kind, **payload)
            for n in range(5)
            for kind, payload in (
                (CREATE, {"filename": f"d/{n}", "content": "word " * (n + 1)}),
                (ANALYZE, {"path": f"d/{n}"}),
            )
        ]
        outcomes = await world.gateway.outcomes(await ann.submit(plan))
        assert [one.output["words"] for one in outcomes[1::2]] == [1, 2, 3, 4, 5]


async def test_reading_a_file_whose_write_failed_is_not_found(folders, monkeypatch):
    monkeypatch.setattr(executor_files, "_PAUSE_S", 0.0)
    (folders.root / "d").write_text("in the way")
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        for path, told in (
            ("d/a", "not_a_directory"),
            ("d", "not_found: 'd' does not have the text"),
        ):
            plan = [
                ann.intent(CREATE, filename=path, content="hi"),
                ann.intent(ANALYZE, path=path),
            ]
            created, looked = await world.gateway.outcomes(await ann.submit(plan))
            assert (created.succeeded, looked.succeeded) == (False, False)
            assert told in looked.output
        assert await world.state(USAGE) == {"all": {"files": 0, "bytes": 0}}


async def test_an_archive_is_listed_and_not_unpacked(folders):
    data = archive([("a.txt", b"hi"), ("../../evil", b"x"), (link("l"), b"/etc/passwd")])
    (folders.root / "in.zip").write_bytes(data)
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        listing = (await done(world, ann, INSPECT, zip_path="in.zip")).output
        assert listing["flags"] == {"symlink": 1, "unsafe_name": 1}
        assert not listing["safe_to_extract"]
    assert [path.name for path in folders.root.iterdir()] == ["in.zip"]


@pytest.mark.parametrize(
    ("kind", "payload", "code"),
    [
        (ANALYZE, {"path": "nope"}, "not_found"),
        (ANALYZE, {"path": "link"}, "symlink_refused"),
        (ANALYZE, {"path": "hard"}, "hardlink_refused"),
        (ANALYZE, {"path": "fifo"}, "not_a_regular_file"),
        (ANALYZE, {"path": "binary"}, "not_text"),
        (ANALYZE, {"path": "large"}, "file_too_large"),
        (INSPECT, {"zip_path": "binary"}, "not_a_zip"),
        (INSPECT, {"zip_path": "many.zip"}, "zip_bomb"),
        (CREATE, {"filename": "binary", "content": "x"}, "already_exists"),
        (CREATE, {"filename": "link", "content": "x", "overwrite": True}, "symlink_refused"),
    ],
)
async def test_an_obstacle_fails_at_the_first_attempt_with_a_code(folders, kind, payload, code):
    (folders.root / "link").symlink_to(folders.outside / "secret")
    (folders.root / "hard").hardlink_to(folders.outside / "secret")
    os.mkfifo(folders.root / "fifo")
    (folders.root / "binary").write_bytes(b"\xff\xfe\0")
    (folders.root / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (folders.root / "many.zip").write_bytes(archive([(f"f{n}", b"") for n in range(1_001)]))
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        outcome = await done(world, ann, kind, **payload)
        assert outcome.succeeded is False
        assert outcome.output.startswith(f"FileRefused: {code}: ")
        counted = world.statistics()["effects"]["by_kind"][kind]
        assert (counted["attempts"], counted["dead_letters"]) == (1, 1)
        assert await world.state(USAGE) == {"all": {"files": 0, "bytes": 0}}


# no root, no tool


async def test_without_a_root_no_file_is_touched():
    async with Orchestrator(Files(), QUIET) as world:
        ann = await world.register_agent("ann")
        verdict = await ann.submit([ann.intent(CREATE, filename="a", content="x")])
        assert verdict.codes == ("tool_unregistered",)
        assert await world.gateway.executed() == frozenset()


async def test_a_world_reopened_without_its_root_refuses_effects(folders, store):
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        ann = await world.register_agent("ann")
        await done(world, ann, CREATE, filename="a", content="x")
    async with Orchestrator(Files(), config_of(store)) as world:
        ann = await world.register_agent("ann")
        assert await world.gateway.executed() == frozenset()
        verdict = await ann.submit([ann.intent(ANALYZE, path="a")])
        assert verdict.codes == ("tool_unregistered",)


async def test_an_invalid_root_fails_the_opening_and_releases_the_log(tmp_path, store):
    world = Orchestrator(Files(tmp_path / "missing"), config_of(store))
    with pytest.raises(RootUnusable, match="cannot be the root of files"):
        await world.__aenter__()
    async with Orchestrator(Files(), config_of(store)) as again:
        assert await again.gateway.executed() == frozenset()


def bare_functions(domain):
    return {CREATE: print}


@pytest.mark.parametrize(
    "name",
    [
        "no.such:thing",
        "placet.errors:thing",
        "placet.errors:PlacetError",
        f"{__name__}:bare_functions",
    ],
)
async def test_a_domain_whose_executors_cannot_be_loaded_is_an_error(name):
    class Misnamed(Domain):
        name, version = "misnamed", "1"
        kinds = Files().kinds
        executors = name

    Misnamed.executors = name
    with pytest.raises(ExecutorNotFound, match="the executors of 'misnamed'"):
        await Orchestrator(Misnamed(), QUIET).__aenter__()


async def test_a_fork_reads_and_writes_only_when_allowed(folders, store, tmp_path):
    fork_path = f"{tmp_path}/fork.db"
    async with Orchestrator(folders.domain(), config_of(store)) as parent:
        ann = await parent.register_agent("ann")
        await done(parent, ann, CREATE, filename="a", content="parent's")
        forked = await parent.fork(fork_path)
    domain = folders.domain()
    config = OrchestratorConfig(
        store=f"sqlite:///{fork_path}", world=forked.world, log_level="critical"
    )
    async with Orchestrator(domain, config) as fork:
        ann = await fork.register_agent("ann")
        assert (await done(fork, ann, ANALYZE, path="a")).output["words"] == 2
        over = {"filename": "a", "content": "x", "overwrite": True}
        await ann.refresh_view()
        assert (await ann.submit([ann.intent(CREATE, over)])).codes == ("tool_unregistered",)
        handling = executor_files.executors_of(domain)[CREATE]
        assert handling is not None
        await fork.register_executor(
            CREATE,
            LiveHandler(handling.handler),
            delivery=handling.delivery,
            on_in_doubt=handling.on_in_doubt,
        )
        await done(fork, ann, CREATE, **over)
    assert (folders.root / "a").read_text() == "x"


# the log, read again


async def test_a_replay_touches_no_file(folders, store):
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        ann = await world.register_agent("ann")
        await done(world, ann, CREATE, filename="a", content="hi")
        await done(world, ann, ANALYZE, path="a")
        digest = await world.digest()
    (folders.root / "a").unlink()
    replayed = Replayer()
    for _, record in open_event_log(store).read():
        replayed.apply(record)
    assert replayed.state.digest().hex() == digest
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        assert await world.digest() == digest
        assert await world.effects() == []
    assert list(folders.root.iterdir()) == []


@pytest.mark.slow
async def test_verify_works_without_a_root(folders, store, tmp_path):
    async with Orchestrator(folders.domain(files_max=3), config_of(store)) as world:
        ann = await world.register_agent("ann")
        await done(world, ann, CREATE, filename="a", content="hi")
    command = [sys.executable, "-m", "placet", "verify", store, "--json"]
    told = await run_process(command, check=False, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, b"")


# what was cut off


def kill(store: str, folders: Folders, point: str, overwrites: bool) -> None:
    """Write a file in a process that is killed at a point of the write."""
    command = [sys.executable, "-m", "tests.files.disk.interrupted_write"]
    ended = subprocess.run(
        [*command, store, str(folders.root), point, str(overwrites)],
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    assert ended.returncode == -9, ended.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("overwrites", [False, True])
@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_write_is_detected_and_finished(folders, store, point, overwrites):
    kill(store, folders, point, overwrites)
    was_written = point in {"placed", "written"}
    content = NEW if was_written else OLD if overwrites else None
    file = folders.root / PATH
    assert (file.read_text() if file.exists() else None) == content
    assert bool(folders.leftovers()) is (point == "made" or (point == "placed" and not overwrites))
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        await world.wait_effects()
        assert await world.effects() == []
        receipts = await world.state(RECEIPTS)
        assert receipts[PATH]["sha256"] == sha256(NEW)
        assert await world.state(USAGE) == {"all": {"files": 1, "bytes": len(NEW)}}
    assert file.read_text() == NEW
    assert file.stat().st_nlink == 1


@pytest.mark.slow
@pytest.mark.parametrize("overwrites", [False, True])
async def test_a_file_written_by_another_process_stays_in_doubt_and_unchanged(
    folders, store, overwrites
):
    kill(store, folders, "begun", overwrites)
    (folders.root / "d").mkdir(exist_ok=True)
    (folders.root / PATH).write_text("somebody else's")
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        await world.wait_effects()
        [doubtful] = await world.effects("in_doubt")
        assert (doubtful.kind, list(await world.state(WRITES))) == (CREATE, [PATH])
        ann = await world.register_agent("ann")
        refused = await ann.submit([ann.intent(CREATE, filename=PATH, content="x")])
        assert refused.codes == ("files.write_pending",)
        assert await world.resolve_effect(doubtful.key, succeeded=False, output="lost")
        left = {"files": 1, "bytes": len(OLD)} if overwrites else {"files": 0, "bytes": 0}
        assert await world.state(USAGE) == {"all": left}
    assert (folders.root / PATH).read_text() == "somebody else's"


@pytest.mark.slow
async def test_a_link_at_the_path_stays_in_doubt(folders, store):
    kill(store, folders, "begun", overwrites=False)
    (folders.root / "d").symlink_to(folders.outside)
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        await world.wait_effects()
        assert len(await world.effects("in_doubt")) == 1


async def test_a_write_of_unknown_durability_is_synced_again(folders, monkeypatch):
    """The folder cannot be synced at first: the file exists, but perhaps not durably."""
    failures = [OSError(5, "Input/output error")]
    reached = file_root.FileRoot._require_reached

    def failing(self, path, folder, name, *, overwrites):
        reached(self, path, folder, name, overwrites=overwrites)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(file_root.FileRoot, "_require_reached", failing)
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        await ann.submit([ann.intent(CREATE, filename="a", content="hi")])
        await world.wait_effects()
        assert list(await world.state(RECEIPTS)) == ["a"]
        assert world.statistics()["effects"]["by_kind"][CREATE]["in_doubt"] == 1
    assert (folders.root / "a").read_text() == "hi"


@pytest.mark.slow
async def test_an_impossible_write_in_doubt_fails(folders, store, monkeypatch):
    kill(store, folders, "begun", overwrites=False)

    def full(folder, name, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_root, "_write", full)
    async with Orchestrator(folders.domain(), config_of(store)) as world:
        await world.wait_effects()
        [failed] = await world.effects("failed")
        assert failed.why == f"FileRefused: io_error: {PATH!r}: ENOSPC, No space left on device"
        assert await world.state(USAGE) == {"all": {"files": 0, "bytes": 0}}


@pytest.mark.slow
async def test_a_hanging_disk_blocks_no_other_effect_and_is_checked_afterwards(
    folders, monkeypatch
):
    """The attempt is abandoned and its outcome looked up: it wrote nothing, so it is repeated."""
    goes_on, ended, calls = threading.Event(), threading.Event(), []
    write, create = file_root._write, file_root.FileRoot.create

    def ending(self, path, data, **more):
        try:
            create(self, path, data, **more)
        except FileRefused:
            ended.set()
            raise

    def hanging(folder, name, data):
        calls.append(name)
        if len(calls) == 1:
            goes_on.wait(60)
        write(folder, name, data)

    monkeypatch.setattr(file_root, "_write", hanging)
    monkeypatch.setattr(file_root.FileRoot, "create", ending)
    monkeypatch.setattr(executor_files, "SECONDS_MAX", 2.0)  # what a busy machine needs
    async with Orchestrator(folders.domain(), QUIET) as world:
        ann = await world.register_agent("ann")
        await ann.submit([ann.intent(CREATE, filename="a", content="hi")])
        await world.wait_effects()
        assert list(await world.state(RECEIPTS)) == ["a"]
        goes_on.set()
        assert await to_thread.run_sync(ended.wait, 60)
    assert (folders.root / "a").read_text() == "hi"
    assert len(calls) == 2


# through the other doors


@pytest.mark.slow
def test_a_served_world_writes_below_its_configured_root(folders, tmp_path):
    def intent_of(req_id: str, kind: str, **payload: str) -> dict[str, object]:
        return {
            "kind": kind,
            "payload": payload,
            "agent_id": "ann",
            "req_id": req_id,
            "context_seq": 0,
            "priority": 10,
            "schema_version": "1.0.0",
        }

    options = ("--domain", "files", "--set", f'settings={{root="{folders.root}"}}')
    with running(tmp_path, *options) as server:
        assert server.post("agents", {"agent_id": "ann"}).status_code == 201
        batch = [
            intent_of("1", CREATE, filename="a.txt", content="hi there"),
            intent_of("2", ANALYZE, path="a.txt"),
        ]
        assert server.post("batches", batch).json()["admitted"]
        server.process.send_signal(signal.SIGTERM)
        outcome = server.process.end()
    assert (outcome.code, outcome.err) == (143, "")
    assert (folders.root / "a.txt").read_text() == "hi there"


async def test_an_agent_in_a_session_creates_and_reads_a_file(folders):
    plan = {
        "version": "placet.plan/1",
        "goal": "a note",
        "base_seq": 0,
        "actions": [
            {"kind": CREATE, "payload": {"filename": "note.txt", "content": "two words"}},
            {"kind": ANALYZE, "payload": {"path": "note.txt"}},
        ],
    }
    async with Session.open(
        domain=[folders.domain()], mode="autonomous", adapter=ScriptedAdapter([plan])
    ) as session:
        turn = await session.send("write a note")
        assert turn.outcome == "applied"
        assert turn.results[1].output["words"] == 2
    assert (folders.root / "note.txt").read_text() == "two words"
