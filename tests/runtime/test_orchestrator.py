"""`Orchestrator` and `AgentHandle`: a world is opened, used, closed and opened again."""

import asyncio
import socket
from typing import Any

import pytest

from placet import (
    AgentError,
    ClosedError,
    DuplicateRequestError,
    Limits,
    Orchestrator,
    OrchestratorConfig,
    PermissionDeniedError,
    StoreError,
    ValidationError,
)
from placet.actors.policies.agent import AgentActor
from placet.domains.world import AGENTS, World
from placet.kernel import Domain
from placet.runtime.agent_handle import AgentHandle
from placet.schemas.effect import Effect
from placet.schemas.verdict import Verdict
from tests.actors.virtual_time import in_virtual_time, iterations, turns
from tests.kernel.builders import add
from tests.kernel.domains import COUNTS, Annex, Lab


def world_of(domain: Any = None, **config: Any) -> Orchestrator:
    return Orchestrator(domain or Lab(), OrchestratorConfig(**config))


async def through_the_operator(world: Orchestrator, alice: AgentHandle) -> Verdict:
    return await world.submit([add("r")])


async def through_a_handle(world: Orchestrator, alice: AgentHandle) -> Verdict:
    return await alice.submit([add("r")])


async def without_waiting(world: Orchestrator, alice: AgentHandle) -> Verdict:
    return await alice.submit_nowait([add("r")])


@pytest.mark.parametrize("submit", [through_the_operator, through_a_handle, without_waiting])
@in_virtual_time
async def test_caller_retrying_after_a_refusal_yields_to_the_event_loop(submit):
    async with world_of() as world:
        alice = await world.register_agent("alice")
        await world.drain()
        before = iterations()
        codes = {(await submit(world, alice)).codes for _ in range(20)}
        assert codes == {("overloaded",)}
        assert iterations() - before >= 20


@in_virtual_time
async def test_awaiting_decided_verdicts_does_not_yield():
    async with world_of() as world:
        alice = await world.register_agent("alice")
        pending = [alice.submit_nowait([add(f"r{n}")]) for n in range(20)]
        assert (await pending[-1]).admitted
        before = iterations()
        assert all([(await verdict).admitted for verdict in pending])
        assert iterations() - before <= 1


# Opening and closing


@in_virtual_time
async def test_calls_before_opening_and_after_closing_raise_closed_error():
    world = world_of()
    with pytest.raises(ClosedError, match="is not open"):
        await world.submit([add("r")])
    async with world:
        alice = await world.register_agent("alice")
        assert (await alice.submit([add("r")])).admitted
        seq = world.seq
    for late in (
        world.submit([add("late")]),
        alice.submit([add("late")]),
        alice.refresh_view(),
        world.register_agent("bob"),
        world.state(),
        world.wait_effects(),
    ):
        with pytest.raises(ClosedError, match="the world is closed"):
            await late
    with pytest.raises(ClosedError):
        world.submit_nowait([add("late")])
    await world.close()
    assert world.seq == seq
    assert world.statistics()["seq"] == seq


@in_virtual_time
async def test_query_nowait_reads_without_waiting():
    world = world_of()
    with pytest.raises(ClosedError, match="is not open"):
        world.query_nowait(lambda kernel: kernel.seq)
    async with world:
        await world.register_agent("alice")
        pending = world.submit_nowait([add("r")])
        assert world.query_nowait(lambda kernel: kernel.seq) == 2
        await pending
        assert world.query_nowait(lambda kernel: kernel.state.get(COUNTS, {}) != {})


@in_virtual_time
async def test_world_can_be_opened_once():
    world = world_of()
    async with world:
        with pytest.raises(ClosedError, match="make another one"):
            await world.__aenter__()
    with pytest.raises(ClosedError, match="make another one"):
        await world.__aenter__()


@in_virtual_time
async def test_no_task_remains_after_close_or_an_exception():
    before = asyncio.all_tasks()

    async def fail_inside() -> None:
        async with world_of() as world:
            await world.register_agent("alice")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()
    assert asyncio.all_tasks() == before


@in_virtual_time
async def test_orchestrator_without_arguments_is_a_world_in_memory():
    async with Orchestrator() as world:
        alice = await world.register_agent("alice", position=[1, 2, 3])
        await alice.submit_intent(alice.intent("Move", to=[4, 5, 6]))
        assert await world.state(f"{AGENTS}/alice/position") == [4.0, 5.0, 6.0]
        assert world.statistics()["store"] == "memory://"


