"""Turns that lease what they lost to others: slow proposers on one object, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from placet import Leases, Orchestrator, OrchestratorConfig
from placet.agents import AgentLimits, PlannerInput, Session, Turn
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.domains.world.interactions import use
from placet.kernel import Kernel
from placet.runtime import world_time
from tests.actors.virtual_time import LoopClock, in_virtual_time

LAMP = "world.objects/lamp"
POKE = ("Interact", {"target_id": "lamp", "interaction_type": "poke"})

Step = Sequence[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the loop's time the world's."""
    monkeypatch.setattr(world_time, "RealtimeClock", lambda _start_ns: LoopClock())


@asynccontextmanager
async def opened(leases: Leases | None = None) -> AsyncIterator[Orchestrator]:
    objects = {"lamp": {"position": [0, 0]}, "well": {"position": [0, 0]}}
    domain = World(objects=objects, interactions={"poke": use})
    config = OrchestratorConfig(leases=leases, log_level="critical")
    async with Orchestrator([domain, Sessions()], config) as world:
        yield world


async def talk(world: Orchestrator, name: str, adapter: Any, **options: Any) -> Session:
    await world.register_agent(name, position=[0, 0])
    options.setdefault("mode", "autonomous")
    return await Session.open(world=world, session=name, agent=name, adapter=adapter, **options)


async def tickets(world: Orchestrator) -> set[str]:
    now_ns = LoopClock().now_ns()

    def tickets_of(kernel: Kernel) -> set[str]:
        assert kernel.ledger.leases is not None
        return set(kernel.ledger.leases.at(now_ns).tickets)

    return await world.query(tickets_of)


async def batches_of(world: Orchestrator, name: str) -> list[list[str]]:
    """Return the kinds of each admitted batch of an agent."""
    batches = []
    async for event in world.events(since=0):
        if event.type == "batch" and event.data["intents"][0]["agent_id"] == name:
            batches.append([intent["kind"] for intent in event.data["intents"]])
        if event.seq >= world.seq:
            break
    return batches


async def crowd(leases: Leases | None, turns: int) -> tuple[list[Turn], int]:
    """Run 20 sessions of a second on one object; return their turns and the number of calls."""
    slow, ended = Scripted(), list[Turn]()
    async with opened(leases) as world:

        async def life(name: str) -> None:
            session = await talk(world, name, slow)
            ended.extend([await session.send("poke the lamp") for _ in range(turns)])

        await asyncio.gather(*[life(f"s{number}") for number in range(20)])
    return ended, len(slow.asked)


@in_virtual_time
async def test_all_turns_of_twenty_slow_sessions_are_applied_in_at_most_two_calls() -> None:
    turns, calls = await crowd(Leases(), 3)
    assert {turn.outcome for turn in turns} == {"applied"}
    assert calls <= 2 * len(turns)


@in_virtual_time
async def test_without_leases_most_turns_of_twenty_slow_sessions_are_lost() -> None:
    turns, calls = await crowd(None, 3)
    applied = sum(turn.outcome == "applied" for turn in turns)
    assert applied <= len(turns) // 4
    assert calls >= 8 * applied


class Rival:
    """An agent that changes the lamp as often as it is told to."""

    @classmethod
    async def of(cls, world: Orchestrator, name: str = "rival") -> "Rival":
        rival = cls()
        rival.world = world
        rival.handle = await world.register_agent(name, position=[0, 0])
        return rival

    world: Orchestrator
    handle: Any

    async def pokes(self, target: str = "lamp") -> bool:
        await self.handle.refresh_view()
        payload = {"target_id": target, "interaction_type": "poke"}
        return bool((await self.handle.submit([self.handle.intent("Interact", payload)])).admitted)

    async def lease(self, seconds: float) -> None:
        request = self.handle.intent("placet.lease", refs=[LAMP.split("/")], seconds=seconds)
        assert (await self.handle.submit([request])).admitted


Act = Callable[[PlannerInput], Any]


class Scripted:
    """A proposer that thinks for a second; something else happens during its n-th thought."""

    def __init__(self, *during: Act | None, seconds: float = 1.0, steps: Sequence[Step] = ()):
        self.asked: list[PlannerInput] = []
        self._during, self._seconds, self._steps = during, seconds, steps

    async def __call__(self, context: PlannerInput) -> Step:
        number = len(self.asked)
        self.asked.append(context)
        await asyncio.sleep(self._seconds / 2)
        if number < len(self._during) and (act := self._during[number]) is not None:
            await act(context)
        await asyncio.sleep(self._seconds / 2)
        return self._steps[number] if number < len(self._steps) else (POKE,)


@in_virtual_time
async def test_after_a_loss_no_other_agent_changes_the_entity() -> None:
    async with opened(Leases()) as world:
        rival, passed = await Rival.of(world), list[bool]()

        async def poke(_context: PlannerInput) -> None:
            passed.append(await rival.pokes())

        slow = Scripted(poke, poke)
        session = await talk(world, "ann", slow)
        turn = await session.send("go")
        assert (turn.outcome, len(slow.asked), passed) == ("applied", 2, [True, False])
        assert await tickets(world) == set()
        assert [result.kind for result in turn.results] == ["Interact"]
        assert await batches_of(world, "ann") == [["placet.lease"], ["Interact", "placet.release"]]
        assert await rival.pokes()


@pytest.mark.parametrize(
    ("seconds", "options"), [(0.019, {}), (1.0, {"lease_after": None}), (1.0, {"lease_after": 3})]
)
@in_virtual_time
async def test_a_turn_leases_nothing_for_short_thoughts_or_before_the_number_of_losses(
    seconds: float, options: dict[str, Any]
) -> None:
    async with opened(Leases()) as world:
        rival, passed = await Rival.of(world), list[bool]()

        async def poke(_context: PlannerInput) -> None:
            passed.append(await rival.pokes())

        session = await talk(world, "ann", Scripted(poke, poke, seconds=seconds), **options)
        assert (await session.send("go")).outcome == "applied"
        assert passed == [True, True]


