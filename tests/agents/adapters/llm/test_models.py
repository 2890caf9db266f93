"""Local models: every kind can be called, and calls of kinds that were not offered are refused."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from placet.agents import Llm, PlannerInput, Prices, Session
from placet.agents.adapters import as_adapter
from placet.agents.loop.model_calls import json_of, raw_of
from placet.agents.proposal.adapter import Media, PlannerOutput, PlannerUnavailable, Repair
from placet.agents.proposal.catalogue import Catalogue, wire_name
from placet.agents.proposal.context_text import build
from placet.agents.proposal.plan import Issue
from placet.agents.proposal.plan_parser import parse_calls
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.kernel.plugin.domain import Domain
from placet.schemas.codec import canonical, from_json, to_json
from placet.testing.faults import OpenAI, ScriptedModelServer
from tests.installed import factories

pytestmark = pytest.mark.anyio

WORLD = Catalogue(World())
DOMAINS = [domain for domain in factories() if domain is not Sessions]
OWN_DOMAINS = [domain for domain in DOMAINS if domain.__module__.startswith("placet.")]


def context(catalogue: Catalogue = WORLD, **fields: Any) -> PlannerInput:
    text = build(domain=catalogue, state={"a": 1}, tokens_max=99_999)
    return PlannerInput("do it", text, 3, catalogue, **fields)


def answering(*parts: Any, **fields: Any) -> FunctionModel:
    """A model that always gives the same answer."""
    return FunctionModel(lambda _messages, _info: ModelResponse(parts=list(parts), **fields))


async def check_payloads_by_schema(catalogue: Catalogue, kinds: Iterable[str]) -> None:
    """Check that the parser accepts what a model fills into a tool by its JSON Schema alone."""
    for kind in kinds:
        for seed in range(3):
            model = TestModel(call_tools=[wire_name(kind)], seed=seed)
            raw = await Llm(model).propose(context(catalogue))
            assert len(raw.calls) == 1
            plan, issues = parse_calls(raw.calls, goal="g", base_seq=3, domain=catalogue)
            assert issues == [], (kind, raw.calls)
            assert plan is not None
            assert [action.kind for action in plan.actions] == [kind]


@pytest.mark.parametrize("domain", OWN_DOMAINS, ids=lambda one: one.name)
async def test_the_parser_accepts_payloads_valid_by_the_schema(domain: type[Domain]) -> None:
    catalogue = Catalogue(domain())
    await check_payloads_by_schema(catalogue, catalogue.kinds)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda one: one.name)
async def test_every_kind_is_offered_with_its_schema(domain: type[Domain]) -> None:
    catalogue = Catalogue(domain())
    offered: dict[str, Any] = {}

    def look(_messages: list[Any], info: AgentInfo) -> ModelResponse:
        offered.update({tool.name: tool for tool in info.function_tools})
        return ModelResponse(parts=[TextPart("ok")])

    await Llm(look).propose(context(catalogue))
    talking = {"ask_clarification", "stop"}
    assert offered.keys() == {wire_name(kind) for kind in catalogue.kinds} | talking
    for kind, schema in catalogue.tool_schemas().items():
        assert offered[wire_name(kind)].parameters_json_schema == schema
        assert offered[wire_name(kind)].kind == "external"


async def test_a_session_with_the_test_model_needs_no_network() -> None:
    model = TestModel(call_tools=["Speak"])
    async with Session.open(domain=World(), adapter=Llm(model)) as session:
        turn = await session.send("say something")
        assert turn.outcome == "applied"
        assert turn.attempts[0].adapter == "Llm"
        assert turn.usage.cost_usd == 0


async def test_calls_executed_by_a_provider_are_dropped() -> None:
    model = answering(
        ThinkingPart("hm", signature="s", provider_name="p"),
        NativeToolCallPart("web_search", {"query": "x"}, "n1", provider_name="p"),
        NativeToolReturnPart("web_search", "found", "n1", provider_name="p"),
        ToolCallPart("Speak", {"text": "hi"}, "c1"),
    )
    raw = await Llm(model).propose(context())
    assert [call.name for call in raw.calls] == ["Speak"]
    assert "web_search" not in json.dumps(raw.response)
    assert "signature" in json.dumps(raw.response), "its thoughts are sent back with its calls"


@pytest.mark.parametrize("arguments", [None, {}, "", "{}"])
async def test_a_call_without_arguments_has_empty_arguments(arguments: Any) -> None:
    raw = await Llm(answering(ToolCallPart("Speak", arguments, "c"))).propose(context())
    _, issues = parse_calls(raw.calls, goal="g", base_seq=0, domain=WORLD)
    assert [issue.code for issue in issues] == ["payload_missing"]


async def test_an_answer_is_repaired_from_its_logged_form() -> None:
    seen: list[Any] = []

    def model(messages: list[Any], _info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse(parts=[TextPart("hm"), ToolCallPart("Speek", {"text": "hi"}, "c1")])

    raw = await Llm(model).propose(context())
    kept = raw_of(from_json(to_json(json_of(raw))))
    assert canonical(kept.response) == canonical(raw.response)
    issue = Issue(code="kind_unknown", message="no", at="/actions/0/kind")
    fresh = Llm(model)
    text = build(domain=WORLD, state={"a": 1}, issues=[issue])
    await fresh.propose(context(repairs=(Repair(kept, (issue,)),))._replace(text=text))
    _, answer, returned = seen[1]
    assert [type(part).__name__ for part in answer.parts] == ["TextPart", "ToolCallPart"]
    assert [part.tool_call_id for part in returned.parts] == ["c1"]
    assert "<issues>" not in seen[1][0].parts[1].content[0], "each call has been told its own"


async def test_an_answer_of_another_adapter_is_repaired_by_its_issues_alone() -> None:
    seen: list[Any] = []

    def model(messages: list[Any], _info: AgentInfo) -> ModelResponse:
        seen.extend(messages)
        return ModelResponse(parts=[TextPart("ok")])

    issue = Issue(code="json_invalid", message="no JSON")
    text = build(domain=WORLD, issues=[issue])
    told = context(repairs=(Repair(PlannerOutput(plan="{"), (issue,)),))._replace(text=text)
    await Llm(model).propose(told)
    [request] = seen
    assert "no JSON" in request.parts[1].content[0]


async def test_a_custom_context_text_is_sent_unchanged() -> None:
    seen: list[Any] = []

    def model(messages: list[Any], _info: AgentInfo) -> ModelResponse:
        seen.extend(messages)
        return ModelResponse(parts=[TextPart("ok")])

    await Llm(model).propose(PlannerInput("", "my own words", 0, WORLD))
    [request] = seen
    assert isinstance(request, ModelRequest)
    told = request.parts[1]
    assert isinstance(told, UserPromptPart)
    assert told.content == ["my own words", "(no message)"]


async def test_images_are_sent_with_the_message() -> None:
    seen: list[Any] = []

    def model(messages: list[Any], _info: AgentInfo) -> ModelResponse:
        seen.extend(messages)
        return ModelResponse(parts=[TextPart("ok")])

    media = (Media("ab" * 32, "image/png", b"png"), Media("cd" * 32, "image/png"))
    await Llm(model).propose(context(media=media))
    told = seen[0].parts[1]
    assert isinstance(told, UserPromptPart)
    pictures = [one for one in told.content if isinstance(one, BinaryContent)]
    assert [(one.data, one.media_type) for one in pictures] == [(b"png", "image/png")]
    assert told.content[-1] == "do it"


async def test_model_settings_are_passed_on_and_its_retries_disabled() -> None:
    seen: dict[str, Any] = {}

    def model(_messages: list[Any], info: AgentInfo) -> ModelResponse:
        seen.update(info.model_settings or {})
        return ModelResponse(parts=[TextPart("ok")])

    await Llm(model, temperature=0.2, settings={"max_tokens": 99, "max_retries": 7}).propose(
        context(seconds_left=7.0)
    )
    assert (seen["temperature"], seen["max_tokens"], seen["max_retries"]) == (0.2, 99, 0)
    assert 0 < seen["request_timeout"] <= 7


@pytest.mark.parametrize(
    ("raised", "name"), [(ValueError("sk-1"), "ValueError"), (OSError("sk-1"), "OSError")]
)
async def test_an_exception_of_a_model_is_reported_by_its_class(
    raised: Exception, name: str
) -> None:
    def model(_messages: list[Any], _info: AgentInfo) -> ModelResponse:
        raise raised

    with pytest.raises(PlannerUnavailable, match=f"^{name}$") as failure:
        await Llm(model).propose(context())
    assert failure.value.__context__ is None


async def test_a_content_filter_that_raises_is_a_refusal() -> None:
    def model(_messages: list[Any], _info: AgentInfo) -> ModelResponse:
        raise ContentFilterError("blocked")

    raw = await Llm(model).propose(context())
    assert (raw.refused, raw.calls) == (True, ())
    assert raw.usage.input_tokens > 0
    async with Session.open(domain=World(), adapter=Llm(model)) as session:
        assert (await session.send("x")).stop == "planner_refused"


# prices


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices(Decimal(2), Decimal(10)), "0.003"),
        (Prices(Decimal(2), Decimal(10), Decimal("0.5")), "0.0024"),
    ],
)
async def test_given_prices_take_precedence(prices: Prices, cost: str) -> None:
    used = RequestUsage(input_tokens=1000, output_tokens=100, cache_read_tokens=400)
    llm = Llm(answering(TextPart("x"), usage=used), prices=prices)
    assert llm.is_priced
    assert (await llm.propose(context())).usage.cost_usd == Decimal(cost)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "0.25", None, True])
def test_a_price_that_is_no_amount_is_refused_before_a_call(wrong: Any) -> None:
    with pytest.raises(ValueError, match="input_usd must be US dollars for a million tokens"):
        Prices(wrong, 2)


def test_prices_are_taken_as_numbers() -> None:
    assert Prices(0.1, 2) == Prices(Decimal("0.1"), Decimal(2))


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"max_token": 9}, "did you mean 'max_tokens'?"),
        ({"openai_reasoning_efort": "low"}, "did you mean 'openai_reasoning_effort'?"),
        ({"anthropic_thinking": {}}, "there are cache, citations"),
    ],
)
def test_a_misspelt_setting_is_refused_before_a_call(settings: Any, hint: str) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(api_key="k"))
    with pytest.raises(ValueError, match=re.escape(hint)):
        Llm(model, settings=settings)
    fitting: Any = {"openai_reasoning_effort": "low"}
    Llm(model, settings=fitting)


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("http://127.0.0.1:11434/v1", "assumed 0 (127.0.0.1)"),
        ("http://localhost:8000/v1", "assumed 0 (localhost)"),
        ("http://[::1]:8000/v1", "assumed 0 (::1)"),
        ("http://[::ffff:127.0.0.1]:8000/v1", "assumed 0 (::ffff:127.0.0.1)"),
        ("http://192.168.1.4:8000/v1", "unknown"),
        ("http://127.0.0.1.example.org/v1", "unknown"),
        ("http://localhost.example.org/v1", "unknown"),
        ("http://models.example/v1", "unknown"),
    ],
)
def test_a_server_on_loopback_costs_nothing_unless_the_price_list_knows_the_model(
    url: str, source: str
) -> None:
    from placet.agents.adapters.llm.prices import FREE, pricing_of

    is_free = source.startswith("assumed 0")
    assert pricing_of(open_ai("qwen3:4b", url)) == (FREE if is_free else None, source, is_free)
    assert pricing_of(open_ai("gpt-5-mini", url)) == (None, "price list", True)
    assert pricing_of(open_ai("qwen3:4b", url), Prices(0.25, 2)).source == "stated 0.25,2"


@pytest.mark.parametrize(
    ("host", "is_there"),
    [
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("192.168.1.4", True),
        ("fd00::1", True),
        ("2001:4860:4860::8888", False),
        ("box.local", True),
        ("host.docker.internal", True),
        ("ollama", True),
        ("api.example.org", False),
        ("local.example.org", False),
        ("127.0.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_a_private_address_is_known_by_its_number_or_its_name(host: str, is_there: bool) -> None:
    from placet.agents.adapters.llm.prices import is_private

    assert is_private(host) == is_there


async def test_the_record_of_a_turn_has_the_source_of_the_price(tmp_path: Path) -> None:
    wire = OpenAI()
    async with ScriptedModelServer([wire.says(("Speak", {"text": "hi"}), usage=0)]) as provider:
        llm = Llm(open_ai("qwen3:4b", f"{provider.url}/v1"))
        store = str(tmp_path / "one.db")
        async with Session.open(
            domain=World(), adapter=llm, store=store, mode="autonomous"
        ) as session:
            turn = await session.send("say hi")
            (recorded,) = await session.turns()
    assert turn.usage.price == "assumed 0 (127.0.0.1)"
    assert (turn.usage.is_estimated, turn.usage.cost_usd) == (True, Decimal(0))
    assert recorded["price"] == "assumed 0 (127.0.0.1)"


def open_ai(name: str, url: str) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel(name, provider=OpenAIProvider(url, api_key="k"))


def test_an_unknown_price_stays_unknown() -> None:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    there = OpenAIProvider(api_key="k")
    assert Llm(OpenAIChatModel("gpt-5-mini", provider=there)).is_priced
    assert not Llm(OpenAIChatModel("nobody-knows-me", provider=there)).is_priced


async def test_a_cost_reported_by_a_gateway_is_used() -> None:
    from placet.agents.adapters.llm.prices import cost_of

    used = RequestUsage(input_tokens=1, output_tokens=1, cost=Decimal("0.5"))
    assert cost_of(ModelResponse(parts=[], usage=used), None) == Decimal("0.5")
    assert cost_of(ModelResponse(parts=[], usage=RequestUsage(input_tokens=1)), None) is None


# names


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY"),
        pytest.param("google-gla:gemini-2.5-flash", "GOOGLE_API_KEY", marks=pytest.mark.slow),
        pytest.param("google:gemini-2.5-flash", "GOOGLE_API_KEY", marks=pytest.mark.slow),
    ],
)
def test_a_model_is_found_by_its_name(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "k")
    llm = Llm(name)
    assert llm.is_priced
    assert as_adapter(llm) is llm


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("function", "give the function itself"),
        ("nobody:x", "there is no model 'nobody:x'; name a provider and its model, such as"),
        ("grok:x", "there is no model 'grok:x'; did you mean 'xai:"),
        ("openai:gpt-5", "the environment variable OPENAI_API_KEY is not set"),
        ("cohere:command", "cohere"),
    ],
)
def test_an_unusable_model_is_an_error_at_construction(
    monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("CO_API_KEY", "k")
    with pytest.raises(ValueError, match=says):
        Llm(name)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("openai-chat:x", {"api_key_env": "MISSING_KEY"}, "variable MISSING_KEY is not set"),
        (
            "deepseek:x",
            {"base_url": "http://127.0.0.1/v1"},
            "takes no base_url; .*openai-chat:NAME",
        ),
        ("nobody:x", {"base_url": "http://127.0.0.1/v1"}, "there is no model 'nobody:x'"),
        (TestModel(), {"base_url": "http://127.0.0.1/v1"}, "has its address"),
        (TestModel(), {"api_key_env": "PATH"}, "has its address"),
    ],
)
def test_an_unusable_address_or_key_is_an_error_at_construction(
    monkeypatch: pytest.MonkeyPatch, name: Any, options: dict[str, Any], says: str
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
    with pytest.raises(ValueError, match=says):
        Llm(name, **options)


@pytest.mark.parametrize(
    ("key_env", "sent", "advice"),
    [
        (None, "api-key-not-set", "none was sent to this base_url; name the environment variable"),
        ("MY_KEY", "sk-mine", "check the environment variable MY_KEY"),
    ],
)
async def test_the_key_of_a_provider_is_not_sent_to_another_address(
    monkeypatch: pytest.MonkeyPatch, key_env: str | None, sent: str, advice: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    async with ScriptedModelServer([OpenAI().fails(401, "no")]) as provider:
        url = f"{provider.url}/v1"
        llm = Llm("openai-chat:qwen3:4b", base_url=url, api_key_env=key_env)
        assert llm.address == provider.url.removeprefix("http://")
        with pytest.raises(PlannerUnavailable, match=rf"refused the key \(401\): {advice}"):
            await llm.propose(context())
        (asked,) = provider.requests
    assert asked.headers["authorization"] == f"Bearer {sent}"


def run(code: str) -> str:
    """Run code in a new Python process and return its output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_agent_layer_loads_no_provider() -> None:
    listing = run("import sys, placet.agents, placet.cli; print(*sys.modules)").split()
    assert not {"pydantic_ai", "openai", "anthropic", "google.genai"} & set(listing)


def test_a_missing_extra_is_reported_in_one_sentence() -> None:
    said = run(
        "import sys\nsys.modules['pydantic_ai'] = None\nimport placet.agents\n"
        "try:\n    placet.agents.Llm\nexcept ImportError as error:\n    print(error)"
    )
    assert (
        said
        == "placet.agents.Llm needs the extra 'llm': pip install '.[llm]' in a clone of placet\n"
    )


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import placet.agents

    with pytest.raises(AttributeError, match="no attribute 'Lmm'"):
        _ = placet.agents.Lmm
