"""Law: a world that is resumed from a snapshot is the world that ran through."""

import numpy as np
import pytest

from placet.kernel import Kernel, RecordList
from placet.kernel.ledger.members import Members
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import dump, resume, take
from placet.schemas.log.snapshot import decode_snapshot, encode_snapshot
from tests.kernel.columns.lab import Lab, stamps
from tests.kernel.columns.steps import CELLS, opened, step_of


def run_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world, log = opened(seed, with_birds=bool(rng.integers(2)))
    steps = [step_of(rng, number) for number in range(30)]
    for step in steps[:20]:
        step(world)
    killed = int(rng.integers(1, len(log) + 1))  # the log has all, the snapshot is older
    snapshot = decode_snapshot(encode_snapshot(take(folded(log[:killed]))))
    past = resume(snapshot)
    for data in log[killed:]:
        past.apply(data)
    assert dump(past.state, past.ledger) == dump(world.tree, world.ledger), seed
    written = RecordList(log)
    again = Kernel(Lab(20, CELLS), world.config, history=past, sink=written)
    assert sorted(stamps(again)) == sorted(stamps(world)), seed
    assert again.digest() == world.digest(), seed
    again._batches = world._batches  # a batch that left no record has a number too
    other = Kernel(Lab(20, CELLS), world.config)
    other.restore(world.snapshot())
    for step in steps[20:]:
        for kernel in (world, again, other):
            step(kernel)
    assert written == log, seed
    assert again.world_digest() == world.world_digest(), seed
    assert other.world_digest() == world.world_digest(), seed


def run_laws(seeds: range) -> None:
    for seed in seeds:
        run_law(seed)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_a_snapshot_holds_all_of_tables_and_populations(first: int) -> None:
    run_laws(range(first, first + 10))


@pytest.mark.parametrize("what", ["tats", "suspended", "windows", "remembered", "_counts"])
def test_the_law_sees_a_part_that_a_snapshot_leaves_out(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    load = Members.load
    blank = {"suspended": None, "_counts": 0}

    def forgetful(first: int, now_ns: int, dumped: list[object]) -> Members:
        members = load(first, now_ns, dumped)
        setattr(members, what, blank.get(what, {}))
        return members

    monkeypatch.setattr(Members, "load", forgetful)
    with pytest.raises((AssertionError, ValueError)):
        run_laws(range(20))


def test_a_dump_does_not_depend_on_arrays_of_zeros() -> None:
    kernel, _ = opened(1)
    before = kernel.world_digest()
    members = kernel.ledger.populations["birds"]
    members.tats_of("Take")
    members.suspend(3, is_suspended=True)
    members.suspend(3, is_suspended=False)
    assert kernel.world_digest() == before
