"""A market square: the domain of a golden log with tables. It is kept as it is, as `post.py` is."""

from typing import Any

import numpy as np

from placet.kernel import Domain, Draft, Field, Kind, Table

PEOPLE, STALLS = "square.people", "square.stalls"


def walk(rows: Any) -> None:
    step = rows.payload["to"] - rows.own["place"]
    far = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] > 4.0
    rows.refuse(far, "too_far", "a step is at most 2")
    rows.write("place", rows.payload["to"])


def settle(rows: Any) -> None:
    to, stall = rows.payload["stall"], rows.own["stall"]
    rows.refuse(rows.table(STALLS)["who"][to] >= 0, "occupied", "somebody sells there")
    rows.claim(STALLS, to)
    rows.claim(STALLS, stall)
    rows.write("stall", to)
    rows.put(STALLS, to, "who", rows.numbers)
    rows.put(STALLS, stall, "who", -1)


def pay(rows: Any) -> None:
    rows.refuse(rows.payload["stall"] == rows.own["stall"], "own_stall")
    rows.add(PEOPLE, rows.numbers, "coins", -rows.payload["coins"])
    rows.add(STALLS, rows.payload["stall"], "till", rows.payload["coins"])


def sing(rows: Any) -> None:
    rows.refuse(rows.random_unit("voice") < 0.25, "hoarse")
    rows.write("mood", rows.randint_below(9, "mood"))


def trip(rows: Any) -> None:
    """Raise for some rows, and name a row that is not there for others."""
    if (rows.payload["stone"] == 2).any():
        raise ZeroDivisionError
    rows.claim(STALLS, np.where(rows.payload["stone"] == 1, 99, -1))
    rows.write("mood", rows.payload["stone"])


class Square(Domain):
    """People who walk, sell and pay on a square."""

    name, version = "square", "1"
    tables = (
        Table(
            PEOPLE,
            {
                "place": Field("f8", 2, low=-50, high=50),
                "stall": Field("i4", default=-1),
                "coins": Field("i8", default=3, low=0, high=9),
                "mood": Field("i2", low=0, high=7),
            },
        ),
        Table(
            STALLS,
            {
                "who": Field("i4", default=-1),
                "till": Field("u2", high=12),
                "open": Field("b1", default=1),
                "share": Field("f4", default=0.5),
            },
            rows=9,
        ),
    )
    kinds = (
        Kind("Walk", {"to": Field("f8", 2)}, rows=walk, table=PEOPLE, reads_self=PEOPLE),
        Kind("Settle", {"stall": Field("i4", low=0, high=8)}, rows=settle, table=PEOPLE),
        Kind(
            "Pay",
            {"stall": Field("u1", low=0, high=8), "coins": Field("i1", low=0)},
            rows=pay,
            table=PEOPLE,
        ),
        Kind("Sing", {"loud": Field("b1")}, rows=sing, table=PEOPLE),
        Kind("Trip", {"stone": Field("i8")}, rows=trip, table=PEOPLE),
    )

    def on_populate(self, draft: Draft, population: Any) -> None:
        draft.create("square.crowds", population.name, {"count": population.count})
        draft.put(PEOPLE, f"{population.name}:2", "coins", 9)

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        stall = f"stalls:{int(sim_time) % 9}"
        draft.put(STALLS, stall, "open", not draft.get(STALLS, stall, "open"))
        draft.put(STALLS, stall, "share", draft.draw("share"))
