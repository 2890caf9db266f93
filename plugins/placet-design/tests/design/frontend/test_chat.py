"""`placet chat` through a pipe: every line is answered, plans that need approval are held."""

import io
import json
import os
from pathlib import Path

import anyio
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.session import Sessions
from placet.domains.world import World
from placet.testing.faults import OpenAI, ScriptedModelServer
from tests.cli.command_line import PLACET, Process, run_process
from tests.frontends.turns import turns

DESIGN = ("chat", "--domain", "design", "--json")
INTERACTIVE = (*DESIGN, "--mode", "interactive", "--as", "ann")


def test_a_sentence_is_proposed_and_applied(placet):
    outcome = placet.with_input("set beam to 9 m, lock hull length", to=DESIGN)
    (turn,) = turns(outcome)
    assert (turn["outcome"], turn["route"]) == ("applied", "agent")
    assert [one["kind"] for one in turn["results"]] == ["design.set", "design.lock"]
    changed = {one["path"]: one["new"] for one in turn["diff"]}
    assert changed["design.parameters/hull.beam/value"] == 9.0
    assert outcome.code == 0


def test_a_command_bypasses_the_agent(placet):
    (turn,) = turns(placet.with_input("/design.set path=hull.beam value=9", to=DESIGN))
    assert (turn["outcome"], turn["route"]) == ("applied", "command")


def test_an_unclear_message_is_answered_with_suggested_sentences(placet):
    outcome = placet.with_input("set the bea to 10 m", to=DESIGN)
    (turn,) = turns(outcome)
    assert (turn["outcome"], turn["stop"]) == ("clarify", "clarification_needed")
    assert turn["choices"] == ["set the beam to 10 m"]
    assert outcome.code == 1


def test_a_partly_understood_sentence_is_not_applied(placet):
    (turn, state) = turns(
        placet.with_input(
            "set beam to 9 m, set the draf to 2 m", "/state design.parameters/hull.beam", to=DESIGN
        )
    )
    assert (turn["outcome"], state) == ("clarify", {"state": {"value": None}})


def test_a_percentage_is_relative_to_the_present_value(placet):
    *_, turn = turns(placet.with_input("set power to 1000 kW", "increase power by 15 %", to=DESIGN))
    assert turn["outcome"] == "applied"
    assert 1150.0 in [one["new"] for one in turn["diff"]]


def test_too_many_actions_for_the_mode_are_refused_with_advice(placet):
    (turn,) = turns(placet.with_input("set beam to 9 m, lock hull length", to=INTERACTIVE))
    assert (turn["outcome"], turn["stop"]) == ("refused", "unsupported_goal")
    assert turn["message"].endswith("got 2; say less at once")


def test_a_sentence_refused_by_the_gate_shows_the_reason(placet):
    *_, turn = turns(placet.with_input("set beam to 9 m, lock beam", "set beam to 8 m", to=DESIGN))
    assert turn["results"][0]["issues"][0]["code"] == "design.locked"


def test_a_question_is_answered_in_text(placet):
    outcome = placet.with_input("what is the beam?", to=DESIGN)
    assert turns(outcome)[0]["outcome"] == "said"
    assert outcome.code == 0


def test_phases_are_run_by_their_executor(placet):
    *_, turn = turns(placet.with_input("60 m ferry, 12 m beam", "run all phases", to=DESIGN))
    (result,) = turn["results"]
    assert (result["outcome"], result["is_truncated"]) == ("applied", True)


def test_the_phrases_of_the_program_domain_are_commands(placet):
    phrases = ("create hello world program", "compile program", "run program", "run programs")
    outcome = placet.with_input(*phrases, to=("chat", "--domain", "program", "--json"))
    *done, missed = turns(outcome)
    assert [one["route"] for one in done] == ["command"] * 3
    assert done[2]["results"][0]["output"]["value"] == "Hello, world!"
    assert (missed["route"], missed["stop"]) == ("agent", "unsupported_goal")


def test_a_refusal_has_its_code_and_a_suggestion(placet):
    outcome = placet.with_input("/design.set path=hull.bea value=9", to=DESIGN)
    (turn,) = turns(outcome)
    (issue,) = turn["attempts"][0]["issues"]
    assert issue["code"] == "design.not_refinable"
    assert "hull.beam" in issue["suggestions"]
    assert outcome.code == 1


def test_a_domain_without_sentences_is_reported(placet):
    (turn,) = turns(placet.with_input("go north", to=("chat", "--domain", "world", "--json")))
    assert (turn["outcome"], turn["stop"]) == ("refused", "unsupported_goal")


