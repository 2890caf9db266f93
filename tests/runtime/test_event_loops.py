"""A world is used in the event loop that opened it; a call from another one is an error at once."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placet import AgentHandle, Orchestrator, OrchestratorConfig
from placet.actors.observation.observer import Observer
from placet.agents.session.session import Session
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.runtime.api.gateway import AgentGateway
from placet.runtime.orchestrator import WorldStore
from placet.runtime.pending_verdict import PendingVerdict
from placet.schemas.latency import Constant
from placet.schemas.verdict import Verdict

WAITS_S = 60.0
"""Bound of a call that fails the test by waiting; a right answer comes at once."""

MADE = {
    Orchestrator: lambda world, _handle, _session, _observer: world,
    AgentHandle: lambda _world, handle, _session, _observer: handle,
    AgentGateway: lambda world, _handle, _session, _observer: world.gateway,
    WorldStore: lambda world, _handle, _session, _observer: world.store,
    Session: lambda _world, _handle, session, _observer: session,
    Observer: lambda _world, _handle, _session, observer: observer,
}
ARGUMENTS: dict[str, Any] = {
    "agent_id": "ann",
    "name": "birds",
    "count": 3,
    "table": "flock.birds",
    "agent_ids": ["ann"],
    "batch": [],
    "intents": [],
    "intent": {},
    "req_id": "r1",
    "permissions": None,
    "fn": lambda kernel: kernel.seq,
    "kind": "send",
    "handler": print,
    "key": None,
    "succeeded": True,
    "to": "fork.db",
    "to_seq": 1,
    "path": "world.agents",
    "dt": 1.0,
    "sim_time": 5.0,
    "seconds": 5.0,
    "verdict": Verdict("b1", True, 1, 1, 0.0),
    "by": "ann",
    "actions": [],
    "kinds": [],
    "collection": "world.agents",
    "ids": ["ann"],
    "refs": [],
    "message": "hello",
    "request_id": "a1",
    "approval_id": "a1",
    "number": 1,
    "plan": None,
    "decision": "approve",
    "agent": None,
}
SYNC = [
    (Orchestrator, "submit_nowait"),
    (Orchestrator, "run_agent"),
    (AgentHandle, "submit_nowait"),
    (AgentHandle, "skip_step"),
    (AgentHandle, "fresh_context"),
    (AgentHandle, "observer"),
]
"""Methods that do not wait themselves, and need the loop."""

ITERATORS = [(Orchestrator, "events"), (Orchestrator, "event_pages")]


def _async_methods() -> Iterator[tuple[type, str]]:
    for made in MADE:
        for name, member in vars(made).items():
            if name.startswith("_"):
                continue
            if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member):
                yield made, name


CALLS = [*_async_methods(), *SYNC, *ITERATORS]


@contextmanager
def opened() -> Iterator[tuple[asyncio.Runner, Callable[[type], Any]]]:
    """Open a world in a loop that goes on to exist; yield its runner, and the object of a class."""
    with asyncio.Runner() as home:

        async def begin() -> list[Any]:
            config = OrchestratorConfig(clock="stepped")
            world = await Orchestrator([World(), Sessions()], config).__aenter__()
            handle = await world.register_agent("ann")
            session = await Session.open(world=world)
            observer = await handle.observer().__aenter__()
            await observer.next()
            return [world, handle, session, observer]

        parts = home.run(begin())
        yield home, lambda made: MADE[made](*parts)
        home.run(parts[0].close())


async def _call(method: Callable[..., object]) -> None:
    required = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    positional = [ARGUMENTS[p.name] for p in required if p.kind is not p.KEYWORD_ONLY]
    named = {p.name: ARGUMENTS[p.name] for p in required if p.kind is p.KEYWORD_ONLY}
    answer = method(*positional, **named)
    if isinstance(answer, AsyncIterator):
        await anext(answer)
    elif inspect.isawaitable(answer):
        await answer
    elif hasattr(answer, "__aenter__"):
        await answer.__aenter__()


@pytest.mark.parametrize(("made", "name"), CALLS, ids=[f"{m.__name__}.{n}" for m, n in CALLS])
def test_a_call_from_another_loop_is_an_error_that_names_both(made: type, name: str) -> None:
    with opened() as (_, part), asyncio.Runner() as other:
        method = getattr(part(made), name)
        with pytest.raises(RuntimeError, match=r"opened in the event loop .* is used in <"):
            other.run(asyncio.wait_for(_call(method), WAITS_S))


def test_a_property_is_read_without_an_event_loop() -> None:
    with opened() as (_, part):
        world = part(Orchestrator)
        assert world.seq == world.query_nowait(lambda kernel: kernel.seq)
        assert "at seq" in repr(world)
        assert world.statistics()["seq"] == world.seq


async def _events(world: Orchestrator, _handle: AgentHandle) -> object:
    return world.events()


async def _pages(world: Orchestrator, _handle: AgentHandle) -> object:
    return world.event_pages()


async def _observations(world: Orchestrator, _handle: AgentHandle) -> object:
    return world.observe("ann")


async def _own_observations(_world: Orchestrator, handle: AgentHandle) -> object:
    return handle.observe()


async def _late_observations(_world: Orchestrator, handle: AgentHandle) -> object:
    return handle.observe(latency=Constant(0.0))


@pytest.mark.parametrize(
    "begin", [_events, _pages, _observations, _own_observations, _late_observations]
)
@pytest.mark.parametrize("is_begun", [False, True])
def test_an_iterator_of_one_loop_is_not_read_in_another(
    begin: Callable[..., Any], is_begun: bool
) -> None:
    with opened() as (home, part), asyncio.Runner() as other:
        world, handle = part(Orchestrator), part(AgentHandle)

        async def start() -> Any:
            items = await begin(world, handle)
            if is_begun:
                reading = asyncio.ensure_future(anext(items))
                await world.register_agent("bob")
                await reading
            return items

        items = home.run(start())
        with pytest.raises(RuntimeError, match=r"opened in the event loop .* is used in <"):
            other.run(asyncio.wait_for(_read_all(items), WAITS_S))


async def _read_all(items: AsyncIterator[object]) -> None:
    async for _ in items:
        pass


def test_a_verdict_is_awaited_in_the_loop_of_its_batch() -> None:
    with opened() as (home, part), asyncio.Runner() as other:
        handle = part(AgentHandle)

        async def submit() -> PendingVerdict:
            waiting: PendingVerdict = handle.submit_nowait([handle.intent("Move", to=[1, 1])])
            return waiting

        pending = home.run(submit())

        async def wait() -> object:
            return await pending

        with pytest.raises(RuntimeError, match=r"awaited in <.* submitted in <"):
            other.run(asyncio.wait_for(wait(), WAITS_S))
        assert pending.cancel()


def test_a_world_whose_loop_has_ended_releases_its_store(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'town.db'}"

    async def begin() -> Orchestrator:
        return await Orchestrator(World(), OrchestratorConfig(store=store)).__aenter__()

    async def again(world: Orchestrator) -> int:
        with pytest.raises(RuntimeError, match="was closed, and is used in <"):
            await world.close()
        await world.close()
        async with Orchestrator(World(), OrchestratorConfig(store=store)) as second:
            return second.seq

    assert asyncio.run(again(asyncio.run(begin()))) == 1


def test_a_world_of_a_running_loop_is_closed_there_alone() -> None:
    with opened() as (_, part):
        world = part(Orchestrator)
        with pytest.raises(RuntimeError, match="is another one, and is used in <"):
            asyncio.run(world.close())
        assert world.store.failure is None
