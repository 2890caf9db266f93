"""`Orchestrator.submit` of a column batch: copied, queued, a turn by itself, durable at its end."""

import asyncio
from typing import Any

import numpy as np
import pytest

from placet import BackpressureError, Limits, Orchestrator, OrchestratorConfig
from placet.kernel import ColumnBatch, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.runtime.orchestrator import Orchestrator as Opened
from placet.schemas.log.column_records import Columns
from placet.schemas.log.record import decode_record
from tests.actors.virtual_time import in_virtual_time
from tests.kernel.builders import add
from tests.kernel.columns.lab import Lab
from tests.kernel.domains import Lab as Counters

N = 6
BACKPRESSURE = ("reject", "wait", "shed_lowest", "dilate")


def opened(domain: Any = None, **config: Any) -> Orchestrator:
    return Orchestrator(domain or Lab(N, 20), OrchestratorConfig(**config))


async def populated(world: Opened) -> Any:
    return await world.register_population(
        "birds", N, table="lab.agents", position=np.full((N, 2), 500.0), cell=np.arange(N)
    )


def move(to: Any, req_id: str = "m:1", **more: Any) -> ColumnBatch:
    return ColumnBatch("Move", "birds", {"to": to}, req_id, **more)


def in_kernel(*batches: ColumnBatch) -> list[bytes]:
    log = RecordList()
    kernel = Kernel(Lab(N, 20), KernelConfig(world="world"), sink=log)
    kernel.register_population(
        "birds", N, table="lab.agents", position=np.full((N, 2), 500.0), cell=np.arange(N)
    )
    for batch in batches:
        kernel.decide_columns(batch)
    return [encoded for encoded in log if isinstance(decode_record(encoded), Columns)]


async def records(world: Opened) -> list[Any]:
    return [decode_record(data) for _, data in world.store.log.read()]


@in_virtual_time
async def test_verdict_is_that_of_the_kernel_and_durable():
    async with opened() as world:
        birds = await populated(world)
        to = birds["position"] + 0.5
        to[2] += 9.0
        verdict = await world.submit(move(to))
        assert verdict.counts() == {"admitted": N - 1, "lab.step_too_long": 1}
        assert verdict.seq == world.seq
        assert verdict.durability == world.store.durability
        written = [data for _, data in world.store.log.read()]
        (columns,) = [one for one in written if isinstance(decode_record(one), Columns)]
        (alone,) = in_kernel(move(to))
        mine, its = decode_record(columns), decode_record(alone)
        assert isinstance(mine, Columns)
        assert isinstance(its, Columns)
        assert (mine.payload, mine.codes, mine.changes) == (its.payload, its.codes, its.changes)


@in_virtual_time
async def test_arrays_may_be_changed_as_soon_as_submit_has_begun():
    async with opened() as world:
        birds = await populated(world)
        to, who, seqs = np.full((N, 2), 500.5), np.arange(N), np.full(N, world.seq)
        await world.pause()
        task = asyncio.create_task(world.submit(move(to, agents=who, context_seq=seqs)))
        await asyncio.sleep(0)
        to[:], who[:], seqs[:] = 999.0, 0, 2**40
        await world.resume()
        assert (await task).counts() == {"admitted": N}
        assert (birds["position"] == 500.5).all()


@in_virtual_time
async def test_initial_columns_may_be_changed_as_soon_as_the_registration_has_begun():
    async with opened() as world:
        hue = np.full(N, 3)
        await world.pause()  # an operator command that waits for the next cycle
        first = asyncio.create_task(world.query(lambda _: None))
        registered = asyncio.create_task(
            world.register_population("birds", N, table="lab.agents", hue=hue)
        )
        await asyncio.sleep(0)
        hue[:] = 0
        await first
        assert ((await registered)["hue"] == 3).all()
        assert (world.population("birds")["hue"] == 3).all()
        with pytest.raises(KeyError, match="no population 'bird'"):
            world.population("bird")


@in_virtual_time
async def test_same_batch_again_is_answered_as_replayed_and_leaves_no_record():
    async with opened() as world:
        birds = await populated(world)
        to = birds["position"] + 0.5
        first = await world.submit(move(to))
        again, count = await world.submit(move(to.copy())), world.records
        assert again.replayed
        assert not first.replayed
        assert (again.seq, again.counts()) == (first.seq, first.counts())
        assert len([one for one in await records(world) if isinstance(one, Columns)]) == 1
        assert world.records == count
        other = await world.submit(move(to + 0.1))
        assert other.counts() == {"req_id_reused": N}


@in_virtual_time
async def test_wrong_form_raises_before_it_is_queued():
    async with opened() as world:
        await populated(world)
        before = world.records
        with pytest.raises(ValueError, match="must be an array of shape"):
            await world.submit(move(np.zeros((2, 2))))
        with pytest.raises(ValueError, match="no population 'fish'"):
            await world.submit(ColumnBatch("Move", "fish", {"to": np.zeros((N, 2))}, "m:1"))
        with pytest.raises(ValueError, match="none of dry_run"):
            await world.submit(move(np.zeros((N, 2))), dry_run=True)
        assert world.records == before
    async with Orchestrator(Counters()) as world:
        with pytest.raises(ValueError, match="no domain of this world has a table"):
            await world.submit(move(np.zeros((N, 2))))