@in_virtual_time
async def test_world_may_have_several_domains():
    async with Orchestrator([Lab(), Annex()]) as world:
        alice = await world.register_agent("alice")
        verdict = await alice.submit(
            [alice.intent("Add", amount=2), alice.intent("annex.Count", amount=3)]
        )
        assert verdict.admitted
        assert set(await world.state()) == {COUNTS, "annex.all"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"clock": "sundial"}, "clock must be one of"),
        ({"backpressure": "hope"}, "backpressure must be one of reject, wait, shed_lowest"),
        ({"seed": -1}, "seed must be"),
        ({"staleness_threshold": -1}, "staleness_threshold must be"),
        ({"quotas": {"Add": {"rate": 0, "burst": 1}}}, "rate must be"),
        ({"mailbox_batches_max": 0}, "'mailbox_batches_max' must be a positive int"),
        ({"default_permissions": "Add"}, "permissions must be a set of kinds"),
        ({"log_level": "loud"}, "log_level must be one of debug, info"),
        ({"log_format": "xml"}, "log_format must be one of console"),
    ],
)
def test_invalid_configuration_is_refused_at_construction(config, message):
    with pytest.raises(ValueError, match=message):
        OrchestratorConfig(**config)


@in_virtual_time
async def test_failed_open_leaves_no_task_behind(tmp_path):
    before = asyncio.all_tasks()
    with pytest.raises(ValueError, match="two domains are called 'lab'"):
        await Orchestrator([Lab(), Lab()]).__aenter__()
    with pytest.raises(StoreError, match="there is no directory"):
        await world_of(store=f"sqlite:///{tmp_path}/no/where.db").__aenter__()
    assert asyncio.all_tasks() == before


async def test_open_with_a_taken_metrics_port_releases_the_store(tmp_path):
    before = asyncio.all_tasks()
    store = f"sqlite:///{tmp_path}/world.db"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        world = world_of(store=store, metrics_port=taken.getsockname()[1])
        with pytest.raises(Exception, match=r"port|address"):
            await world.__aenter__()
    assert asyncio.all_tasks() == before
    async with world_of(store=store) as again:
        await again.register_agent("alice")


# Agents and their handles


@in_virtual_time
async def test_registering_again_changes_only_the_given_settings():
    async with world_of() as world:
        await world.register_agent("alice", permissions={"Add"}, count=7)
        seq, digest = world.seq, await world.digest()
        again = await world.register_agent("alice", count=9)
        assert (world.seq, await world.digest()) == (seq, digest)
        assert await world.state(f"{COUNTS}/alice/count") == 7
        with pytest.raises(PermissionDeniedError):
            await again.submit_intents([again.intent("Put", thing="a", field="b")])
        await world.register_agent("alice", permissions={"Add", "Put"})
        await again.submit_intents([again.intent("Put", thing="a", field="b")])


@in_virtual_time
async def test_two_handles_of_one_agent_make_different_req_ids():
    async with world_of() as world:
        first, second = [await world.register_agent("alice") for _ in range(2)]
        for handle in (first, second, first):
            assert not (await handle.submit([handle.intent("Add", amount=1)])).replayed
        assert await world.state(f"{COUNTS}/alice/count") == 3


@in_virtual_time
async def test_handle_fills_in_an_intent():
    async with world_of() as world:
        alice = await world.register_agent("alice")
        intent = alice.intent("Add", amount=1)
        assert intent == {
            "kind": "Add",
            "payload": {"amount": 1},
            "agent_id": "alice",
            "req_id": intent["req_id"],
            "context_seq": world.seq,
            "priority": 10,
            "schema_version": "1.0.0",
        }
        name, _, number = intent["req_id"].rpartition(":")
        assert alice.intent("Add", amount=1)["req_id"] == f"{name}:{int(number) + 1}"
        assert repr(alice) == f"<AgentHandle 'alice' at view {world.seq}>"
        # Payload fields may have any name.
        assert alice.intent("Custom", kind="x", self="y")["payload"] == {"kind": "x", "self": "y"}


