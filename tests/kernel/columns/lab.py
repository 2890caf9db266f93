"""A domain with a kind of each way in which a rule of rows changes tables, and worlds of it."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from placet.kernel import Domain, Field, Kernel, KernelConfig, Kind, Table

SIDE = 1000.0


def move(rows: Any) -> None:
    to = rows.payload["to"]
    step = to - rows.own["position"]
    far = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] > 1.0
    rows.refuse(far, "step_too_long", "a step is at most 1")
    rows.write("position", to)


def settle(rows: Any) -> None:
    """Claim a cell and leave the own one: two claims."""
    to, cell = rows.payload["cell"], rows.own["cell"]
    rows.refuse(rows.table("lab.cells")["who"][to] >= 0, "occupied", "somebody lives there")
    rows.claim("lab.cells", to)
    rows.claim("lab.cells", cell)
    rows.write("cell", to)
    rows.put("lab.cells", to, "who", rows.numbers)
    rows.put("lab.cells", cell, "who", -1)


def take(rows: Any) -> None:
    """Claim one row, some rows none."""
    to = rows.payload["cell"]
    key = np.where(to % 5 == 0, -1, to)
    rows.claim("lab.cells", key)
    rows.write("cell", to)
    rows.put("lab.cells", key, "color", 1)


def give(rows: Any) -> None:
    to, amount = rows.payload["to"], rows.payload["amount"]
    rows.refuse(to == rows.numbers, "to_itself")
    rows.add("lab.agents", rows.numbers, "money", -amount)
    rows.add("lab.agents", to, "money", amount)


def trade(rows: Any) -> None:
    """Claim a row and add: some claim none."""
    cell = np.where(rows.payload["cell"] % 5 == 0, -1, rows.payload["cell"])
    rows.claim("lab.cells", cell)
    rows.add("lab.agents", rows.numbers, "money", -1)
    rows.add("lab.cells", cell, "coins", 1)


def roll(rows: Any) -> None:
    rows.refuse(rows.random_unit("luck") < 0.2, "unlucky")
    rows.write("hue", rows.randint_below(7, "hue"))


def fragile(rows: Any) -> None:
    if (rows.payload["x"] == 3).any():
        raise ZeroDivisionError
    rows.refuse(rows.payload["x"] == 5, "five", "x is not 5")
    rows.refuse(rows.payload["x"] == 4, "four")
    rows.write("hue", rows.payload["x"])


def slow(rows: Any) -> None:
    """Write a root that is not finite for some rows, rounded to four bytes."""
    rows.write("speed", np.sqrt(rows.payload["x"] - 1.0) / 3.0)


def swap(rows: Any) -> None:
    """Write each of two fields with the other as it was: as views of the live columns."""
    rows.write("left", rows.own["right"])
    rows.write("right", rows.own["left"])


def hoard(rows: Any) -> None:
    """Add amounts near the bounds of the dtype."""
    rows.add("lab.agents", rows.numbers, "gold", rows.payload["gold"])


class Painted(TypedDict):
    """Payload of an ordinary kind that writes a row of a table."""

    who: str
    hue: int


def paint(draft: Any, intent: Any) -> None:
    draft.put("lab.agents", intent["payload"]["who"], "hue", intent["payload"]["hue"])


def stray(rows: Any) -> None:
    """Name rows that do not exist, and put into rows without a claim."""
    x = rows.payload["x"]
    rows.claim("lab.cells", np.where(x == 1, 10_000, x % 3))
    rows.put(
        "lab.cells", np.where(x == 2, (x + 1) % 3, np.where(x == 1, 10_000, x % 3)), "color", 2
    )


AGENTS = {
    "position": Field("f8", 2, low=0, high=SIDE),
    "cell": Field("i8"),
    "left": Field("i4", default=1),
    "right": Field("i4", default=2),
    "money": Field("i8", default=3, low=0, high=6),
    "hue": Field("i2", low=0, high=5),
    "speed": Field("f4", low=0, high=100),
    "gold": Field("u8", default=2**63),
}
CELLS = {"who": Field("i4", default=-1), "color": Field("u1"), "coins": Field("i4", low=0, high=4)}
OWN_ROW_KINDS = ("Roll", "Move", "Give", "Trade", "Take", "Fragile", "Slow", "Hoard", "Swap")
"""Kinds that read the own row alone, and there no field that they add to."""

KINDS = (*OWN_ROW_KINDS, "Settle", "Stray")


class Lab(Domain):
    """A laboratory of `n` agents and `cells` cells."""

    name, version = "lab", "1"

    def __init__(self, n: int, cells: int) -> None:
        self.tables = (Table("lab.agents", AGENTS), Table("lab.cells", CELLS, rows=cells))

        def kind(
            name: str, fields: Mapping[str, Field], rows: Callable[[Any], None], **more: Any
        ) -> Kind:
            return Kind(name, fields, rows=rows, table="lab.agents", **more)

        cell = {"cell": Field("i8", low=0, high=cells - 1)}
        number, small = Field("i4", low=0, high=n), Field("i2")  # a number beyond the last row
        self.kinds: Sequence[Kind] = (
            kind("Move", {"to": Field("f8", 2, low=0, high=SIDE)}, move, reads_self="lab.agents"),
            kind("Settle", cell, settle),
            kind("Take", cell, take),
            kind("Give", {"to": number, "amount": Field("i4", low=-9, high=9)}, give),
            kind("Trade", cell, trade),
            kind("Roll", {"x": small}, roll),
            kind("Fragile", {"x": small}, fragile),
            kind("Stray", {"x": small}, stray),
            kind("Slow", {"x": small}, slow),
            kind("Swap", {}, swap),
            kind("Hoard", {"gold": Field("i8")}, hoard),
            Kind("Paint", Painted, paint),
        )


@lru_cache
def lab(n: int, cells: int) -> Lab:
    """Return one laboratory of each size, because to compile its payload types takes time."""
    return Lab(n, cells)


def payload_of(
    rng: np.random.Generator, kind: str, who: Any, n: int, cells: int, position: Any
) -> dict[str, Any]:
    """Return a random payload of a kind, some of it refused."""
    count = len(who)
    if kind == "Move":
        to = position[who] + rng.uniform(-0.9, 0.9, (count, 2))
        if rng.random() < 0.3:
            to[rng.random(count) < 0.1] = np.nan
        return {"to": to}
    if kind in {"Settle", "Take", "Trade"}:
        return {"cell": rng.integers(0, cells, count)}
    if kind == "Give":
        to = rng.integers(0, n + (rng.random() < 0.3), count)
        return {"to": to, "amount": rng.integers(-3, 4, count)}
    if kind == "Swap":
        return {}
    if kind == "Hoard":
        return {"gold": rng.integers(-(2**62), 2**62, count)}
    return {"x": rng.integers(0, 6 if rng.random() < 0.7 else 3, count)}


def lab_kernel(
    n: int, cells: int, config: KernelConfig, *, more: Sequence[Domain] = (), **options: Any
) -> Kernel:
    """Return a kernel of a lab without its population, with other domains beside it."""
    return Kernel([lab(n, cells), *more], config, **options)


def stamps(kernel: Kernel) -> list[Any]:
    """Return the stamps of all tables."""
    tables = kernel.tree.tables.values()
    return [
        (t.name, t.seqs.tolist(), t.bys.tolist(), t.foreign.tolist(), dict(t.named)) for t in tables
    ]
