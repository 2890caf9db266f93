"""A store that fails under a server: clients are told, and served again without an operator."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.session import Sessions
from placet.runtime.orchestrator import WorldStore
from placet.schemas.errors import ClosedError, StoreError
from placet.server import store_watch
from placet.server.config import ServeConfig
from placet.server.store_watch import PAUSE_SECONDS_MAX, StoreWatch, pause_before
from placet.server.worlds import Worlds
from placet.stores.append_rules import FencedError
from placet.stores.sqlite.log import SqliteEventLog
from tests.kernel.builders import add
from tests.kernel.domains import Lab
from tests.server.served import LATEST_SECONDS, Served, serving


class Disk:
    """What happens to writes and openings of every file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.openings = 0
        self.checks = 0
        write, check, begin = (
            SqliteEventLog._write,
            SqliteEventLog.check_writable,
            SqliteEventLog.open,
        )

        def refuse(log: SqliteEventLog) -> None:
            if self.is_full:
                raise StoreError("the disk is full", store=log.url)

        def writing(log: SqliteEventLog, *rest: Any) -> Any:
            refuse(log)
            return write(log, *rest)

        def checking(log: SqliteEventLog, epoch: int) -> None:
            self.checks += 1
            refuse(log)
            check(log, epoch)

        def opening(log: SqliteEventLog, *, take_over: bool = False) -> int:
            self.openings += 1
            refuse(log)
            return begin(log, take_over=take_over)

        monkeypatch.setattr(SqliteEventLog, "_write", writing)
        monkeypatch.setattr(SqliteEventLog, "check_writable", checking)
        monkeypatch.setattr(SqliteEventLog, "open", opening)


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(store_watch, "PAUSE_SECONDS", 0.01)
    return Disk(monkeypatch)


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/w.db"


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(LATEST_SECONDS * 100):
        if await is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come about")


async def until_status(served: Served, path: str, status: int) -> None:
    async def is_so() -> bool:
        return (await served.get(path, token=None)).status_code == status

    await eventually(is_so)


async def until_opened(disk: Disk, times: int) -> None:
    async def is_so() -> bool:
        return disk.openings >= times

    await eventually(is_so)


async def test_a_world_is_served_again_once_its_store_works(disk, store):
    async with serving(store=store) as served:
        kept = (await served.submit(add("kept", 1))).json()
        disk.is_full = True
        failed = await served.submit(add("lost", 2))
        assert (failed.status_code, failed.headers["retry-after"]) == (503, "1")
        assert "the disk is full" in failed.json()["detail"]
        ready = await served.get("/readyz")
        assert ready.status_code == 503
        assert "the store failed and is opened again: " in ready.json()["detail"]
        assert (await served.get("/healthz", token=None)).status_code == 200
        await until_opened(disk, 3)
        disk.is_full = False
        await until_status(served, "/readyz", 200)
        again = (await served.submit(add("kept", 1))).json()
        assert (again["replayed"], again["seq"]) == (True, kept["seq"])
        assert (await served.submit(add("lost", 2))).json()["admitted"] is True


@pytest.mark.parametrize("token", [None, "alice"])
async def test_only_the_operator_learns_where_the_store_is(disk, store, token):
    async with serving(store=store) as served:
        world = served.world._world
        assert world is not None
        world.committer.fail(FencedError(f"{store}: fenced", store=store))
        await until_status(served, "/healthz", 503)
        for path in ("/healthz", "/readyz", *(["events"] if token else [])):
            assert store in (await served.get(path)).json()["detail"]
            shown = await served.get(path, token=token)
            assert (shown.status_code, store in shown.text) == (503, False)
            assert "ask the operator" in shown.json()["detail"]


async def test_readiness_finds_a_full_disk_before_a_write(disk, store):
    async with serving(store=store) as served:
        await until_status(served, "/readyz", 200)
        disk.is_full = True
        served.context.worlds._watches["world"]._checked_at = float("-inf")
        found = await served.get("/readyz")
        assert (found.status_code, found.json()["detail"]) == (503, "the disk is full")
        disk.is_full = False
        await until_status(served, "/readyz", 200)


async def test_a_check_that_fails_for_any_reason_is_not_ready(store, monkeypatch):
    async def check(_store: WorldStore) -> None:
        raise RuntimeError("a thread cannot start")

    async with serving(store=store) as served:
        monkeypatch.setattr(WorldStore, "check_writable", check)
        found = await served.get("/readyz")
        assert found.status_code == 503
        assert found.json()["detail"] == "RuntimeError('a thread cannot start')"


