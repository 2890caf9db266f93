"""Boids: birds that keep together, keep apart, and turn the way that their neighbors fly.

The rule checks a flight and makes it; the policy chooses the headings. The plane is a torus.

Source: Reynolds, "Flocks, herds and schools", SIGGRAPH 1987, with the weights of Mesa's example.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from placet.kernel import Domain, Draft, Field, Kind, Table
from placet.kernel.arrays.words import Array
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.kernel.state.tree import WorldState
from placet.scenarios.population_view import PopulationView

BIRDS = "flock.birds"
LENGTH_MAX = 1.000001
"""Of a heading, squared: that of a unit vector, with room for rounding."""


class Flock(Domain):
    """Birds on a square of `side`, which fly `speed` times their heading in a tick."""

    name, version = "flock", "1"

    def __init__(self, side: float = 100.0, speed: float = 1.0) -> None:
        self._side, self._speed = side, speed
        place = Field("f8", 2, low=0, high=side)
        heading = Field("f8", 2, low=-1, high=1)
        self.tables = (Table(BIRDS, {"position": place, "heading": heading}),)
        self.kinds = (Kind("Fly", {"heading": heading}, rows=self._fly, table=BIRDS),)

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"side": self._side, "speed": self._speed}

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        """Place the birds at random, each with a random heading."""
        random = np.random.default_rng(draft.randint_below(2**32, "places"))
        columns = draft.columns(population.table)
        drawn = {
            "position": random.uniform(0, self._side, (population.count, 2)),
            "heading": _unit(random.normal(size=(population.count, 2))),
        }
        for field, values in drawn.items():
            if field not in population.given:
                columns.set(field, values)

    def _fly(self, rows: Rows) -> None:
        """Fly on by the heading; a bird that leaves the square enters it at the other side."""
        heading = rows.payload["heading"]
        rows.refuse(
            (heading * heading).sum(axis=1) > LENGTH_MAX, "too_fast", "a heading is at most 1"
        )
        to = rows.own["position"] + self._speed * heading
        rows.write("position", to - self._side * np.floor(to / self._side))
        rows.write("heading", heading)


def steer(view: PopulationView) -> dict[str, Any]:
    """Return the heading of each bird from those within its vision.

    Options: `vision` and `separation` are distances, `cohere`, `separate` and `match` weights.
    """
    own = {"vision": 10, "separation": 2, "cohere": 0.03, "separate": 0.015, "match": 0.05}
    own.update(view.options)
    heading = view["heading"]
    near = view.neighbors("position", own["vision"], box=view.settings["side"])
    toward = near.vectors
    is_close = (toward * toward).sum(axis=1, keepdims=True) < own["separation"] ** 2
    pull = own["cohere"] * toward - own["separate"] * np.where(is_close, toward, 0.0)
    count = near.sums(1, 1)[:, None]
    turn = near.sums(pull, -pull)
    turn += own["match"] * near.sums(heading[near.second], heading[near.first])
    steered = _unit(heading + turn / np.maximum(count, 1))
    return {"Fly": {"heading": np.where(count > 0, steered, heading)}}


def order(heading: Array) -> float:
    """Return the order parameter: 1 if all birds fly one way, about 0 if each flies its own."""
    return float(np.hypot(*_unit(heading).mean(axis=0)))


def alignment(state: WorldState) -> float:
    """Return the order parameter of the birds."""
    return order((state.columns(BIRDS) or {})["heading"])


def _unit(vectors: Array) -> Array:
    length = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(length > 0, length, 1.0)