@in_virtual_time
async def test_handle_submits_for_its_own_agent_only_and_the_host_for_all():
    async with world_of() as world:
        alice = await world.register_agent("alice")
        await world.register_agent("bob")
        bobs = add("r", agent_id="bob")
        assert (await alice.submit([bobs])).codes == ("agent_not_yours",)
        assert (await alice.submit_nowait([bobs])).codes == ("agent_not_yours",)
        with pytest.raises(AgentError, match="may not speak for agent 'bob'"):
            await alice.submit_intent(bobs)
        with pytest.raises(AgentError):
            await alice.submit_intents([alice.intent("Add", amount=1), bobs])
        assert await world.state(f"{COUNTS}/alice/count") == 0
        assert (await world.submit([bobs])).admitted


@in_virtual_time
async def test_owner_submits_for_its_agents():
    async with world_of() as world:
        trainer = await world.register_agent("trainer")
        await world.register_agent("pupil", owner="trainer")
        assert (await trainer.submit([add("r", agent_id="pupil")])).admitted


@in_virtual_time
async def test_handle_of_a_removed_agent_is_refused_even_after_registering_again():
    async with world_of() as world:
        old = await world.register_agent("alice")
        new = old
        await world.remove_agent("alice")
        for _ in range(2):
            assert (await old.submit([add("r")])).codes == ("unauthorized",)
            assert (await old.submit_nowait([add("r")])).codes == ("unauthorized",)
            assert (await old.submit(["unsound"])).codes == ("unauthorized",)
            with pytest.raises(PermissionDeniedError, match="no longer valid"):
                await old.submit_intents([add("r")])
            with pytest.raises(PermissionDeniedError, match="no longer valid"):
                await old.refresh_view()
            new = await world.register_agent("alice")
        assert new.generation == old.generation + 1
        assert (await new.submit([add("r")])).admitted


@in_virtual_time
async def test_permissions_suspension_and_removal_take_effect_at_once():
    async with world_of() as world:
        alice = await world.register_agent("alice")

        async def codes() -> tuple[str, ...]:
            return (await alice.submit([alice.intent("Add", amount=1)], dry_run=True)).codes

        assert await codes() == ()
        await world.set_agent_permissions("alice", set())
        assert await codes() == ("permission_denied",)
        await world.set_agent_permissions("alice", {"Add"})
        assert await codes() == ()
        await world.set_agent_permissions("alice", None)
        await world.suspend_agent("alice")
        assert await codes() == ("agent_suspended",)
        await world.resume_agent("alice")
        assert await codes() == ()
        await world.remove_agent("alice")
        assert await codes() == ("unauthorized",)
        for change in (world.suspend_agent, world.resume_agent, world.remove_agent):
            with pytest.raises(AgentError, match="'alice' is not registered"):
                await change("alice")
        with pytest.raises(AgentError):
            await world.set_agent_permissions("alice", set())


@pytest.mark.parametrize("name", ["", "system", "operator", "a\nb", "x" * 129])
@in_virtual_time
async def test_invalid_agent_id_is_refused(name):
    async with world_of() as world:
        with pytest.raises(AgentError):
            await world.register_agent(name)


@in_virtual_time
async def test_domain_may_refuse_the_attributes_of_an_agent():
    async with world_of() as world:
        with pytest.raises(ValidationError, match="count must not be negative"):
            await world.register_agent("alice", count=-1)
        assert world.statistics()["agents"] == 0


# Submitting


@in_virtual_time
async def test_batch_may_be_a_list_an_object_or_one_intent():
    async with world_of() as world:
        await world.register_agent("alice")
        for number, batch in enumerate(
            [[add("a")], {"intents": [add("b")], "sim_time": None}, add("c")], start=1
        ):
            assert (await world.submit(batch)).admitted
            assert await world.state(f"{COUNTS}/alice/count") == number


@in_virtual_time
async def test_submit_returns_a_refusal_and_submit_intents_raises_it():
    async with world_of() as world:
        await world.register_agent("alice")
        assert (await world.submit([add("r", kind="Nope")])).codes == ("kind_unknown",)
        with pytest.raises(ValueError, match="Nope"):
            await world.submit_intents([add("r", kind="Nope")])
        assert await world.submit_intents(add(f"r{n}") for n in range(3)) == ["r0", "r1", "r2"]
        assert await world.submit_intents([add("r0"), add("r1"), add("r2")]) == ["r0", "r1", "r2"]
        with pytest.raises(DuplicateRequestError):
            await world.submit_intent(add("r0", 2))


