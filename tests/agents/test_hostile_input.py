"""Hostile input: no message or answer breaks a turn, shows hidden values, or widens permissions."""

import json
from decimal import Decimal
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from placet import Orchestrator, OrchestratorConfig
from placet.agents import (
    AgentLimits,
    PlannerInput,
    PlannerOutput,
    ReplayAdapter,
    ScriptedAdapter,
    Session,
)
from placet.agents.adapters.scripted import raw_of_step
from placet.agents.loop.model_calls import json_of, raw_of
from placet.agents.proposal.adapter import PlannerUnavailable, Usage
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.plan_parser import ISSUES_MAX, Call, parse, parse_calls
from placet.domains.session import RECORDER, Sessions
from placet.domains.world import World
from placet.kernel import Domain, Draft, Kind
from placet.kernel.state.tree import State
from placet.schemas.effect import Effect
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from tests.agents.till import LOOK, Nothing, Till, put, talk, total
from tests.levels import examples

pytestmark = pytest.mark.anyio

AUTO: dict[str, Any] = {"mode": "autonomous"}


# what is said


@pytest.mark.parametrize(
    ("message", "stop"),
    [("\ud800", "said"), ("\x00\x1b[2J", "said"), ("😀" * 8_001, "context_too_large")],
)
async def test_any_message_is_a_turn(message: str, stop: str) -> None:
    async with talk(adapter=lambda _: PlannerOutput(text="no")) as session:
        assert (await session.send(message)).stop == stop
        assert [turn["outcome"] for turn in await session.turns()] != ["running"]
        assert (await session.send("and on")).stop == "said"


# what is answered


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("\ud800", "json_invalid"),
        ('{"goal": "\ud800"}', "version_unsupported"),
        ("[" * 100_000, "plan_too_large"),
        ("{" + " " * 300_000, "plan_too_large"),
        ({"version": {1, 2}}, "json_invalid"),
        ({"version": "\ud800"}, "json_invalid"),
        (PlannerOutput(calls=(Call("till__put", "\ud800"),)), "json_invalid"),
        (PlannerOutput(calls=(Call("\ud800", "{}"),)), "json_invalid"),
        (PlannerOutput(calls=(Call(7, "{}"),)), "envelope_invalid"),  # type: ignore[arg-type]
        (PlannerOutput(calls=(Call("till__put", 7),)), "envelope_invalid"),  # type: ignore[arg-type]
        (PlannerOutput(plan=[], text="\ud800"), "envelope_invalid"),
        (PlannerOutput(plan="{", response="x" * 100_000), "json_invalid"),
    ],
)
async def test_any_answer_can_be_repaired(answer: Any, code: str) -> None:
    async with talk(answer, [put(1)], **AUTO) as session:
        turn = await session.send("go")
        assert [issue.code for issue in turn.attempts[0].issues] == [code]
        assert turn.outcome == "applied"


async def test_the_same_calls_under_other_names_are_no_progress() -> None:
    def again(context: PlannerInput) -> PlannerOutput:
        return PlannerOutput(calls=(Call("till__putt", "{}", f"call_{len(context.repairs)}"),))

    async with talk(adapter=again, **AUTO) as session:
        turn = await session.send("go")
        assert (turn.stop, len(turn.attempts)) == ("repair_no_progress", 2)


async def test_a_plan_cannot_claim_a_later_seq_than_its_context() -> None:
    def claims(context: PlannerInput) -> Any:
        ahead = 0 if context.repairs else 1
        return {
            "version": "placet.plan/1",
            "goal": "g",
            "base_seq": context.base_seq + ahead,
            "actions": [{"kind": "till.put", "payload": {"amount": 1}}],
        }

    async with talk(adapter=claims, **AUTO) as session:
        turn = await session.send("go")
        [issue] = turn.attempts[0].issues
        assert (issue.code, issue.at) == ("context_from_future", "/base_seq")
        assert turn.outcome == "applied"


class Counting(Catalogue):
    """A catalogue that counts how often it looks for the nearest names, which costs most."""

    sought = 0

    def nearest(self, name: str, count: int = 3) -> tuple[str, ...]:
        self.sought += 1
        return super().nearest(name, count)


