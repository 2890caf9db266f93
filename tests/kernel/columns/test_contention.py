"""Claims and additions that contend, decided as arrays, against the rows one after another."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from placet.kernel import ColumnBatch, Domain, Field, Kernel, KernelConfig, Kind, RecordList, Table
from placet.kernel.columns import contention, turns
from placet.kernel.log.replay import folded
from tests.kernel.columns.lab import stamps
from tests.kernel.columns.laws import run_law_a


def give(rows: Any, fields: Sequence[str] = ("small",)) -> None:
    """Take an amount from the own row, and add it to two others, which may be one."""
    amount = rows.payload["amount"]
    for field in fields:
        rows.add("purse.people", rows.numbers, field, -amount)
        rows.add("purse.people", rows.payload["to"], field, amount)
        rows.add("purse.people", rows.payload["other"], field, amount)


def hoard(rows: Any) -> None:
    """Give in a field whose values are beyond 62 bits too."""
    give(rows, ("far", "small"))


def save(rows: Any) -> None:
    """Give in a field whose values are beyond 63 bits."""
    give(rows, ("unsigned",))


def grab(rows: Any) -> None:
    """Claim two rows, or one of them twice, or none, and add to a third."""
    to, other = rows.payload["to"], rows.payload["other"]
    rows.claim("purse.people", to)
    rows.claim("purse.people", other)
    rows.put("purse.people", to, "vector", 7.0)
    rows.put("purse.people", other, "mark", rows.payload["amount"])
    rows.add("purse.people", rows.payload["third"], "small", rows.payload["amount"])


def mark(rows: Any) -> None:
    """Claim a row, and write the own one: two agents change a row."""
    rows.claim("purse.people", rows.payload["to"])
    rows.put("purse.people", rows.payload["to"], "mark", 1)
    rows.write("vector", np.broadcast_to(np.float64(2.0), (rows.n, 3)))


FAR = 2**63 - 1
FIELDS = {
    "small": Field("i4", default=4, low=0, high=9),
    "far": Field("i8", default=FAR - 4),
    "unsigned": Field("u8", default=2**64 - 5),
    "vector": Field("f8", 3),
    "mark": Field("i8"),
}


class Purse(Domain):
    name, version = "purse", "1"

    def __init__(self, members: int) -> None:
        number = Field("i4", low=-1, high=members - 1)
        payload = {"to": number, "other": number, "third": number, "amount": Field("i8")}
        self.tables = (Table("purse.people", FIELDS),)
        self.kinds = tuple(
            Kind(name, payload, rows=rule, table="purse.people")
            for name, rule in (
                ("Give", give),
                ("Hoard", hoard),
                ("Save", save),
                ("Grab", grab),
                ("Mark", mark),
            )
        )


def pair(members: int) -> tuple[list[Kernel], list[RecordList]]:
    """Return two worlds, the second of which decides row by row."""
    logs = [RecordList(), RecordList()]
    kernels = [Kernel(Purse(members), KernelConfig(seed=3), sink=log) for log in logs]
    kernels[1].uses_arrays = False
    for kernel in kernels:
        kernel.register_population("p", members, table="purse.people")
    return kernels, logs


def decide_alike(members: int, payloads: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Decide batches both ways, compare the logs, a fold and the stamps; return the verdicts."""
    kernels, logs = pair(members)
    verdicts = []
    for number, (kind, payload) in enumerate(payloads):
        batch = ColumnBatch(kind, "p", payload, f"b:{number}")
        verdicts.append(kernels[0].step(1.0, [batch])[0])
        kernels[1].step(1.0, [batch])
    assert logs[0] == logs[1]
    assert stamps(kernels[0]) == stamps(kernels[1])
    assert folded(logs[0]).state.digest().hex() == kernels[0].digest() == kernels[1].digest()
    return verdicts


def drawn(rng: np.random.Generator, members: int, targets: int, amount: int) -> dict[str, Any]:
    keys = {name: rng.integers(-1, targets, members) for name in ("to", "other", "third")}
    return {**keys, "amount": rng.integers(-amount, amount + 1, members)}


@pytest.mark.parametrize("round_min", [1, turns.ROUND_MIN])
@pytest.mark.parametrize("kind", ["Give", "Hoard", "Save", "Grab", "Mark"])
def test_turns_are_those_of_the_rows_one_after_another(
    monkeypatch: pytest.MonkeyPatch, kind: str, round_min: int
) -> None:
    monkeypatch.setattr(turns, "ROUND_MIN", round_min)
    rng = np.random.default_rng(5)
    payloads = [(kind, drawn(rng, 120, targets, 3)) for targets in (120, 60, 8, 1)]
    verdicts = decide_alike(120, payloads)
    codes = {name for verdict in verdicts for name in verdict.counts()}
    assert "admitted" in codes
    assert codes & {"purse.out_of_bounds", "conflict"}


def test_rounds_end_where_all_want_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    passed = turns.Turns._pass_first

    def counted(self: turns.Turns, rows: Any) -> None:
        rounds.append(len(rows))
        passed(self, rows)

    monkeypatch.setattr(turns.Turns, "_pass_first", counted)
    rng = np.random.default_rng(6)
    to_one = {**drawn(rng, 200, 1, 1), "third": np.zeros(200, int), "to": np.full(200, -1)}
    to_one["other"] = to_one["to"]
    decide_alike(200, [("Grab", to_one)])
    assert rounds == [1]


def test_amounts_beyond_64_bits_are_added_exactly() -> None:
    none = np.full(4, -1)
    huge = np.array([FAR, -FAR, FAR, -FAR])
    payload = {"to": np.array([1, 0, 3, 2]), "other": none, "third": none, "amount": huge}
    verdicts = decide_alike(4, [("Hoard", payload), ("Save", payload)])
    for verdict in verdicts:
        assert verdict.counts() == {"purse.out_of_bounds": 4}


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_arrays_and_rows_agree_when_every_turn_is_a_round(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(turns, "ROUND_MIN", 1)
    seen: Counter[str] = Counter()
    for seed in range(500 + first, 504 + first):
        run_law_a(seed, seen, size=30)
    assert seen.keys() >= {"admitted", "conflict", "bounds"}


def test_rows_without_a_rival_have_no_turn() -> None:
    claims = [np.array([0, 1, 1, 2, -1, -1])]
    places = contention.contending(6, None, claims, 3, {}, {})
    assert places.tolist() == [1, 2]
    assert contention.contending(6, np.array([0, 1, 3]), claims, 3, {}, {}).tolist() == []


def test_keys_of_refused_rows_are_not_read() -> None:
    claims = [np.array([0, 10_000, 0])]
    assert contention.contending(3, np.array([0, 2]), claims, 3, {}, {}).tolist() == [0, 2]