@pytest.mark.parametrize("clock", ["realtime", "stepped"])
@pytest.mark.parametrize("backpressure", BACKPRESSURE)
async def test_batches_are_decided_in_order_each_column_batch_as_a_turn(backpressure, clock):
    """Queued: ordinary, columns, ordinary, columns; each is a group of its own, in this order."""
    if clock == "stepped" and backpressure == "dilate":
        return  # time that waits for its host is not slowed
    async with opened(backpressure=backpressure, clock=clock) as world:
        birds = await populated(world)
        alice = await world.register_agent("alice")
        await world.pause()
        to = birds["position"].copy()

        async def columns(number: int) -> Any:
            return await world.submit(move(to + 0.1 * number, f"m:{number}"))

        tasks: list[Any] = []
        for number in (1, 2, 3):
            tasks += [
                asyncio.create_task(alice.submit([alice.intent("Take", cell=number)])),
                asyncio.create_task(columns(number)),
            ]
        for _ in range(3):
            await asyncio.sleep(0)
        assert world.statistics()["waiting"] == 6
        await world.resume()
        if clock == "stepped":
            assert len(await world.step(1.0)) == 6
        seqs = [(await task).current_seq for task in tasks]
        assert seqs == sorted(seqs)
        decided = [one for one in await records(world) if isinstance(one, Columns)]
        assert [one.req_id for one in decided] == ["m:1", "m:2", "m:3"]
        groups = [one.group for one in decided]
        assert len(set(groups)) == 3
        assert (birds["position"] == to + 0.1 * 3).all()


@in_virtual_time
async def test_withdrawn_and_refused_batches_leave_no_record():
    limits = Limits(mailbox_batches_max=2)
    async with opened(limits=limits, mailbox_batches_max=2) as world:
        birds = await populated(world)
        await world.pause()
        to = birds["position"]
        tasks = [asyncio.create_task(world.submit(move(to, f"m:{n}"))) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BackpressureError, match="mailbox_batches"):
            await world.submit(move(to, "m:9"))
        tasks[0].cancel()
        await world.resume()
        assert (await tasks[1]).counts() == {"admitted": N}
        decided = [one for one in await records(world) if isinstance(one, Columns)]
        assert [one.req_id for one in decided] == ["m:1"]
        await world.drain()
        with pytest.raises(BackpressureError):
            await world.submit(move(to, "m:10"))


@in_virtual_time
async def test_queue_counts_the_bytes_of_the_arrays():
    async with opened(mailbox_bytes_max=1_000) as world:
        birds = await populated(world)
        await world.pause()
        to = birds["position"].copy()
        tasks = [asyncio.create_task(world.submit(move(to, f"m:{n}"))) for n in range(15)]
        await asyncio.sleep(0)
        refused = 1_000 // to.nbytes
        with pytest.raises(BackpressureError, match="mailbox_bytes"):
            await tasks[refused]
        await world.resume()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, BackpressureError) for one in done].index(True) == refused


@in_virtual_time
async def test_statistics_count_rows():
    async with opened() as world:
        birds = await populated(world)
        to = birds["position"] + 0.5
        to[0] += 9
        for _ in range(2):
            await world.submit(move(to))
        counted = world.statistics()
        assert counted["intents"]["admitted"] == N - 1
        assert counted["intents"]["refused"] == 1
        assert counted["intents"]["replayed"] == N
        assert counted["refusals"]["domain/lab.step_too_long"] == 1


class Own(Lab):
    """A lab whose payload has fields of one byte, two and eight, which share a buffer."""

    def __init__(self) -> None:
        super().__init__(N, 20)
        self.tables = (Table("lab.agents", {"a": Field("b1"), "b": Field("f8", 2)}),)
        fields = {"a": Field("b1"), "b": Field("f8", 2), "c": Field("i2")}

        def put(rows: Any) -> None:
            rows.write("a", rows.payload["a"])
            rows.write("b", rows.payload["b"] + rows.payload["c"][:, None])

        self.kinds = (Kind("Put", fields, rows=put, table="lab.agents"),)


@in_virtual_time
async def test_arrays_of_any_width_are_copied_to_their_place():
    async with opened(Own()) as world:
        birds = await world.register_population("birds", 5, table="lab.agents")
        who = [4, 1, 3]
        payload = {"a": [True, False, True], "b": np.arange(6.0).reshape(3, 2), "c": [1, 2, 3]}
        verdict = await world.submit(ColumnBatch("Put", birds, payload, "p:1", agents=who))
        assert verdict.counts() == {"admitted": 3}
        assert birds["a"].tolist() == [False, False, False, True, True]
        assert birds["b"][who].tolist() == [[1, 2], [4, 5], [7, 8]]


@in_virtual_time
async def test_world_without_column_batches_takes_none_into_account():
    async with Orchestrator(Counters()) as world:
        alice = await world.register_agent("alice")
        assert (await alice.submit([add("r")])).admitted


@in_virtual_time
async def test_next_event_clock_decides_a_column_batch_before_time_advances():
    async with opened(clock="next_event") as world:
        birds = await populated(world)
        verdict = await world.submit(move(birds["position"] + 0.5))
        assert verdict.counts() == {"admitted": N}
        assert world.sim_time == 0
