"""The orchestrator: one verdict per batch, in order, in chunks, on time; no cycles when idle."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from placet.actors.orchestrator_actor import OrchestratorActor
from placet.kernel import Kernel, Kind
from placet.kernel.decide.batches import Decision
from placet.kernel.state.draft import Draft
from placet.runtime.agent_handle import AgentHandle
from placet.runtime.world import WorldRuntime
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import AgentError, ClosedError, StoreError
from placet.schemas.identity import OPERATOR
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, Refused, Scheduled, SingleBlock, Tick, decode_record
from tests.actors.fake_logs import SlowLog
from tests.actors.parts import COUNTS, Named, add, intent, open_world
from tests.actors.virtual_time import HandClock, in_virtual_time, iterations, turns
from tests.kernel.domains import MAIL, Lab, Panic

if TYPE_CHECKING:
    from placet.actors.supervisor import TaskFailure
    from placet.schemas.verdict import Verdict

AGENTS = tuple(f"agent-{number}" for number in range(10))


def post(world: WorldRuntime, *intents: object, **options: object) -> "asyncio.Future[Verdict]":
    return world.actor.post_batch({"intents": list(intents), **options}, OPERATOR)


def records_of(world: WorldRuntime, *types: type) -> list[object]:
    records = [one for _, data in world.log.read() for one in expanded(decode_record(data))]
    return [record for record in records if isinstance(record, types)]


@contextmanager
def groups_of(world: WorldRuntime) -> Iterator[list[list[CheckedBatch]]]:
    """Record the groups that are decided."""
    groups: list[list[CheckedBatch]] = []
    kernel, decide = world.kernel, world.kernel.decide_checked

    def noting(batches: list[CheckedBatch], now_ns: int, **options: Any) -> Decision:
        groups.append(batches)
        return decide(batches, now_ns, **options)

    kernel.decide_checked = noting  # type: ignore[assignment,method-assign]  # a spy
    try:
        yield groups
    finally:
        del kernel.decide_checked


# One final answer each (G1)


def any_batch(chance: random.Random, number: int) -> tuple[Any, dict[str, Any]]:
    """Return a batch that is valid, malformed, refused at some stage, faulty, or a duplicate."""
    agent = chance.choice([*AGENTS[:4], "nobody"])
    req_id = f"r{chance.randrange(1 + number // 10)}"
    kind, payload = chance.choice(
        [
            ("Add", {"amount": 1}),
            ("Take", {"amount": 5}),
            ("Fail", {"how": "raise"}),
            ("Fail", {"how": "nonsense"}),
            ("Drop", {"thing": "none"}),
            ("Mail", {"count": 1}),
            ("Unknown", {}),
        ]
    )
    one = intent(kind, payload, req_id, agent_id=agent, context_seq=chance.choice([0, 10**9]))
    options: dict[str, Any] = chance.choice(
        [{}, {}, {"dry_run": True}, {"sim_time": 5.0}, {"valid_for_s": 0.5}]
    )
    return chance.choice([[one], [one, one], {}, None, [one, add(req_id + "'")]]), options


@pytest.mark.parametrize("seed", range(8))
@in_virtual_time
async def test_every_batch_gets_one_verdict(seed):
    chance = random.Random(seed)
    clock = HandClock()
    limits = {"mailbox_batches_max": 30, "group_batches_max": 4}
    async with open_world(agents=AGENTS, time=clock, limits=limits) as world:
        answers: list[asyncio.Future[Verdict]] = []
        for number in range(300):
            raw, options = any_batch(chance, number)
            batch = {"intents": raw, **options} if isinstance(raw, list) else raw
            answers.append(world.actor.post_batch(batch, OPERATOR))
            if chance.random() < 0.1:
                await turns(chance.randrange(4))
                clock.forward(chance.randrange(SECOND_NS))
            if chance.random() < 0.05:
                answers.pop().cancel()
        await turns()
        assert all(answer.done() for answer in answers)
        verdicts = [answer.result() for answer in answers]
    ours = [verdict for verdict in verdicts if verdict.batch_id]  # the door's are of no batch
    assert len({verdict.batch_id for verdict in ours}) == len(ours)
    assert all(verdict.admitted != bool(verdict.refusals) for verdict in verdicts)
    stages = {refusal.stage.value for verdict in verdicts for refusal in verdict.refusals}
    assert {"admission", "structure", "agent", "dedup", "staleness", "domain"} <= stages


@in_virtual_time
async def test_verdict_of_returns_the_answer_later():
    async with open_world() as world:
        verdict = await post(world, add("r"))
        again = await world.actor.command(lambda kernel: kernel.verdict_of("alice", "r"))
        assert again is not None
        assert (again.admitted, again.seq) == (verdict.admitted, verdict.seq)


@in_virtual_time
async def test_a_cycle_that_fails_half_way_stops_the_world_and_answers_every_message(capsys):
    """A bug in the kernel itself: all messages are answered, the log has nothing of the cycle."""

    def break_down(batches: object, now_ns: int, **options: Any) -> Decision:
        world.kernel.tick(1.0)  # half of a turn
        raise RuntimeError("a bug in the kernel")

    async with open_world(limits={"group_batches_max": 2}) as world:
        records = world.log.count()
        faults: list[TaskFailure] = []
        world.supervisor._on_fault = faults.append
        world.kernel.decide_checked = break_down  # type: ignore[method-assign]  # the planted bug
        answers = [post(world, add(f"r{number}")) for number in range(5)]
        read = asyncio.ensure_future(world.actor.command(lambda kernel: kernel.digest()))
        waiters: list[asyncio.Future[Any]] = [*answers, read]
        for answer in waiters:
            with pytest.raises(StoreError, match="a bug in the kernel"):
                await answer
        with pytest.raises(StoreError, match="a bug in the kernel"):
            post(world, add("later"))
        assert world.log.count() == records
    assert [fault.name for fault in faults] == ["orchestrator", "committer"]


@in_virtual_time
async def test_a_step_that_fails_half_way_fails_the_step_and_the_held_batches():
    def break_down(batches: object, now_ns: int, **options: Any) -> Decision:
        raise RuntimeError("a bug in the kernel")

    async with open_world(clock="stepped") as world:
        world.kernel.decide_checked = break_down  # type: ignore[method-assign]  # the planted bug
        answer = post(world, add("r"))
        with pytest.raises(StoreError, match="a bug in the kernel"):
            await world.actor.step(SECOND_NS)
        with pytest.raises(StoreError, match="a bug in the kernel"):
            await answer


@pytest.mark.parametrize("how", ["recursion", "panic"])
@in_virtual_time
async def test_a_poisonous_rule_refuses_only_its_batch(how):
    """G23: the world continues after rules and hooks that raise."""
    async with open_world(domain=Lab("on_tick", "on_remove"), clock="stepped") as world:
        poison = post(world, intent("Fail", {"how": how}, "poison"))
        sound = post(world, add("sound", agent_id="bob"))
        await world.actor.step(SECOND_NS)
        assert poison.result().codes == ("rule_error",)
        assert sound.result().admitted
        await world.actor.command(lambda kernel: kernel.change_agent("alice", "removed"))
        assert len(records_of(world, Tick)) == 1


@pytest.mark.parametrize("fault", [ZeroDivisionError, Panic])
@in_virtual_time
async def test_an_exception_of_a_command_is_raised_to_its_sender_and_the_world_continues(fault):
    def fail(kernel: Kernel) -> None:
        raise fault

    async with open_world() as world:
        with pytest.raises(fault):
            await world.actor.command(fail)
        assert (await post(world, add("r"))).admitted


# In which order, guarantee 4


@in_virtual_time
async def test_batches_of_one_agent_are_decided_in_order_of_submission():
    async with open_world(agents=AGENTS, limits={"group_batches_max": 7}) as world:
        answers: dict[str, list[asyncio.Future[Verdict]]] = {agent: [] for agent in AGENTS}
        for number in range(20):
            for agent in AGENTS:
                one = add(f"r{number}", agent_id=agent, priority=(number * 37) % 100)
                answers[agent].append(post(world, one))
        for agent in AGENTS:
            seqs = [(await answer).seq for answer in answers[agent]]
            assert seqs == sorted(seqs, key=lambda seq: seq or 0)


@in_virtual_time
async def test_results_are_in_the_submitters_order_independent_of_execution_order():
    async with open_world() as world:
        verdict = await post(
            world, add("low", priority=1), add("high", priority=90), add("middle", priority=50)
        )
        assert [result.req_id for result in verdict.results] == ["low", "high", "middle"]
        first = world.kernel.seq - 2
        assert [result.seq for result in verdict.results] == [first + 2, first, first + 1]


@in_virtual_time
async def test_ties_in_a_group_do_not_depend_on_arrival_order():
    firsts = set()
    for seed in range(12):
        async with open_world(agents=AGENTS, seed=seed) as world:
            answers = {agent: post(world, add("r", agent_id=agent)) for agent in AGENTS}
            await turns()
            firsts.add(min(AGENTS, key=lambda agent: answers[agent].result().seq or 0))
    assert len(firsts) > 3


# The control lane, guarantee 24


@in_virtual_time
async def test_a_control_command_overtakes_a_full_queue_and_is_never_refused():
    async with open_world(limits={"mailbox_batches_max": 50, "group_batches_max": 1}) as world:
        answers = [post(world, add(f"r{number}")) for number in range(50)]
        assert post(world, add("one more")).result().codes == ("queue_full",)
        await asyncio.gather(
            *(
                world.actor.command(lambda kernel: kernel.change_agent("alice", "suspended"))
                for _ in range(60)
            )
        )
        verdicts = await asyncio.gather(*answers)
        codes = [verdict.codes for verdict in verdicts]
        # One batch had been taken before the commands were sent; of the rest, none came before.
        assert codes.count(("agent_suspended",)) >= 49


@in_virtual_time
async def test_a_command_is_not_refused_under_overload():
    clock = HandClock()
    async with open_world(time=clock, limits={"mailbox_age_ms_max": 1}) as world:
        post(world, add("old"))
        clock.forward(SECOND_NS)
        assert post(world, add("young")).result().codes == ("overloaded",)
        await world.actor.command(lambda kernel: kernel.change_agent("alice", "removed"))
        assert "alice" not in world.kernel.ledger.agents


@in_virtual_time
async def test_settlements_are_not_refused_by_a_full_queue():
    async with open_world(limits={"mailbox_batches_max": 1, "group_batches_max": 1}) as world:
        await world.actor.command(lambda kernel: kernel.change_executor(MAIL, 5))
        mailed = await post(world, intent("Mail", {"count": 1}))
        post(world, add("in the queue"))
        assert mailed.seq is not None
        settlement = Settlement(EffectKey("world", mailed.seq, 0), succeeded=True, output="sent")
        assert await world.actor.command(lambda kernel: kernel.settle(settlement))
        assert world.kernel.open_effects() == []


@in_virtual_time
async def test_an_operator_command_runs_at_once_and_not_in_the_next_loop_iteration():
    async with open_world(limits={"group_batches_max": 1}) as world:
        answers = [post(world, add(f"r{number}")) for number in range(3)]
        await turns(2)
        before = iterations()
        await world.actor.pause()
        assert iterations() == before
        decided = sum(answer.done() for answer in answers)
        await turns(5)
        assert sum(answer.done() for answer in answers) == decided < 3
        await world.actor.resume()
        assert all(verdict.admitted for verdict in await asyncio.gather(*answers))


@in_virtual_time
async def test_operator_commands_in_a_loop_do_not_starve_batches():
    async with open_world(limits={"group_batches_max": 1}) as world:
        answers = [post(world, add(f"r{number}")) for number in range(5)]
        asked = 0
        while not all(answer.done() for answer in answers):
            await world.actor.operate(lambda kernel: kernel.seq)
            asked += 1
            assert asked < 50


@in_virtual_time
async def test_a_batch_made_due_by_an_operator_command_is_decided_without_other_messages():
    async with open_world() as world:
        await world.actor.pause()
        answer = post(world, add("r"))
        await turns()
        assert not answer.done()
        await world.actor.operate(lambda kernel: setattr(world.actor._mailbox, "is_paused", False))
        assert (await answer).admitted


@in_virtual_time
async def test_an_operator_command_does_not_overtake_a_step():
    async with open_world(clock="stepped") as world:
        held = post(world, add("r"))
        verdicts, _ = await asyncio.gather(world.actor.step(SECOND_NS), world.actor.pause())
        assert [verdict.admitted for verdict in verdicts] == [True]
        assert held.done()
        assert world.actor.is_paused


class Torn(SystemExit):
    """Raised inside a command; no handler may catch it."""


@in_virtual_time
async def test_a_world_that_fails_in_an_operator_command_fails_every_pending_answer():
    def tear(_kernel: Kernel) -> None:
        raise Torn

    async with open_world() as world:
        await world.actor.pause()
        waits = post(world, add("r"))
        await turns()
        with pytest.raises(Torn):
            await world.actor.operate(tear)
        with pytest.raises(StoreError, match="open the world again"):
            await waits
        with pytest.raises(StoreError, match="open the world again"):
            post(world, add("more"))


# Chunks


@in_virtual_time
async def test_a_group_has_at_most_group_batches_max():
    async with open_world(limits={"group_batches_max": 8}) as world:
        with groups_of(world) as groups:
            await asyncio.gather(*(post(world, add(f"r{number}")) for number in range(100)))
    sizes = [len(group) for group in groups]
    assert sum(sizes) == 100
    assert max(sizes) == 8


@in_virtual_time
async def test_a_chunk_is_bounded_by_group_ms_max():
    async with open_world(limits={"group_ms_max": 1, "group_batches_max": 100}) as world:
        world.actor._group_metrics.ns_per_intent = 100_000  # ten intents a millisecond
        with groups_of(world) as groups:
            batches = [
                post(world, *(add(f"r{number}.{k}") for k in range(4))) for number in range(12)
            ]
            await turns(1)
            [group] = groups
            assert len(group) == 3  # twelve intents: the batch that passes ten is the last
            await asyncio.gather(*batches)


@in_virtual_time
async def test_the_intents_of_a_batch_are_freed_with_its_decision_and_not_with_its_group():
    async with open_world() as world:
        with groups_of(world) as groups:
            verdict = await post(world, add("a"), add("b", 5))
        [[batch]] = groups
        assert len(batch) == 2
        assert not any(batch.intents)
        assert [(one.req_id, one.normalized) for one in verdict.results] == [
            ("a", {"amount": 1}),
            ("b", {"amount": 5}),
        ]


@in_virtual_time
async def test_other_tasks_run_between_two_chunks():
    async with open_world(limits={"group_batches_max": 1}) as world:
        seen = []

        async def look() -> None:
            for _ in range(10):
                seen.append(len(world.actor))
                await asyncio.sleep(0)

        answers = [post(world, add(f"r{number}")) for number in range(10)]
        await look()
        await asyncio.gather(*answers)
    assert len(set(seen)) > 5


# The stepped world


@in_virtual_time
async def test_submit_in_a_stepped_world_waits_for_the_step():
    async with open_world(clock="stepped") as world:
        answer = post(world, add("r"))
        await turns()
        assert not answer.done()
        verdicts = await world.actor.step(SECOND_NS)
        assert verdicts == [answer.result()]
        assert answer.result().sim_time == 1.0


@in_virtual_time
async def test_a_step_decides_one_group_of_any_size_and_then_ticks():
    limits = {"group_batches_max": 2}
    async with open_world(agents=AGENTS, clock="stepped", limits=limits) as world:
        with groups_of(world) as groups:
            answers = [post(world, add("r", agent_id=agent)) for agent in AGENTS]
            verdicts = await world.actor.step(SECOND_NS)
            assert [len(group) for group in groups] == [len(AGENTS)]
        assert verdicts == [answer.result() for answer in answers]  # in order of arrival
        types = [type(decode_record(data)) for _, data in world.log.read()]
        assert types[-2:] == [SingleBlock, Tick]
        assert len(records_of(world, Admitted)) == len(AGENTS)


@in_virtual_time
async def test_a_step_without_batches_is_a_tick():
    async with open_world(clock="stepped") as world:
        assert await world.actor.step(SECOND_NS // 2) == []
        assert await world.actor.step(0) == []
        assert [tick.now_ns for tick in records_of(world, Tick)] == [SECOND_NS // 2] * 2  # type: ignore[attr-defined]


@in_virtual_time
async def test_a_stepped_world_answers_a_dry_run_at_once():
    async with open_world(clock="stepped") as world:
        held = post(world, add("r"))
        dry = await post(world, add("r"), dry_run=True)
        assert (dry.admitted, dry.dry_run) == (True, True)
        assert not held.done()
        await world.actor.step(1)
        assert not held.result().replayed


@in_virtual_time
async def test_a_batch_for_later_is_answered_at_once_and_decided_when_it_is_due():
    async with open_world(clock="stepped") as world:
        scheduled = await post(world, add("later"), sim_time=2.5)
        assert (scheduled.admitted, scheduled.scheduled) == (True, True)
        assert await world.actor.command(lambda kernel: kernel.state[COUNTS]["alice"]["count"]) == 0
        for _ in range(2):
            await world.actor.step(SECOND_NS)
        assert records_of(world, Admitted) == []
        now = post(world, add("now", agent_id="bob"))
        with groups_of(world):
            assert await world.actor.step(SECOND_NS) == [now.result()]
        final = await world.actor.command(lambda kernel: kernel.verdict_of("alice", "later"))
        assert final is not None
        assert (final.admitted, final.scheduled) == (True, False)
        due = [record.due_of for record in records_of(world, Admitted)]  # type: ignore[attr-defined]
        assert due == [1, None]  # what was due earlier in the step comes first
        assert len(records_of(world, Scheduled)) == 1


@in_virtual_time
async def test_a_batch_scheduled_before_a_step_is_decided_in_that_step_if_due():
    """A step overtakes the queue, so it first decides the batches submitted before it."""
    async with open_world(clock="stepped") as world:
        scheduled = post(world, add("later"), sim_time=0.5)
        await world.actor.step(SECOND_NS)
        assert scheduled.result().scheduled
        assert scheduled.result().sim_time == 0.0
        final = world.kernel.verdict_of("alice", "later")
        assert final is not None
        assert not final.scheduled


@in_virtual_time
async def test_a_scheduled_batch_that_is_refused_when_due_has_a_final_answer_in_the_log():
    async with open_world(clock="stepped") as world:
        await post(world, intent("Drop", {"thing": "none"}, "later"), sim_time=0.5)
        await world.actor.step(SECOND_NS)
        final = world.kernel.verdict_of("alice", "later")
        assert final is not None
        assert final.codes == ("lab.missing",)
        assert len(records_of(world, Refused)) == 1


@in_virtual_time
async def test_a_batch_of_a_removed_agent_is_not_decided_for_a_new_agent_of_that_name():
    async with open_world(clock="stepped") as world:
        old = Named("alice", world.kernel.ledger.agents["alice"].generation)
        held = world.actor.post_batch([add("old")], "alice", identity=old)
        spoken_for = world.actor.post_batch([add("operated")], OPERATOR, identity=old)
        anyones = world.actor.post_batch([add("anyone's")], OPERATOR)
        await world.actor.command(lambda kernel: kernel.change_agent("alice", "removed"))
        await world.actor.command(lambda kernel: kernel.register_agent("alice"))
        await world.actor.step(SECOND_NS)
        assert held.result().codes == spoken_for.result().codes == ("unauthorized",)
        assert anyones.result().admitted


@in_virtual_time
async def test_refusals_caused_by_a_removal_are_counted_and_reported():
    reported: list[Verdict] = []
    async with open_world(clock="stepped") as world:
        world.actor._group_metrics._on_group = reported.extend
        for number in range(3):
            await post(world, add(f"r:{number}"), sim_time=5.0)
        await post(world, add("r", agent_id="bob"), sim_time=5.0)
        reported.clear()
        await world.change_agent("alice", "removed")
        assert [verdict.codes for verdict in reported] == [("agent_unknown",)] * 3
        assert world.counters.refusals["agent", "agent_unknown"] == 3
        assert world.counters.intents["refused"]["Add"] == 3
        reported.clear()
        await AgentHandle(world, "bob", 1, "bob").deregister()
        assert len(reported) == 1
        with pytest.raises(AgentError):
            await world.change_agent("bob", "removed")


@in_virtual_time
async def test_batches_held_when_a_stepped_world_closes_are_shed():
    async with open_world(clock="stepped") as world:
        held, withdrawn = post(world, add("r")), post(world, add("withdrawn"))
        withdrawn.cancel()
    assert held.result().codes == ("shed",)
    with pytest.raises(ClosedError):
        post(world, add("late"))
    with pytest.raises(ClosedError):
        await world.actor.step(1)


# The realtime schedule


@in_virtual_time
async def test_in_real_time_a_scheduled_batch_is_decided_when_due_by_a_timer():
    async with open_world() as world:
        scheduled = await post(world, add("later"), sim_time=1000.0)
        assert scheduled.scheduled
        await turns()
        before = iterations()
        await asyncio.sleep(999.9)
        assert iterations() - before < 5  # no polling
        assert records_of(world, Admitted) == []
        await asyncio.sleep(0.2)
        final = world.kernel.verdict_of("alice", "later")
        assert final is not None
        assert not final.scheduled
        assert final.sim_time == pytest.approx(1000.0, abs=0.01)


@in_virtual_time
async def test_the_timer_follows_the_earliest_due_batch():
    async with open_world() as world:
        for at in (50.0, 10.0, 30.0):
            await post(world, add(f"at {at}"), sim_time=at)
        times = []
        for _ in range(6):
            await asyncio.sleep(10.001)
            times.append(len(records_of(world, Admitted)))
        assert times == [1, 1, 2, 2, 3, 3]


# Idle


@in_virtual_time
async def test_a_thousand_idle_agents_cause_no_cycles():
    names = [f"agent-{number}" for number in range(1000)]
    async with open_world(agents=names) as world:
        await turns()
        before = iterations()
        await asyncio.sleep(24 * 3600)
        assert iterations() - before <= 2
        assert (await post(world, add("r", agent_id=names[-1]))).admitted


@in_virtual_time
async def test_a_busy_world_yields_to_the_event_loop_between_cycles():
    """The control: loop iterations are counted, so the test above can fail."""
    async with open_world() as world:
        before = iterations()
        for number in range(20):
            await post(world, add(f"r{number}"))
        assert iterations() - before >= 20


# The moment


@in_virtual_time
async def test_a_slow_store_is_not_counted_as_event_loop_lag():
    """Waiting for room in the committer is not event-loop lag."""
    clock, log = HandClock(1), SlowLog()
    limits = {"loop_lag_ms_max": 1, "groups_in_flight_max": 1}
    async with open_world(time=clock, log=log, limits=limits) as world:
        log.hold()
        answers = [post(world, add("written"))]
        await log.began()
        answers.append(post(world, add("decided, not written")))
        await turns()
        answers.append(post(world, add("not decided")))
        await turns()
        assert len(world.actor) == 1
        clock.forward(SECOND_NS)
        log.release()
        await asyncio.gather(*answers)
        assert (await post(world, add("later"))).admitted


@in_virtual_time
async def test_a_command_whose_sender_was_canceled_is_not_executed():
    async with open_world() as world:
        gone = asyncio.ensure_future(
            world.actor.command(lambda kernel: kernel.change_agent("alice", "removed"))
        )
        await turns(1)
        gone.cancel()
        await turns()
        assert "alice" in world.kernel.ledger.agents


@in_virtual_time
async def test_gauges_show_queue_length_and_age():
    clock = HandClock()
    async with open_world(time=clock) as world:
        gauges = world.counters.gauges
        depth, oldest = (
            gauges["mailbox_depth"]["orchestrator"],
            gauges["mailbox_oldest_seconds"][""],
        )
        assert (depth(), oldest()) == (0, 0.0)
        post(world, add("a"))
        post(world, add("b"))
        clock.forward(SECOND_NS // 2)
        assert (depth(), oldest()) == (2, 0.5)
        assert isinstance(world.actor, OrchestratorActor)


class Toil(Lab):
    """The lab, with a kind whose work is in its payload."""

    def __init__(self) -> None:
        super().__init__()

        def toil(draft: Draft, intent: Intent) -> None:
            draft.charge(intent["payload"]["amount"])

        self.kinds = (*self.kinds, Kind("Toil", self.kinds[0].payload, toil))


@pytest.mark.parametrize("backpressure", ["reject", "wait", "shed_lowest", "dilate"])
@pytest.mark.parametrize("queued", [3, 200])
@in_virtual_time
async def test_a_group_ends_when_its_work_is_used_up_and_the_rest_is_decided_in_the_next_cycles(
    backpressure, queued
):
    """Between two cycles the loop runs; no batch is lost, and each agent's order is kept."""
    limits = {"batch_work_max": 2_000, "group_work_max": 1_000, "mailbox_batches_max": 1_000}
    async with open_world(domain=Toil(), backpressure=backpressure, limits=limits) as world:
        await world.actor.pause()
        replies: dict[str, list[asyncio.Future[Verdict]]] = {"alice": [], "bob": []}
        for number in range(queued // 2):
            for name in ("alice", "bob"):
                batch = [intent("Toil", {"amount": 600}, f"t:{number}", agent_id=name)]
                replies[name].append(world.actor.post_batch(batch, name))
        spent: list[int] = []
        decide = world.kernel.decide_checked

        def counted(batches, now_ns, **options):
            decision = decide(batches, now_ns, **options)
            spent.append(len(decision.answers))
            return decision

        world.kernel.decide_checked = counted  # type: ignore[method-assign]
        await world.actor.resume()
        for name, own in replies.items():
            verdicts = [await reply for reply in own]
            assert all(verdict.admitted for verdict in verdicts), name
            seqs = [verdict.seq or 0 for verdict in verdicts]
            assert seqs == sorted(seqs)
        assert max(spent) == 2  # 600 and 600 are more than 1 000
        assert len(world.actor) == 0


@in_virtual_time
async def test_batches_put_back_are_answered_by_a_close_and_counted_by_a_pause():
    limits = {"batch_work_max": 2_000, "group_work_max": 100, "mailbox_batches_max": 1_000}
    async with open_world(domain=Toil(), limits=limits) as world:
        await world.actor.pause()
        late = [
            world.actor.post_batch([intent("Toil", {"amount": 600}, f"t:{n}")], "alice")
            for n in range(200)
        ]
        await world.actor.resume()
        await turns()
        await world.actor.pause()
        assert 0 < len(world.actor) < 200
        mailbox = world.actor._mailbox
        assert len(mailbox.batches()) == len(mailbox.replies()) == len(mailbox)
        assert mailbox.oldest is mailbox.oldest_for("alice")
        assert mailbox.oldest is not None
        assert mailbox.oldest.batch is mailbox.batches()[0]
        operator = world.actor.post_batch([intent("Toil", {"amount": 1}, "o")], "operator")
        await world.actor.resume()
        verdicts = [await reply for reply in (*late, operator)]
        assert all(verdict.admitted for verdict in verdicts)


@pytest.mark.parametrize("limits", [{"group_batches_max": 4}, {"group_work_max": 19}])
@in_virtual_time
async def test_batches_due_at_one_moment_are_decided_in_several_cycles(limits):
    async with open_world(limits=limits) as world:
        at = world.clock.now_ns() / SECOND_NS + 1
        for number in range(10):
            assert (await post(world, add(f"r:{number}"), sim_time=at)).scheduled
        sizes: list[int] = []
        decide = world.kernel.decide_checked

        def counted(batches, now_ns, **options):
            decision = decide(batches, now_ns, **options)
            sizes.append(len(decision.answers))
            return decision

        world.kernel.decide_checked = counted  # type: ignore[method-assign]
        await asyncio.sleep(2)
        assert sizes == [4, 4, 2]
        assert world.kernel.state[COUNTS]["alice"]["count"] == 10
