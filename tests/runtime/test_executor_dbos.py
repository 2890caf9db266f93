"""Effects of many steps: real workflows of DBOS, real databases, processes that are killed (G17).

Each child is a process. Those that are killed die in the middle of a workflow or beside it; the last
one children to the end, and then the world outside has counted what was done, and how often.
"""

import asyncio
import sqlite3
import sys
from collections import Counter
from itertools import count
from typing import Any, Final

import pytest
from dbos import DBOS

from placet import Orchestrator, OrchestratorConfig
from placet.runtime.executors import Backoff, DbosWorkflow
from tests.crash.process_forker import ProcessForker
from tests.runtime import dbos_life
from tests.runtime.dbos_life import POINTS, Outside, Shop, steps_noted

SOON: Final = Backoff(first_s=0.0, max_s=0.0)
ONCE: Final = {"first": 1, "second": 1, "third": 1}
SAID: Final = {"article": "lamp", "steps": ["first", "second", "third"]}
_NUMBERS: Final = count(1)


@pytest.fixture(scope="module")
def forker():
    late = ["anyio._backends._asyncio", "placet.runtime.telemetry.world_logger"]
    with ProcessForker(["tests.runtime.dbos_life", "psycopg", *late]) as forker:
        yield forker


def require_sqlite() -> None:
    """Skip where DBOS cannot use the SQLite there is: its tables then lack a default of theirs."""
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        pytest.skip(f"on Python 3.12 DBOS needs SQLite 3.42, this is {sqlite3.sqlite_version}")


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request, tmp_path):
    """Where the world is, where DBOS has its database, and the world outside."""
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


def counted(outside: object) -> dict[str, int]:
    lines = [line.split() for line in steps_noted(outside)]
    assert len({line[0] for line in lines}) == 1, "there is one effect, and one key"
    return dict(Counter(step for _, step in lines))


def end_of(told: list[dict[str, Any]]) -> tuple[list[Any], int]:
    (end,) = [line for line in told if line["what"] == "end"]
    return [order["said"] for order in end["orders"].values()], end["settled"]


def live_until(forker, crash_at: str, places: dict[str, Any]) -> None:
    """Live until killed at a point."""
    told = forker.fork("tests.runtime.dbos_life:run", crash_at=crash_at, **places).wait()
    assert not told[1:], "the child came to its end"


@pytest.mark.slow
@pytest.mark.parametrize("crash_at", POINTS)
def test_each_step_is_done_once_and_the_effect_settled_once_whenever_the_process_is_killed(
    forker, places, crash_at
):
    live_until(forker, crash_at, places)

    said, settled = end_of(forker.fork("tests.runtime.dbos_life:run", **places).wait())

    assert (said, settled) == ([SAID], 1)
    # A step that is cut off has not ended for DBOS: that one, and no other, is done again.
    again = {"second": 2} if crash_at == "within second" else {}
    assert counted(places["outside"]) == {**ONCE, **again}


@pytest.mark.slow
def test_a_workflow_survives_one_crash_after_another(forker, places):
    for crash_at in POINTS:
        live_until(forker, crash_at, places)

    said, settled = end_of(forker.fork("tests.runtime.dbos_life:run", **places).wait())

    assert (said, settled) == ([SAID], 1)
    assert counted(places["outside"]) == {**ONCE, "second": 2}


@pytest.mark.slow
@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
def test_that_steps_done_twice_would_be_seen(forker, places):
    """The planted bug: the id of the workflow is not the key of the effect."""
    child = {**places, "is_forgetful": True}
    live_until(forker, "after first", child)

    forker.fork("tests.runtime.dbos_life:run", **child).wait()

    assert counted(places["outside"])["first"] == 2


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """DBOS in this very process, on SQLite."""
    require_sqlite()
    folder = tmp_path_factory.mktemp("dbos")
    dbos_life.launch(f"sqlite:///{folder / 'dbos.db'}")
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


async def ordered(shop: Orchestrator, article: str = "lamp") -> Any:
    """Order something, and say what came of it."""
    ann = await shop.register_agent("ann")
    assert (await ann.submit([ann.intent("Order", article=article)])).admitted
    await asyncio.wait_for(shop.wait_effects(), 20)
    ((_, row),) = (await shop.state("shop.orders")).items()
    return row["said"]


async def test_a_workflow_settles_its_effect_with_what_it_returns(shop, tmp_path):
    await shop.register_executor("ship", DbosWorkflow(dbos_life.ship))
    assert await ordered(shop) == SAID
    assert counted(tmp_path / "outside") == ONCE


async def test_an_async_workflow_is_waited_for(shop):
    await shop.register_executor("ship", DbosWorkflow(dbos_life.ship_waiting))
    assert await ordered(shop) == {"article": "lamp"}


async def test_a_workflow_that_raises_has_failed_and_is_not_begun_again(shop, tmp_path):
    await shop.register_executor("ship", DbosWorkflow(dbos_life.ship_in_vain))
    said = await ordered(shop)
    assert said == "DoNotRetry: the workflow failed: LookupError: no lamp is left"
    assert counted(tmp_path / "outside") == {"tried": 1}
    (dead,) = await shop.effects("dead")
    assert dead.kind == "ship"


async def test_an_attempt_that_takes_too_long_leaves_the_workflow_to_the_next(shop, tmp_path):
    handler = DbosWorkflow(dbos_life.ship_at_leisure)
    await shop.register_executor("ship", handler, seconds_max=0.1, attempts_max=100, backoff=SOON)
    assert await ordered(shop) == "at leisure"
    assert counted(tmp_path / "outside") == {"begun": 1}
    assert shop.statistics()["effects"]["by_kind"]["ship"]["retries"] > 0


@pytest.mark.parametrize(
    ("stop", "said"), [(DBOS.cancel_workflow, "CANCELLED"), (DBOS.delete_workflow, "was deleted")]
)
async def test_a_workflow_that_an_operator_stops_is_a_failed_effect(shop, tmp_path, stop, said):
    await shop.register_executor("ship", DbosWorkflow(dbos_life.ship_until_stopped))

    async def stop_it_when_begun() -> None:
        outside = tmp_path / "outside"
        while not (outside.exists() and steps_noted(outside)):  # noqa: ASYNC110  # by a thread
            await asyncio.sleep(0.01)
        (line,) = steps_noted(outside)
        await asyncio.to_thread(stop, line.split()[0])

    stopping = asyncio.create_task(stop_it_when_begun())
    assert said in await ordered(shop)
    await stopping


@pytest.mark.parametrize("workflow", [dbos_life.ship, dbos_life.ship_waiting])
async def test_the_workflow_of_a_world_of_the_same_name_is_not_taken_for_ones_own(shop, workflow):
    await shop.register_executor("ship", DbosWorkflow(dbos_life.ship))
    assert await ordered(shop) == SAID

    config = OrchestratorConfig(world=world_of(shop), log_level="critical")
    async with Orchestrator(Shop(), config) as other:
        await other.register_executor("ship", DbosWorkflow(workflow))
        assert "names of their own" in await ordered(other, "desk")


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dbos", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'placet\[dbos\]'"):
        DbosWorkflow(dbos_life.ship)
