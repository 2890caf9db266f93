"""A world on a server is killed under load, and so is the server (G2, G3, G19)."""

import os
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.crash import audit
from tests.crash.load_scenario import config_of
from tests.crash.test_random_kills import RIPE_ANSWERS, Killer
from tests.postgres.server import Server

if TYPE_CHECKING:
    from tests.crash.process_forker import Message

KILLS: Final = int(os.environ.get("PLACET_KILLS", "20")) // 4
SERVER_CRASHES: Final = 5
LOAD_SECONDS: Final = 0.3


def kill(forker, url, kills: int, **how: Any) -> Killer:
    killer = Killer(forker, url, 3, **how)
    for number in range(kills):
        assert killer.kill_one() == [], f"kill {number}"
    return killer


def answers_in(messages) -> int:
    return sum(line["what"] == "answer" for line in messages)


def test_a_kill_under_load_loses_no_answer(postgres, forker):
    kill(forker, postgres.url(), 3)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_maintenance", [False, True])
def test_random_kills_lose_no_answer_and_repeat_nothing(
    postgres, forker, has_maintenance, record_property
):
    killer = kill(forker, postgres.url(), KILLS, has_maintenance=has_maintenance)
    answers = answers_in(killer.messages)
    record_property("figures", f"{KILLS} kills, {answers} answers")
    assert answers > RIPE_ANSWERS // 4 * KILLS


def crash_the_server(server: Server, forker, url: str, crashes: int):
    """Run a world whose server fails: the world stops, and another continues its log."""
    messages: list[Message] = []
    begin: dict[str, int] = {}
    for _ in range(crashes):
        child = forker.fork("tests.crash.load_scenario:run", store=url, seed=5, begin=begin)
        child.wait_for("answer")
        child.listen_for(LOAD_SECONDS)
        server.stop("immediate")
        for _ in child.listen(60):
            pass
        assert child.is_over, "a world goes on whose server is gone"
        messages += [line for line in child.messages if line["what"] != "raised"]
        (raised,) = (line["trace"] for line in child.messages if line["what"] == "raised")
        assert "the connection was lost" in raised
        begin = {line["by"]: line["n"] + 1 for line in messages if line["what"] == "answer"}
        server.start()
    assert audit.audit(url, config_of(url).kernel_config(), messages) == []
    return messages


@pytest.mark.slow
def test_a_server_stopped_immediately_loses_no_answer(postgres, forker):
    with Server(postgres.programs) as server:
        assert answers_in(crash_the_server(server, forker, server.url(), 1)) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_that_crashes_repeatedly_loses_no_answer(postgres, forker):
    with Server(postgres.programs) as server:
        messages = crash_the_server(server, forker, server.url(), SERVER_CRASHES)
    assert answers_in(messages) > SERVER_CRASHES
