"""`DbosWorkflow` with real DBOS workflows, real databases and killed processes (G17).

Each child process is killed at one point of a workflow or beside it; the last one runs to the end.
Then the file that stands for the outside world shows how often each step was done.
"""

import asyncio
import sqlite3
import sys
import time
from collections import Counter
from itertools import count
from typing import Any, Final

import pytest
from dbos import DBOS

from placet import Orchestrator, OrchestratorConfig
from placet.runtime.executors import Backoff, DbosWorkflow
from tests.crash.process_forker import ProcessForker
from tests.levels import soak_between
from tests.runtime.executors import dbos_shop
from tests.runtime.executors.dbos_shop import POINTS, Outside, Shop, steps_noted

SOON: Final = Backoff(first_s=0.0, max_s=0.0)
ONCE: Final = {"first": 1, "second": 1, "third": 1}
SAID: Final = {"article": "lamp", "steps": ["first", "second", "third"]}
_NUMBERS: Final = count(1)


@pytest.fixture(scope="module")
def forker():
    late = ["anyio._backends._asyncio", "placet.runtime.telemetry.world_logger"]
    with ProcessForker(["tests.runtime.executors.dbos_shop", "psycopg", *late]) as forker:
        yield forker


def require_sqlite() -> None:
    """Skip if DBOS cannot create its tables with the installed SQLite."""
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        pytest.skip(f"on Python 3.12 DBOS needs SQLite 3.42, this is {sqlite3.sqlite_version}")


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request, tmp_path):
    """Return the world's store, the database of DBOS, and the file of the outside world."""
    places = {"outside": str(tmp_path / "outside")}
    if request.param == "sqlite":
        require_sqlite()
        engine = f"sqlite:///{tmp_path / 'dbos.db'}"
        return {**places, "store": f"sqlite:///{tmp_path / 'shop.db'}", "engine": engine}
    server = request.getfixturevalue("postgres")
    database = f"dbos_{next(_NUMBERS)}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {database}")
    engine = f"postgresql://placet@/{database}?host={server.folder}"
    return {**places, "store": server.url(), "engine": engine}


def step_counts(outside: object) -> dict[str, int]:
    lines = [line.split() for line in steps_noted(outside)]
    assert len({line[0] for line in lines}) == 1, "there is one effect, and one key"
    return dict(Counter(step for _, step in lines))


def result_of(messages: list[dict[str, Any]]) -> tuple[list[Any], int]:
    (end,) = [line for line in messages if line["what"] == "end"]
    return [order["said"] for order in end["orders"].values()], end["settled"]


def run_until_killed(forker, crash_at: str, places: dict[str, Any]) -> None:
    """Run a child that kills itself at a point."""
    messages = forker.fork(
        "tests.runtime.executors.dbos_shop:run", crash_at=crash_at, **places
    ).wait()
    assert not messages[1:], "the child came to its end"


@pytest.mark.slow
@pytest.mark.parametrize("crash_at", soak_between(POINTS, 3))
def test_steps_run_once_and_the_effect_settles_once_after_a_kill_at_any_point(
    forker, places, crash_at
):
    run_until_killed(forker, crash_at, places)

    said, settled = result_of(forker.fork("tests.runtime.executors.dbos_shop:run", **places).wait())

    assert (said, settled) == ([SAID], 1)
    # DBOS repeats the one step that did not finish.
    again = {"second": 2} if crash_at == "within second" else {}
    assert step_counts(places["outside"]) == {**ONCE, **again}


@pytest.mark.slow
def test_workflow_survives_repeated_crashes(forker, places):
    for crash_at in POINTS:
        run_until_killed(forker, crash_at, places)

    said, settled = result_of(forker.fork("tests.runtime.executors.dbos_shop:run", **places).wait())

    assert (said, settled) == ([SAID], 1)
    assert step_counts(places["outside"]) == {**ONCE, "second": 2}


@pytest.mark.slow
@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
def test_planted_bug_of_repeated_steps_is_detected(forker, places):
    """The planted bug: each attempt starts a workflow with a new id."""
    child = {**places, "has_new_ids": True}
    run_until_killed(forker, "after first", child)

    forker.fork("tests.runtime.executors.dbos_shop:run", **child).wait()

    assert step_counts(places["outside"])["first"] == 2


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Launch DBOS in the test's own process, on SQLite."""
    require_sqlite()
    folder = tmp_path_factory.mktemp("dbos")
    dbos_shop.launch(f"sqlite:///{folder / 'dbos.db'}")
    yield
    DBOS.destroy()


