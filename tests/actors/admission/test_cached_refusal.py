"""Cached refusals: a full queue answers as it would without the cache."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from placet.actors.admission.ingress import Ingress
from placet.actors.admission.queue import BatchQueue
from placet.actors.metrics import GroupMetrics
from placet.kernel import Kernel
from placet.runtime.world import WorldRuntime
from placet.schemas.errors import ClosedError
from placet.schemas.identity import OPERATOR
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import add, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, turns
from tests.levels import soak_between

if TYPE_CHECKING:
    from placet.schemas.verdict import Verdict

MS = 1_000_000
AGENTS = tuple(f"agent_{number}" for number in range(9))
LIMITS = {"mailbox_batches_max": 12, "group_batches_max": 4, "wait_queue_batches_max": 8}
POLICIES = ("reject", "wait", "shed_lowest")


class Pair:
    """Two worlds with the same inputs; the second never uses a cached refusal."""

    def __init__(self, short: WorldRuntime, long: WorldRuntime, clocks: list[HandClock]) -> None:
        self.worlds = short, long
        self.clocks = clocks
        self.answers: list[tuple[asyncio.Future[Verdict], asyncio.Future[Verdict]]] = []
        self.shortcuts = 0
        self._tasks: list[asyncio.Future[None]] = []
        self._posted = 0
        long.actor._ingress._may_cache = False

    def post(self, chance: Random) -> None:
        """Post a batch to both: as an agent or the operator, as a list or a mapping, or dry."""
        self._posted += 1
        agent_id = chance.choice(AGENTS)
        submitter = OPERATOR if chance.random() < 0.3 else agent_id
        priorities = [chance.choice((0, 10, 40, 70, 100)) for _ in range(chance.choice((1, 1, 3)))]
        form, is_dry = chance.randrange(8), chance.random() < 0.05
        short = self.worlds[0].actor._ingress
        told = short._mailbox.cached_refusal
        left = None if told is None else told.left
        both = []
        for world in self.worlds:
            batch: Any = [
                add(f"{self._posted}.{n}", agent_id=agent_id, priority=priority)
                for n, priority in enumerate(priorities)
            ]
            if form == 0:
                batch = {"intents": batch, "dry_run": True}
            elif form == 1:
                batch = {"intents": batch, "valid_for_s": 5.0}
            elif form == 2:
                batch = batch[0]
            elif form == 3:
                del batch[-1]["priority"]
            both.append(world.actor.post_batch(batch, submitter, dry_run=is_dry))
        if told is not None and told is short._mailbox.cached_refusal and told.left != left:
            self.shortcuts += 1
        self.answers.append((both[0], both[1]))

    async def happen(self, chance: Random) -> None:
        """Apply another random event to both worlds, and advance time."""
        what = chance.randrange(10)
        place = chance.randrange(len(self.answers)) if self.answers else None
        for side, (world, clock) in enumerate(zip(self.worlds, self.clocks, strict=True)):
            ingress = world.actor._ingress
            if what == 0:
                ingress._mailbox.pause()
            elif what == 1:
                ingress.drain()
            elif what == 2 and place is not None:
                self.answers[place][side].cancel()
            elif what == 3:
                clock.forward(MS)
            elif what < 6:
                ingress.resume()
                ingress._mailbox.wake()
            elif what == 6:  # the world is durable up to another seq, and nothing has left
                name = f"new_{self._posted}"
                register = world.actor.command(partial(_register, name))
                self._tasks.append(asyncio.ensure_future(register))
            elif what == 7:  # all leave, and nothing is decided
                for both in self.answers:
                    both[side].cancel()
        await turns(chance.choice((0, 1, 2, 30)))

    def compare(self) -> None:
        for short, long in self.answers:
            assert outcome(short) == outcome(long)
        first, second = [world.counters for world in self.worlds]
        assert first.refusals == second.refusals
        assert first.intents == second.intents


def _register(agent_id: str, kernel: Kernel) -> None:
    kernel.register_agent(agent_id)


def outcome(answer: "asyncio.Future[Verdict]") -> object:
    if not answer.done() or answer.cancelled():
        return answer.done()
    verdict = answer.result()
    return verdict.admitted, verdict.seq, verdict.current_seq, verdict.dry_run, verdict.refusals


@pytest.mark.parametrize("seed", soak_between(range(12), 4))
@pytest.mark.parametrize("policy", POLICIES)
@in_virtual_time
async def test_a_cached_refusal_equals_the_uncached_one(policy, seed):
    chance, clocks = Random(seed), [HandClock(1), HandClock(1)]
    async with AsyncExitStack() as stack:
        worlds = [
            await stack.enter_async_context(
                open_world(time=clock, backpressure=policy, limits=LIMITS, agents=AGENTS)
            )
            for clock in clocks
        ]
        pair = Pair(worlds[0], worlds[1], clocks)
        for _ in range(120):
            for _ in range(chance.randrange(40)):
                pair.post(chance)
            pair.compare()
            await pair.happen(chance)
            pair.compare()
        assert pair.shortcuts > 150


@in_virtual_time
async def test_the_two_queues_of_a_stepped_world_fill_independently():
    limits = {"mailbox_batches_max": 2}
    async with open_world(clock="stepped", limits=limits) as world:
        asked = [world.actor.post_batch([add("r")], "alice", dry_run=True) for _ in range(2)]
        later = [
            world.actor.post_batch({"intents": [add(f"l{n}")], "sim_time": 9.0}, "bob")
            for n in "ab"
        ]
        assert [one.result().codes for one in later] == [("queue_full",)] * 2
        assert not world.actor.post_batch([add("now")], "bob").done()
        assert not any(one.done() for one in asked)


@in_virtual_time
async def test_rejected_batches_are_reported_where_every_batch_is():
    reported: list[Verdict] = []
    async with open_world(limits={"mailbox_batches_max": 1}) as world:
        ingress = world.actor._ingress
        group_metrics = GroupMetrics(world.counters, reported.extend)
        queues = [BatchQueue(world.kernel.config.limits) for _ in range(2)]
        heard = Ingress(
            world.kernel, ingress._committer, ingress._clock, group_metrics, queues[0], queues[1]
        )
        first, *refused = [heard.post_batch([add(f"r{n}")], "alice") for n in range(5)]
        assert reported == [one.result() for one in refused]
        first.cancel()


@in_virtual_time
async def test_a_cached_refusal_expires_when_the_durable_seq_moves():
    log, limits = SlowLog(), {"mailbox_batches_max": 1}
    async with open_world(log=log, limits=limits, time=HandClock(1)) as world:
        log.hold()
        decided = world.actor.post_batch([add("r0")], "alice")
        await log.began()
        world.actor._mailbox.pause()
        world.actor.post_batch([add("r1")], "alice")
        before = world.actor.post_batch([add("r2")], "alice").result()
        log.release()
        seq = (await decided).seq
        after = world.actor.post_batch([add("r3")], "alice").result()
        assert (before.current_seq, after.current_seq) == (seq - 1, seq)  # type: ignore[operator]


@in_virtual_time
async def test_a_closed_world_raises_instead_of_a_cached_refusal():
    async with open_world(limits={"mailbox_batches_max": 1}, time=HandClock(1)) as world:
        await world.actor.pause()
        world.actor.post_batch([add("r0")], "alice")
        assert world.actor.post_batch([add("r1")], "alice").result().codes == ("queue_full",)
        assert world.actor._ingress._mailbox.cached_refusal is not None
        world.actor._ingress.close()
        with pytest.raises(ClosedError):
            world.actor.post_batch([add("r2")], "alice")