def test_issues_are_bounded() -> None:
    crowd = [{"kind": f"x{n}", "id": f"a{n // 2}"} for n in range(9_000)]
    plan = {"version": "placet.plan/1", "goal": "g", "base_seq": 0, "actions": crowd}
    _, [issue] = parse(json.dumps(plan), domain=World(), limits=AgentLimits(plan_bytes_max=2**20))
    assert issue.code == "actions_too_many"
    many = AgentLimits(actions_max=9_999, plan_bytes_max=2**20)
    for issues in (
        parse(plan, domain=World(), limits=many)[1],
        parse({**plan, "actions": [7] * 9_000}, domain=World(), limits=many)[1],
        parse_calls([Call("x", "{}")] * 9_000, goal="", base_seq=0, domain=World(), limits=many)[1],
        parse_calls([Call("x", "[")] * 9_000, goal="", base_seq=0, domain=World(), limits=many)[1],
    ):
        assert len(issues) == ISSUES_MAX
    counting = Counting(World())
    strangers = [{"kind": one["kind"]} for one in crowd]
    parse({**plan, "actions": strangers}, domain=counting, limits=many)
    assert counting.sought == ISSUES_MAX, "and what is not told is not looked for"
    speak = {"kind": "Speak", "payload": {f"x{n}": n for n in range(500)}}
    _, issues = parse({**plan, "actions": [speak] * 2}, domain=World())
    assert len(issues) == ISSUES_MAX


def test_calls_are_bounded_together() -> None:
    calls = [Call("Speak", json.dumps({"text": "x" * 90}))] * 4
    _, [issue] = parse_calls(
        calls, goal="", base_seq=0, domain=World(), limits=AgentLimits(plan_bytes_max=300)
    )
    assert issue.code == "plan_too_large"


def test_a_plan_has_the_same_bytes_in_every_form() -> None:
    plan = {"version": "placet.plan/1", "goal": "g", "base_seq": 0, "actions": []}
    small = AgentLimits(plan_bytes_max=300)
    for said in ("x" * 400, "é" * 200):
        long = {**plan, "notes": said}
        for way in (long, json.dumps(long, ensure_ascii=False)):
            _, [issue] = parse(way, domain=World(), limits=small)
            assert issue.code == "plan_too_large"
        halves = [Call("Speak", json.dumps({"text": said[::2]}, ensure_ascii=False))] * 2
        _, [issue] = parse_calls(halves, goal="", base_seq=0, domain=World(), limits=small)
        assert issue.code == "plan_too_large"


def test_two_stops_are_a_conflict_and_a_call_is_pointed_at_by_its_own_number() -> None:
    stop = Call("stop", '{"code": "unsafe_goal", "message": "no"}')
    _, issues = parse_calls([stop, stop], goal="", base_seq=0, domain=World())
    assert [(one.code, one.at) for one in issues] == [("stop_conflict", "/stop")]
    _, issues = parse_calls([stop, Call("Moove", "{}")], goal="", base_seq=0, domain=World())
    assert [(one.code, one.at) for one in issues] == [
        ("stop_conflict", "/stop"),
        ("kind_unknown", "/actions/1/kind"),
    ]


def test_a_plan_that_acts_and_asks_is_a_conflict() -> None:
    from placet.agents.adapters.legacy import plan_of_answer
    from placet.agents.proposal.legacy import ChatIntent, ExecutionPlan

    asks = ChatIntent(type="clarification_request", question="which?")
    acts = ChatIntent(type="action_call", action_id="Speak", inputs={"text": "hi"})
    context = PlannerInput("go", "", 0, Catalogue(World()))
    answer = plan_of_answer(ExecutionPlan(goal="g", actions=[acts, asks]), context)
    _, [issue] = parse(answer, domain=World())
    assert issue.code == "stop_conflict"


@pytest.mark.parametrize("name", ["stop", "ask_clarification", "find_kinds", "propose"])
def test_a_kind_is_not_shadowed_by_a_proposers_own_tool(name: str) -> None:
    class Halting(Domain):
        name = "halting"
        version = "1"

        def __init__(self) -> None:
            self.kinds = (Kind(name, Nothing, _pass), Kind("halting.go", Nothing, _pass))

    with pytest.raises(ValueError, match=f"the agent layer has a tool named '{name}'"):
        Catalogue(Halting())
    assert list(Catalogue(Halting(), permitted={"halting.go"}).kinds) == ["halting.go"]