def test_a_held_plan_is_approved_as_shown(placet):
    outcome = placet.with_input("set beam to 9 m", "/approvals", "/approve", to=INTERACTIVE)
    held, approvals, applied = turns(outcome)
    assert held["outcome"] == "held"
    (approval,) = approvals["approvals"]
    assert approval["id"] == held["approval_id"]
    assert (applied["outcome"], applied["route"]) == ("applied", "person")
    assert applied["diff"] == held["diff"]
    assert outcome.code == 0


def test_an_undecided_plan_is_not_applied(placet):
    assert placet.with_input("set beam to 9 m", to=INTERACTIVE).code == 1


def test_a_denial_exits_successfully(placet):
    outcome = placet.with_input("set beam to 9 m", "/deny", to=INTERACTIVE)
    assert turns(outcome)[1]["message"] == "deny by ann"
    assert outcome.code == 0


def test_the_proposer_cannot_approve(placet):
    own = (*DESIGN, "--mode", "interactive", "--as", "agent")
    outcome = placet.with_input("set beam to 9 m", "/approve", to=own)
    assert turns(outcome)[1]["outcome"] == "refused"
    assert outcome.code == 1


def test_an_approval_without_a_request_fails(placet):
    outcome = placet.with_input("/approve", "/deny nothing", to=INTERACTIVE)
    none, nothing = turns(outcome)
    assert none == {"error": "no plan waits for a person"}
    assert nothing["message"].startswith("there is no approval request 'nothing'")
    assert outcome.code == 1


def test_a_conversation_continues_from_its_store(placet):
    kept = ("--store", "ferry.db")
    placet.with_input("set beam to 9 m", to=(*INTERACTIVE, *kept))
    outcome = placet.with_input(
        "/approve",
        "/turns",
        "/state design.parameters/hull.beam",
        to=("chat", "--json", "--as", "ann", *kept),
    )
    applied, said, state = turns(outcome)
    assert applied["outcome"] == "applied"
    assert [one["outcome"] for one in said["turns"]] == ["held", "applied"]
    assert state == {"state": {"value": 9.0}}
    assert placet("verify", "ferry.db").code == 0


def test_a_conversation_continues_in_the_mode_of_its_latest_turn(placet):
    kept = ("chat", "--domain", "design", "--json", "--as", "ann", "--store", "ferry.db")
    (first,) = turns(placet.with_input("set beam to 9 m", to=(*kept, "--mode", "interactive")))
    (again,) = turns(placet.with_input("set draft to 2 m", to=kept))
    (other,) = turns(placet.with_input("set draft to 2 m", to=(*kept, "--mode", "assisted")))
    assert [turn["outcome"] for turn in (first, again, other)] == ["held", "held", "applied"]


def test_a_log_is_continued_with_its_own_settings(placet):
    begin("town.db", World(max_step=2.0), Sessions())
    (turn,) = turns(
        placet.with_input("/Move to=[500,500]", to=("chat", "--json", "--store", "town.db"))
    )
    assert turn["stop"] == "world.step_too_long"
    assert placet("verify", "town.db").code == 0


def test_a_log_without_the_session_domain_is_refused(placet):
    begin("town.db", World())
    outcome = placet.with_input("/Move to=[5,5]", to=("chat", "--store", "town.db"))
    assert outcome.code == 1
    assert "was made without the domain 'session'" in outcome.err


def begin(store, *domains):
    async def opened():
        async with Orchestrator(domains, OrchestratorConfig(store=store)):
            pass

    anyio.run(opened)


def test_slash_commands_print_one_value_per_line(placet):
    words = (
        "/help",
        "/kinds",
        "/mode",
        "/mode autonomous",
        "/mode wild",
        "/state nowhere",
        "/quit",
    )
    outcome = placet.with_input(*words, "set beam to 9 m", to=DESIGN)
    told = turns(outcome)
    assert [next(iter(one)) for one in told] == ["help", "kinds", "mode", "mode", "error", "error"]
    assert told[3] == {"mode": "autonomous"}
    assert outcome.code == 1


def test_a_tab_separates_slash_command_arguments(placet):
    words = ("/mode\tinteractive", "set beam to 9 m", "/deny\t")
    mode, held, denied = turns(placet.with_input(*words, to=(*DESIGN, "--as", "ann")))
    assert mode == {"mode": "interactive"}
    told = placet.with_input("/mode", f"/approve\t{held['approval_id']}", to=DESIGN)
    assert denied["message"] == "deny by ann"
    assert turns(told)[1]["message"].startswith(
        f"there is no approval request '{held['approval_id']}'"
    )


def test_kinds_of_the_session_are_not_offered(placet):
    (told,) = turns(placet.with_input("/kinds", to=DESIGN))
    assert not [kind for kind in told["kinds"] if kind.startswith("session.")]


