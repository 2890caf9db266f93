"""A world that is open read-only writes nothing, and follows the log of its writer."""

import os
import stat
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.actors.ports import EventLog
from placet.history.reader import fold
from placet.runtime import log_follower
from placet.schemas.effect import EffectKey
from placet.schemas.errors import ReadOnlyError, StoreError
from placet.schemas.log.record import LogStart
from placet.stores.append_rules import OvertakenError, overtaken
from placet.stores.url import open_event_log
from tests.kernel.builders import add
from tests.kernel.domains import COUNTS, Lab

LATEST_SECONDS = 60


def config_of(folder: Path, **options: object) -> OrchestratorConfig:
    return OrchestratorConfig(store=f"sqlite:///{folder}/w.db", **options)  # type: ignore[arg-type]


def read_only(folder: Path, **options: object) -> Orchestrator:
    return Orchestrator(Lab(), config_of(folder, read_only=True, **options))


async def reach(world: Orchestrator, seq: int | None) -> None:
    assert seq is not None
    with anyio.fail_after(LATEST_SECONDS):
        async for event in world.events(seq - 1):
            if event.seq >= seq:
                return


@pytest.fixture
def folder(tmp_path):
    return tmp_path


async def test_a_read_only_world_shows_the_log_and_follows_its_writer(folder):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        await writer.submit([add("r1", 5)])
        async with read_only(folder) as reader:
            assert await reader.state(f"{COUNTS}/alice/count") == 5
            observations = reader.observe("alice")
            await anext(observations)
            verdict = await writer.submit([add("r2", 2)])
            await reach(reader, verdict.seq)
            assert await reader.state(f"{COUNTS}/alice/count") == 7
            assert await reader.digest() == await writer.digest()
            assert (reader.seq, reader.records) == (writer.seq, writer.records)
            assert (await anext(observations)).view_seq == verdict.seq
            assert await reader.verdict_of("alice", "r2") is not None
            assert reader.sim_time <= writer.sim_time
            assert (await writer.submit([add("r3", 1)])).admitted, "the reader took no fence"
            await observations.aclose()


async def test_events_of_a_read_only_world_are_past_and_future_records(folder):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        async with read_only(folder) as reader:
            await writer.submit([add("r1", 5)])
            with anyio.fail_after(LATEST_SECONDS):
                seen = []
                async for event in reader.events():
                    seen.append(event.record)
                    if event.record + 1 == writer.records:
                        break
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)


async def test_a_read_only_world_follows_a_log_that_grew_by_several_reads(folder):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        async with read_only(folder) as reader:
            for number in range(300):
                await writer.submit([add(f"r{number}", 1)])
            await reach(reader, writer.seq)
            assert await reader.digest() == await writer.digest()


@pytest.mark.parametrize(
    "write",
    [
        lambda world: world.register_agent("bob"),
        lambda world: world.submit([add("r", 1)]),
        lambda world: world.submit([add("r", 1)], dry_run=True),
        lambda world: world.submit_intents([add("r", 1)]),
        lambda world: world.set_agent_permissions("alice", None),
        lambda world: world.suspend_agent("alice"),
        lambda world: world.remove_agent("alice"),
        lambda world: world.pause(),
        lambda world: world.resume(),
        lambda world: world.step(1.0),
        lambda world: world.restore(COUNTS, 1),
        lambda world: world.resolve_effect(EffectKey("world", 1, 0), succeeded=True),
    ],
)
async def test_a_method_that_writes_is_refused_and_changes_nothing(folder, write):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    async with read_only(folder) as reader:
        digest = await reader.digest()
        with pytest.raises(ReadOnlyError, match="open read-only"):
            await write(reader)
        assert await reader.digest() == digest
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


async def test_a_batch_that_is_due_is_decided_by_the_writer_alone(folder):
    async with Orchestrator(Lab(), config_of(folder, clock="stepped")) as writer:
        await writer.register_agent("alice")
        await writer.submit_nowait({"intents": [add("later", 3)], "sim_time": 1.0})
        async with read_only(folder) as reader:
            await writer.step(2.0)
            await reach(reader, writer.seq)
            assert await reader.state(f"{COUNTS}/alice/count") == 3
            assert await reader.digest() == await writer.digest()


async def test_settings_of_the_reader_that_differ_change_nothing(folder):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        quotas = {"Add": {"rate": 1.0, "burst": 1}}
        async with read_only(folder, quotas=quotas) as reader:
            await writer.submit([add("r1", 1)])
            await reach(reader, writer.seq)
    assert fold(open_event_log(config_of(folder).store)).ledger.policy.quotas == {}


async def test_a_folder_that_may_not_be_written_is_read(folder):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
    (folder / "w.db").chmod(0o444)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        async with read_only(folder) as reader:
            assert await reader.state(f"{COUNTS}/alice/count") == 0
    finally:
        folder.chmod(0o700)
    assert [path.name for path in folder.iterdir()] == ["w.db"]


async def test_a_read_only_world_opens_a_log_by_a_link_while_it_is_written(folder):
    (folder / "links").mkdir()
    (folder / "links" / "w.db").symlink_to(folder / "w.db")
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        async with read_only(folder / "links") as reader:
            await writer.submit([add("r1", 5)])
            await reach(reader, writer.seq)
    assert os.listdir(folder / "links") == ["w.db"]  # noqa: PTH208


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{}/absent.db"])
async def test_a_store_without_a_world_is_refused_and_not_made(folder, store):
    config = OrchestratorConfig(store=store.format(folder), read_only=True)
    with pytest.raises(StoreError, match="cannot read"):
        async with Orchestrator(Lab(), config):
            pass
    assert list(folder.iterdir()) == []


async def test_a_log_of_another_world_is_refused(folder):
    async with Orchestrator(Lab(), config_of(folder)):
        pass
    with pytest.raises(StoreError, match="the log is of world 'world' with seed 0"):
        async with read_only(folder, world="other"):
            pass


async def test_a_reader_that_a_compaction_overtook_is_opened_again(folder, monkeypatch):
    async with Orchestrator(Lab(), config_of(folder)) as writer:
        await writer.register_agent("alice")
        async with read_only(folder) as reader:
            with monkeypatch.context() as patch:
                patch.setattr(log_follower, "read_on", _overtaken)
                await writer.submit([add("r1", 5)])
                assert isinstance(await reader.store.wait_failed(), OvertakenError)
            await reader.store.reopen()
            assert await reader.state(f"{COUNTS}/alice/count") == 5
            verdict = await writer.submit([add("r2", 2)])
            await reach(reader, verdict.seq)


def _overtaken(log: EventLog, record: int) -> Generator[tuple[int, bytes]]:
    yield from ()
    raise overtaken(log.url, record, LogStart(record + 1, 0))
