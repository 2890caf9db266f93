"""Under load and every policy: refusals name their signal, commands run, no batch is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import pytest

from placet.actors.admission.queue import Backpressure
from placet.kernel import Kernel
from placet.runtime.world import WorldRuntime
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS
from placet.schemas.refusal import Stage
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import add, intent, open_world, register_executor
from tests.actors.virtual_time import HandClock, in_virtual_time, iterations, turns

if TYPE_CHECKING:
    from placet.schemas.verdict import Verdict

MS = 1_000_000
POLICIES: Final = get_args(Backpressure)
IN_LINE: Final = {"wait", "dilate"}

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_stepped_policy = pytest.mark.parametrize("policy", [p for p in POLICIES if p != "dilate"])


def post(
    world: WorldRuntime, req_id: str, agent_id: str = "alice", priority: int = 10
) -> "asyncio.Future[Verdict]":
    return world.actor.post_batch([add(req_id, agent_id=agent_id, priority=priority)], agent_id)


def flood(world: WorldRuntime, count: int = 60) -> list["asyncio.Future[Verdict]"]:
    return [post(world, f"flood-{number}") for number in range(count)]


# Each signal, with each policy


class Signalled(NamedTuple):
    """The expected signal, value and limit when `late` is submitted, and the queued batches."""

    name: str
    value: int
    limit: int
    waiting: list["asyncio.Future[Verdict]"]


def by_count(world: WorldRuntime, clock: HandClock) -> Signalled:
    return Signalled("mailbox_batches", 3, 3, flood(world, 3))


def by_bytes(world: WorldRuntime, clock: HandClock) -> Signalled:
    waiting = [post(world, f"{number}" + "x" * 120) for number in range(2)]
    size = world.actor._mailbox.statistics().waiting_bytes
    return Signalled("mailbox_bytes", size + SIZE_OF_LATE, 300, waiting)


def by_age(world: WorldRuntime, clock: HandClock) -> Signalled:
    waiting = flood(world, 1)
    clock.forward(200 * MS)
    return Signalled("mailbox_age_ms", 200, 100, waiting)


def by_lag(world: WorldRuntime, clock: HandClock) -> Signalled:
    waiting = flood(world, 1)
    world.actor._ingress._control.note_lag(70 * MS, clock.monotonic_ns())
    return Signalled("loop_lag_ms", 70, 50, waiting)


Signal = Callable[[WorldRuntime, HandClock], Signalled]
SIGNALS: list[Signal] = [by_count, by_bytes, by_age, by_lag]
SIZE_OF_LATE: Final = 27
LIMITS = {
    "mailbox_batches_max": 3,
    "mailbox_bytes_max": 300,
    "mailbox_age_ms_max": 100,
    "loop_lag_ms_max": 50,
}


@every_policy
@pytest.mark.parametrize("signal", SIGNALS, ids=lambda signal: signal.__name__)
@in_virtual_time
async def test_every_load_signal_refuses_a_batch_and_is_named(signal, policy):
    """`late` is refused, waits, or displaces a batch; a refusal names signal, value and limit."""
    clock = HandClock(1)
    async with open_world(time=clock, backpressure=policy, limits=LIMITS) as world:
        await world.actor.pause()
        said = signal(world, clock)
        late = post(world, "late", priority=50)
        if policy in IN_LINE:
            assert not late.done()
            assert world.actor._mailbox.waiters_count == 1
            clock.forward(10 * SECOND_NS)
            await world.actor.resume()
            await asyncio.sleep(1)
            assert (await late).admitted
            return
        if policy == "shed_lowest":
            assert not late.done()
            assert [answer.done() for answer in said.waiting].count(True) == 1
            late = said.waiting[-1]
        refusal = late.result().refusals[0]
        assert refusal.stage is Stage.ADMISSION
        codes = {"queue_full", "overloaded"} if policy == "reject" else {"shed"}
        assert refusal.code in codes
        told = {name: refusal.details[name] for name in ("signal", "value", "limit")}
        assert told == {"signal": said.name, "value": said.value, "limit": said.limit}
        assert refusal.retry_after is not None
        assert refusal.retry_after > 0


@every_policy
@in_virtual_time
async def test_every_batch_of_a_flood_gets_one_answer_and_may_be_resubmitted(policy):
    """Refusals for load leave no trace (G6): the same req_ids are admitted later as new."""
    limits = {"mailbox_batches_max": 4, "wait_queue_batches_max": 4, "group_batches_max": 2}
    async with open_world(backpressure=policy, limits=limits) as world:
        answers: dict[str, asyncio.Future[Verdict]] = {}
        for number in range(80):
            req_id = f"request-{number:03}"
            answers[req_id] = post(world, req_id, priority=number * 7 % 100)
            if number % 8 == 0:
                await turns(1)
        await turns()
        refused = {req_id for req_id, answer in answers.items() if not (await answer).admitted}
        assert len(refused) > 20
        logged = b"".join(record for _, record in world.log.read())
        for req_id in refused:
            assert req_id.encode() not in logged
            assert world.kernel.verdict_of("alice", req_id) is None
        while refused:
            req_id = refused.pop()
            again = await post(world, req_id)
            assert (again.admitted, again.replayed) == (True, False)


# Pause, resume, drain


@every_policy
@in_virtual_time
async def test_a_paused_world_decides_no_batches_and_executes_commands(policy):
    log = SlowLog()
    limits = {"mailbox_batches_max": 3}
    async with open_world(backpressure=policy, limits=limits, log=log) as world:
        log.hold()
        decided = post(world, "before")
        await log.began()
        pausing = asyncio.ensure_future(world.actor.pause())
        await turns()
        assert not pausing.done()  # it returns once all that was decided is durable
        log.release()
        await pausing
        assert decided.done()
        waits = [post(world, f"r{number}", "bob") for number in range(2)]
        seq = world.kernel.seq
        await turns()
        assert world.kernel.seq == seq
        await world.actor.command(lambda kernel: kernel.change_agent("alice", "suspended"))
        assert world.kernel.seq == seq + 1
        await world.actor.resume()
        assert all([(await answer).admitted for answer in waits])


@in_virtual_time
async def test_a_paused_world_runs_no_cycles_with_queued_and_due_batches():
    async with open_world(limits={"mailbox_age_ms_max": 10**9}) as world:
        scheduled = await world.actor.post_batch(
            {"intents": [add("later")], "sim_time": 5.0}, OPERATOR
        )
        assert scheduled.scheduled
        await world.actor.pause()
        flood(world, 10)
        await turns()
        before = iterations()
        await asyncio.sleep(3600)
        assert iterations() - before < 5
        await world.actor.command(Kernel.digest)
        assert world.kernel.ledger.scheduled  # what is due waits too
        await world.actor.resume()
        await turns()
        assert not world.kernel.ledger.scheduled
        assert len(world.actor) == 0


@in_virtual_time
async def test_a_pause_is_not_counted_as_event_loop_lag():
    for act in (lambda world: world.actor.resume(), lambda world: world.actor.drain()):
        async with open_world(limits={"mailbox_age_ms_max": 10**9}) as world:
            await world.actor.pause()
            waits = post(world, "first")
            await asyncio.sleep(60)
            await act(world)
            assert (await waits).admitted
            await world.actor.resume()
            assert (await post(world, "next")).admitted


@in_virtual_time
async def test_the_age_of_a_paused_queue_is_a_load_signal():
    async with open_world() as world:
        await world.actor.pause()
        post(world, "old")
        await asyncio.sleep(6)
        refusal = post(world, "late").result().refusals[0]
        assert (refusal.code, refusal.details["signal"]) == ("overloaded", "mailbox_age_ms")


@in_virtual_time
async def test_a_paused_world_is_not_stepped():
    async with open_world(clock="stepped") as world:
        held = post(world, "held")
        await world.actor.pause()
        with pytest.raises(ValueError, match="paused"):
            await world.actor.step(SECOND_NS)
        assert not held.done()
        await world.actor.resume()
        assert await world.actor.step(SECOND_NS) == [held.result()]


@every_policy
@in_virtual_time
async def test_batches_queued_when_a_paused_world_closes_are_shed(policy):
    async with open_world(backpressure=policy, limits={"mailbox_batches_max": 3}) as world:
        await world.actor.pause()
        answers = flood(world, 3)
        late = post(world, "late")
    for answer in answers:
        assert answer.result().codes == ("shed",)
    assert late.result().codes == (("shed",) if policy in IN_LINE else ("queue_full",))


@every_policy
@in_virtual_time
async def test_drain_decides_queued_batches_and_refuses_new_ones(policy):
    limits = {"mailbox_batches_max": 3, "group_batches_max": 1}
    log = SlowLog()
    async with open_world(backpressure=policy, limits=limits, log=log) as world:
        await world.actor.pause()
        answers = flood(world, 5)
        draining = asyncio.ensure_future(world.actor.drain())
        await asyncio.sleep(0)
        refusal = post(world, "late", priority=99).result().refusals[0]
        assert refusal.code == "overloaded"
        assert refusal.details["signal"] == "draining"
        assert refusal.details["limit"] == 0
        assert "takes no more until it is resumed" in refusal.message
        assert refusal.retry_after is not None
        await draining
        assert all(answer.done() for answer in answers)
        assert [answer.result().admitted for answer in answers[:2]] == [True] * 2
        assert answers[4].result().admitted == (policy in IN_LINE)
        assert world.log.count() == world.kernel.record_count  # and durable
        assert post(world, "later").result().codes == ("overloaded",)
        await world.actor.resume()
        assert (await post(world, "late")).admitted


@in_virtual_time
async def test_drain_of_a_stepped_world_leaves_held_batches_to_the_next_step():
    async with open_world(clock="stepped") as world:
        held = post(world, "held")
        await world.actor.drain()
        assert not held.done()
        late = post(world, "late").result()
        assert late.codes == ("overloaded",)
        assert await world.actor.step(SECOND_NS) == [held.result(), late]


@in_virtual_time
async def test_drain_does_not_wait_for_canceled_batches():
    async with open_world() as world:
        await world.actor.pause()
        flood(world, 3)[1].cancel()
        await world.actor.drain()
        assert len(world.actor) == 0


@in_virtual_time
async def test_drain_of_a_failed_or_closed_world_raises():
    log = SlowLog()
    async with open_world(log=log) as world:
        await world.actor.pause()
        answers = flood(world, 3)
        log.failure = OSError("the disk is full")
        with pytest.raises(StoreError, match="the disk is full"):
            await world.actor.drain()
        for answer in answers:
            assert isinstance(answer.exception(), StoreError)
    async with open_world() as world:
        await world.stop()
        for act in (world.actor.drain, world.actor.pause, world.actor.resume):
            with pytest.raises(ClosedError):
                await act()


# The control lane, guarantee 24


async def register(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.register_agent("carol"))


async def suspend(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.change_agent("bob", "suspended"))


async def remove(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.change_agent("bob", "removed"))


async def permit(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.set_agent_permissions("bob", []))


async def settle(world: WorldRuntime) -> object:
    key = EffectKey("world", world.kernel.ledger.seq, 0)
    return await world.actor.command(
        lambda kernel: kernel.settle(Settlement(key, succeeded=True, output="sent"))
    )


async def read(world: WorldRuntime) -> object:
    return await world.actor.command(Kernel.digest)


async def ask(world: WorldRuntime) -> object:
    return await world.actor.command(lambda kernel: kernel.verdict_of("alice", "flood-0"))


async def pause(world: WorldRuntime) -> None:
    await world.actor.pause()


async def resume(world: WorldRuntime) -> None:
    await world.actor.resume()


CONTROLS: list[Callable[[WorldRuntime], Awaitable[object]]] = [
    register,
    suspend,
    remove,
    permit,
    settle,
    read,
    ask,
    pause,
    resume,
]


async def rounds_of(
    control: Callable[[WorldRuntime], Awaitable[object]], world: WorldRuntime
) -> int:
    """Return the number of loop iterations that a control message takes."""
    before = iterations()
    await control(world)
    return iterations() - before


@every_policy
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.__name__)
@in_virtual_time
async def test_control_takes_as_long_under_overload_as_when_idle(control, policy):
    limits = {"mailbox_batches_max": 50, "group_batches_max": 1, "wait_queue_batches_max": 50}
    settings: dict[str, Any] = {"backpressure": policy, "limits": limits}
    async with open_world(**settings) as world:
        idle = await rounds_of(control, world)
    async with open_world(**settings) as world:
        flood(world, 200)
        await turns(2)
        waiting = len(world.actor)
        assert await rounds_of(control, world) <= idle + 1
        assert len(world.actor) >= waiting - 3  # it overtook all but the turn that was under way


@every_stepped_policy
@in_virtual_time
async def test_a_step_decides_every_held_batch_of_a_full_queue(policy):
    limits = {"mailbox_batches_max": 20, "wait_queue_batches_max": 20}
    async with open_world(clock="stepped", backpressure=policy, limits=limits) as world:
        flood(world, 100)
        verdicts = await world.actor.step(SECOND_NS)
        assert [verdict.admitted for verdict in verdicts].count(True) == 20


@every_stepped_policy
@in_virtual_time
async def test_an_immediate_batch_of_a_stepped_world_needs_no_place_in_the_held_queue(policy):
    async with open_world(
        clock="stepped", backpressure=policy, limits={"mailbox_batches_max": 2}
    ) as world:
        flood(world, 5)
        for options in ({"dry_run": True}, {"sim_time": 9.0}):
            batch = {"intents": [add("prompt", priority=0)], **options}
            assert (await world.actor.post_batch(batch, "alice")).admitted


@every_policy
@in_virtual_time
async def test_effects_settle_under_overload(policy):
    """A settlement is a control message, so a flood cannot delay the outbox."""
    limits = {"mailbox_batches_max": 5, "group_batches_max": 1, "wait_queue_batches_max": 5}
    async with open_world(backpressure=policy, limits=limits) as world:
        sent = asyncio.Event()

        async def send(effect: object) -> str:
            sent.set()
            return "sent"

        await register_executor(world, send, concurrency=1, outbox_max=5)
        await world.actor.post_batch([intent("Mail", {"count": 1}, "mail")], "alice")
        await world.actor.pause()
        flood(world, 50)
        await sent.wait()
        await world.executors.settled()
        assert world.kernel.open_effects() == []
        assert len(world.actor) >= 3


@every_policy
@in_virtual_time
async def test_closing_is_not_delayed_by_a_flood(policy):
    limits = {"mailbox_batches_max": 5, "wait_queue_batches_max": 5}
    async with open_world(backpressure=policy, limits=limits) as world:
        answers = flood(world, 50)
        await world.stop()
        assert all(answer.done() for answer in answers)
        assert sum(answer.result().admitted for answer in answers) >= 5
