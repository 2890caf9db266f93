"""The load of the overload benchmark is as documented. No test here asserts a time."""

import time
from types import SimpleNamespace

import pytest

from placet.schemas.intent import Intent
from placet_bench import Scale, overload, run
from placet_bench.overload import LOADS, OUTSTANDING, Harness
from placet_bench.workloads import SIDE, Shape

SHAPE = Shape(agents=3, window_ids=24)
TICK_NS = 1_000
POLICIES = ("reject", "wait", "shed_lowest")


class Ticker:
    """A CPU clock that advances by a tick at each reading, and on request."""

    def __init__(self):
        self.now_ns = 0
        read = self.read
        self.module = SimpleNamespace(
            process_time_ns=read, thread_time_ns=read, perf_counter_ns=time.perf_counter_ns
        )

    def read(self):
        self.now_ns += TICK_NS
        return self.now_ns


@pytest.fixture(scope="module")
def result():
    return run(["overload"], 0.05, scale=Scale(agents=3, window_ids=24))[0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_peak_is_the_best_of_the_open_loads(result, policy):
    idle, closed, *loads = result["policies"][policy]
    assert [idle["load"], closed["load"]] == ["idle", "closed loop"]
    assert [point["load"] for point in loads] == [f"{load:g}x" for load in LOADS]
    assert idle["offered"] == 0
    assert closed["goodput_to_peak"] is closed["goodput_to_closed_loop"] is None
    best = max(point["goodput_to_closed_loop"] for point in loads)
    for point in loads:
        assert point["goodput_to_peak"] == point["goodput_to_closed_loop"] / (best or 1.0)


def test_the_bar_applies_to_the_worst_policy(result):
    last = [points[-1] for points in result["policies"].values()]
    assert set(result["policies"]) == set(POLICIES)
    assert result["goodput_at_5x"] == min(point["goodput_to_peak"] for point in last)


def test_a_load_is_compared_with_the_closed_loops_around_it():
    assert overload.to_closed_loop([50.0, 100.0, 10.0], [100.0, 100.0, 300.0, 100.0]) == 0.5
    assert overload.to_closed_loop([5.0], [0.0, 0.0]) == 0.0


async def test_every_batch_is_new_and_from_the_next_agent():
    stand = Harness(SHAPE, "reject")
    async with stand.orchestrator:
        await stand.register()
        bursts = [stand.burst(2), stand.burst(3)]
    offers = [offer for burst in bursts for offer in burst]
    assert [offer.agent for offer in offers] == [0, 1, 2, 0, 1]
    names = [(intent["agent_id"], intent["req_id"]) for offer in offers for intent in offer.batch]
    assert len(set(names)) == len(names) == 5 * SHAPE.batch_intents
    assert all(len({intent["priority"] for intent in offer.batch}) == 1 for offer in offers)
    assert all(0 <= at <= SIDE for intent in offers[0].batch for at in intent["payload"]["to"])


async def loaded(monkeypatch, make_ns):
    """Load a world, with a clock that advances when it is read and when batches are generated."""
    ticker = Ticker()
    monkeypatch.setattr(overload, "time", ticker.module)
    burst = Harness.burst

    def made(stand, batches):
        ticker.now_ns += make_ns * batches
        return burst(stand, batches)

    stand = Harness(SHAPE, "reject")
    async with stand.orchestrator:
        await stand.register()
        with monkeypatch.context() as patch:
            patch.setattr(Harness, "burst", made)
            return await stand.trial([n / 100_000 for n in range(1_000)], 0.01)


@pytest.mark.slow
async def test_a_slow_generator_offers_the_same_load_outside_the_measured_time(monkeypatch):
    quick, slow = [await loaded(monkeypatch, make_ns) for make_ns in (0, 50_000)]
    assert slow.offered == quick.offered > 500
    assert slow.world_seconds == pytest.approx(quick.world_seconds)
    more = slow.offered * 50_000 / 1e9
    assert slow.generator_seconds == pytest.approx(quick.generator_seconds + more)
    assert slow.goodput == pytest.approx(slow.admitted / slow.world_seconds)
    assert slow.goodput_raw == pytest.approx(slow.admitted / slow.cpu_seconds)


class Watched(list[Intent]):
    """A batch that counts its live instances."""

    made = alive = most = 0

    def __init__(self, intents):
        super().__init__(intents)
        Watched.made += 1
        Watched.alive += 1
        Watched.most = max(Watched.most, Watched.alive)

    def __del__(self):
        Watched.alive -= 1


async def test_batches_are_generated_on_demand_and_refused_ones_dropped(monkeypatch):
    stand = Harness(SHAPE, "reject")
    make = stand._load.batch
    monkeypatch.setattr(stand._load, "batch", lambda *of: Watched(make(*of)))
    async with stand.orchestrator:
        await stand.register()
        await stand.trial([0.0] * 2_000, 0.001)
    assert Watched.made == 2_000
    assert 16 <= Watched.most <= OUTSTANDING + 16
