"""Routing: a command is matched as a whole, and never becomes a prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.agents.session.message_route import MessageCommand, parse_command
from placet.kernel.plugin.domain import Command

COMMANDS = (
    Command("run program", "mill.run", lambda _: {"function": "main", "inputs": {}}),
    Command(r"analy[sz]e (?P<path>\S+)", "reader.analyze", lambda m: {"path": m["path"]}),
)


@pytest.mark.parametrize(
    ("message", "kind", "payload"),
    [
        ("run program", "mill.run", {"function": "main", "inputs": {}}),
        ("  RUN Program\n", "mill.run", {"function": "main", "inputs": {}}),
        ("analyze a.txt", "reader.analyze", {"path": "a.txt"}),
        ("/Move to=[1,2]", "Move", {"to": [1, 2]}),
        ("/Speak text='hello big world' n=1.5", "Speak", {"text": "hello big world", "n": 1.5}),
        ('/Speak text="true"', "Speak", {"text": True}),
        ("/reader.create filename=a content=", "reader.create",
         {"filename": "a", "content": ""}),
    ],
)  # fmt: skip
def test_a_command_is_parsed(message: str, kind: str, payload: dict[str, object]) -> None:
    assert parse_command(message, COMMANDS) == MessageCommand(kind, payload)


@pytest.mark.parametrize(
    "message",
    [
        "please run program",
        "run program now",
        "run  program",
        "prune the list and run program.",
        "analyze a.txt and b.txt",
        "what does /Move do?",
        "/ Move",
        "//Move",
        "",
    ],
)
def test_a_message_that_resembles_a_command_goes_to_the_agent(message: str) -> None:
    assert parse_command(message, COMMANDS) is None


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("/Move to", "expected key=value, got 'to'"),
        ("/Move =1", "expected key=value, got '=1'"),
        ("/Move to='[1,2]", "the command cannot be read: No closing quotation"),
        ("/Move to=1 to=2", "'to' is given twice"),
    ],
)
def test_a_command_with_an_error_stays_a_command(message: str, error: str) -> None:
    read = parse_command(message, COMMANDS)
    assert read is not None
    assert read.error == error


@given(st.text())
def test_no_message_makes_the_router_raise(message: str) -> None:
    read = parse_command(message, COMMANDS)
    assert read is None or read.plan(message, 0)["actions"][0]["kind"] == read.kind[:64]
    slash = parse_command(f"/x{message}", COMMANDS)
    assert slash is None or slash.kind.startswith("x")