def test_decided_and_open_approval_requests_are_shown_differently(placet):
    lines = ("set beam to 9 m", "/approve", "set beam to 8 m", "/approvals")
    shown = placet.with_input(
        *lines, to=("chat", "--domain", "design", "--mode", "interactive")
    ).out
    was, waits = [
        line for line in shown.partition("> /approvals")[2].splitlines() if "agent" in line
    ]
    assert "(approved by " in was
    assert was.endswith("; agent proposed:")
    assert waits.endswith("(open) needs the approval of a person; agent proposes:")


def test_text_output_shows_lines_with_their_outcome(placet):
    lines = (
        "set beam to 9 m",
        "/design.set path=hull.bea value=9",
        "/approvals",
        "/turns",
        "/state",
    )
    outcome = placet.with_input(*lines, "set the bea to 1 m", to=("chat", "--domain", "design"))
    shown = outcome.out.splitlines()
    assert "> set beam to 9 m" in shown
    assert "    ~ design.parameters/hull.beam/value  null -> 9.0" in shown
    assert "    instead: hull.beam, hull.loa, hull.cb" in shown
    assert "  no plan waits, and none was held before" in shown
    assert "  set beam to 9 m  -> applied (completed)" in shown
    assert "  - set the beam to 1 m" in shown


def test_an_approval_request_is_shown_as_commands(placet):
    words = ("chat", "--domain", "world", "--mode", "interactive")
    outcome = placet.with_input('/Speak text="hi all"', "/approvals", to=words)
    assert "    /Speak text='hi all' channel=public" in outcome.out or (
        "    /Speak text='hi all'" in outcome.out
    )


def test_control_characters_in_texts_are_escaped(placet):
    human = ("chat", "--domain", "world", "--agent", "human")
    outcome = placet.with_input("hi\x1b[1J", "hello\x1b[2J", to=human)
    assert "\x1b" not in outcome.out
    assert "> hi\\x1b[1J" in outcome.out
    assert "said: hello\\x1b[2J" in outcome.out


def test_a_person_may_be_the_proposer(placet):
    lines = ("move me", "/Move to=[1,2]", "/Speak text=hi", "", "say something", "hello", "")
    human = ("chat", "--domain", "world", "--agent", "human", "--json")
    outcome = placet.with_input(*lines, "and now", "", to=human)
    asked, applied, _, said, _, nothing = turns(outcome)
    assert asked == {"asked": "move me"}
    assert [one["kind"] for one in applied["results"]] == ["Move", "Speak"]
    assert (said["outcome"], said["message"]) == ("said", "hello")
    assert nothing["message"] == "(nothing proposed)"


def test_an_invalid_action_line_is_reported_and_skipped(placet):
    lines = ("move me", "/Move to=[1,2]", "Speak text", "")
    human = ("chat", "--domain", "world", "--agent", "human", "--json")
    told = turns(placet.with_input(*lines, to=human))
    assert [next(iter(one)) for one in told] == ["asked", "error", "id"]
    assert told[1] == {"error": "expected key=value, got 'text'"}


def test_a_proposing_person_is_shown_the_issues_and_asked_again(placet):
    lines = ("say something", "/Speak", "", "/Speak text=hi", "")
    human = ("chat", "--domain", "world", "--agent", "human", "--json")
    _, error, asked, applied = turns(placet.with_input(*lines, to=human))
    assert error == {"error": "payload of Speak/text: field required"}
    assert asked == {"asked": "say something"}
    assert [one["status"] for one in applied["attempts"]] == ["invalid", "applied"]


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ((), 2, "type for example `placet chat --domain world`"),
        (("--domain", "nope"), 1, "there is no domain 'nope'"),
        (("--domain", "design", "--mode", "wild"), 2, "unknown mode 'wild'"),
        (("--domain", "design", "--agent", "robot"), 1, "'robot'"),
    ],
)
def test_an_invalid_option_is_reported_in_one_line(placet, options, code, why):
    outcome = placet.with_input("hi", to=("chat", *options))
    assert (outcome.code, outcome.out) == (code, "")
    assert why in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_invalid_utf_8_is_answered(tmp_path):
    outcome = run_process(*DESIGN, folder=tmp_path, stdin=b"set \xff\xfe\n")
    assert turns(outcome)[0]["outcome"] == "clarify"
    assert outcome.err == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_ends_a_piped_chat_and_keeps_applied_plans(tmp_path, number):
    with Process(*DESIGN, "--store", "ferry.db", folder=tmp_path) as chat:
        chat.stdin.write(b"set beam to 9 m\n")
        chat.stdin.flush()
        assert json.loads(chat.out.readline())["outcome"] == "applied"
        chat.send_signal(number)
        assert chat.end() == (128 + number, "", "")
    assert [file.name for file in tmp_path.iterdir()] == ["ferry.db"]
    assert run_process("verify", "ferry.db", folder=tmp_path).code == 0


