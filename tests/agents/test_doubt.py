"""A turn says "in doubt" only once nobody can tell what became of its work: the hook is heard."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from placet import Orchestrator
from placet.agents import AgentLimits, Scripted, Session, Turn
from placet.domains.session import Sessions
from placet.errors import OutcomeUnknown
from placet.schemas.effect import Effect, Settlement
from tests.agents.till import Till

pytestmark = pytest.mark.anyio

Hook = Callable[[Effect], Awaitable[Settlement | None]]
PAY = ("till.pay", {"amount": 1})


async def cut_off(_effect: Effect) -> None:
    raise OutcomeUnknown("the line went dead")


async def arrived(effect: Effect) -> Settlement:
    await anyio.wait_all_tasks_blocked()  # everybody else had a chance to go on without it
    return Settlement(effect.key, succeeded=True, output={"receipt": 7})


async def lost(effect: Effect) -> Settlement:
    await anyio.wait_all_tasks_blocked()
    return Settlement(effect.key, succeeded=False, output="it never arrived")


async def cannot_tell(_effect: Effect) -> None:
    await anyio.wait_all_tasks_blocked()


async def never_answers(_effect: Effect) -> None:
    await anyio.sleep_forever()


async def paid(hook: Hook | None, *, times: int = 1, seconds: float = 20.0) -> Turn:
    """Pay so many times in one plan, where the line goes dead and a hook finds out."""
    limits = AgentLimits(seconds_max=seconds)
    async with Orchestrator([Till(), Sessions()]) as world:
        await world.register_executor(
            "till.bank", cut_off, delivery="at_most_once", on_in_doubt=hook, seconds_max=2.0
        )
        script = Scripted([[PAY] * times])
        session = await Session.open(world=world, adapter=script, mode="autonomous", limits=limits)
        return await session.say("pay")


@pytest.mark.parametrize("times", [1, 3])
async def test_what_the_hook_finds_done_is_done(times: int) -> None:
    turn = await paid(arrived, times=times)
    assert (turn.outcome, turn.stop) == ("applied", "completed")
    assert [one.output for one in turn.results] == [{"receipt": 7}] * times


async def test_what_the_hook_finds_undone_has_failed() -> None:
    turn = await paid(lost)
    assert (turn.outcome, turn.stop, turn.message) == (
        "failed",
        "effect_failed",
        "it never arrived",
    )


@pytest.mark.parametrize("hook", [None, cannot_tell])
async def test_what_nobody_can_tell_is_in_doubt(hook: Hook | None) -> None:
    assert (await paid(hook)).stop == "effect_in_doubt"


async def test_while_the_hook_is_asked_the_work_is_not_done_yet() -> None:
    assert (await paid(never_answers, seconds=1.0)).stop == "effect_timeout"