@in_virtual_time
async def test_a_world_without_leases_has_none() -> None:
    async with opened() as world:
        rival = await Rival.of(world)
        slow = Scripted(lambda _context: rival.pokes())
        session = await talk(world, "ann", slow)
        assert (await session.send("go")).outcome == "applied"
        assert len(slow.asked) == 2


@in_virtual_time
async def test_a_refused_lease_changes_nothing() -> None:
    async with opened(Leases()) as world:
        rival = await Rival.of(world)
        slow = Scripted(lambda _context: rival.pokes())
        session = await talk(world, "ann", slow, permissions={"Interact"})
        assert (await session.send("go")).outcome == "applied"
        assert len(slow.asked) == 2


@pytest.mark.parametrize(("pokes", "calls"), [(False, 1), (True, 2)])
@in_virtual_time
async def test_a_plan_that_a_lease_held_up_is_sent_again_without_another_thought(
    pokes: bool, calls: int
) -> None:
    async with opened(Leases()) as world:
        rival = await Rival.of(world)
        slow = Scripted(lambda _context: rival.lease(3))
        session = await talk(world, "ann", slow)
        async with anyio.create_task_group() as group:

            async def hold() -> None:
                await asyncio.sleep(2)
                if pokes:  # so that the plan is stale when its turn comes
                    assert await rival.pokes()

            group.start_soon(hold)
            turn = await session.send("go")
        assert (turn.outcome, len(slow.asked)) == ("applied", calls)
        assert await tickets(world) == set()


@in_virtual_time
async def test_a_turn_that_loses_another_entity_leases_both() -> None:
    async with opened(Leases()) as world:
        rival = await Rival.of(world)
        both = (POKE, ("Interact", {"target_id": "well", "interaction_type": "poke"}))
        held: list[int] = []

        async def poke_lamp(_context: PlannerInput) -> None:
            assert await rival.pokes("lamp")

        async def poke_well(_context: PlannerInput) -> None:
            assert await rival.pokes("well")

        async def look(_context: PlannerInput) -> None:
            leases = (await rival.handle.refresh_view()).leases
            held.append(len(leases))

        slow = Scripted(poke_lamp, poke_well, look, steps=[both] * 3)
        session = await talk(world, "ann", slow)
        assert (await session.send("go")).outcome == "applied"
        assert held == [2]


@in_virtual_time
async def test_a_lease_that_was_too_short_is_taken_anew() -> None:
    async with opened(Leases(share=1.0)) as world:
        rival, passed = await Rival.of(world), list[bool]()

        async def poke(_context: PlannerInput) -> None:
            await asyncio.sleep(2)  # past the end of a lease for two of the last thoughts
            passed.append(await rival.pokes())

        async def poke_early(_context: PlannerInput) -> None:
            passed.append(await rival.pokes())

        slow = Scripted(poke_early, poke, poke)
        session = await talk(world, "ann", slow)
        assert (await session.send("go")).outcome == "applied"
        assert passed == [True, True, False]


@pytest.mark.parametrize("ending", ["error", "cancel", "stop", "say", "hold", "time"])
@in_virtual_time
async def test_a_lease_is_given_back_on_every_path(ending: str) -> None:
    async with opened(Leases()) as world:
        rival = await Rival.of(world)
        inside = anyio.Event()

        class Ending(Scripted):
            async def __call__(self, context: PlannerInput) -> Any:
                if len(self.asked) == 1:
                    assert await tickets(world) == {"ann"}
                    inside.set()
                    if ending == "error":
                        raise ValueError("a bug of the adapter")
                    if ending == "say":
                        return {"version": "placet.plan/1", "goal": "x", "base_seq": 0} | {
                            "stop": {"code": "unsafe_goal", "message": "no"}
                        }
                return await super().__call__(context)

        slow = Ending(lambda _context: rival.pokes())
        options: dict[str, Any] = {"mode": "interactive"} if ending == "hold" else {}
        if ending == "time":
            options["limits"] = AgentLimits(seconds_max=1.5)
        session = await talk(world, "ann", slow, **options)
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "go")
            await inside.wait()
            if ending == "cancel":
                group.cancel_scope.cancel()
            if ending == "stop":
                session.stop()
        assert await tickets(world) == set()


@in_virtual_time
async def test_a_turn_that_is_stopped_while_it_waits_for_a_lease_takes_none() -> None:
    async with opened(Leases()) as world:
        rival = await Rival.of(world)
        slow = Scripted(lambda _context: rival.lease(9))
        session = await talk(world, "ann", slow)
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "go")
            await asyncio.sleep(2)
            assert await tickets(world) == {"ann", "rival"}
            session.stop()
        assert await tickets(world) == {"rival"}
        assert LoopClock().now_ns() < 3e9, "it did not wait for the lease"


@in_virtual_time
async def test_a_proposer_is_offered_no_leases_where_its_loop_takes_them() -> None:
    async with opened(Leases()) as world:
        for name, lease_after, is_offered in (("ann", 1, False), ("bob", None, True)):
            slow = Scripted()
            session = await talk(world, name, slow, lease_after=lease_after)
            await session.send("go")
            assert ("placet.lease" in slow.asked[0].catalogue.kinds) is is_offered


@pytest.mark.parametrize("losses", [0, True, 1.0])
def test_a_number_of_losses_is_a_positive_int(losses: Any) -> None:
    with pytest.raises(ValueError, match="lease_after must be an int of at least 1 or None, got"):
        Session.open(lease_after=losses)
