"""A world whose store has failed is opened again from its log, in the same process."""

import shutil

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.schemas.errors import StoreError
from placet.stores.append_rules import FencedError, InUseError
from placet.stores.sqlite.log import SqliteEventLog
from tests.kernel.builders import add
from tests.kernel.domains import COUNTS, Lab


def world_in(folder, **options):
    return Orchestrator(Lab(), OrchestratorConfig(store=f"sqlite:///{folder}/w.db", **options))


@pytest.fixture
def fail_writes(monkeypatch):
    """Make writes of every file fail, as on a disk without space; calling it again ends that."""

    def refuse(self, group, epoch):
        raise StoreError("the disk is full", store=self.url)

    def switch(is_failing: bool) -> None:
        if is_failing:
            monkeypatch.setattr(SqliteEventLog, "_write", refuse)
        else:
            monkeypatch.undo()

    return switch


async def test_a_world_that_has_failed_goes_on_from_its_log(tmp_path, fail_writes):
    async with world_in(tmp_path) as world:
        await world.register_agent("alice")
        kept = await world.submit([add("kept", 5)])
        fail_writes(True)
        with pytest.raises(StoreError, match="the disk is full"):
            await world.submit([add("lost", 2)])
        assert "the disk is full" in str(await world.store.wait_failed())
        with pytest.raises(StoreError, match="the disk is full"):
            await world.state()
        fail_writes(False)
        await world.store.reopen()
        assert await world.state(f"{COUNTS}/alice/count") == 5
        again = await world.submit([add("kept", 5)])
        assert (again.replayed, again.seq) == (True, kept.seq)
        assert (await world.submit([add("lost", 2)])).admitted
        assert await world.state(f"{COUNTS}/alice/count") == 7


async def test_a_world_that_cannot_be_opened_yet_may_be_opened_later(tmp_path, monkeypatch):
    async with world_in(tmp_path) as world:
        await world.register_agent("alice")
        with monkeypatch.context() as patch:
            patch.setattr(SqliteEventLog, "open", _unreachable)
            for _ in range(2):
                with pytest.raises(StoreError, match="away"):
                    await world.store.reopen()
            with pytest.raises(Exception, match="closed"):
                await world.submit([add("r", 1)])
        await world.store.reopen()
        assert (await world.submit([add("r", 1)])).admitted


def _unreachable(self, *, take_over: bool = False) -> int:
    raise StoreError("the server is away", store=self.url)


@pytest.mark.parametrize("is_shorter", [False, True], ids=["no log", "an older log"])
async def test_a_world_is_not_replaced_by_another_one_at_the_same_place(
    tmp_path, fail_writes, is_shorter
):
    """A disk that is gone leaves an empty folder: a new world there would forget the old one."""
    file, away = tmp_path / "w.db", tmp_path / "away.db"
    async with world_in(tmp_path):
        pass
    shutil.copy(file, tmp_path / "old.db")
    async with world_in(tmp_path) as world:
        await world.register_agent("alice")
        fail_writes(True)
        with pytest.raises(StoreError):
            await world.submit([add("lost", 2)])
        fail_writes(False)
        await world.close()
        file.rename(away)
        if is_shorter:
            shutil.copy(tmp_path / "old.db", file)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(StoreError, match=r"there is no file|expected 3 records at least"):
            await world.store.reopen()
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        away.replace(file)
        await world.store.reopen()
        assert (await world.submit([add("r", 1)])).admitted


async def test_the_same_file_is_opened_again_from_another_folder(
    tmp_path, fail_writes, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with Orchestrator(Lab(), OrchestratorConfig(store="w.db")) as world:
        await world.register_agent("alice")
        monkeypatch.chdir(tmp_path / "elsewhere")
        await world.store.reopen()
        assert (await world.submit([add("r", 1)])).admitted
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_fenced_world_is_not_reopened_while_the_other_writes(tmp_path):
    async with world_in(tmp_path, take_over=True) as world:
        await world.register_agent("alice")
        async with world_in(tmp_path, take_over=True) as other:
            with pytest.raises(FencedError):
                await world.submit([add("r", 1)])
            with pytest.raises(InUseError, match="this process"):
                await world.store.reopen()
            assert (await other.submit([add("r", 1)])).admitted


async def test_a_world_in_memory_is_not_replaced_by_an_empty_one():
    async with Orchestrator(Lab()) as world:
        await world.register_agent("alice")
        with pytest.raises(StoreError, match="in memory"):
            await world.store.reopen()
        assert (await world.submit([add("r", 1)])).admitted


async def test_a_check_finds_an_unwritable_store_without_an_append(tmp_path):
    async with world_in(tmp_path, take_over=True) as world:
        await world.store.check_writable()
        before = world.records
        async with world_in(tmp_path, take_over=True):
            with pytest.raises(FencedError):
                await world.store.check_writable()
            assert isinstance(await world.store.wait_failed(), FencedError)
        assert world.records == before


async def test_a_check_of_a_read_only_world_writes_nothing(tmp_path):
    async with world_in(tmp_path):
        pass
    before = (tmp_path / "w.db").read_bytes()
    async with world_in(tmp_path, read_only=True) as world:
        await world.store.check_writable()
    assert (tmp_path / "w.db").read_bytes() == before