def test_no_visible_kind_is_a_tool_of_too_long_a_name() -> None:
    long = f"t.{'a' * 62}"  # 64 characters, and one more as t__aaa

    class Long(Domain):
        name, version = "t", "1"
        kinds = (Kind(long, Nothing, lambda _d, _i: None), *Till().kinds)

    with pytest.raises(ValueError, match="more than the 64 characters"):
        Catalogue(Long())
    assert list(Catalogue(Long(), permitted={"till.put"}).kinds) == ["till.put"]


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, cast("int", None), cast("int", None)),
        Usage(1, cast("int", 1.5), 2),
        Usage(1, -5, 2),
        Usage(1, 2**64, 2),
        Usage(1, 1, 1, Decimal("NaN")),
        Usage(1, 1, 1, Decimal(-1)),
    ],
)
async def test_an_answer_of_impossible_cost_is_not_acted_on(usage: Usage) -> None:
    def answers(context: PlannerInput) -> PlannerOutput:
        return raw_of_step([put(5)], context)._replace(usage=usage)

    async with talk(adapter=answers, **AUTO) as session:
        turn = await session.send("put five in")
        assert (turn.outcome, turn.stop) == ("failed", "planner_unavailable")
        assert await total(session) == 0


# what is kept


async def test_outputs_that_exceed_a_turn_are_truncated() -> None:
    read = ("till.tell", {"amount": 4_000})
    async with talk([read] * 30, **AUTO) as session:
        turn = await session.send("read it all")
        assert (turn.outcome, len(turn.results)) == ("applied", 30)
        [kept] = await session.turns()
        assert kept["outcome"] == "applied", "its end is in the log"
        assert len(kept["results"]) == 30
        assert sum(one.get("is_truncated", False) for one in kept["results"]) > 10


async def test_numeric_outputs_are_counted_by_their_size_in_the_log() -> None:
    class Measuring(Till):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = (Kind("till.measure", Nothing, _measure, risk="read"),)

    def _measure(draft: Draft, _intent: Intent) -> None:
        draft.answer([0.5] * 1_000)  # 4 001 bytes as JSON, 9 003 in the log

    read: tuple[str, dict[str, int]] = ("till.measure", {})
    async with talk([read] * 10, domain=Measuring(), **AUTO) as session:
        turn = await session.send("measure it all")
        assert turn.outcome == "applied"
        [kept] = await session.turns()
        assert [one["output"] is not None for one in kept["results"]] == [True] * 4 + [False] * 6


@pytest.mark.parametrize("depth", [61, 62, 64])
async def test_a_deeply_nested_output_does_not_hide_applied_actions(
    depth: int,
) -> None:
    class Diving(Till):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = (*self.kinds, Kind("till.dive", Nothing, _dive, effects=("till.well",)))

    def _dive(draft: Draft, _intent: Intent) -> None:
        draft.put("till.box", "box", "sum", 7)
        draft.emit("till.well", {})

    async def well(_effect: Effect) -> Any:
        nested: Any = 1
        for _ in range(depth):
            nested = [nested]
        return nested

    async with talk([("till.dive", {})], domain=Diving(), **AUTO) as session:
        assert isinstance(session.world, Orchestrator)
        await session.world.register_executor("till.well", well)
        assert (await session.send("dive")).outcome == "applied"
        assert await total(session) == 7
        [kept] = await session.turns()
        assert (kept["outcome"], kept["stop"]) == ("applied", "completed")
        [result] = kept["results"]
        assert (result["output"] is None) is (depth > 61)
        assert result.get("is_truncated", False) is (depth > 61)


async def test_an_output_is_truncated_for_the_agent() -> None:
    async with talk([("till.tell", {"amount": 9_000})], **AUTO) as session:
        [result] = (await session.send("read")).results
        assert (result.is_truncated, len(result.output)) == (True, 4 * 1024)
        [turn] = await session.turns()
        assert [one.get("is_truncated") for one in turn["results"]] == [True], "and told so later"


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=3),
    st.text(alphabet=st.characters(exclude_categories=())) | st.none(),
    st.text(alphabet=st.characters(exclude_categories=())),
)
@example([], "x" * 70_000, "")
def test_the_logged_form_of_an_answer_is_read_back(
    calls: list[tuple[str, str, str]], plan: str | None, text: str
) -> None:
    kept = json_of(PlannerOutput(calls=[Call(*one) for one in calls], plan=plan, text=text))
    assert len(json.dumps(kept)) < 400_000
    assert json_of(raw_of(kept)) == kept or raw_of(kept).unread is not None