def test_the_command_runs_placet_as_a_module():
    assert PLACET[1:] == ["-m", "placet"]


# models


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--price", "1"), "--price takes IN,OUT"),
        (("--price", "a,b"), "--price takes IN,OUT"),
        (("--price", "0,0"), "'scripted' is no model, so price cannot apply"),
        (("--price", "-1,0", "--agent", "openai:x"), "--price takes IN,OUT"),
        (("--max-usd", "much"), "--max-usd takes US dollars"),
    ],
)
def test_a_wrong_price_or_limit_is_reported_before_a_call(placet, monkeypatch, options, message):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    outcome = placet("chat", "--domain", "world", *options)
    assert outcome.code != 0
    assert message in outcome.err


@pytest.mark.parametrize(
    ("file", "environment", "options", "message"),
    [
        ('name = "openai-chat:one"', {}, (), "'one' at models.example.org is not known"),
        ('name = "x:y"', {"NAME": "openai-chat:one"}, (), "'openai-chat:one' cannot be asked"),
        ('name = "x:y"', {"NAME": "x:z"}, ("--agent", "x:w"), "there is no model 'x:w'"),
        ('nmae = "x:y"', {}, (), "placet.toml: there is no key 'model.nmae'; did you mean"),
        ("max_usd = -1", {}, (), "placet.toml: max_usd must be US dollars"),
        ("", {"MAX_USD": "much"}, (), "PLACET_MODEL_MAX_USD: model.max_usd"),
        ("", {}, ("--set", "model.base_url=ftp://x"), "base_url must be the address of an API"),
    ],
)
def test_the_model_is_that_of_the_flags_else_of_the_environment_else_of_the_file(
    placet, monkeypatch, file, environment, options, message
):
    address = 'base_url = "https://models.example.org/v1"\n'
    Path("placet.toml").write_text(f"seed = 1\n[model]\n{file}\n{address}")
    for name, text in environment.items():
        monkeypatch.setenv(f"PLACET_MODEL_{name}", text)
    monkeypatch.setenv("PLACET_STORE", "ignored.db")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    outcome = placet("chat", "--domain", "world", *options)
    assert outcome.code == 1
    assert message in outcome.err


def test_a_model_that_only_a_file_names_is_printed_with_its_source(placet, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    Path("placet.toml").write_text(
        '[model]\nname = "openai-chat:one"\nbase_url = "http://127.0.0.1:9/v1"\nmax_tokens = 900\n'
    )
    chat = ("chat", "--domain", "world")
    said = "placet chat: openai-chat:one at http://127.0.0.1:9/v1 proposes (placet.toml)\n"
    assert placet(*chat).err == said
    assert placet(*chat, "--agent", "scripted").err == ""


def test_the_price_of_a_model_at_a_private_address_is_stated_once(placet, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.168.1.4:8000/v1")
    monkeypatch.setattr("sys.stdin", io.StringIO())  # a conversation without a message
    chat = ("chat", "--domain", "world", "--agent", "openai-chat:qwen3:4b")
    unknown = placet(*chat)
    assert unknown.code != 0
    assert "'qwen3:4b' at 192.168.1.4:8000 is not known" in unknown.err
    assert str(tmp_path / "placet" / "model_prices.toml") in unknown.err
    assert placet(*chat, "--price", "0,0").code == 0
    assert placet(*chat).code == 0
    kept = tmp_path / "placet" / "model_prices.toml"
    assert kept.read_text() == '"192.168.1.4:8000/qwen3:4b" = [0.0,0.0]\n'
    kept.write_text('"192.168.1.4:8000/qwen3:4b" = "free"')
    assert "must be [IN, OUT]" in placet(*chat).err
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.org/v1")
    public = placet(*chat)
    assert "state the price" in public.err
    assert "kept" not in public.err
    assert placet(*chat, "--max-usd", "none").code == 0


@pytest.mark.slow  # two processes that load the client of a model
async def test_a_local_model_is_called_by_default_and_an_absent_one_is_named(tmp_path):
    wire = OpenAI()
    async with ScriptedModelServer([wire.says(("Speak", {"text": "hi"}))]) as provider:
        environment = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{provider.url}/v1"}
        command = [*PLACET, "chat", "--domain", "world", "--json", "--mode", "autonomous"]
        command += ["--agent", "openai-chat:qwen3:4b"]

        async def answer():
            done = await anyio.run_process(
                command, input=b"say hi\n", env=environment, cwd=tmp_path, check=False
            )
            return json.loads(done.stdout)

        applied = await answer()
    absent = await answer()
    assert applied["outcome"] == "applied"
    assert (absent["stop"], "no connection to 127.0.0.1" in absent["message"]) == (
        "planner_unavailable",
        True,
    )