@in_virtual_time
async def test_dry_run_changes_nothing():
    async with world_of() as world:
        await world.register_agent("alice")
        seq, digest = world.seq, await world.digest()
        for dry in (
            await world.submit([add("r")], dry_run=True),
            await world.submit({"intents": [add("r")], "dry_run": True}),
            await world.submit_nowait([add("r")], dry_run=True),
        ):
            assert (dry.admitted, dry.dry_run, dry.durability) == (True, True, "none")
        unsound = await world.submit([], dry_run=True)
        assert (unsound.codes, unsound.dry_run) == (("batch_empty",), True)
        assert (world.seq, await world.digest()) == (seq, digest)
        assert await world.verdict_of("alice", "r") is None
        assert sum(world.statistics()["intents"].values()) == 0


@in_virtual_time
async def test_pending_verdict_can_be_awaited_repeatedly_and_withdrawn():
    async with world_of(clock="stepped") as world:
        await world.register_agent("alice")
        kept, withdrawn = (
            world.submit_nowait([add("kept")]),
            world.submit_nowait([add("withdrawn")]),
        )
        assert not kept.done()
        impatient = asyncio.ensure_future(asyncio.wait_for(kept, 0.1))
        with pytest.raises(TimeoutError):
            await impatient
        assert withdrawn.cancel()
        assert [verdict.admitted for verdict in await world.step(1.0)] == [True]
        assert await kept is await kept
        assert kept.done()
        assert not kept.cancel()
        assert await world.verdict_of("alice", "withdrawn") is None
        with pytest.raises(asyncio.CancelledError):
            await withdrawn


@in_virtual_time
async def test_verdict_of_returns_the_remembered_verdict():
    async with world_of() as world:
        await world.register_agent("alice")
        verdict = await world.submit([add("a"), add("b")])
        again = await world.verdict_of("alice", "b")
        assert again is not None
        assert (again.admitted, again.seq, again.replayed) == (True, verdict.seq, True)
        assert again.durability == verdict.durability == "memory"
        assert await world.verdict_of("alice", "never") is None
        assert await world.verdict_of("nobody", "a") is None


# Time


@in_virtual_time
async def test_a_step_answers_for_every_batch_submitted_since_the_last_one():
    """In order of submission, wherever each was refused; a dry run is no part of the step."""
    limits = Limits(mailbox_batches_max=12)
    async with world_of(clock="stepped", limits=limits) as world:
        alice = await world.register_agent("alice")
        bob = await world.register_agent("bob")
        gone = await world.register_agent("gone")
        await world.step(1.0)
        batches: list[Any] = [
            [add("a")],
            [{"kind": "Add"}],
            {"intents": [add("late")], "valid_for_s": 0.0},
            {"intents": [add("later")], "sim_time": 9.0},
            {"intents": [add("dry")], "dry_run": True},
            [add("b", agent_id="ghost")],
            {"intents": [add("far")], "sim_time": 1e9},
        ]
        pending = [world.submit_nowait(batch) for batch in batches]
        pending.append(gone.submit_nowait([add("gone", agent_id="gone")]))
        pending.append(bob.submit_nowait([add("stolen")]))
        pending += [alice.submit_nowait([add(f"full{n}")]) for n in range(9)]
        await gone.deregister()
        verdicts = await world.step(1.0)
        answers = [await one for one in pending]
        assert verdicts == [verdict for verdict in answers if not verdict.dry_run]
        refused = {code for verdict in verdicts for code in verdict.codes}
        assert {"field_missing", "timeout", "agent_unknown", "unauthorized"} <= refused
        assert {"sim_time_too_far", "agent_not_yours", "queue_full"} <= refused
        assert [verdict.scheduled for verdict in verdicts].count(True) == 1
        assert await world.step(1.0) == []


@in_virtual_time
async def test_a_flood_of_refused_batches_between_two_steps_is_forgotten_and_no_held_batch():
    async with world_of(clock="stepped") as world:
        await world.register_agent("alice")
        first = world.submit_nowait([add("first")])
        for _ in range(5_000):
            await world.submit_nowait([{"kind": "Add"}])
        last = world.submit_nowait([add("last")])
        verdicts = await world.step(1.0)
        assert (verdicts[0], verdicts[-1]) == (await first, await last)
        assert len(verdicts) < 2_000


