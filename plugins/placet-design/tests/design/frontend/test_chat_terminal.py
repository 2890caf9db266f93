"""`placet chat` at a terminal: held plans are shown and confirmed; Ctrl-C stops a turn."""

import pytest

from tests.cli.command_line import run_process
from tests.frontends.terminal import CTRL_D, HELD, PROMPT, Terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def chat(tmp_path):
    words = ("chat", "--domain", "design", "--mode", "interactive", "--as", "ann")
    with Terminal(*words, "--store", "ferry.db", folder=tmp_path) as terminal:
        yield terminal


def test_a_held_plan_is_applied_on_yes(chat, tmp_path):
    chat.say("set beam to 9 m")
    shown = chat.until(HELD)
    assert "~ design.parameters/hull.beam/value  null -> 9.0" in shown
    assert "/design.set path=hull.beam unit=m value=9" in shown
    chat.type("y\n")
    assert "0 design.set applied" in chat.until("changed:")
    chat.until(PROMPT)
    chat.type(CTRL_D)
    assert chat.end() == 0
    state = run_process(
        "replay", "ferry.db", "--path", "design.parameters/hull.beam/value", folder=tmp_path
    )
    assert "9.0" in state.out


def test_a_held_plan_is_denied_on_no_and_left_on_later(chat):
    chat.say("set beam to 9 m")
    chat.say("n", HELD)
    chat.until("refused (denied): deny by ann")
    chat.say("set beam to 10 m")
    chat.say("what?", HELD)
    chat.say("l", HELD)
    chat.say("/approvals")
    shown = chat.until(PROMPT)
    assert "(denied by ann)" in shown
    assert "(open)" in shown


def test_a_held_plan_is_replaced_by_typed_actions(chat):
    chat.say("set beam to 9 m")
    chat.say("e", HELD)
    chat.say("/design.set path=hull.beam value=10", "  / ")
    chat.say("", "  / ")
    assert "null -> 10.0" in chat.until(PROMPT)


def test_ctrl_c_at_the_prompt_ends_the_chat(chat):
    chat.until(PROMPT)
    chat.interrupt()
    assert chat.end() == 130


@pytest.mark.parametrize("is_in_turn", [False, True])
def test_sigterm_ends_the_chat_wherever_it_waits(tmp_path, is_in_turn):
    words = ("chat", "--domain", "world", "--agent", "human", "--store", "world.db")
    with Terminal(*words, folder=tmp_path) as chat:
        chat.until(PROMPT)
        if is_in_turn:
            chat.type("move me\n")
            chat.until("propose> ")
        chat.terminate()
        assert chat.end() == 143
    assert [file.name for file in tmp_path.iterdir()] == ["world.db"]


def test_ctrl_c_in_a_turn_stops_only_the_turn(tmp_path):
    words = ("chat", "--domain", "world", "--agent", "human", "--store", "world.db")
    with Terminal(*words, folder=tmp_path) as chat:
        chat.say("move me")
        chat.until("propose> ")
        chat.interrupt()
        chat.until("refused (operator_stopped)")
        chat.say("/turns")
        # A prompt may come before it: the key's, where the signal was noticed without one.
        chat.until("move me  -> refused (operator_stopped)")
        chat.type("/Move to=[1,2]\n")
        chat.until("applied")
        chat.say("/quit")
        assert chat.end() == 0
    assert run_process("verify", "world.db", folder=tmp_path).code == 0