# who may


async def test_opening_a_session_does_not_widen_permissions() -> None:
    async with Orchestrator([Till(), Sessions()]) as world:
        await world.register_agent("agent", permissions={"till.look"})
        session = await Session.open(
            world=world, adapter=ScriptedAdapter([[put(1)], [LOOK]]), **AUTO
        )
        turn = await session.send("put")
        assert turn.attempts[0].issues[0].code == "kind_unknown"
        assert "till.put" not in turn.attempts[0].issues[0].message.partition("Choose")[2]
        assert await world.gateway.permitted("agent") == frozenset({"till.look"})
        told = await Session.open(world=world, permissions={"till.put"})
        assert await world.gateway.permitted("agent") == frozenset({"till.put"}), (
            "unless somebody says so"
        )
        assert told.agent_id == "agent"


async def test_a_revoked_permission_ends_at_the_next_message() -> None:
    async with talk([put(1)], [put(1)], **AUTO) as session:
        assert (await session.send("one")).outcome == "applied"
        assert isinstance(session.world, Orchestrator)
        await session.world.set_agent_permissions("agent", {"till.look"})
        assert (await session.send("two")).attempts[0].issues[0].code == "kind_unknown"
        assert await total(session) == 1


async def test_a_domain_without_permitted_kinds_adds_nothing_to_the_context() -> None:
    class Secret(Till):
        name = "secret"
        guide = "The vault is behind the mirror."

        def __init__(self) -> None:
            self.kinds = (Kind("secret.look", Nothing, _pass),)

        def on_open(self, draft: Draft) -> None:
            pass

    seen: list[PlannerInput] = []

    def look(context: PlannerInput) -> PlannerOutput:
        seen.append(context)
        return PlannerOutput(text=".")

    both = [Till(), Secret()]
    async with talk(adapter=look, domain=both, permissions={"till.look"}) as session:
        await session.send("what is there?")
    assert "mirror" not in seen[0].text
    assert "secret" not in seen[0].text


class Cupboard(Till):
    """A till with one box that no agent may see."""

    def on_open(self, draft: Draft) -> None:
        super().on_open(draft)
        draft.create("till.box", "hidden", {"sum": 77_777})

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        return ref.entity != "hidden"


