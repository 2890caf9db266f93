"""What a rule of rows sees, and the corners of its calls, in both executions."""

from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.columns.population import PopulationHandle
from placet.kernel.plugin.rows import Rows

N = 5
HENS, NESTS = "yard.hens", "yard.nests"


class Yard(Domain):
    """A domain of one kind, whose rule a test gives."""

    name, version = "yard", "1"

    def __init__(self, rule: Any) -> None:
        self.tables = (
            Table(
                HENS,
                {
                    "size": Field("f4", default=1, low=0, high=100),
                    "age": Field("u1", default=3),
                    "awake": Field("b1"),
                    "at": Field("f8", (2, 2)),
                },
            ),
            Table(NESTS, {"eggs": Field("i4", low=0, high=3), "hen": Field("i8")}, rows=4),
        )
        payload = {"x": Field("i4"), "is_wet": Field("b1")}
        self.kinds = (Kind("Do", payload, rows=rule, table=HENS),)


def world(rule: Any, *, uses_arrays: bool = True, **options: Any) -> Kernel:
    kernel = Kernel(Yard(rule), KernelConfig(seed=3, **options), sink=RecordList())
    kernel.uses_arrays = uses_arrays
    kernel.register_population("hens", N, table=HENS)
    return kernel


def batch(x: Any = (0, 1, 2, 3, 4), **parts: Any) -> ColumnBatch:
    payload = {"x": list(x), "is_wet": [number % 2 == 0 for number in x]}
    return ColumnBatch("Do", "hens", payload, "a:0", **parts)


both = pytest.mark.parametrize("uses_arrays", [True, False])


@both
def test_a_rule_sees_its_rows_and_the_moment(uses_arrays: bool) -> None:
    seen: list[Any] = []

    def look(rows: Rows) -> None:
        cells = rows.table(NESTS)
        seen.append((repr(rows), dict(rows.own).keys(), len(rows.own), rows.sim_time, rows.tick))
        assert rows.own["age"] is rows.own["age"]
        assert [*cells] == ["eggs", "hen"]
        assert cells["eggs"].shape == (4,)
        assert rows.n == len(rows.numbers) == len(rows.payload["x"])

    kernel = world(look, uses_arrays=uses_arrays)
    kernel.step(2.0, [batch([0] * N)])
    kernel.step(1.5, [batch([1] * N)])
    count = N if uses_arrays else 1
    assert seen[0] == (f"<Rows: {count} of {HENS}>", {"age", "at", "awake", "size"}, 4, 2.0, 0)
    assert seen[-1][3:] == (2.0, 0) if len(seen) == 1 else (3.5, 1)


@both
def test_draws_are_those_of_ordinary_intents(uses_arrays: bool) -> None:
    drawn: list[Any] = []

    def draw(rows: Rows) -> None:
        bits, unit = rows.random_u64("a"), rows.random_unit("b")
        drawn.extend(zip(rows.numbers.tolist(), bits.tolist(), unit.tolist(), strict=True))

    kernel = world(draw, uses_arrays=uses_arrays)
    kernel.decide_columns(batch())
    rows = list(drawn)
    drawn.clear()
    singly = world(draw)
    for number in range(N):
        intent = singly.intent("Do", {"x": 1, "is_wet": True}, agent=f"hens:{number}")
        assert singly.decide([intent]).admitted
    assert sorted(rows) == drawn


@both
def test_a_rule_that_always_raises_refuses_all_rows(uses_arrays: bool) -> None:
    def broken(rows: Rows) -> None:
        raise ZeroDivisionError

    verdict = world(broken, uses_arrays=uses_arrays).decide_columns(batch())
    assert verdict.counts() == {"rule_error": N}


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_a_rule_is_not_its_fault(error: Any, uses_arrays: bool) -> None:
    def broken(rows: Rows) -> None:
        raise error

    kernel = world(broken, uses_arrays=uses_arrays)
    before = kernel.world_digest()
    with pytest.raises(error):
        kernel.decide_columns(batch())
    assert kernel.world_digest() == before


@both
def test_rows_at_fault_among_rows_that_put_and_add(uses_arrays: bool) -> None:
    def lay(rows: Rows) -> None:
        if (rows.payload["x"] == 2).any():
            raise LookupError
        nest = np.minimum(rows.payload["x"], 3)
        rows.refuse(rows.payload["x"] == 1, "no")
        rows.claim(NESTS, nest)
        rows.put(NESTS, nest, "hen", rows.numbers)
        rows.add(NESTS, nest, "eggs", 1)
        rows.write("awake", rows.payload["is_wet"])
        rows.write("at", 2.5)

    kernel = world(lay, uses_arrays=uses_arrays)
    verdict = kernel.decide_columns(batch())
    assert verdict.counts() == {"admitted": 2, "conflict": 1, "rule_error": 1, "yard.no": 1}
    nests = kernel.state[NESTS]
    assert (nests["nests:0"]["hen"], nests["nests:0"]["eggs"]) == (0, 1)
    assert (nests["nests:2"]["eggs"], nests["nests:3"]["eggs"]) == (0, 1)
    assert kernel.state[HENS]["hens:0"]["awake"] is True
    assert kernel.state[HENS]["hens:0"]["at"] == ((2.5, 2.5), (2.5, 2.5))