@pytest.fixture
async def shop(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(Outside, "path", str(tmp_path / "outside"))
    config = OrchestratorConfig(world=f"shop{next(_NUMBERS)}", log_level="critical")
    async with Orchestrator(Shop(), config) as shop:
        yield shop


def world_of(shop: Orchestrator) -> str:
    return shop._open.config.world


async def order_article(shop: Orchestrator, article: str = "lamp") -> Any:
    """Order an article and return the text recorded at its settlement."""
    ann = await shop.register_agent("ann")
    assert (await ann.submit([ann.intent("Order", article=article)])).admitted
    await asyncio.wait_for(shop.wait_effects(), 20)
    ((_, row),) = (await shop.state("shop.orders")).items()
    return row["said"]


async def test_output_of_a_workflow_settles_its_effect(shop, tmp_path):
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship))
    assert await order_article(shop) == SAID
    assert step_counts(tmp_path / "outside") == ONCE


async def test_async_workflow_is_awaited(shop):
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship_waiting))
    assert await order_article(shop) == {"article": "lamp"}


async def test_failed_workflow_is_not_started_again(shop, tmp_path):
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship_and_fail))
    said = await order_article(shop)
    assert said == "DoNotRetry: the workflow failed: LookupError: no lamp is left"
    assert step_counts(tmp_path / "outside") == {"tried": 1}
    (dead,) = await shop.effects("dead")
    assert dead.kind == "ship"


async def test_attempt_after_a_timeout_waits_for_the_same_workflow(shop, tmp_path):
    handler = DbosWorkflow(dbos_shop.ship_slowly)
    await shop.register_executor("ship", handler, seconds_max=0.1, attempts_max=100, backoff=SOON)
    assert await order_article(shop) == "slowly"
    assert step_counts(tmp_path / "outside") == {"started": 1}
    assert shop.statistics()["effects"]["by_kind"]["ship"]["retries"] > 0


@pytest.mark.parametrize(
    ("stop", "said"), [(DBOS.cancel_workflow, "CANCELLED"), (DBOS.delete_workflow, "was deleted")]
)
async def test_canceled_or_deleted_workflow_fails_its_effect(shop, tmp_path, stop, said):
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship_until_stopped))

    async def stop_when_started() -> None:
        outside = tmp_path / "outside"
        while not (outside.exists() and steps_noted(outside)):  # noqa: ASYNC110  # written by a thread
            await asyncio.sleep(0.01)
        (line,) = steps_noted(outside)
        await asyncio.to_thread(stop, line.split()[0])

    stopping = asyncio.create_task(stop_when_started())
    assert said in await order_article(shop)
    await stopping


async def test_workflow_deleted_before_its_first_status_is_not_started_again(
    shop, tmp_path, monkeypatch
):
    start = DBOS.start_workflow

    def start_and_delete(workflow: Any, argument: Any) -> Any:
        handle = start(workflow, argument)
        while not (tmp_path / "outside").exists():
            time.sleep(0.01)  # the workflow's thread writes it
        DBOS.delete_workflow(argument["key"])
        return handle

    monkeypatch.setattr(DBOS, "start_workflow", start_and_delete)
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship_until_stopped), backoff=SOON)
    assert "was deleted" in await order_article(shop)
    assert step_counts(tmp_path / "outside") == {"started": 1}


@pytest.mark.parametrize("workflow", [dbos_shop.ship, dbos_shop.ship_waiting])
async def test_workflow_of_another_world_with_the_same_name_is_refused(shop, workflow):
    await shop.register_executor("ship", DbosWorkflow(dbos_shop.ship))
    assert await order_article(shop) == SAID

    config = OrchestratorConfig(world=world_of(shop), log_level="critical")
    async with Orchestrator(Shop(), config) as other:
        await other.register_executor("ship", DbosWorkflow(workflow))
        assert "distinct names" in await order_article(other, "chair")


def test_missing_library_is_reported_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[dbos\]'"):
        DbosWorkflow(dbos_shop.ship)
