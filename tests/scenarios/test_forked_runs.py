"""Laws of forks of a run: resumed, each ends as the run did; with another seed otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet.actors.ports import EventLog
from placet.history import position
from placet.history.fork import Fork, ForkOptions, fork
from placet.history.position import Position
from placet.history.verify_log import verify_log
from placet.scenarios import load, setup
from placet.scenarios.resume import find_run
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import ScenarioError
from placet.schemas.errors import StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Tick, decode_record
from placet.stores.url import open_event_log
from tests.scenarios.actors import by_actors

TICKS = 5
RESTED = load(
    "town",
    overrides=[
        *(f"ticks={TICKS}", "settings.cooldowns={Move=2.0}", "agents.child.count=3"),
        *(f"agents.{name}.count=0" for name in ("folk", "merchant", "crier")),
        *(f"objects.{name}.count=0" for name in ("apple", "lamp", "well")),
    ],
)
"""Children who may move in every second tick only: in the others, all that they do is refused."""

SCENARIO = load("town", overrides=[f"ticks={TICKS}", "seed=31"]).with_agents(12)


async def run(scenario: Scenario, store: str, **options: Any) -> str:
    return (await by_actors(scenario, store=store, **options).run()).digest


async def resume(made: Fork) -> str:
    store = f"{made.store}?synchronous=off"
    found = find_run(open_event_log(store))
    assert found is not None
    return await run(found.scenario, store, is_resumed=True, world=found.world)


@pytest.fixture
async def parent(tmp_path) -> tuple[EventLog, str]:
    store = f"sqlite:///{tmp_path}/town.db?synchronous=off"
    digest = await run(SCENARIO, store)
    return open_event_log(store), digest


def cut(log: EventLog, folder: Path, name: str, seed: int | None = None, **at: int) -> Fork:
    at_tick_end = Position(**at, whole_ticks_ns=SECOND_NS)
    to = f"sqlite:///{folder}/{name}.db?synchronous=off"
    return fork(log, to, ForkOptions(world=name, seed=seed), at=at_tick_end)


def positions_of(log: EventLog) -> list[dict[str, int]]:
    records = [decode_record(data) for _, data in log.read()]
    return [
        *({"record": ordinal} for ordinal in range(len(records))),
        *({"seq": batch.seq} for record in records for batch in expanded(record)),
        *({"tick": tick} for tick in range(TICKS + 1)),
    ]


async def resume_from(
    log: EventLog, folder: Path, positions: list[dict[str, int]]
) -> dict[int, str]:
    """Fork at each position; return the digest of each resumed fork, by the record of the cut."""
    resumed: dict[int, str] = {}
    for number, at in enumerate(positions):
        made = cut(log, folder, f"f{number}", **at)
        assert made.seq <= at.get("seq", made.seq)
        assert made.record <= at.get("record", made.record) + 1
        if made.record not in resumed:  # the same cut is the same world
            resumed[made.record] = await resume(made)
    return resumed


@pytest.mark.slow
async def test_fork_of_any_seq_tick_and_record_resumes_to_the_digest_of_the_run(parent, tmp_path):
    log, digest = parent
    resumed = await resume_from(log, tmp_path, positions_of(log))
    assert set(resumed.values()) == {digest}
    assert len(resumed) >= SCENARIO.agents_count + TICKS  # registrations one by one, and ticks


async def test_planted_bug_is_found_where_forks_divide_ticks(parent, tmp_path, monkeypatch):
    log, digest = parent
    for module in (position, setup):
        monkeypatch.setattr(module, "divided_tick", lambda *_: None)
    seqs = [at for at in positions_of(log) if "seq" in at]
    resumed = await resume_from(log, tmp_path, seqs[-20:])
    assert set(resumed.values()) != {digest}


async def test_fork_at_a_tick_ends_with_the_record_of_the_tick(tmp_path):
    """Refusals take no seq: those of the next tick share the seq at which a tick ends."""
    store = f"sqlite:///{tmp_path}/children.db?synchronous=off"
    await run(RESTED, store)
    log = open_event_log(store)
    records = [decode_record(data) for _, data in log.read()]
    ends = [ordinal for ordinal, record in enumerate(records) if isinstance(record, Tick)]
    assert any(records[end + 1].seq == records[end].seq for end in ends[:-1]), (
        "the scenario must show the fault"
    )
    for tick, end in enumerate(ends, 1):
        by_tick = cut(log, tmp_path, f"t{tick}", tick=tick)
        by_seq = cut(log, tmp_path, f"s{tick}", seq=records[end].seq)
        by_record = cut(log, tmp_path, f"r{tick}", record=end)
        assert by_tick.record == by_seq.record == by_record.record == end + 1
        run_found = find_run(open_event_log(by_tick.store))
        assert run_found is not None
        assert run_found.ticks == tick


async def test_fork_with_another_seed_has_the_same_past_and_another_future(parent, tmp_path):
    log, digest = parent
    made = [cut(log, tmp_path, name, 8, tick=2) for name in ("one", "other")]
    same = cut(log, tmp_path, "same", SCENARIO.seed, tick=2)
    assert [one.seed for one in (*made, same)] == [8, 8, SCENARIO.seed]
    assert len({one.digest for one in (*made, same)}) == 1
    ends = [await resume(one) for one in made]
    assert ends[0] == ends[1] != digest
    assert await resume(same) == digest
    child = open_event_log(made[0].store)
    shared = [data for _, data in child.read()][: made[0].record]
    assert shared == [data for _, data in log.read()][: made[0].record]
    verified = verify_log(child)
    assert verified.integrity.is_ok
    assert verified.unverified == ()
    for tick in range(3, TICKS + 1):  # a fork of the fork keeps the seed
        again = cut(child, tmp_path, f"again{tick}", tick=tick)
        assert again.seed == 8
        assert await resume(again) == ends[0]


async def test_divided_tick_is_not_resumed(parent, tmp_path):
    log, _ = parent
    records = [decode_record(data) for _, data in log.read()]
    first = next(o for o, record in enumerate(records) if isinstance(record, Tick))
    made = fork(log, str(tmp_path / "divided.db"), at=Position(record=first + 2))
    found = find_run(open_event_log(made.store))
    assert found is not None
    with pytest.raises(ScenarioError, match=r"inside tick 2.*placet fork.*--at-tick 1"):
        await run(found.scenario, made.store, is_resumed=True, world=made.world)
    with pytest.raises(StoreError, match="has no tick 6: it ends after tick 5"):
        cut(log, tmp_path, "late", tick=TICKS + 1)
    with pytest.raises(StoreError, match=f"has no record {len(records)}"):
        cut(log, tmp_path, "late", record=len(records))
    assert replace(found.scenario, seed=SCENARIO.seed) == SCENARIO
