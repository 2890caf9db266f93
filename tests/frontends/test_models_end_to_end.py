"""A model at a server of its own, over HTTP, at a terminal and in Python: cost, limits, causes."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from placet.agents import AgentLimits, Llm, Prices, ReplayAdapter, Session
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from tests.agents.adapters.llm.model_server import ModelServer
from tests.cli.command_line import run_process
from tests.frontends.terminal import HELD, PROMPT, Terminal
from tests.server.process import running

KEY = "sk-planted-4c1e"
MODEL = "openai-chat:qwen3:4b"
LATEST_SECONDS = 60
FAILURES = [
    ("fail 401", "refused the key (401): check the environment variable MODEL_KEY"),
    ("fail 404", "does not know the model 'qwen3:4b' (404): check its name"),
    ("fail 429", "limits the rate of requests (429): ask again in 600 s"),
    ("fail 500", "failed (500): ask again in 1 s"),
    ("break the JSON", "sent no model's answer in JSON, but perhaps a page"),
    ("send a page", "sent no model's answer in JSON, but perhaps a page"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with ModelServer(tmp_path) as server:
        yield server


def configure(folder: Path, model: ModelServer, **more: str) -> None:
    """Write the section `[model]` of a model that costs 1 and 10 dollars for a million tokens."""
    keys = {
        "name": f'"{MODEL}"',
        "base_url": f'"{model.base_url}"',
        "api_key_env": '"MODEL_KEY"',
        "price": "[1, 10]",
        **more,
    }
    lines = [f"{key} = {value}" for key, value in keys.items()]
    (folder / "placet.toml").write_text("\n".join(["[model]", *lines, ""]))


@pytest.mark.slow
def test_a_session_over_http_has_its_cost_its_limits_and_causes(model, tmp_path):
    configure(tmp_path, model)
    options = ("--domain", "world", "--sessions", "--store", "w.db")
    with running(tmp_path, *options) as server:
        opened = server.post("sessions", {"mode": "autonomous"})
        assert opened.json()["proposer"] == MODEL, opened.text

        def say(message: str, session: str = "main") -> tuple[int, Any]:
            answer = server.post(f"sessions/{session}/messages", {"message": message})
            return answer.status_code, answer.json()

        status, turn = say("say hello")
        assert (status, turn["outcome"]) == (200, "applied")
        assert turn["usage"]["cost_usd"] == "0.0002", "100 tokens in, 10 out"
        assert turn["usage"]["price"] == "stated 1,10"
        status, turn = say("say hello uncounted")
        assert (status, turn["usage"]["is_estimated"]) == (200, True)
        for message, cause in FAILURES:
            status, turn = say(message)
            assert (status, turn["stop"]) == (503, "planner_unavailable")
            assert model.address in turn["message"]
            assert cause in turn["message"]
        assert all(one["max_tokens"] == 4096 for one in model.requests())
        assert {one["key"] for one in model.requests()} == {KEY}
        sent = len(model.requests())
        server.post("sessions", {"session": "two", "agent": "two", "max_usd": 0.0409})
        status, turn = say("say hello", "two")
        assert (status, turn["stop"], len(model.requests())) == (429, "cost_exhausted", sent)
        assert "at most 4096 out), and 0.0409 USD are left: raise the limit" in turn["message"]
        body = {"session": "three", "agent": "three", "max_tokens": 300}
        assert server.post("sessions", body).status_code == 201
        assert say("say hello", "three")[1]["stop"] == "tokens_exhausted"
        model.stop()
        status, turn = say("say hello")
        assert turn["message"] == (
            f"no connection to {model.address}: check that a server runs at this address"
        )
        server.process.send_signal(15)
        server.process.wait()
    with running(tmp_path, *options) as server:
        turns = server.post("sessions", {}).json()["turns"]
    assert [one["outcome"] for one in turns] == ["applied"] * 2 + ["failed"] * 7
    check_log(tmp_path, "w.db")


def check_log(folder: Path, store: str) -> None:
    """Check that the log verifies, replays without the model, and holds no secret."""
    assert run_process("verify", store, folder=folder).code == 0
    said = run_process("replay", store, "--path", "world.speech/agent/said", folder=folder)
    assert "hello" in said.out, said.err
    kept = b"".join(path.read_bytes() for path in folder.glob(f"{store}*"))
    assert b"hello" in kept, "it is the log that was searched"
    assert KEY.encode() not in kept
    assert b"body-7c1" not in kept


@pytest.mark.slow
def test_a_chat_at_a_terminal_asks_shows_the_cost_and_can_be_stopped(model, tmp_path):
    configure(tmp_path, model, max_usd="0.05")
    words = ("chat", "--domain", "world", "--mode", "interactive", "--as", "ann", "--store", "c.db")
    with Terminal(*words, folder=tmp_path) as chat:
        shown = chat.until(PROMPT)
        assert f"placet chat: {MODEL} at {model.base_url} proposes (placet.toml)" in shown
        chat.type("say hello\n")
        chat.say("y", HELD)
        chat.until("0 Speak applied")
        chat.say("fail 401")
        chat.until("refused the key (401): check the environment variable MODEL_KEY")
        chat.say("only talk")
        chat.until("1 request, 100 tokens in, 10 out, 0.0002 USD; price: stated 1,10")
        chat.say("be silent")
        while model.requests()[-1]["message"] != "be silent":
            chat.wait()
        chat.interrupt()
        chat.until("refused (operator_stopped)")
        chat.say("/quit")
        assert chat.end() == 0
    check_log(tmp_path, "c.db")
    sent = len(model.requests())
    again = ("chat", "--domain", "world", "--store", "c.db", "--max-usd", "0.01", "--json")
    refused = run_process(*again, folder=tmp_path, stdin=b"say hello\n")
    assert '"stop":"cost_exhausted"' in refused.out
    assert (refused.code, len(model.requests())) == (1, sent)


@pytest.mark.parametrize(
    ("flags", "message", "stop", "tokens"),
    [
        (("--max-output-tokens", "77"), "say hello", "completed", 77),
        (
            ("--max-seconds", "0.4", "--max-request-seconds", "9"),
            "be silent",
            "deadline_exceeded",
            4096,
        ),
        (
            ("--max-request-seconds", "0.1", "--max-output-tokens", "9000"),
            "be silent",
            "planner_unavailable",
            9000,
        ),
    ],
)
def test_a_chat_sets_the_time_and_the_length_of_an_answer(
    model, tmp_path, flags, message, stop, tokens
):
    configure(tmp_path, model)
    words = ("chat", "--domain", "world", "--mode", "autonomous", "--json", *flags)
    said = run_process(*words, folder=tmp_path, stdin=f"{message}\n".encode())
    turn = json.loads(said.out.splitlines()[-1])
    assert turn["stop"] == stop, said.err
    assert {one["max_tokens"] for one in model.requests()} == {tokens}
    if stop == "planner_unavailable":
        assert len(model.requests()) == 2, "there was time for a second request"
        assert turn["message"].startswith(f"{model.address} did not answer in time: if it is slow")


@pytest.mark.anyio
async def test_a_session_in_python_streams_ends_in_time_and_replays(model, tmp_path):
    shown: list[str] = []
    llm = Llm(
        MODEL,
        base_url=model.base_url,
        api_key_env="MODEL_KEY",
        prices=Prices(1, 10),
        on_text=shown.append,
    )
    messages = ["say hello", "misspell", "fail 429", "only talk", "be silent"]
    limits = AgentLimits(cost_usd_max=Decimal("0.05"))
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path / 'p.db'}")
    async with Orchestrator([World(), Sessions()], config) as world:
        opening = Session.open(world=world, adapter=llm, limits=limits, mode="autonomous")
        async with opening as session:
            turns = [await session.send(message) for message in messages[:-1]]
        hasty = limits.model_copy(update={"seconds_max": 0.5})
        async with Session.open(world=world, adapter=llm, limits=hasty) as session:
            turns.append(await session.send(messages[-1]))
        replay = await ReplayAdapter.of(world.events(since=0), world.seq, "main")
    assert shown == ["Here ", "I ", "go.", "Nothing ", "to ", "do."]
    assert [turn.stop for turn in turns] == [
        "completed",
        "repair_no_progress",
        "planner_unavailable",
        "said",
        "deadline_exceeded",
    ]
    assert [turn.usage.cost_usd for turn in turns] == [
        Decimal(cost) for cost in ("0.0002", "0.0004", "0", "0.0002", "0")
    ]
    assert all(one["stream"] and one["key"] == KEY for one in model.requests())
    model.stop()
    with anyio.fail_after(LATEST_SECONDS):
        async with Session.open(
            domain=World(), adapter=replay, limits=limits, mode="autonomous"
        ) as session:
            again = [await session.send(message) for message in messages]
    assert [(one.stop, one.message, one.usage) for one in again] == [
        (one.stop, one.message, one.usage) for one in turns
    ]
    check_log(tmp_path, "p.db")
