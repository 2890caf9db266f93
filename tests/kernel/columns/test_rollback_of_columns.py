"""Law: a world with tables that goes back to a mark is a world that never did the undone part."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch
from placet.kernel.ledger.members import Members, MembersVersion
from placet.kernel.log.replay import folded
from placet.kernel.state.table import TableData
from tests.kernel.columns.lab import stamps
from tests.kernel.columns.steps import Step, opened, populate, step_of


def run_law(seed: int) -> None:
    """Do, undo and do again; compare with a world that never did the undone steps."""
    rng = np.random.default_rng(seed)
    with_birds = bool(rng.integers(2))
    world, log = opened(seed, with_birds=with_birds)
    marks = [(world.mark(), 0)]
    kept: list[Step] = []
    for number in range(24):
        chance = rng.random()
        if chance < 0.15:
            marks.append((world.mark(), len(kept)))
        elif chance < 0.3:
            place = int(rng.integers(len(marks)))
            mark, count = marks[place]
            if rng.integers(2):
                world.digest()
            world.rollback(mark)
            del marks[place + 1 :], kept[count:]
        elif chance < 0.4:
            world.tree.cut()
        else:
            step = step_of(rng, number)
            step(world)
            kept.append(step)
    other, expected = opened(seed, with_birds=with_birds)
    for step in kept:
        step(other)
    assert log == expected, seed
    assert stamps(world) == stamps(other), seed
    assert world.digest() == other.digest(), seed
    assert world.world_digest() == other.world_digest(), seed
    past = folded(log)
    assert past.state.digest().hex() == world.digest(), seed


def run_laws(seeds: range) -> None:
    for seed in seeds:
        run_law(seed)


@pytest.mark.parametrize("first", range(0, 60, 12))
def test_a_rollback_leaves_no_trace_in_tables_and_populations(first: int) -> None:
    run_laws(range(first, first + 12))


@pytest.mark.parametrize("name", ["writable", "writable_stamps"])
def test_the_law_sees_an_array_that_is_not_copied_before_a_write(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def in_place(table: Any, field: str = "", **_: Any) -> Any:
        if name == "writable":
            if not table.columns[field].flags.writeable:
                table.columns[field] = table.columns[field].copy()
            return table.columns[field]
        return table.seqs, table.bys, table.foreign

    monkeypatch.setattr(TableData, name, in_place)
    with pytest.raises(AssertionError):
        run_laws(range(12))


def test_the_law_sees_members_whose_arrays_a_mark_does_not_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share = Members.share

    def unshared(members: Members) -> MembersVersion:
        version = share(members)
        members._shared = frozenset()  # the planted fault
        return version

    monkeypatch.setattr(Members, "share", unshared)
    with pytest.raises(AssertionError):
        run_laws(range(12))


def test_a_mark_of_a_moment_before_a_population_takes_it_back() -> None:
    kernel, _ = opened(1, with_birds=False)
    before = kernel.world_digest()
    mark = kernel.mark()
    populate(kernel)
    kernel.decide_columns(
        ColumnBatch("Roll", "birds", {"x": np.zeros(20, "i2")}, "a", context_seq=kernel.seq)
    )
    kernel.rollback(mark)
    assert kernel.world_digest() == before
    assert "lab.agents" not in kernel.tree.tables
    assert "birds:3" not in kernel.ledger.agents
    populate(kernel)
    assert "birds:3" in kernel.ledger.agents


def test_a_digest_after_a_rollback_is_that_of_the_mark() -> None:
    kernel, _ = opened(1)
    digest = kernel.digest()
    mark = kernel.mark()
    batch = {"to": np.full((20, 2), 500.5)}
    kernel.decide_columns(ColumnBatch("Move", "birds", batch, "a", context_seq=kernel.seq))
    assert kernel.digest() != digest
    kernel.rollback(mark)
    assert kernel.digest() == digest
