"""Sessions with a shared budget: the worst case is held before a call, and settled after it."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.agents import AgentLimits, Llm, PlannerInput, PlannerOutput, Prices, Session
from placet.agents.loop.shared_budget import AccountNotFound
from placet.agents.proposal.adapter import PlannerTimedOut, PlannerUnavailable, Usage
from placet.agents.proposal.catalogue import Catalogue
from placet.domains.accounts import BALANCES, Accounts
from placet.domains.accounts.payloads import RESERVATIONS
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.testing.faults import OpenAI, ScriptedModelServer

pytestmark = pytest.mark.anyio

OPENAI = OpenAI()
SPEAK = ("Speak", {"text": "hi"})
AMOUNTS = ("given", "left", "held", "spent", "overdrawn")


ACCOUNTS = {"team": {"give": {"tokens": 900}, "agents": ["agent", "ann"]}}


def world_of(give: dict[str, int], store: str = "memory://", **account: Any) -> Orchestrator:
    accounts = Accounts(accounts={"team": {"give": give, **account}})
    return Orchestrator([World(), Sessions(), accounts], OrchestratorConfig(store=store))


async def amounts(world: Orchestrator, unit: str) -> tuple[int, ...]:
    fields = (await world.gateway.entities(BALANCES))[f"team/{unit}"]
    return tuple(fields[name] for name in AMOUNTS)


class Model:
    """An adapter that answers as it is told, with a worst case and a use of its own."""

    def __init__(self, worst: Usage, answer: PlannerOutput | Exception | None) -> None:
        self.worst, self.answer, self.asked = worst, answer, 0
        self.begun = anyio.Event()

    def worst_case(self, context: PlannerInput) -> Usage:
        return self.worst

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        self.asked += 1
        self.begun.set()
        if self.answer is None:
            await anyio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


def said(tokens: int, usd: str = "0") -> PlannerOutput:
    return PlannerOutput(text="no", usage=Usage(1, tokens, 0, Decimal(usd)))


async def test_the_worst_case_is_held_while_a_model_thinks_and_its_use_is_settled() -> None:
    model = Model(Usage(2, 300, 100, Decimal("0.0000101")), said(30, "0.0000021"))
    async with (
        world_of({"tokens": 900, "micro_usd": 50, "calls": 7}) as world,
        Session.open(world=world, adapter=model, budget="team") as session,
    ):
        assert (await session.send("say hi")).outcome == "said"
        assert await amounts(world, "tokens") == (900, 870, 0, 30, 0)
        assert await amounts(world, "micro_usd") == (50, 47, 0, 3, 0), "rounded up"
        assert await amounts(world, "calls") == (7, 6, 0, 1, 0)
        assert await world.gateway.entities(RESERVATIONS) == {}


async def test_a_call_beyond_the_account_is_not_made_and_the_turn_says_why() -> None:
    model = Model(Usage(1, 901, 0), said(1))
    async with (
        world_of({"tokens": 900}) as world,
        Session.open(world=world, adapter=model, budget="team") as session,
    ):
        turn = await session.send("say hi")
        assert (turn.outcome, turn.stop, model.asked) == ("failed", "budget_exceeded", 0)
        assert "account 'team' has 900 tokens left, 901 are needed" in turn.message
        assert await amounts(world, "tokens") == (900, 900, 0, 0, 0)


@pytest.mark.parametrize(
    ("answer", "spent"),
    [
        (PlannerUnavailable("no connection"), 0),
        (PlannerTimedOut("too slow"), 400),
        (PlannerOutput(text="no", usage=Usage(1, 500, 0)), 500),
    ],
)
async def test_a_failed_call_costs_nothing_and_one_of_unknown_use_its_worst_case(
    answer: Any, spent: int
) -> None:
    async with (
        world_of({"tokens": 900}) as world,
        Session.open(world=world, adapter=Model(Usage(1, 400), answer), budget="team") as session,
    ):
        await session.send("say hi")
        over = max(0, spent - 400)
        assert await amounts(world, "tokens") == (900, 900 - min(spent, 400), 0, spent, over)


async def test_a_stopped_call_is_settled_by_its_worst_case() -> None:
    model = Model(Usage(1, 400), None)
    async with (
        world_of({"tokens": 900}) as world,
        Session.open(world=world, adapter=model, budget="team") as session,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.send, "say hi")
            await model.begun.wait()
            assert await amounts(world, "tokens") == (900, 500, 400, 0, 0)
            session.stop()
        assert await amounts(world, "tokens") == (900, 500, 0, 400, 0)


async def talk(world: Orchestrator, llm: Llm, count: int) -> list[str]:
    """Open sessions that send a message at once; return how each turn ended."""
    ends: list[str] = []
    limits = AgentLimits(cost_usd_max=None, seconds_max=60)

    async def one(number: int) -> None:
        name = f"s{number}"
        async with Session.open(
            world=world, session=name, agent=name, adapter=llm, limits=limits, budget="team"
        ) as session:
            ends.append((await session.send("say hi")).stop)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return ends


async def test_twenty_sessions_share_one_limit_and_never_pass_it() -> None:
    """A call may cost 409 600 micro-dollars, so that five fit at once, and costs 1 000."""
    given = 2_100_000
    async with ScriptedModelServer(
        [OPENAI.says(SPEAK)._replace(delay_seconds=0.05)] * 20
    ) as server:
        llm = Llm(OPENAI.model(server.url), prices=Prices(0, 100))
        async with world_of({"micro_usd": given}) as world:
            ends = await talk(world, llm, 20)
            _, left, held, spent, overdrawn = await amounts(world, "micro_usd")
        calls = len(server.requests)
    assert set(ends) <= {"completed", "budget_exceeded"}
    assert ends.count("completed") == calls >= 5
    assert (held, spent, overdrawn) == (0, 1_000 * calls, 0)
    assert left == given - spent


async def test_a_limit_is_passed_by_what_is_in_flight_alone() -> None:
    """A call costs 100 000 micro-dollars, far more than was reserved for it."""
    given = 60_000
    async with ScriptedModelServer([OPENAI.says(SPEAK, usage=100_000)] * 20) as server:
        llm = Llm(OPENAI.model(server.url), prices=Prices(1, 0))
        async with world_of({"micro_usd": given}) as world:
            ends = await talk(world, llm, 20)
            _, left, held, spent, overdrawn = await amounts(world, "micro_usd")
            assert await talk(world, llm, 1) == ["budget_exceeded"]
        calls = len(server.requests)
    assert ends.count("budget_exceeded") == 20 - calls
    reserved = given - left
    assert (held, spent, overdrawn) == (0, 100_000 * calls, 100_000 * calls - reserved)
    assert reserved <= given, "what was in flight had been reserved within the limit"


async def test_an_unknown_price_is_refused_where_money_is_counted() -> None:
    model = Model(Usage(1, 1, 0, None), said(1))
    async with (
        world_of({"micro_usd": 5}) as world,
        Session.open(world=world, adapter=model, budget="team") as session,
    ):
        turn = await session.send("say hi")
    assert (turn.stop, model.asked) == ("budget_exceeded", 0)
    assert "state the price of the model" in turn.message


async def test_an_adapter_without_a_worst_case_may_use_the_rest_of_the_turn() -> None:
    limits = AgentLimits(tokens_max=901)
    async with (
        world_of({"tokens": 900}) as world,
        Session.open(
            world=world, adapter=lambda context: None, limits=limits, budget="team"
        ) as session,
    ):
        turn = await session.send("say hi")
    assert "900 tokens left, 901 are needed" in turn.message


async def test_a_search_of_kinds_may_use_the_rest_of_the_turn() -> None:
    llm = Llm(OPENAI.model("http://127.0.0.1:1"), prices=Prices(1, 1))
    catalogue = Catalogue(World())
    few = PlannerInput("hi", "", 0, catalogue, tokens_left=9_000, usd_left=Decimal(1))
    assert llm.worst_case(few).requests == 2
    many = few._replace(tools_max=1)
    assert llm.worst_case(many) == Usage(8, 9_000, 0, Decimal(1))


async def test_a_budget_that_is_no_account_is_refused_with_the_nearest() -> None:
    with pytest.raises(AccountNotFound, match="no domain 'accounts'"):
        await Session.open(domain=World(), budget="team")
    async with world_of({"tokens": 1}) as world:
        with pytest.raises(AccountNotFound, match="did you mean 'team'"):
            await Session.open(world=world, budget="taem")


async def test_a_fork_holds_the_calls_of_its_parent_and_ends_its_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/w.db"
    model = Model(Usage(1, 400), None)
    async with world_of({"tokens": 900}, store, agents=["agent", "ann"]) as world:
        opening = Session.open(world=world, adapter=model, budget="team", session="a/b")
        async with opening as session, anyio.create_task_group() as tasks:
            tasks.start_soon(session.send, "say hi")
            await model.begun.wait()
            made = await world.fork(str(tmp_path / "fork.db"))
            tasks.cancel_scope.cancel()
    fork = Orchestrator(
        [World(), Sessions(), Accounts(accounts=ACCOUNTS)],
        OrchestratorConfig(store=made.store, world=made.world),
    )
    async with fork as world:
        assert await amounts(world, "tokens") == (900, 500, 400, 0, 0)
        ann = await world.register_agent("ann")
        payload: Any = {"account": "team", "id": "a", "unit": "tokens", "amount": 100}
        assert (await ann.submit([ann.intent("account.reserve", **payload)])).admitted
        assert (await ann.submit([ann.intent("account.release", id="a")])).admitted
        model = Model(Usage(1, 400), said(9))
        again = Session.open(world=world, adapter=model, budget="team", session="a/b")
        async with again as session:
            assert (await session.send("say hi")).outcome == "said"
        assert await amounts(world, "tokens") == (900, 491, 400, 9, 0)
        (held,) = await world.gateway.entities(RESERVATIONS)
        by, _, name = held.rpartition("/")
        assert (by, name) == ("session.recorder", "a~1b:1:1:tokens")
        refused = await ann.submit([ann.intent("account.release", id=name, by=by)])
        assert refused.codes == ("accounts.reservation_unknown",)
        chief = await world.register_agent("accounts.manager")
        ended = await chief.submit([chief.intent("account.settle", id=name, by=by, used=7)])
        assert ended.admitted
        assert await amounts(world, "tokens") == (900, 884, 0, 16, 0)
