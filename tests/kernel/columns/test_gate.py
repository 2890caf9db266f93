"""The stages before and around the rule, for all rows of a column batch: both executions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from typing_extensions import TypedDict

from placet.kernel import (
    ColumnBatch,
    Domain,
    Draft,
    Field,
    Kernel,
    KernelConfig,
    Kind,
    RecordList,
    Table,
)
from placet.kernel.columns.record import batch_of
from placet.kernel.log.replay import folded
from placet.schemas.intent import Intent
from placet.schemas.log.column_records import Columns
from placet.schemas.log.record import decode_record
from tests.kernel.columns.lab import lab_kernel, stamps


def pair_of(
    n: int, config: Mapping[str, Any], population: Mapping[str, Any]
) -> tuple[list[Kernel], list[RecordList]]:
    """Return two labs, the second of which decides row by row."""
    logs = [RecordList(), RecordList()]
    kernels = [lab_kernel(n, n, KernelConfig(seed=2, **config), sink=log) for log in logs]
    kernels[1].uses_arrays = False
    for kernel in kernels:
        kernel.register_population("birds", n, table="lab.agents", **population)
    return kernels, logs


def decided(
    calls: list[dict[str, Any]],
    *,
    config: Mapping[str, Any] | None = None,
    population: Mapping[str, Any] | None = None,
) -> list[dict[str, int]]:
    """Decide batches of `Roll` by four members, a step each; return the counts of codes."""
    kernels, logs = pair_of(4, config or {}, population or {})
    counts = []
    for number, call in enumerate(calls):
        payload = {"x": np.zeros(len(call.get("agents", range(4))), np.int16)}
        batch = ColumnBatch("Roll", "birds", payload, f"r:{number}", **call)
        ours, theirs = (kernel.step(1.0, [batch])[0] for kernel in kernels)
        found: Any = ours
        counts.append(found.counts())
        assert found.counts() == theirs.counts()
    assert logs[0] == logs[1]
    assert folded(logs[0]).state.digest().hex() == kernels[0].digest()
    return counts


def test_a_stranger_is_refused_for_all_rows() -> None:
    owned = {"owner": "keeper"}
    refused, admitted = decided(
        [{"submitter": "stranger"}, {"submitter": "keeper"}], population=owned
    )
    assert refused == {"agent_not_yours": 4}
    assert "agent_not_yours" not in admitted


def test_a_kind_that_is_not_permitted_is_refused_for_all_rows() -> None:
    assert decided([{}], population={"permissions": {"Move"}}) == [{"permission_denied": 4}]


def test_the_quota_of_the_world_refuses_all_rows_that_reach_it() -> None:
    world = {"world_quota": {"rate": 1.0, "burst": 5}}
    one = {"agents": [2]}
    first, second, third = decided([{}, {}, one], config=world)
    assert first.get("admitted", 0) > 1
    assert second == {"quota_exceeded": 4}
    assert "quota_exceeded" not in third


@pytest.mark.parametrize("is_array", [False, True])
def test_contexts_are_refused_beyond_the_present_and_the_threshold(is_array: bool) -> None:
    def at(seq: int) -> dict[str, Any]:
        return {"context_seq": np.full(4, seq) if is_array else seq}

    config = {"staleness_threshold": 1}
    future, far, near = decided([at(1_000), at(0), {}], config=config)
    assert future == {"context_from_future": 4}
    assert far == {"stale_context": 4}
    assert "stale_context" not in near


def test_a_suspended_member_is_refused_in_any_order() -> None:
    kernels, logs = pair_of(4, {}, {})
    for kernel in kernels:
        kernel.change_agent("birds:1", "suspended")
        for number, who in enumerate((None, [3, 1, 0], [1])):
            x = np.zeros(4 if who is None else len(who), np.int16)
            verdict: Any = kernel.step(
                1.0, [ColumnBatch("Roll", "birds", {"x": x}, f"r:{number}", agents=who)]
            )[0]
            place = 1 if who is None else who.index(1)
            assert verdict.code_of(int(verdict.codes[place])) == "agent_suspended"
            assert verdict.counts()["agent_suspended"] == 1
    assert logs[0] == logs[1]


def brittle(rows: Any) -> None:
    """Raise for any row with x = 3, after claims and changes."""
    x = rows.payload["x"]
    rows.claim("frail.all", x)
    rows.put("frail.all", x, "a", 1)
    rows.add("frail.all", rows.numbers, "b", 1)
    rows.refuse(x == 5, "five")
    if (x == 3).any():
        raise ZeroDivisionError
    rows.write("c", x)


class Frail(Domain):
    name, version = "frail", "1"
    tables = (Table("frail.all", {"a": Field("i4"), "b": Field("i4", high=3), "c": Field("i4")}),)
    kinds = (Kind("Break", {"x": Field("i4", low=0, high=7)}, rows=brittle, table="frail.all"),)


@pytest.mark.parametrize(
    "x", [[0, 3, 1, 2, 5, 5, 3, 0], [3] * 8, [1, 0, 2, 3, 5, 4, 7, 6], [5] * 8]
)
def test_a_rule_that_raises_is_at_fault_for_its_rows_alone(x: list[int]) -> None:
    logs = [RecordList(), RecordList()]
    kernels = [Kernel(Frail(), KernelConfig(seed=2), sink=log) for log in logs]
    kernels[1].uses_arrays = False
    for kernel in kernels:
        kernel.register_population("f", 8, table="frail.all")
        for number in range(5):  # the last addition is beyond the bounds
            verdict: Any = kernel.step(
                1.0, [ColumnBatch("Break", "f", {"x": np.array(x)}, f"x:{number}")]
            )[0]
            assert verdict.counts().get("rule_error", 0) == x.count(3)
    assert logs[0] == logs[1]
    assert stamps(kernels[0]) == stamps(kernels[1])
    assert folded(logs[0]).state.digest().hex() == kernels[0].digest()


def test_an_interrupt_leaves_the_rule_and_changes_nothing() -> None:
    def interrupted(_rows: Any) -> None:
        raise KeyboardInterrupt

    class Slow(Domain):
        name, version = "slow", "1"
        tables = (Table("slow.all", {"a": Field("i4")}),)
        kinds = (Kind("Wait", {"x": Field("i4")}, rows=interrupted, table="slow.all"),)

    log = RecordList()
    kernel = Kernel(Slow(), KernelConfig(seed=2), sink=log)
    kernel.register_population("s", 2, table="slow.all")
    before = len(log)
    with pytest.raises(KeyboardInterrupt):
        kernel.step(1.0, [ColumnBatch("Wait", "s", {"x": np.zeros(2, int)}, "w:0")])
    assert len(log) == before


@pytest.mark.parametrize(("agents", "context"), [(None, 1), ([2, 0, 1], np.array([1, 0, 1]))])
def test_a_batch_is_read_back_from_its_record(agents: Any, context: Any) -> None:
    kernels, logs = pair_of(3, {}, {})
    to = np.full((3, 2), 0.5)
    batch = ColumnBatch("Move", "birds", {"to": to}, "m:0", agents, context)
    kernels[0].step(1.0, [batch])
    records = [decode_record(data) for data in logs[0]]
    record = next(one for one in records if isinstance(one, Columns))
    again = batch_of(record, kernels[0].ledger)
    payload: Any = again.payload["to"]
    assert payload.tolist() == to.tolist()
    assert np.array_equal(np.asarray(again.context_seq), np.asarray(context))
    shown: Any = again.agents
    assert (shown is None) if agents is None else shown.tolist() == agents
    assert (again.kind, again.population, again.req_id) == ("Move", "birds", "m:0")


class Spot(TypedDict):
    row: str


def paint(draft: Draft, intent: Intent) -> None:
    draft.put("wall.all", intent["payload"]["row"], "color", 1)


def cover(rows: Any) -> None:
    rows.claim("wall.all", rows.payload["x"])
    rows.put("wall.all", rows.payload["x"], "color", 2)
    rows.claim("wall.all", rows.payload["x"])


class Wall(Domain):
    """A wall whose rows an agent that is no member paints, and members cover."""

    name, version = "wall", "1"
    tables = (Table("wall.all", {"color": Field("i4")}),)
    kinds = (
        Kind("Paint", Spot, paint),
        Kind("Cover", {"x": Field("i4", low=0, high=3)}, rows=cover, table="wall.all"),
    )


def test_a_member_follows_an_agent_that_is_none_in_the_stamps() -> None:
    logs = [RecordList(), RecordList()]
    kernels = [Kernel(Wall(), KernelConfig(seed=2), sink=log) for log in logs]
    kernels[1].uses_arrays = False
    for kernel in kernels:
        kernel.register_population("w", 4, table="wall.all")
        kernel.register_agent("painter")
        for row in (1, 2):
            seen = intent("Paint", "painter", f"p:{row}", kernel.seq, {"row": f"w:{row}"})
            assert kernel.decide([seen]).admitted
        table = kernel.tree.tables["wall.all"]
        assert table.named == {1: "painter", 2: "painter"}
        covered = ColumnBatch("Cover", "w", {"x": np.array([3, 1])}, "c:0", agents=[0, 3])
        verdict: Any = kernel.step(1.0, [covered])[0]
        assert verdict.counts() == {"admitted": 2}
        assert table.named == {2: "painter"}
    assert logs[0] == logs[1]
    assert stamps(kernels[0]) == stamps(kernels[1])
    assert folded(logs[0]).state.digest().hex() == kernels[0].digest()


def intent(kind: str, agent: str, req_id: str, seq: int, payload: dict[str, Any]) -> Intent:
    return {
        "kind": kind, "payload": payload, "agent_id": agent, "req_id": req_id,
        "context_seq": seq, "priority": 10, "schema_version": "1.0.0",
    }  # fmt: skip
