"""A world of column batches is killed and resumed: its log folds to the same world (G1, G4)."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from placet.history.verify_log import verify_log
from placet.kernel import Kernel
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.stores.url import open_event_log
from tests.crash.columns_scenario import answer_of, batches_of, config_of, domain, populate
from tests.crash.process_forker import Message, ProcessForker

RUN = "tests.crash.columns_scenario:run"


def uninterrupted(seed: int, ticks: int) -> tuple[Kernel, dict[str, dict[str, Any]]]:
    """Return the world after so many ticks, and its answers by req_id."""
    kernel = Kernel(domain(), config_of(seed))
    populate(kernel)
    answers = {}
    while kernel.ledger.tick < ticks:
        for batch in batches_of(seed, kernel.ledger.tick):
            verdict = kernel.decide_columns(batch)
            answers[batch.req_id] = answer_of(verdict)
        kernel.tick(kernel.ledger.tick + 1.0)
    return kernel, answers


def answers_in(messages: list[Message]) -> list[Message]:
    return [line for line in messages if line["what"] == "answer"]


def kill_and_resume(forker: ProcessForker, folder: Path, seed: int, kills: int) -> int:
    """Kill a world so many times, each after some answers; return the number of replayed ones."""
    store, rng, ticks = f"sqlite:///{folder / 'world.db'}", Random(seed), 3 * kills + 1
    answered: set[str] = set()
    replayed = 0
    _, expected = uninterrupted(seed, ticks)
    for number in range(kills + 1):
        is_last = number == kills
        until = ticks if is_last else 3 * (number + 1)
        child = forker.fork(RUN, store=store, seed=seed, ticks=until, is_killed=not is_last)
        if not is_last:
            for _ in range(rng.randrange(1, 6)):
                child.wait_for("answer")
        for line in answers_in(child.wait() if is_last else child.kill()):
            req_id, is_replayed = line["req_id"], line["replayed"]
            assert is_replayed or req_id not in answered, f"{req_id} was decided twice"
            assert {name: line[name] for name in expected[req_id]} == expected[req_id]
            answered.add(req_id)
            replayed += is_replayed
    assert answered == set(expected)
    return replayed


def check_log(folder: Path, seed: int, kills: int) -> None:
    """Check the log of a killed world against that of an uninterrupted one."""
    log = open_event_log(f"sqlite:///{folder / 'world.db'}")
    past = folded([data for _, data in log.read()])
    kernel, _ = uninterrupted(seed, 3 * kills + 1)
    assert past.state.digest().hex() == kernel.digest()
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()
    again = verify_log(log, [domain()])
    assert again.integrity.first_divergence is None
    assert (again.batches, again.unverified) == (6 * kills + 2, ())


def test_a_killed_world_of_column_batches_resumes_with_the_same_answers(forker, folder):
    kill_and_resume(forker, folder, seed=1, kills=4)
    check_log(folder, seed=1, kills=4)


def test_a_batch_in_the_log_is_answered_from_it_after_a_kill(forker, folder):
    """The child is killed at its first answer, so its tick is not over and it is sent again."""
    store = f"sqlite:///{folder / 'world.db'}"
    child = forker.fork(RUN, store=store, seed=2, ticks=1)
    child.wait_for("answer")
    child.stop()
    (first, *_) = answers_in(child.kill())
    past = folded([data for _, data in open_event_log(store).read()])
    kernel = Kernel(domain(), config_of(2), history=past)
    batch, other = batches_of(2, 0)
    verdict = kernel.decide_columns(batch)
    assert verdict.replayed
    assert answer_of(verdict) == {name: first[name] for name in answer_of(verdict)}
    changed = kernel.decide_columns(replace(other, req_id=batch.req_id))
    assert changed.counts() == {"req_id_reused": 40}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
def test_worlds_of_column_batches_survive_many_kills(forker, folder, seed):
    kill_and_resume(forker, folder, seed, kills=12)
    check_log(folder, seed, kills=12)
