"""A killed process repeats no call and loses none: each settles once, or is shown as in doubt."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from tests.tools.killed_shop import POINTS, config, executions, shop

from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Settled, decode_record
from placet.stores.url import open_event_log
from placet_tools import Gate
from tests.crash.process_forker import ProcessForker

KILLS = 20
LIFE_SECONDS_MAX = 0.25


@pytest.fixture(scope="module")
def forker():
    with pytest.MonkeyPatch.context() as patch:  # `tests.tools` is in the folder of the plug-in
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        with ProcessForker(["tests.tools.killed_shop", "anyio._backends._asyncio"]) as forker:
            yield forker


@pytest.fixture
def places():
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as name:
        yield {"store": f"sqlite:///{name}/shop.db", "outside": f"{name}/outside"}


def settlements(store: str) -> list[tuple[int, int]]:
    """Return the effects that the log settles, as often as it does."""
    records = [
        one for _, data in open_event_log(store).read() for one in expanded(decode_record(data))
    ]
    return [(one.effect_seq, one.effect_index) for one in records if isinstance(one, Settled)]


def reopened(places) -> Gate:
    tools = shop(places["outside"], lambda reached: None)
    return Gate(tools, store=places["store"], config=config())


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("tool", ["send", "charge"])
async def test_a_call_that_was_killed_runs_as_its_delivery_says(forker, places, tool, point):
    child = forker.fork("tests.tools.killed_shop:call_once", tool=tool, point=point, **places)
    assert child.wait()[-1]["what"] != "ended"
    async with reopened(places) as gate:
        outcome = await gate.call(tool, key="t1", order="A")
        if tool == "send":
            assert outcome.status == "doubt"
            assert (await gate.call(tool, order="A")).codes == ("shop.same_running",)
            assert (await gate.settle("t1", done=True)).status == "done"
        else:
            assert (outcome.status, outcome.output) == ("done", "A")
    line = {"send": "send A", "charge": "charge A t1"}[tool]
    not_run = {"committed": 0, "begun": 0}
    times = {"send": not_run, "charge": {"done": 2}}[tool].get(point, 1)
    assert executions(places["outside"]) == ({line: times} if times else {})
    assert len(settlements(places["store"])) == 1


async def test_a_failed_plan_is_undone_after_a_kill(forker, places):
    forker.fork("tests.tools.killed_shop:plan_once", **places).wait()
    assert executions(places["outside"]) == {"book A": 1}
    async with reopened(places) as gate:
        await gate._runner.finish("p.0")
        assert (await gate.outcome("p.0")).status == "undone"
        assert await gate.world.state("shop.plans") == {}
    async with reopened(places):
        pass
    assert executions(places["outside"]) == {"book A": 1, "unbook A": 1}


@pytest.mark.slow
async def test_no_kill_at_random_repeats_or_loses_a_call(forker, places, record_property):
    rng, first = Random(1), 0
    for _ in range(KILLS):
        child = forker.fork(
            "tests.tools.killed_shop:call_many", first=first, count=10_000, **places
        )
        child.wait_for("opened")
        child.listen_for(rng.random() * LIFE_SECONDS_MAX)
        assert not child.is_over, child.messages[-1]
        answered = [one for one in child.kill() if one["what"] == "answered"]
        assert {one["status"] for one in answered} <= {"done", "doubt"}
        first = max(first, first + len(answered) // 2 - 2)  # some are asked for again
    async with reopened(places) as gate:
        doubts = set()
        for number in range(first + 3):
            for tool in ("send", "charge"):
                outcome = await gate.call(tool, key=f"{tool}{number}", order=str(number))
                assert outcome.status in {"done", "doubt"}
                if outcome.status == "doubt":
                    doubts.add(outcome.key)
    ran = executions(places["outside"])
    sent = {line: times for line, times in ran.items() if line.startswith("send")}
    assert set(sent.values()) == {1}
    assert all(key.startswith("send") for key in doubts)
    for number in range(first + 3):
        assert ran[f"charge {number} charge{number}"] >= 1
        assert ran[f"send {number}"] == 1 or f"send{number}" in doubts
    settled = settlements(places["store"])
    assert len(settled) == len(set(settled))
    record_property(
        "figures", f"{KILLS} kills, {sum(ran.values())} executions, {len(doubts)} doubts"
    )


async def test_a_full_disk_runs_nothing_that_is_not_in_the_log(tmp_path):
    from placet.errors import StoreError
    from tests.lab.full_disk import full_disk

    places = {"store": f"sqlite:///{tmp_path}/shop.db", "outside": f"{tmp_path}/outside"}
    async with reopened(places) as gate:
        assert (await gate.call("send", key="t1", order="A")).status == "done"
        with full_disk(), pytest.raises(StoreError):
            await gate.call("send", key="t2", order="B")
        with pytest.raises(StoreError):
            await gate.call("send", key="t3", order="C")
    async with reopened(places) as gate:
        assert (await gate.call("send", key="t2", order="B")).status == "done"
    assert executions(places["outside"]) == {"send A": 1, "send B": 1}
