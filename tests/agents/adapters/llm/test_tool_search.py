"""More kinds than tools: the model searches, and the same parser reads its proposals."""

import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo
from typing_extensions import TypedDict

from placet import Orchestrator
from placet.agents import AgentLimits, Llm, PlannerInput, ReplayAdapter, Session
from placet.agents.adapters.llm import tool_search as finding
from placet.agents.proposal.adapter import PlannerOverBudget
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.context_text import build
from placet.agents.proposal.plan_parser import Call, parse_calls
from placet.domains.session import Sessions
from placet.kernel import Domain, Draft, Kind
from placet.schemas.intent import Intent

pytestmark = pytest.mark.anyio


class Amount(TypedDict):
    amount: int


class Shop(Domain):
    """Sixty goods or more, each of which can be bought."""

    name = "shop"
    version = "1"

    def __init__(self, count: int = 60) -> None:
        goods = [f"thing_{n}" for n in range(count - 2)] + ["apple", "pear"]
        self.kinds = tuple(
            Kind(f"shop.buy_{good}", Amount, _buy, summary=f"Buy some {good}.") for good in goods
        )


def _buy(draft: Draft, intent: Intent) -> None:
    draft.create("shop.bought", intent["kind"].removeprefix("shop."), dict(intent["payload"]))


CATALOGUE = Catalogue(Shop())


def propose(kind: Any, payload: Any, **more: Any) -> ToolCallPart:
    return ToolCallPart("propose", {"kind": kind, "payload": payload, **more})


def find(query: str) -> ToolCallPart:
    return ToolCallPart("find_kinds", {"query": query})