async def test_every_world_is_closed_although_some_cannot_be(store, monkeypatch):
    worlds = Worlds(Orchestrator(Lab(), OrchestratorConfig(store=store)), ServeConfig())
    worlds.make = lambda _name: [Lab()]
    await worlds.open()
    opened = [worlds.first, await worlds.create("second"), await worlds.create("third")]
    stop, close = StoreWatch.stop, SqliteEventLog.close

    async def stopping(watch: StoreWatch) -> None:
        await stop(watch)
        raise RuntimeError("a watch failed at its end")

    def closing(log: SqliteEventLog) -> None:
        close(log)
        raise StoreError("the disk failed at the end", store=log.url)

    monkeypatch.setattr(StoreWatch, "stop", stopping)
    monkeypatch.setattr(SqliteEventLog, "close", closing)
    with pytest.raises(StoreError, match="the disk failed at the end"):
        await worlds.close()
    for world in opened:
        with pytest.raises(ClosedError):
            await world.submit(add("late"))


async def test_readiness_writes_once_however_many_ask(disk, store):
    async with serving(store=store) as served:
        answers = await asyncio.gather(*(served.get("/readyz", token=None) for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert disk.checks == 1


async def test_readiness_does_not_wait_for_a_store_that_does_not_answer(store, monkeypatch):
    answer, waiting = threading.Event(), []

    def stand(log: SqliteEventLog, epoch: int) -> None:
        waiting.append(epoch)
        answer.wait(LATEST_SECONDS)

    monkeypatch.setattr(store_watch, "CHECK_SECONDS_MAX", 0.02)
    monkeypatch.setattr(SqliteEventLog, "check_writable", stand)
    async with serving(store=store) as served:
        for _ in range(5):
            found = await served.get("/readyz")
            assert (found.status_code, found.json()["detail"]) == (
                503,
                "a world does not answer in time",
            )
        assert len(waiting) == 1, "each probe took a thread"
        assert (await served.get("/healthz", token=None)).status_code == 200
        answer.set()
        await until_status(served, "/readyz", 200)


async def test_a_session_is_opened_again_after_its_world_was(disk, store):
    async with serving([Lab(), Sessions()], store=store) as served:
        opening = {"session": "main", "agent": "alice"}
        assert (await served.post("sessions", opening)).status_code == 201
        disk.is_full = True
        assert (await served.submit(add("r", 1))).status_code == 503
        disk.is_full = False
        await until_status(served, "/readyz", 200)
        assert (await served.get("sessions/main")).status_code == 404
        assert (await served.post("sessions", opening)).status_code == 201
        assert (await served.get("sessions/main")).json()["agent"] == "alice"


async def test_a_world_that_another_process_took_over_is_left_to_it(disk, store):
    async with serving(store=store) as served:
        config = OrchestratorConfig(store=store, take_over=True)
        async with Orchestrator(Lab(), config) as other:
            openings = disk.openings
            fenced = await served.submit(add("r", 1))
            assert fenced.status_code == 503
            assert "this writer is fenced" in fenced.json()["detail"]
            health = await served.get("/healthz")
            assert health.status_code == 503
            assert "restart it" in health.json()["detail"]
            assert (await served.get("/readyz", token=None)).status_code == 503
            assert disk.openings == openings
            assert (await other.submit([add("r", 1)])).admitted


async def test_a_log_that_another_process_has_opened_meanwhile_is_left_to_it(
    disk, store, monkeypatch
):
    monkeypatch.setattr(store_watch, "PAUSE_SECONDS", 0.5)
    async with serving(store=store) as served:
        disk.is_full = True
        assert (await served.submit(add("r", 1))).status_code == 503
        await until_opened(disk, 2)
        disk.is_full = False  # and before the next attempt, another process opens it
        log = SqliteEventLog(store.removeprefix("sqlite:///"))
        log.open(take_over=True)
        await until_status(served, "/healthz", 503)
        assert "writes it, since" in (await served.get("/healthz")).json()["detail"]
        log.close()


async def test_a_world_in_memory_that_failed_needs_a_restart():
    async with serving() as served:
        assert served.world._world is not None
        served.world._world.committer.fail(StoreError("the log in memory is full"))
        await until_status(served, "/healthz", 503)
        health = await served.get("/healthz")
        assert "the log in memory is full" in health.json()["detail"]


def test_pauses_double_up_to_a_bound():
    pauses = [pause_before(attempt) for attempt in range(1, 2_000)]
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert max(pauses) == pauses[-1] == PAUSE_SECONDS_MAX
