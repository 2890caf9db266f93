"""Law: a world with tables that goes back to a mark is a world that never did the undone part."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Kernel, KernelConfig, RecordList
from placet.kernel.ledger.members import Members, MembersVersion
from placet.kernel.log.replay import folded
from placet.kernel.state.table import TableData
from tests.kernel.columns.lab import KINDS, OWN_ROW_KINDS, lab_kernel, payload_of, stamps

CELLS = 30

Step = Callable[[Kernel], None]


def opened(seed: int, *, with_birds: bool = True) -> tuple[Kernel, RecordList]:
    """Return a kernel with quotas and its log; half of the worlds have a population."""
    log = RecordList()
    quotas = {"Take": {"rate": 0.7, "burst": 1}, "*": {"rate": 3.0, "burst": 6}}
    kernel = lab_kernel(20, CELLS, KernelConfig(seed=seed, quotas=quotas), sink=log)
    kernel.register_agent("ann")
    if with_birds:
        populate(kernel)
    return kernel, log


def populate(kernel: Kernel) -> None:
    kernel.register_population(
        "birds", 20, table="lab.agents", quotas={"Give": {"rate": 0.5, "burst": 1}},
        position=np.full((20, 2), 500.0), cell=np.arange(20),
    )  # fmt: skip


def step_of(rng: np.random.Generator, number: int) -> Step:
    """Return a random change of a world, which does the same in two worlds that are the same."""
    kind, at = KINDS[int(rng.integers(len(KINDS)))], int(rng.integers(20))
    seed, chance = int(rng.integers(2**32)), float(rng.random())

    def act_alone(kernel: Kernel) -> None:
        if "birds" not in kernel.ledger.populations and chance < 0.5:
            populate(kernel)
        elif chance < 0.1:
            kernel.change_agent(f"birds:{at}", "suspended" if at % 3 else "resumed")
        elif chance < 0.2:
            kernel.patch([("lab.cells", f"cells:{at}", {"color": at}, False)], "a test")
        else:
            kernel.tick(kernel.sim_time + at % 2)

    def act(kernel: Kernel) -> None:
        draw = np.random.default_rng(seed)
        if "birds" not in kernel.ledger.populations:
            act_alone(kernel)
            return
        position = kernel.population("birds")["position"]
        if chance < 0.25:
            act_alone(kernel)
            return
        who = draw.permutation(20)[: 1 + int(draw.integers(20))] if chance < 0.8 else np.arange(20)
        own = kind if chance < 0.6 else OWN_ROW_KINDS[at % len(OWN_ROW_KINDS)]
        payload = payload_of(draw, own, who, 20, CELLS, position)
        if chance < 0.4:
            kernel.decide_group(
                [
                    {
                        "kind": own, "payload": {k: v[i].tolist() for k, v in payload.items()},
                        "agent_id": "ann" if w == at else f"birds:{w}", "req_id": f"o:{number}",
                        "context_seq": kernel.seq, "priority": 10, "schema_version": "1.0.0",
                    }
                    for i, w in enumerate(who.tolist())
                ]
            )  # fmt: skip
            return
        name = f"s:{number if chance < 0.9 else number - 1}"
        kernel.decide_columns(
            ColumnBatch(own, "birds", payload, name, agents=who, context_seq=kernel.seq)
        )

    return act


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
        members._shared = set()  # the planted fault
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
