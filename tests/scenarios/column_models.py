"""A domain with two tables of agents and an ordinary kind, and policies of its populations."""

from typing import Any

import numpy as np
from pydantic import BaseModel

from placet.kernel import Domain, Field, Kind, Table

BIRDS = Table("meadow.birds", {"x": Field("f8", low=0, high=100), "fed": Field("i4", low=0)})
WORMS = Table("meadow.worms", {"y": Field("f8"), "alive": Field("b1", default=1)})
TUFTS = Table("meadow.tufts", {"grains": Field("i4", default=2, low=0)}, rows=7)


class Call(BaseModel):
    """The payload of a shepherd's call."""

    loud: int = 1


def call(draft: Any, payload: Any) -> None:
    draft.put("meadow.calls", "all", "count", draft.get("meadow.calls", "all", "count") + 1)


def fly(rows: Any) -> None:
    rows.refuse(rows.payload["by"] > 0.9, "too_far", "a flight is at most 0.9")
    rows.write("x", rows.own["x"] + rows.payload["by"] + 0.001 * rows.random_unit("gust"))


def peck(rows: Any) -> None:
    """Take a grain of a tuft, which others take too."""
    rows.add("meadow.tufts", rows.payload["tuft"], "grains", -1)
    rows.add("meadow.birds", rows.numbers, "fed", 1)


def dig(rows: Any) -> None:
    rows.claim("meadow.tufts", rows.payload["tuft"])
    rows.put("meadow.tufts", rows.payload["tuft"], "grains", rows.numbers)


class Meadow(Domain):
    """Birds and worms on tufts."""

    name, version = "meadow", "1"
    tables = (BIRDS, WORMS, TUFTS)
    collections = ("meadow.calls",)
    kinds = (
        Kind("Call", Call, rule=call),
        Kind("Fly", {"by": Field("f8")}, rows=fly, table=BIRDS.name),
        Kind("Peck", {"tuft": Field("i4", low=0, high=6)}, rows=peck, table=BIRDS.name),
        Kind("Dig", {"tuft": Field("i4", low=0, high=6)}, rows=dig, table=WORMS.name),
    )

    def on_open(self, draft: Any) -> None:
        draft.create("meadow.calls", "all", {"count": 0})


def birds(view: Any) -> Any:
    hungry = view["fed"] < 3
    tuft = view.randint_below(7, "tuft")
    return {"Fly": {"by": view.random_unit("step")}, "Peck": view.only(hungry, tuft=tuft[hungry])}


def worms(view: Any) -> Any:
    grains = view.table("meadow.tufts")["grains"]
    return {"Dig": {"tuft": (view.randint_below(7, "hole") + grains[0]) % 7}}


def shepherd(view: Any) -> Any:
    return [{"kind": "Call", "payload": {}}]


def raises(view: Any) -> Any:
    return {"Fly": {"by": 1 / np.zeros(0)[1]}}


def no_dict(view: Any) -> Any:
    return [1, 2]


def no_arrays(view: Any) -> Any:
    return {"Fly": 3}


def other_shape(view: Any) -> Any:
    return {"Fly": {"by": np.zeros(2)}}