@in_virtual_time
async def test_stepped_world_advances_by_steps_only():
    async with world_of(clock="stepped") as world:
        await world.register_agent("alice")
        assert world.sim_time == 0.0
        await world.step(0.25)
        await world.step(0)
        assert world.sim_time == 0.25
        for dt in (-0.1, float("nan"), float("inf"), 1e300):
            with pytest.raises(ValueError, match="dt must be a finite number of seconds"):
                await world.step(dt)
        scheduled = await world.submit({"intents": [add("r")], "sim_time": 1.0})
        assert scheduled.scheduled
        await world.step(0.75)
        assert await world.state(f"{COUNTS}/alice/count") == 1


@in_virtual_time
async def test_step_is_refused_in_a_realtime_world():
    async with world_of() as world:
        with pytest.raises(ValueError, match="clock='stepped'"):
            await world.step(1.0)


# Reading


@in_virtual_time
async def test_view_is_an_immutable_cut_and_sets_the_next_context_seq():
    async with Orchestrator(World()) as world:
        alice = await world.register_agent("alice", position=[0, 0, 0])
        view = await alice.refresh_view()
        await alice.submit_intents([alice.intent("Move", to=[1, 0, 0])])
        assert view.view_seq == world.seq - 1
        assert view.state[AGENTS]["alice"]["position"] == (0.0, 0.0, 0.0)
        with pytest.raises(TypeError):
            view.state[AGENTS]["alice"]["position"] = (9, 9, 9)  # type: ignore[index]  # the point
        assert alice.intent("Move", to=[2, 0, 0])["context_seq"] == view.view_seq
        assert (await alice.refresh_view()).state[AGENTS]["alice"]["position"] == (1.0, 0.0, 0.0)
        assert alice.view_seq == world.seq


@in_virtual_time
async def test_views_of_several_agents_have_the_same_seq():
    async with world_of(limits=Limits(group_batches_max=1)) as world:
        alice, _ = [await world.register_agent(name) for name in ("alice", "bob")]
        pending = [
            alice.submit_nowait([add(f"r{n}")]) for n in range(9)
        ]  # the world changes between the calls
        asked = ["bob", "alice"] * 3
        views = await world.views_for(asked)
        assert [view.agent_id for view in views] == asked
        (seq,) = {view.view_seq for view in views}
        assert all([(await verdict).admitted for verdict in pending])
        assert seq < world.seq


@in_virtual_time
async def test_state_returns_a_plain_json_copy_by_path():
    async with world_of(Lab(things=("a/b", "a"))) as world:
        await world.register_agent("alice")
        await world.submit_intents(
            [
                add(
                    "p",
                    kind="Put",
                    payload={"thing": "a/b", "field": "list", "value": [1, {"x": 2}]},
                )
            ]
        )
        state = await world.state()
        assert state == {
            COUNTS: {"alice": {"count": 0}},
            "lab.things": {"a": {"value": 0}, "a/b": {"value": 0, "list": [1, {"x": 2}]}},
        }
        state["lab.things"]["a/b"]["list"][1]["x"] = 3
        assert await world.state("lab.things/a/b/list") == [1, {"x": 2}]
        assert await world.state("lab.things/a/b") == {"value": 0, "list": [1, {"x": 2}]}
        assert await world.state("/lab.things/a/") == {"value": 0}
        assert await world.state(COUNTS) == {"alice": {"count": 0}}
        for path in ("nowhere", "lab.things/c", "lab.things/a/none", f"{COUNTS}/alice/count/x"):
            with pytest.raises(KeyError, match="there is nothing at"):
                await world.state(path)


@in_virtual_time
async def test_events_start_at_the_given_seq():
    async with world_of() as world:
        await world.register_agent("alice")
        events = world.events(since=world.seq)
        waiting = asyncio.ensure_future(anext(events))
        await turns()
        verdict = await world.submit([add("r")])
        event = await waiting
        assert (event.type, event.seq, event.data["batch_id"]) == (
            "batch",
            verdict.seq,
            verdict.batch_id,
        )
    assert [event async for event in events] == []