@both
def test_two_claims_of_two_tables(uses_arrays: bool) -> None:
    def sit(rows: Rows) -> None:
        rows.claim(HENS, rows.numbers)
        rows.claim(NESTS, rows.payload["x"] % 4)
        rows.put(NESTS, rows.payload["x"] % 4, "hen", rows.numbers)
        rows.put(HENS, rows.numbers, "age", 5)

    verdict = world(sit, uses_arrays=uses_arrays).decide_columns(batch())
    assert verdict.counts() == {"admitted": 4, "conflict": 1}


@both
def test_values_that_a_dtype_cannot_hold_are_out_of_bounds(uses_arrays: bool) -> None:
    def age(rows: Rows) -> None:
        rows.write("age", rows.payload["x"] * 100 - 100)
        rows.write("size", np.where(rows.payload["x"] == 1, 1e60, 1.0))

    verdict = world(age, uses_arrays=uses_arrays).decide_columns(batch())
    assert verdict.admitted.tolist() == [False, False, True, True, False]
    assert verdict.counts()["yard.out_of_bounds"] == 3


class Tenths(Domain):
    """A domain whose payload has a bound that four bytes round."""

    name, version = "tenths", "1"
    tables = (Table("tenths.hens", {"size": Field("f4", high=0.1)}),)
    kinds = (
        Kind(
            "Do",
            {"x": Field("f4", low=-0.1, high=0.1)},
            rows=lambda rows: rows.write("size", rows.payload["x"]),
            table="tenths.hens",
        ),
    )


@both
def test_a_bound_is_rounded_as_the_values_are(uses_arrays: bool) -> None:
    kernel = Kernel(Tenths())
    kernel.uses_arrays = uses_arrays
    kernel.register_population("hens", N, table="tenths.hens")
    tenth = np.float32(0.1)
    x = np.array([tenth, np.nextafter(tenth, np.float32(1)), -tenth, np.nan, -np.inf], "f4")
    verdict = kernel.decide_columns(ColumnBatch("Do", "hens", {"x": x}, "a:0"))
    assert verdict.admitted.tolist() == [True, False, True, False, False]
    assert verdict.counts()["payload_invalid"] == 3


def test_a_value_out_of_bounds_refuses_an_ordinary_intent() -> None:
    def grow(rows: Rows) -> None:
        rows.write("size", rows.payload["x"].astype("f8"))

    kernel = world(grow)
    verdict = kernel.decide([kernel.intent("Do", {"x": 200, "is_wet": False}, agent="hens:1")])
    assert verdict.codes == ("yard.out_of_bounds",)


def test_an_ordinary_intent_may_lose_a_claim_and_reach_a_bound() -> None:
    def lay(rows: Rows) -> None:
        rows.claim(NESTS, np.where(rows.payload["is_wet"], 0, -1))
        rows.add(NESTS, 1, "eggs", rows.payload["x"])
        rows.add(NESTS, 1, "eggs", rows.payload["x"])
        rows.add(NESTS, -1, "eggs", 9)

    kernel = world(lay)

    def intents(x: int, *, is_wet: bool) -> Any:
        return [
            [kernel.intent("Do", {"x": x, "is_wet": is_wet}, agent=f"hens:{number}")]
            for number in range(2)
        ]

    codes = [verdict.codes for verdict in kernel.decide_group(intents(0, is_wet=True))]
    assert sorted(codes) == [(), ("conflict",)]
    codes = [verdict.codes for verdict in kernel.decide_group(intents(1, is_wet=False))]
    assert sorted(codes) == [(), ("yard.out_of_bounds",)]
    assert kernel.state[NESTS]["nests:1"]["eggs"] == 2


def test_a_population_is_held_by_its_name_and_columns() -> None:
    kernel = world(lambda rows: None)
    hens = kernel.population("hens")
    assert isinstance(hens, PopulationHandle)
    assert repr(hens) == f"<PopulationHandle 'hens': 5 agents of {HENS}>"
    assert len(hens) == hens.count == len(hens.numbers) == N
    assert hens["age"].tolist() == [3] * N
    assert not hens["age"].flags.writeable
    assert not hens.suspended.any()
    kernel.change_agent("hens:2", "suspended")
    assert hens.suspended.tolist() == [False, False, True, False, False]
    with pytest.raises(KeyError):
        hens["agee"]
    with pytest.raises(KeyError, match="hen"):
        kernel.population("hen")


def test_agents_and_members_are_found_by_name() -> None:
    kernel = world(lambda rows: None, quotas={"Do": {"rate": 1.0, "burst": 2}})
    kernel.register_agent("ann")
    agents = kernel.ledger.agents
    assert "hens:4" in agents
    assert "hens:5" not in agents
    assert "cats:0" not in agents
    key: Any = 3
    assert key not in agents
    assert agents.get("hens:5") is None
    assert list(agents) == ["ann"]
    tats = agents["hens:1"].tats
    assert tats is not None
    assert dict(tats) == {}
    kernel.decide([kernel.intent("Do", {"x": 1, "is_wet": True}, agent="hens:1")])
    assert len(tats) == 1
    assert tats["Do"] > 0
    tats["Do"] = 7
    assert agents["hens:1"].tats == {"Do": 7}
    del tats["Do"]
    assert tats["Do"] == 0