async def test_hidden_values_are_in_no_text_for_the_agent() -> None:
    seen: list[PlannerInput] = []

    def model(context: PlannerInput) -> Any:
        seen.append(context)
        return [put(len(seen))]

    async with Orchestrator([Cupboard(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=model, **AUTO)
        for message in ("one", "two"):
            await session.send(message)
        assert "77777" not in repr(await session.state())
    assert len(seen) == 2
    assert "hidden" not in repr([(c.text, c.state, c.diffs, c.results, c.history) for c in seen])
    assert "77777" not in repr([(c.text, c.state, c.diffs, c.results, c.history) for c in seen])
    assert seen[1].diffs, "it is told what changed of the rest"


async def test_a_session_does_not_see_the_turns_of_another() -> None:
    seen: list[PlannerInput] = []

    def listen(context: PlannerInput) -> PlannerOutput:
        seen.append(context)
        return PlannerOutput(text="ok")

    async with Orchestrator([Till(), Sessions()]) as world:
        one = await Session.open(world=world, session="a", adapter=listen)
        two = await Session.open(world=world, session="b", agent="other", adapter=listen)
        await one.send("the password is swordfish")
        await two.send("what did they say?")
    assert "swordfish" not in repr([(c.text, c.state, c.history) for c in seen[1:]])
    assert "session." not in repr([(c.text, c.state) for c in seen]), "books are no part of a view"


async def test_a_message_is_not_in_its_own_history_under_concurrent_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[list[str]] = []

    def model(context: PlannerInput) -> Any:
        told.append([line["text"] for line in context.history if line["role"] == "user"])
        return [put(1)]

    async with Orchestrator([Till(), Sessions()]) as world:
        one = await Session.open(world=world, adapter=model)
        two = await Session.open(world=world, adapter=None)
        await one.send("before")
        submit = world.submit

        async def between(batch: Any, **options: Any) -> Any:
            monkeypatch.setattr(world, "submit", submit)
            verdict = await submit(batch, **options)
            await two.send("/till.put amount=1")
            return verdict

        monkeypatch.setattr(world, "submit", between)
        await one.send("now")
        assert told == [[], ["before"]]


async def test_an_agent_sees_only_the_records_of_its_own_sessions() -> None:
    async with Orchestrator([Till(), Sessions()]) as world:
        script = ScriptedAdapter([[put(500)]])
        one = await Session.open(world=world, session="a", adapter=script)
        await one.grant("till.look", by="ann")
        await one.send("put 500")
        other = await world.register_agent("other")
        for handle, names in (
            (await world.register_agent("agent"), ["approvals.requests", "session.sessions"]),
            (other, []),
        ):
            state = (await handle.refresh_view()).state
            seen = [name for name in state if name.startswith(("approvals.", "session."))]
            assert sorted(seen)[:2] == names
            assert "session.grants" not in seen


@pytest.mark.parametrize("ruling", [None, "allow", ("yes", "", ""), {"decision": "allow"}])
async def test_a_policy_that_gives_no_ruling_allows_nothing(ruling: Any) -> None:
    from placet.agents.proposal.modes import PolicyDecision

    given_ruling = PolicyDecision(*ruling) if isinstance(ruling, tuple) else ruling
    async with talk([put(1)], policy=lambda *_: given_ruling) as session:
        turn = await session.send("go")
        assert (turn.outcome, turn.stop) == ("refused", "policy_error")
        assert await total(session) == 0


async def test_the_recorder_proposes_nothing_and_has_no_position() -> None:
    async with Orchestrator([World(), Sessions()]) as world:
        with pytest.raises(ValueError, match="own voice"):
            await Session.open(world=world, agent=RECORDER)
        await Session.open(world=world)
        assert await world.state("world.agents") != {}
        assert RECORDER not in await world.state("world.agents")


# who stops


async def test_a_turn_is_stopped_by_an_operator() -> None:
    asked = anyio.Event()
    was_left: list[bool] = []

    async def hang(_context: PlannerInput) -> Any:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            was_left.append(True)

    async with talk(adapter=hang) as session, anyio.create_task_group() as group:
        ended: list[Any] = []

        async def say() -> None:
            ended.append(await session.send("think"))

        group.start_soon(say)
        await asked.wait()
        session.stop()
        with anyio.fail_after(60):
            while not (ended and was_left):  # the request is not paid for any longer
                await anyio.lowlevel.checkpoint()
        assert (ended[0].outcome, ended[0].stop) == ("refused", "operator_stopped")
        assert (await session.send("/till.put amount=1")).outcome == "applied"


async def test_a_canceled_caller_leaves_no_turn_running() -> None:
    caller = anyio.CancelScope()

    async def hang(_context: PlannerInput) -> Any:
        caller.cancel()
        await anyio.sleep_forever()

    async with talk(adapter=hang) as session:
        with caller:
            await session.send("think")
        assert [turn["stop"] for turn in await session.turns()] == ["operator_stopped"]
        assert (await session.send("/till.put amount=1")).outcome == "applied"


@pytest.mark.parametrize("is_decided", [True, False])
async def test_a_caller_canceled_as_its_turn_begins_leaves_none_running(
    is_decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = anyio.CancelScope()
    async with talk([put(1)], **AUTO) as session:
        submit = session.world.submit

        async def leave(batch: Any, **options: Any) -> Any:
            if caller.cancel_called:
                return await submit(batch, **options)
            if is_decided:
                await submit(batch)
            caller.cancel()
            return await anyio.sleep_forever()

        monkeypatch.setattr(session.world, "submit", leave)
        with caller:
            await session.send("go")
        ended = ["operator_stopped"] if is_decided else []
        assert [turn["stop"] for turn in await session.turns()] == ended
        assert (await session.send("go")).outcome == "applied"


async def test_opening_a_session_again_does_not_end_its_running_turn() -> None:
    async def think(_context: PlannerInput) -> Any:
        await session_again()
        return [put(1)]

    async def session_again() -> None:
        await Session.open(world=world, session="main")

    async with Orchestrator([Till(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=think)
        assert (await session.send("go")).outcome == "applied"
        assert [turn["outcome"] for turn in await session.turns()] == ["applied"]


async def test_many_sessions_wait_for_models_concurrently() -> None:
    waiting = 0
    all_wait = anyio.Event()

    async def think(_context: PlannerInput) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == 40:
            all_wait.set()
        await all_wait.wait()
        return PlannerOutput(text="ok")

    async with Orchestrator([Till(), Sessions()]) as world:
        sessions = [
            await Session.open(world=world, session=f"s{n}", adapter=think) for n in range(40)
        ]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for session in sessions:
                    group.start_soon(session.send, "go")


async def test_model_calls_have_the_worlds_quota() -> None:
    config = OrchestratorConfig(quotas={"session.ask": {"rate": 0.001, "burst": 1}})
    async with Orchestrator([Till(), Sessions()], config) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(1)], [put(1)]]))
        assert (await session.send("one")).outcome == "applied"
        turn = await session.send("two")
        assert (turn.outcome, turn.stop) == ("failed", "budget_exceeded")


# the recording


async def test_a_replayed_session_has_the_same_unavailable_answers() -> None:
    steps: list[Any] = [
        [put(1)],
        ConnectionError("x"),
        [put(2)],
        PlannerUnavailable("down for an hour"),
        [put(3)],
    ]

    async def lived(adapter: Any) -> tuple[list[str], str, ReplayAdapter]:
        async with talk(adapter=adapter, **AUTO) as session:
            stops = [(await session.send(f"{n}")).stop for n in range(5)]
            assert isinstance(session.world, Orchestrator)
            world = session.world
            replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
            return stops, await world.digest(), replay

    stops, digest, replay = await lived(ScriptedAdapter(steps))
    assert stops == ["completed", "planner_unavailable"] * 2 + ["completed"]
    assert (await lived(replay))[:2] == (stops, digest)


@pytest.mark.parametrize("is_settled", [True, False])
async def test_an_answer_is_replayed_to_its_own_request_alone(is_settled: bool) -> None:
    """Nobody stops the second turn of the replay, so the third has another conversation."""
    asked, let_go = anyio.Event(), anyio.Event()

    async def reluctant(context: PlannerInput) -> Any:
        if context.message == "two":
            try:
                asked.set()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await let_go.wait()  # a client that is slow to hang up
        return [put(1)]

    async def stop() -> None:
        await asked.wait()
        session.stop()

    async with talk(adapter=reluctant) as session:
        await session.send("one")
        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            assert (await session.send("two")).stop == "operator_stopped"
        await session.send("three")
        world = session.world
        assert isinstance(world, Orchestrator)
        if is_settled:
            let_go.set()
            await world.wait_effects()
        replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
        let_go.set()
    async with talk(adapter=replay) as session:
        stops = [(await session.send(said)).stop for said in ("one", "two", "three")]
        assert stops == ["completed", "planner_unavailable", "planner_unavailable"]
    assert replay.counts == (2, 0, 1, 1)


async def test_a_deadline_is_replayed_without_waiting() -> None:
    async def slow(_context: PlannerInput) -> Any:
        await anyio.sleep_forever()

    limits = AgentLimits(seconds_max=0.1)
    async with talk(adapter=slow, limits=limits) as session:
        assert (await session.send("go")).stop == "deadline_exceeded"
        assert isinstance(session.world, Orchestrator)
        digest = await session.world.digest()
        replay = await ReplayAdapter.of(session.world.events(since=0), session.world.seq, "main")
    async with talk(adapter=replay) as session:
        assert (await session.send("go")).stop == "deadline_exceeded"
        assert isinstance(session.world, Orchestrator)
        assert await session.world.digest() == digest


async def test_a_replayed_session_with_approvals_differs_only_in_times() -> None:
    """An approval request has the times of its decision and expiry; all else is identical."""

    async def lived(adapter: Any) -> tuple[Any, ReplayAdapter]:
        async with talk(adapter=adapter) as session:
            hold = (await session.send("a lot")).approval_id
            assert (await session.resolve(hold, "approve", "ann")).outcome == "applied"
            assert isinstance(session.world, Orchestrator)
            world = session.world
            replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
            state = await world.state()
            names = ("requested", "expires", "decided")
            times = [state["approvals.requests"][hold].pop(name) for name in names]
            assert min(times) > 0
            return state, replay

    state, replay = await lived(ScriptedAdapter([[put(500)]]))
    assert (await lived(replay))[0] == state


def _pass(_draft: Draft, _intent: Intent) -> None:
    pass
