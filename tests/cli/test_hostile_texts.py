"""No command shows a character of others that a reader does not see, nor a formula or markup."""

import ast
import asyncio
import csv
import signal
from pathlib import Path
from typing import Any

import pytest

import placet
from placet import Log, Orchestrator, OrchestratorConfig, play
from placet.cli.app import run_command
from placet.cli.command_table import COMMANDS
from placet.domains.session import Sessions
from placet.kernel import Kernel
from placet.lab import compare, run_scenarios, turning_point
from placet.plugins.entry_points import COMMANDS as PLUGIN_COMMANDS
from placet.plugins.entry_points import plugins
from placet.scenarios import load
from placet.schemas.printable import unseen_characters
from tests.cli.command_line import CommandLine, Process, as_lines, run_process
from tests.cli.hostile import NAME, TEXT, Hostile


def quoted(text):
    """Write a text as a string of TOML."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


SCENARIO = f"""
title = {quoted(TEXT)}
domain = "tests.cli.hostile:Hostile"
seed = 1
ticks = 6
[agents.{quoted(NAME)}]
count = 2
policy = "tests.cli.hostile:Crier"
[collect]
refusals = true
world = {{ {quoted("=[red]<b>")} = "tests.cli.hostile:text" }}
"""
CHECK = "placet.kernel.kernel.require_clear_name"
DOMAIN = ("--domain", "tests.cli.hostile:Hostile")
SWEPT = ("--set", "ticks=5,6", "--outcome", "tests.cli.hostile:lucky")
OUTCOME = ("--outcome", "tests.cli.hostile:lucky")

ARGUMENTS: dict[str, list[tuple[str, ...]]] = {
    "run": [("run", "hostile.toml", "--store", "run.db"), ("run", "--resume", "run.db")],
    "sweep": [
        ("sweep", "hostile.toml", "--to", "study", "--seeds", "1..2", *SWEPT),
        ("sweep", "hostile.toml", "--to", "bad", "--outcome", "tests.cli.hostile:fails"),
    ],
    "scenarios": [("scenarios",)],
    "log": [("log", "town.db"), ("log", "mail.db")],
    "collect": [("collect", "town.db", "--to", "rows", "--refusals")],
    "export": [
        ("export", "town.db", "--to", "tables"),
        ("export", "town.db", "--to", "intents.csv"),
        ("export", "town.db", "--to", "refusals.csv", "--refused"),
        ("export", "town.db", "--to", "changes.csv", "--table", "changes"),
        ("export", "mail.db", "--to", "effects.csv", "--table", "effects"),
    ],
    "replay": [("replay", "town.db"), ("replay", "town.db", "--path", "/")],
    "verify": [("verify", "town.db"), ("verify", "mail.db")],
    "explain": [
        ("explain", "town.db", f"{NAME}_1", "1"),
        ("explain", "town.db", f"{NAME}_1", "3"),
        ("explain", "town.db", f"{NAME}_9", TEXT),
        ("explain", "town.db", "--seq", "5"),
        ("explain", "mail.db", NAME, NAME),
    ],
    "effects": [("effects", "mail.db"), ("effects", "mail.db", "--kind", TEXT)],
    "bisect": [("bisect", "town.db", "other.db")],
    "fork": [
        (
            "fork",
            "town.db",
            "fork.db",
            "--at-tick",
            "3",
            "--drop-agent",
            f"{NAME}_1",
            "--replay",
            *DOMAIN,
        ),
        ("fork", "town.db", "x.db", "--set", f"hostile.boxes/{NAME}/{TEXT}=null"),
        ("fork", "town.db", "y.db", "--world", TEXT),
    ],
    "diff": [("diff", "town.db", "other.db"), ("diff", "town.db", "other.db", "--path", TEXT)],
    "report": [("report", "town.db"), ("report", "study", "--to", "study.html")],
    "compare": [("compare", "town.db", "other.db"), ("compare", "study", "--by", "ticks")],
    "turning-point": [
        ("turning-point", "town.db", "--every", "2", "--seeds", "4", "--blame", *OUTCOME)
    ],
    "runs": [("runs", "."), ("runs", ".", TEXT)],
    "pack": [("pack", "town.db", "town.pack")],
    "check": [("pack", "town.db", "checked.pack"), ("check", "checked.pack")],
    "compact": [("compact", "mail.db")],
    "kinds": [("kinds", *DOMAIN), ("kinds", "--domain", TEXT.replace("\0", ""))],
    "config": [
        ("config", "--set", "store=town.db", "--set", f"domain={DOMAIN[1]}"),
        ("config", "--set", f"world={TEXT}"),
    ],
    "token": [("token", "new", "--agent", "=[red]"), ("token", "new", "--agent", TEXT)],
    "new": [("new", "domain", "garden"), ("new", "domain", NAME)],
}
"""Command -> calls of it on the logs below; each is also called with --json."""

CONVERSATIONS: dict[str, tuple[str, ...]] = {
    "gate": ("gate", *DOMAIN),
    "chat": ("chat", "--store", "mail.db", *DOMAIN),
}
"""Commands that read stdin, and the arguments with which they run in a separate process."""

SERVERS: dict[str, tuple[str, ...]] = {
    "serve": ("serve", "--store", "mail.db", "--json", "--set", "serve.port=0"),
    "play": ("play", "mail.db", "--json"),
}
NO_TEXTS_OF_OTHERS = {
    "mcp": "its output is of the protocol's library; tests/frontends/mcp has its texts",
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with the logs of a hostile run, of another seed of it, and of hostile effects.

    The names were registered when no name was refused.
    """
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.toml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as before:
        before.chdir(folder)
        before.setattr(CHECK, lambda *_: None)
        for store, seed in (("town.db", "1"), ("other.db", "2")):
            done = run_command(["run", "hostile.toml", "--store", store, "--seed", seed])
            assert done == 0
        asyncio.run(_write_mail())
    return folder


