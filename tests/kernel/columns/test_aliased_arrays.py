"""Arrays that a rule, a policy and the state share: none of them changes under another."""

from threading import Thread
from typing import Any

import numpy as np
import pytest

from placet.kernel import (
    ColumnBatch,
    Domain,
    Field,
    Kernel,
    KernelConfig,
    Kind,
    RecordList,
    Table,
)
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.schemas.limits import Limits

N = 8
FIELDS = {"next": Field("i8"), "m": Field("i8"), "x": Field("f8"), "y": Field("f8")}


def relink(rows: Any) -> None:
    to = rows.own["next"]
    rows.claim("ring.nodes", to)
    rows.put("ring.nodes", to, "m", 1)
    rows.put("ring.nodes", to, "next", rows.numbers)


def count_and_move(rows: Any) -> None:
    rows.add("ring.nodes", rows.own["next"], "m", 1)
    rows.write("next", rows.payload["to"])


def shift(rows: Any) -> None:
    rows.add("ring.nodes", rows.own["next"], "next", np.where(rows.numbers == N - 1, 1 - N, 1))


def copy_x(rows: Any) -> None:
    rows.write("y", rows.payload["v"])


def move_x(rows: Any) -> None:
    rows.write("x", rows.payload["v"])


class Ring(Domain):
    name, version = "ring", "1"
    tables = (Table("ring.nodes", FIELDS),)
    to = Field("i8", low=0, high=N - 1)
    kinds = tuple(
        Kind(name, fields, rows=rule, table="ring.nodes")
        for name, fields, rule in (
            ("Relink", {}, relink),
            ("Move", {"to": to}, count_and_move),
            ("Shift", {}, shift),
            ("MoveX", {"v": Field("f8")}, move_x),
            ("CopyX", {"v": Field("f8")}, copy_x),
        )
    )


def ring() -> tuple[Kernel, RecordList]:
    log = RecordList()
    kernel = Kernel(Ring(), sink=log)
    kernel.register_population("nodes", N, table="ring.nodes", next=(np.arange(N) + 1) % N)
    return kernel, log


@pytest.mark.parametrize("kind", ["Relink", "Move", "Shift"])
def test_keys_that_are_a_written_column_stamp_the_rows_of_the_record(kind: str) -> None:
    kernel, log = ring()
    for tick in range(3):
        payload = {"to": np.roll(np.arange(N), tick)} if kind == "Move" else {}
        kernel.step(1.0, [ColumnBatch(kind, "nodes", payload, f"k:{tick}")])
    past = folded(log)
    assert world_digest(past.state, past.ledger).hex() == kernel.world_digest()


def test_a_payload_that_is_a_column_is_that_of_the_call() -> None:
    kernel, log = ring()
    nodes = kernel.population("nodes")
    for tick in range(2):
        before = nodes["x"]
        kernel.step(
            1.0,
            [
                ColumnBatch("MoveX", nodes, {"v": nodes["x"] + 1.0}, f"m:{tick}"),
                ColumnBatch("CopyX", nodes, {"v": nodes["x"]}, f"c:{tick}"),
            ],
        )
        assert before.tolist() == nodes["y"].tolist() == (nodes["x"] - 1.0).tolist()
    assert folded(log).state.digest().hex() == kernel.digest()


def test_the_columns_of_a_state_keep_their_values() -> None:
    kernel, _ = ring()
    columns = kernel.state.columns("ring.nodes")
    assert columns is not None
    before = columns["x"].tolist()
    kernel.step(1.0, [ColumnBatch("MoveX", "nodes", {"v": np.ones(N)}, "m:0")])
    assert columns["x"].tolist() == before != kernel.population("nodes")["x"].tolist()
    assert kernel.state.columns("ring.edges") is None


def test_the_numbers_of_a_population_are_read_only() -> None:
    kernel, _ = ring()
    with pytest.raises(ValueError, match="read-only"):
        kernel.population("nodes").numbers[0] = 3


def test_a_batch_without_context_is_based_on_the_state_at_its_turn() -> None:
    def push(rows: Any) -> None:
        to = (rows.numbers + 1) % 4
        rows.claim("den.foxes", to)
        rows.put("den.foxes", to, "x", 1)

    class Den(Domain):
        name, version = "den", "1"
        tables = (Table("den.foxes", {"x": Field("i4"), "y": Field("i4")}),)
        kinds = (
            Kind("Push", {}, rows=push, table="den.foxes"),
            Kind(
                "Look",
                {},
                rows=lambda rows: rows.write("y", rows.own["x"]),
                table="den.foxes",
                reads_self="den.foxes",
            ),
        )

    kernel = Kernel(Den())
    kernel.register_population("foxes", 4, table="den.foxes")
    _, look = kernel.step(
        1.0,
        [ColumnBatch("Push", "foxes", {}, "p:0"), ColumnBatch("Look", "foxes", {}, "l:0")],
    )
    assert look.counts() == {"admitted": 4}


def test_two_kernels_in_two_threads_keep_their_digests() -> None:
    logs = [RecordList(), RecordList()]

    def run(log: RecordList) -> None:
        kernel = Kernel(Ring(), KernelConfig(limits=Limits(checkpoint_groups=1)), sink=log)
        nodes = kernel.register_population("nodes", 40_000, table="ring.nodes")
        for tick in range(12):
            kernel.step(1.0, [ColumnBatch("MoveX", nodes, {"v": nodes["x"] + 1.0}, f"m:{tick}")])

    threads = [Thread(target=run, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        folded(log)  # raises where a checkpoint has another digest
