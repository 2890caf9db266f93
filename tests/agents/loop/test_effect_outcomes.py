"""Effects in the result of a turn: the hook is asked before a doubt, and no effect runs twice."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from placet import Orchestrator
from placet.agents import AgentLimits, ScriptedAdapter, Session, Turn
from placet.agents.adapters.scripted import Step
from placet.domains.session import Sessions
from placet.errors import OutcomeUnknown
from placet.kernel import Draft, Kind
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from tests.actors.virtual_time import in_virtual_time
from tests.agents.till import Nothing, Till, put, total

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


async def paid(hook: Hook | None, *, times: int = 1) -> Turn:
    """Pay several times in one plan, when the outcome is unknown and a hook looks it up."""
    limits = AgentLimits(seconds_max=20.0)
    async with Orchestrator([Till(), Sessions()]) as world:
        await world.register_executor(
            "till.bank", cut_off, delivery="at_most_once", on_in_doubt=hook, seconds_max=60.0
        )
        script = ScriptedAdapter([[PAY] * times])
        session = await Session.open(world=world, adapter=script, mode="autonomous", limits=limits)
        return await session.send("pay")


@pytest.mark.parametrize("times", [1, 3])
async def test_an_effect_the_hook_reports_as_done_succeeds(times: int) -> None:
    turn = await paid(arrived, times=times)
    assert (turn.outcome, turn.stop) == ("applied", "completed")
    assert [one.output for one in turn.results] == [{"receipt": 7}] * times


async def test_an_effect_the_hook_reports_as_undone_fails() -> None:
    turn = await paid(lost)
    assert [one.code for one in turn.attempts[0].issues] == ["effect_failed"]
    assert turn.attempts[0].issues[0].message == "it never arrived"


@pytest.mark.parametrize("hook", [None, cannot_tell])
async def test_an_effect_of_unknown_outcome_is_in_doubt(hook: Hook | None) -> None:
    assert (await paid(hook)).stop == "effect_in_doubt"


@in_virtual_time
async def test_an_effect_is_pending_while_the_hook_is_asked() -> None:
    assert (await paid(never_answers)).stop == "effect_timeout"


class Asking(Till):
    """A till with a read-only effect, and a payment in two effects."""

    def __init__(self) -> None:
        super().__init__()
        asked = Kind("till.ask", Nothing, _ask, risk="read", effects=("till.bank",))
        parted = Kind("till.part", Nothing, _part, effects=("till.bank",))
        self.kinds = (*self.kinds, asked, parted)


def _ask(draft: Draft, _intent: Intent) -> None:
    draft.emit("till.bank", {})


def _part(draft: Draft, _intent: Intent) -> None:
    draft.emit("till.bank", {})
    draft.emit("till.bank", {})


async def tried(*plans: Step) -> tuple[Turn, int]:
    """Propose plan after plan to a bank that fails the first effect it is given."""
    seen = 0

    async def fails_first(_effect: Effect) -> str:
        nonlocal seen
        seen += 1
        if seen == 1:
            raise ConnectionError("no line")
        return "done"

    async with Orchestrator([Asking(), Sessions()]) as world:
        await world.register_executor("till.bank", fails_first, attempts_max=1)
        session = await Session.open(world=world, adapter=ScriptedAdapter(plans), mode="autonomous")
        return await session.send("go"), await total(session)


async def test_a_plan_with_one_applied_action_is_not_retried_after_a_failed_effect() -> None:
    turn, held = await tried([put(5), PAY], [put(5), PAY])
    assert (turn.outcome, turn.stop, len(turn.attempts)) == ("failed", "effect_failed", 1)
    assert [one.outcome for one in turn.results] == ["applied", "failed"]
    assert held == 5, "once, and the turn says so"


async def test_a_partly_executed_action_is_not_retried() -> None:
    part: tuple[str, dict[str, int]] = ("till.part", {})
    turn, _ = await tried([part], [part])
    assert [one.status for one in turn.attempts] == ["failed"]
    assert [(one.outcome, one.output) for one in turn.results] == [("failed", "done")]


async def test_another_plan_may_follow_if_every_effect_failed() -> None:
    turn, _ = await tried([PAY], [("till.pay", {"amount": 2})])
    assert [one.status for one in turn.attempts] == ["failed", "applied"]


async def test_a_read_only_plan_may_be_retried() -> None:
    ask: tuple[str, dict[str, int]] = ("till.ask", {})
    turn, _ = await tried([ask], [ask, ("till.look", {})])
    assert [one.status for one in turn.attempts] == ["failed", "applied"]
    assert [one.output for one in turn.results] == ["done", 0]