async def _write_mail():
    async def mail(effect):
        raise ValueError(TEXT)

    config = OrchestratorConfig(store="mail.db", clock="stepped")
    async with Orchestrator([Hostile(), Sessions()], config) as world:
        await world.register_executor("mail", mail, delivery="idempotent", attempts_max=1)
        agent = await world.register_agent(NAME)
        for n, req_id in ((0, NAME), (1, "again")):
            intent = {**agent.intent("Shout", n=n, mail=True), "req_id": req_id}
            pending = agent.submit_nowait([intent])
            await world.step(1.0)
            assert (await pending).admitted
            await world.wait_effects()


@pytest.fixture
def call(logs, capsys, monkeypatch):
    monkeypatch.chdir(logs)
    monkeypatch.setattr(CHECK, lambda *_: None)
    return CommandLine(capsys, logs)


def test_every_command_is_called_with_hostile_texts():
    all_calls = {*ARGUMENTS, *CONVERSATIONS, *SERVERS, *NO_TEXTS_OF_OTHERS}
    found = plugins(PLUGIN_COMMANDS).items()
    own = [name for name, one in found if one.entry.dist and one.entry.dist.name == "placet"]
    assert all_calls == {*COMMANDS, *own}


def assert_printable(text):
    found = unseen_characters(text.replace("\n", ""))
    assert not found, ascii(text[max(0, text.index(found[0]) - 200) :][:400])


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_command_prints_no_unseen_character(call, command):
    for place, arguments in enumerate(ARGUMENTS[command]):
        for more in ((), ("--json",)):
            done = call(*arguments, *more)
            assert_printable(done.out)
            assert_printable(done.err)
            assert done.out or done.err.startswith("placet: ")
            if not place and not more:
                assert done.out, done.err


def test_pages_and_json_files_have_no_unseen_character(call):
    for command in ("sweep", "report", "export"):
        for arguments in ARGUMENTS[command]:
            call(*arguments)
    for ending, count in {"html": 2, "json": 5}.items():
        paths = [*call.folder.rglob(f"*.{ending}")]
        assert len(paths) >= count
        for path in paths:
            assert_printable(path.read_text())
    with (call.folder / "intents.csv").open(newline="", encoding="utf-8") as file:
        assert TEXT in {cell for row in csv.reader(file) for cell in row}


