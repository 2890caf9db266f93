"""A held plan is in the inbox of the world: decided there, also while its session is not open."""

from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from placet import Inbox, Orchestrator, OrchestratorConfig
from placet.agents import PlannerInput, ScriptedAdapter, Session
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.runtime.recorded_world import recorded_world
from tests.agents.till import EMPTY, Till, put, total

pytestmark = pytest.mark.anyio

OLD_LOG = Path(__file__).parents[2] / "golden" / "0.1" / "session_of_rules_1.db"
"""A session of the rules that held plans themselves: one approved, one denied, one open."""


def opened(store: str = "memory://") -> Orchestrator:
    return Orchestrator([Till(), Sessions()], OrchestratorConfig(store=store))


async def ends_of(session: Session) -> list[tuple[str, str]]:
    return [(turn["route"], turn["outcome"]) for turn in await session.turns()]


async def test_a_world_with_sessions_has_the_domain_approvals() -> None:
    async with opened() as world:
        assert [domain.name for domain in world.domains] == ["till", "session", "approvals"]
        session = await Session.open(world=world, adapter=ScriptedAdapter([[EMPTY]]))
        held = await session.send("empty it")
        [request] = await Inbox(world).open()
        assert (request.id, request.agent, request.role) == (held.approval_id, "agent", "")
        assert request.calls == ((EMPTY[0], EMPTY[1]),)
        assert request.about["goal"] == "empty it"


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_held_plan_is_decided_in_the_inbox_while_its_session_is_closed(
    tmp_path: Path, is_restarted: bool
) -> None:
    seen: list[PlannerInput] = []

    def model(context: PlannerInput) -> Any:
        seen.append(context)
        return [put(1)]

    store = f"sqlite:///{tmp_path}/till.db"
    async with opened(store) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(500)]]))
        held = await session.send("put 500")
        await session.close()
        if not is_restarted:
            await Inbox(world).decide(held.approval_id, "approve", by="ann")
    async with opened(store) as world:
        if is_restarted:
            await Inbox(world).decide(held.approval_id, "approve", by="ann")
        again = await Session.open(world=world, adapter=model)
        assert await total(again) == 500
        [request] = await again.approvals()
        assert (request.state, request.by) == ("approved", "ann")
        assert [(one.path, one.old, one.new) for one in request.diff] == [
            ("till.box/box/sum", 0, 500)
        ]
        assert await ends_of(again) == [("agent", "held"), ("person", "applied")]
        twice = await again.resolve(held.approval_id, "approve", "ann")
        assert (twice.outcome, await total(again)) == ("refused", 500)
        await again.send("one more")
        assert set(seen[0].state) == {"till.box"}, "records are no part of what a proposer sees"
        texts = [line["text"] for line in seen[0].history]
        assert f"approval request {held.approval_id} is approved by ann" in texts


@pytest.mark.parametrize(
    ("decision", "state", "sum_", "outcome"),
    [
        ("approve", "approved", 500, "applied"),
        ("deny", "denied", 0, "refused"),
        ("amend", "amended", 7, "refused"),
    ],
)
async def test_a_decision_of_the_inbox_is_a_turn_of_the_open_session(
    decision: Any, state: str, sum_: int, outcome: str
) -> None:
    async with opened() as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(500)]] * 2))
        held = await session.send("put 500")
        agent = await world.register_agent("agent")
        other = [agent.intent("till.put", amount=7)] if decision == "amend" else []
        await Inbox(world).decide(held.approval_id, decision, by="ann", intents=other)
        assert (await session.approvals())[0].state == state
        assert await total(session) == sum_
        await session.send("/till.look")
        assert await ends_of(session) == [
            ("agent", "held"), ("person", outcome), ("command", "applied"),
        ]  # fmt: skip
        assert state in (await session.turns())[1]["text"]
        await session.send("/till.look")
        assert len(await session.turns()) == 4, "each decision is recorded once"


async def test_a_decision_of_the_session_is_recorded_once() -> None:
    async with opened() as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(500)], [EMPTY]]))
        await session.resolve((await session.send("put")).approval_id, "approve", "ann")
        await session.resolve((await session.send("empty")).approval_id, "deny", "ann")
        await session.send("/till.look")
        assert len(await session.turns()) == 5
        sessions = await world.gateway.entities("session.sessions")
        assert sessions["main"]["approvals"] == []


async def test_a_decision_whose_turn_was_cut_off_is_recorded_at_the_next_opening() -> None:
    class Dying(Orchestrator):
        is_dead = False

        async def submit(self, batch: Any, **options: Any) -> Any:
            if self.is_dead and batch[0]["kind"] == "session.end":
                raise KeyboardInterrupt
            return await super().submit(batch, **options)

    async with Dying([Till(), Sessions()]) as world:
        session = await Session.open(world=world, adapter=ScriptedAdapter([[put(500)]]))
        held = await session.send("put 500")
        world.is_dead = True
        with pytest.raises(KeyboardInterrupt):
            await session.resolve(held.approval_id, "approve", "ann")
        world.is_dead = False
        again = await Session.open(world=world)
        assert await ends_of(again) == [
            ("agent", "held"), ("person", "failed"), ("person", "applied"),
        ]  # fmt: skip


async def test_an_equal_plan_of_a_session_joins_the_open_request() -> None:
    async with opened() as world:
        script = ScriptedAdapter([[EMPTY]], is_looping=True)
        session = await Session.open(world=world, adapter=script)
        first, second = await session.send("empty it"), await session.send("again")
        assert first.approval_id == second.approval_id
        other = await Session.open(world=world, session="other", adapter=script)
        turn = await other.send("empty it")
        assert (turn.outcome, turn.stop) == ("refused", "approvals.request_open")
        await session.resolve(first.approval_id, "deny", "ann")
        assert (await session.send("once more")).stop == "approvals.plan_denied"


async def test_a_log_of_a_session_that_held_plans_itself_is_continued(tmp_path: Path) -> None:
    store = f"sqlite:///{copy(OLD_LOG, tmp_path)}"
    recorded = recorded_world(store)
    assert recorded is not None
    assert recorded.rules.settings["session"]["approvals_kept"] == 64
    config = recorded.continued_by(OrchestratorConfig(store=store, clock="next_event"))
    async with Orchestrator(recorded.domains(), config) as world:
        held = (await world.state("session.approvals")).items()
        [(name, _)] = [(name, one) for name, one in held if one["state"] == "open"]
        session = await Session.open(
            world=world, adapter=ScriptedAdapter([[("Move", {"to": [2, 2]})]])
        )
        assert await session.approvals() == []
        told = [turn["text"] for turn in await session.turns() if name in turn["text"]]
        assert told[0].endswith("it has ended: propose the plan again")
        late = await session.resolve(name, "approve", "ann")
        assert "if an earlier release held it, it has ended" in late.message
        turn = await session.send("go on")
        assert turn.outcome == "held"
        assert (await session.resolve(turn.approval_id, "approve", "ann")).outcome == "applied"


def test_a_removed_setting_in_a_log_is_left_out_and_no_other(tmp_path: Path) -> None:
    assert World().former_settings == ()
    with pytest.raises(TypeError, match="approvals_kept"):
        Sessions(approvals_kept=64)  # type: ignore[call-arg]