@in_virtual_time
async def test_statistics_and_metrics_belong_to_one_world():
    async with world_of() as one, world_of() as other:
        await one.register_agent("alice")
        await one.submit([add("r")])
        await one.submit([add("r", kind="Nope")])
        statistics = one.statistics()
        assert statistics["intents"] == {"admitted": 1, "refused": 1, "replayed": 0, "scheduled": 0}
        assert statistics["refusals"] == {"structure/kind_unknown": 1}
        assert statistics["verdict_ms"]["p50"] > 0
        assert (statistics["agents"], statistics["waiting"], statistics["outbox"]) == (1, 0, 0)
        assert one.metrics_registry is one.metrics_registry
        assert one.metrics_registry is not other.metrics_registry
        assert one.metrics_registry.get_sample_value("placet_seq") == one.seq
        assert one.metrics_registry.get_sample_value("placet_agents") == 1
        assert one.metrics_registry.get_sample_value("placet_observers") == 0
        assert one.metrics_registry.get_sample_value("placet_observation_lag_seqs") == 0
        assert one.metrics_registry.get_sample_value("placet_log_bytes_total")
        assert other.statistics()["intents"]["admitted"] == 0
        assert one.metrics_url is None


async def test_metrics_are_served_at_the_configured_port():
    async with world_of(metrics_port=0) as world:
        assert str(world.metrics_url).startswith("http://")


# Effects and agents


@in_virtual_time
async def test_effects_run_settle_and_become_state():
    async def send(effect: Effect) -> dict[str, Any]:
        return {"sent": effect.payload["number"]}

    async with world_of() as world:
        await world.register_executor("mail", send, concurrency=1, outbox_max=5)
        alice = await world.register_agent("alice")
        verdict = await alice.submit([alice.intent("Mail", count=2)])
        await world.wait_effects()
        assert await world.state(f"lab.letters/world/{verdict.seq}/1") == {"output": {"sent": 1}}
        assert world.statistics()["outbox"] == 0
        with pytest.raises(ValueError, match="have an executor already"):
            await world.register_executor("mail", send)


@in_virtual_time
async def test_world_runs_an_agent_actor():
    class Adder:
        rounds = 0

        def propose(self, view: Any) -> Any:
            self.rounds += 1
            return None if self.rounds > 3 else [alice.intent("Add", amount=1)]

    async with world_of() as world:
        alice = await world.register_agent("alice")
        world.run_agent(AgentActor(alice, Adder()))
        await turns(200)
        assert await world.state(f"{COUNTS}/alice/count") == 3


# Faults


@in_virtual_time
async def test_faults_are_logged_with_a_traceback_and_refusals_with_their_code(capsys):
    async with world_of(log_level="info", log_format="json") as world:
        await world.register_agent("alice")
        verdict = await world.submit([add("r", kind="Fail", payload={"how": "raise"})])
        assert verdict.codes == ("rule_error",)
        await world.submit([add("unknown", kind="Nope")])
    told = capsys.readouterr()
    assert "ZeroDivisionError: a bug" in told.err
    assert '"code": "rule_error"' in told.err
    assert '"code": "kind_unknown"' in told.err
    assert "how" not in told.err.split('"event": "refused"')[1]
    assert told.out == ""


@in_virtual_time
async def test_a_policy_that_raises_is_logged_with_one_traceback_and_a_count(capsys):
    class Confused:
        def propose(self, view: Any) -> Any:
            raise LookupError("no way home")

    async with world_of(limits=Limits(restarts_max=5, restart_window_s=1000)) as world:
        for name in ("alice", "bob"):
            world.run_agent(AgentActor(await world.register_agent(name), Confused()))
        await asyncio.sleep(100)
        assert {world.agent_status(name).failures for name in ("alice", "bob")} == {6}
    told = capsys.readouterr().err
    assert told.count("Traceback") == 1
    assert told.rindex("times=12") > told.rindex("times=10")


@in_virtual_time
async def test_world_without_faults_logs_nothing(capsys):
    class Still(Lab):
        on_tick = Domain.on_tick

    async with world_of(domain=Still()) as world:
        await world.register_agent("alice")
        await world.submit([add("r", kind="Nope")])
        await world.submit([add("r")])
    assert capsys.readouterr().err == ""


# Reopening a store


def store_in(folder: Any) -> str:
    return f"sqlite:///{folder}/world.db"