def test_the_gate_prints_no_unseen_character(logs):
    intent = {"kind": "Whisper", "payload": {"n": 2, TEXT: TEXT}, "agent_id": "ann"}
    lines = as_lines(
        {"register": NAME},
        {"register": "ann"},
        intent,
        {**intent, "kind": TEXT},
        {**intent, "agent_id": TEXT},
        {**intent, TEXT: TEXT},
        TEXT,
    )
    lines += TEXT.encode() + b"\n"
    path = str(Path(__file__).parents[2])
    done = run_process(*CONVERSATIONS["gate"], folder=logs, stdin=lines, PYTHONPATH=path)
    assert len(done.out.splitlines()) >= 7
    assert_printable(done.out)
    assert_printable(done.err)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_conversation_prints_no_unseen_character(logs, more):
    said = TEXT.replace("\n", "").encode()
    lines = b"\n".join([said, b"/" + said, b"/Speak text=" + said, b"/view", b"/turns", b"/help"])
    path = str(Path(__file__).parents[2])
    chat = (*CONVERSATIONS["chat"], *more)
    done = run_process(*chat, folder=logs, stdin=lines + b"\n", PYTHONPATH=path)
    assert done.out
    assert_printable(done.out)
    assert_printable(done.err)


@pytest.mark.slow
@pytest.mark.parametrize("command", SERVERS)
def test_a_server_prints_no_unseen_character(logs, command):
    with Process(*SERVERS[command], folder=logs) as server:
        assert_printable(server.out.readline().decode())
        server.send_signal(signal.SIGTERM)
        assert_printable(server.end().err)


async def _shown_of_a_world():
    async with Orchestrator(Hostile()) as world:
        agent = await world.register_agent(NAME)
        intents = [agent.intent("Whisper", n=n, **{TEXT: TEXT}) for n in (0, 2)]
        verdicts = [await world.submit([intent]) for intent in intents]
        view = await agent.refresh_view()
        return [world, *verdicts, view, view.state]


@pytest.mark.slow
def test_a_notebook_shows_no_unseen_character_of_any_value(call):
    kernel = Kernel(Hostile())
    kernel.register_agent(NAME)
    payload: dict[str, Any] = {"n": 0, TEXT: TEXT}
    kernel.decide([kernel.intent("Whisper", agent=NAME, **payload)], 0)
    log = Log("town.db")
    scenario = load("hostile.toml")
    swept = run_scenarios([scenario], outcome="tests.cli.hostile:lucky")
    turn = turning_point("town.db", "tests.cli.hostile:lucky", every=3, seeds=4)
    shown: list[Any] = [
        *(*asyncio.run(_shown_of_a_world()), kernel, kernel.state, Hostile(), swept, turn),
        *(log, log.at(), log.intents, log.tables(), *log.tables().values(), play("town.db")),
        *(compare("town.db", "other.db"), next(iter(log.records()))),
    ]
    for value in shown:
        assert_printable(repr(value))
        if hasattr(value, "_repr_html_"):
            page = value._repr_html_()
            assert_printable(page)
            assert "<b>" not in page or "=[red]<b>" not in page
    names = {type(value).__name__ for value in shown} | {"ServedPlayer"}  # an address alone
    assert set(_classes_with_html()) <= names


def _classes_with_html():
    for path in (Path(placet.__file__).parent).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = (part for part in node.body if isinstance(part, ast.FunctionDef))
                if any(method.name == "_repr_html_" for method in methods):
                    yield node.name


def test_the_message_of_an_error_has_no_unseen_character():
    error = placet.PlacetError(f"there is no log {TEXT}")
    assert_printable(str(error))
    assert str(error).count("\n") == TEXT.count("\n")
    assert str(placet.PlacetError("é\n中")) == "é\n中"