class Script:
    """A scripted model that keeps the requests it received."""

    def __init__(self, *answers: list[ToolCallPart]) -> None:
        self._answers = iter(answers)
        self.asked: list[list[Any]] = []
        self.tools: list[list[str]] = []

    def __call__(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        self.asked.append(messages)
        self.tools.append([tool.name for tool in info.function_tools])
        return ModelResponse(parts=next(self._answers))

    def first_result(self, request: int) -> dict[str, Any]:
        """Return the result that the last message of a request has for its first call."""
        last = self.asked[request][-1]
        assert isinstance(last, ModelRequest)
        part = last.parts[0]
        assert isinstance(part, ToolReturnPart)
        content: dict[str, Any] = part.content  # type: ignore[assignment]  # what a search gives
        return content


async def test_a_search_is_one_more_request_within_the_same_answer() -> None:
    script = Script([find("apple")], [propose("shop.buy_apple", {"amount": 2})])
    async with Session.open(domain=Shop(), adapter=Llm(script)) as session:
        turn = await session.send("buy two apples")
        assert turn.outcome == "applied", turn.message
        assert [len(turn.attempts), turn.usage.requests] == [1, 2]
        assert await session.world.state("shop.bought/buy_apple/amount") == 2
    assert script.tools == [["find_kinds", "propose", "ask_clarification", "stop"]] * 2
    found = script.first_result(1)
    assert [one["kind"] for one in found["kinds"]] == ["shop.buy_apple"]
    assert found["kinds"][0]["payload"]["required"] == ["amount"]


async def test_many_kinds_leave_room_for_the_other_sections() -> None:
    script = Script([find("apple")], [propose("shop.buy_apple", {"amount": 2})])
    async with Session.open(domain=Shop(120), adapter=Llm(script)) as session:
        turn = await session.send("buy two apples")
    assert turn.outcome == "applied", turn.message
    assert turn.usage.input_tokens < 2_000


async def test_an_invalid_proposal_is_repaired_with_the_search_in_its_history() -> None:
    script = Script(
        [find("apple pear")],
        [propose("shop.buy_apple", {"amount": 2}), propose("shop.buy_pear", {"amount": "many"})],
        [propose("shop.buy_pear", {"amount": 3})],
    )
    async with Session.open(domain=Shop(), adapter=Llm(script)) as session:
        turn = await session.send("buy fruit")
    assert [one.status for one in turn.attempts] == ["invalid", "applied"]
    kinds = [type(message).__name__ for message in script.asked[2]]
    assert kinds == ["ModelRequest", "ModelResponse"] * 2 + ["ModelRequest"]
    returned = script.asked[2][-1].parts
    assert [part.tool_call_id for part in returned] == [
        part.tool_call_id for part in script.asked[2][-2].parts
    ]
    assert returned[0].content == "not proposed: the batch was invalid"
    assert returned[1].content["issues"][0]["code"] == "payload_invalid"


async def test_the_cost_of_a_search_counts_when_the_next_request_fails() -> None:
    def fails_then(messages: list[Any], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            raise ValueError("down")
        return ModelResponse(parts=[find("apple")])

    async with Orchestrator([Shop(), Sessions()]) as world:
        async with Session.open(world=world, adapter=Llm(fails_then)) as session:
            turn = await session.send("buy two apples")
        replay = await ReplayAdapter.of(world.events(since=0), world.seq, session.name)
    assert (turn.stop, turn.usage.requests) == ("planner_unavailable", 1)
    assert turn.usage.input_tokens > 0
    async with Session.open(domain=Shop(), adapter=replay) as session:
        again = await session.send("buy two apples")
    assert (again.stop, again.usage) == (turn.stop, turn.usage)


async def test_calls_beside_a_search_are_not_submitted() -> None:
    script = Script(
        [find("pear"), propose("shop.buy_apple", {"amount": 1})],
        [propose("shop.buy_pear", {"amount": 1})],
    )
    async with Session.open(domain=Shop(), adapter=Llm(script)) as session:
        turn = await session.send("buy")
        assert [one.status for one in turn.attempts] == ["applied"], "nothing had to be mended"
        assert list(await session.world.state("shop.bought")) == ["buy_pear"]
    assert "not proposed" in script.asked[1][-1].parts[1].content


async def test_searches_are_bounded() -> None:
    script = Script(*[[find(str(n))] for n in range(9)])
    context = PlannerInput("x", build(domain=CATALOGUE, tokens_max=99_999), 1, CATALOGUE)
    raw = await Llm(script).propose(context)
    assert len(script.asked) == 1 + finding.ROUNDS_MAX == raw.usage.requests
    plan, issues = parse_calls(raw.calls, goal="x", base_seq=1, domain=CATALOGUE)
    assert (plan, issues[0].code) == (None, "kind_unknown")
    script = Script(*[[find(str(n))] for n in range(9)])
    with pytest.raises(PlannerOverBudget) as failure:
        await Llm(script).propose(context._replace(tokens_left=raw.usage.input_tokens * 2 // 3))
    assert 1 <= len(script.asked) == failure.value.usage.requests < 1 + finding.ROUNDS_MAX
    assert failure.value.code == "tokens_exhausted"


async def test_up_to_the_limit_each_kind_is_a_tool() -> None:
    script = Script([ToolCallPart("shop__buy_pear", {"amount": 1})])
    limits = AgentLimits(tools_max=60)
    async with Session.open(domain=Shop(), adapter=Llm(script), limits=limits) as session:
        assert (await session.send("buy")).outcome == "applied"
    assert len(script.tools[0]) == 62


@pytest.mark.parametrize(
    ("arguments", "codes", "at"),
    [
        ('{"kind": "shop.buy_apple", "payload": {"amount": 1}}', [], ""),
        ('{"kind": "shop__buy_apple", "payload": {"amount": 1}}', [], ""),
        ('{"kind": "shop.buy_aple", "payload": {"amount": 1}}', ["kind_unknown"], "/kind"),
        ('{"kind": "shop.buy_apple"}', ["payload_missing"], "/payload/amount"),
        ('{"kind": "shop.buy_apple", "payload": [1]}', ["envelope_invalid"], "/payload"),
        ('{"kind": "shop.buy_apple", "payload": {"amount": 1}, "confirmed": true}',
         ["payload_invalid"], "/payload/confirmed"),
        ('{"kind": 7, "payload": {}}', ["kind_unknown"], "/kind"),
        ("{}", ["kind_unknown"], "/kind"),
        ("[]", ["envelope_invalid"], "/payload"),
        ('{"kind": ', ["json_invalid"], "/payload"),
    ],
)  # fmt: skip
def test_a_kind_proposed_by_name_is_read_by_the_same_parser(
    arguments: str, codes: list[str], at: str
) -> None:
    call = finding.unwrapped(Call("propose", arguments, "c"))
    assert call.call_id == "c"
    plan, issues = parse_calls([call], goal="g", base_seq=0, domain=CATALOGUE)
    assert [issue.code for issue in issues] == codes
    assert (plan is None) == bool(codes)
    if codes:
        assert issues[0].at == f"/actions/0{at}"


def test_search_results_are_ranked_and_reproducible() -> None:
    found = finding.found(CATALOGUE, '{"query": "Buy: APPLE"}')
    assert found["kinds"][0]["kind"] == "shop.buy_apple"
    assert (len(found["kinds"]), found["more"]) == (8, 52)
    assert found == finding.found(CATALOGUE, '{"query": "Buy: APPLE"}')


@pytest.mark.parametrize("arguments", ["", "[]", '{"query": 3}', "{", '{"q": "x"}'])
def test_an_empty_search_explains_how_to_search(arguments: str) -> None:
    assert "find_kinds" in finding.found(CATALOGUE, arguments)["error"]


def test_a_search_without_a_match_lists_names() -> None:
    found = finding.found(CATALOGUE, '{"query": "zebra"}')
    assert found["kinds"] == []
    assert "shop.buy_apple" in found["names"]
    assert json.dumps(found)