async def test_reopened_world_continues_where_it_ended(tmp_path):
    config = {"store": store_in(tmp_path), "seed": 7, "clock": "stepped"}
    async with world_of(**config) as world:
        alice = await world.register_agent("alice", permissions={"Add", "Drop"})
        await world.register_agent("bob")
        pending = [
            world.submit_nowait([add("a", 5)]),
            world.submit_nowait([add("gone", kind="Drop", payload={"thing": "x"})]),
        ]
        await world.step(2.5)
        admitted, refused = [await verdict for verdict in pending]
        assert (admitted.durability, refused.codes) == ("full", ("lab.missing",))
        old_intent = alice.intent("Add", amount=1)
        left = world.seq, await world.digest(), world.sim_time, await world.state()
    async with world_of(**config) as world:
        assert (world.seq, await world.digest(), world.sim_time, await world.state()) == left
        again = (
            world.submit_nowait([add("a", 5)]),
            world.submit_nowait([add("gone", kind="Drop", payload={"thing": "x"})]),
        )
        await world.step(0.5)
        for before, verdict in zip((admitted, refused), again, strict=True):
            after = await verdict
            assert after.replayed
            assert (after.admitted, after.seq, after.codes) == (
                before.admitted,
                before.seq,
                before.codes,
            )
        assert (await world.state())[COUNTS]["alice"] == left[3][COUNTS]["alice"]
        alice_again = await world.register_agent("alice")
        assert alice_again.generation == alice.generation
        assert alice_again.intent("Add", amount=1)["req_id"] != old_intent["req_id"]
        denied = await alice_again.submit([alice_again.intent("Take", amount=1)], dry_run=True)
        assert denied.codes == ("permission_denied",)


async def test_digest_is_the_same_in_memory_and_on_disk(tmp_path):
    digests = []
    for store in ("memory://", store_in(tmp_path)):
        async with world_of(store=store, seed=3, clock="stepped") as world:
            for name in ("alice", "bob", "carol"):
                await world.register_agent(name)
            for number in range(5):
                for name in ("carol", "alice", "bob"):
                    thing = {"thing": "apple"}
                    world.submit_nowait(
                        [add(f"r{number}", kind="Grab", payload=thing, agent_id=name)]
                    )
                await world.step(1.0)
            digests.append(await world.digest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seed": 8}, "with seed 7"), ({"world": "elsewhere"}, "'elsewhere'")],
)
async def test_store_of_another_world_is_not_opened(tmp_path, change, message):
    config: dict[str, Any] = {"store": store_in(tmp_path), "seed": 7}
    async with world_of(**config):
        pass
    with pytest.raises(StoreError, match=message):
        await world_of(**config | change).__aenter__()
    with pytest.raises(StoreError, match=r"domains \['lab'\]"):
        await world_of(Annex(), **config).__aenter__()
    async with world_of(**config) as world:  # the store is unchanged
        assert world.seq == 1


async def test_fenced_writer_writes_no_more(tmp_path):
    async with world_of(store=store_in(tmp_path)) as old:
        await old.register_agent("alice")
        async with world_of(store=store_in(tmp_path), take_over=True) as new:
            with pytest.raises(StoreError, match="fenced"):
                await old.submit([add("zombie")])
            with pytest.raises(StoreError, match="fenced"):
                await old.state()
            assert (await new.submit([add("r")])).admitted
            assert await new.verdict_of("alice", "zombie") is None


@in_virtual_time
async def test_two_worlds_in_one_process_are_independent():
    async with world_of() as one, world_of(seed=9) as other:
        for world in (one, other):
            await world.register_agent("alice")
        await one.submit([add("r", 5)])
        assert await other.state(f"{COUNTS}/alice/count") == 0
        await other.submit([add("r", 6)])
        assert await one.state(f"{COUNTS}/alice/count") == 5
        await one.close()
        assert (await other.submit([add("r2")])).admitted


@in_virtual_time
async def test_full_log_stops_the_world_with_advice():
    async with world_of(limits=Limits(log_bytes_max=4000)) as world:
        await world.register_agent("alice")
        batch = [add(f"r{number}") for number in range(200)]
        with pytest.raises(StoreError, match=r"log in memory is full.*raise the limit"):
            await world.submit(batch)
        with pytest.raises(StoreError, match="log in memory is full"):
            await world.digest()
