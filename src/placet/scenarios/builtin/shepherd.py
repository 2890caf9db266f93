"""Dogs as objects and birds as columns, in one world: dogs chase birds, and birds flee from dogs.

A dog is an entity with a policy in plain Python, a bird is a row of a table. Both act in each tick
on the same state, and both are in one log.
"""

from collections.abc import Mapping
from math import hypot
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from placet.kernel import Domain, Draft, Field, Kind, RuleRefusal, Table, refuse
from placet.kernel.plugin.domain import NewPopulation
from placet.kernel.plugin.rows import Rows
from placet.scenarios.policies import IntentFactory
from placet.scenarios.population_view import PopulationView
from placet.schemas.intent import Intent
from placet.schemas.view import View

BIRDS, DOGS = "shepherd.birds", "shepherd.dogs"
STRIDE, FLIGHT, ROUNDING = 3.0, 1.0, 1e-6
CHASE_TICKS = 10


class DogStep(TypedDict):
    """The payload of a dog's step."""

    to: tuple[float, float]


class Shepherd(Domain):
    """A square of `side`: in a tick a bird flies at most `FLIGHT`, and a dog walks `STRIDE`."""

    name, version = "shepherd", "1"
    collections = (DOGS,)

    def __init__(self, side: float = 1_000.0) -> None:
        self._side = side
        place = Field("f8", 2, low=0, high=side)
        self.tables = (Table(BIRDS, {"position": place}),)
        self.kinds = (
            Kind("Walk", DogStep, walk),
            Kind("Fly", {"to": place}, rows=fly, table=BIRDS),
        )

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"side": self._side}

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Any]) -> None:
        """Place a dog at random."""
        at = [draft.randint_below(int(self._side), axis) for axis in ("x", "y")]
        draft.create(DOGS, agent_id, {"position": [float(each) for each in at]})

    def on_populate(self, draft: Draft, population: NewPopulation) -> None:
        """Place the birds at random."""
        random = np.random.default_rng(draft.randint_below(2**32, "places"))
        place = random.uniform(0, self._side, (population.count, 2))
        if "position" not in population.given:
            draft.columns(population.table).set("position", place)


def walk(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Walk at most a stride."""
    dog, to = intent["agent_id"], intent["payload"]["to"]
    x, y = draft.get(DOGS, dog, "position")
    if hypot(to[0] - x, to[1] - y) > STRIDE + ROUNDING:
        return refuse("too_far", f"a dog walks at most {STRIDE} in a tick")
    draft.put(DOGS, dog, "position", list(to))
    return None


def fly(rows: Rows) -> None:
    """Fly at most `FLIGHT`."""
    by = rows.payload["to"] - rows.own["position"]
    rows.refuse(
        (by * by).sum(axis=1) > FLIGHT + ROUNDING, "too_far", "a bird flies at most 1 in a tick"
    )
    rows.write("position", rows.payload["to"])


def chase(view: View, intent: IntentFactory) -> list[Intent]:
    """Walk toward one bird for some ticks, and then toward another."""
    number = int(view.agent_id.rpartition("_")[2]) + int(view.sim_time // CHASE_TICKS)
    birds = view.state[BIRDS]
    x, y = view.state[DOGS][view.agent_id]["position"]
    to_x, to_y = birds[f"birds:{number * 7_919 % len(birds)}"]["position"]
    way = hypot(to_x - x, to_y - y)
    share = min(1.0, STRIDE / way) if way else 0.0
    return [intent("Walk", to=[x + share * (to_x - x), y + share * (to_y - y)])]


def flee(view: PopulationView) -> dict[str, Any]:
    """Fly away from a dog nearby, else anywhere.

    Option: `fear` is the size of the cells. A bird flees from a dog of its cell or of an adjacent
    one.
    """
    position, side = view["position"], view.settings["side"]
    fear = view.options.get("fear", 10.0)
    angle = 2 * np.pi * view.random_unit("angle")
    by = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if view.state.get(DOGS):
        dogs = np.array([dog["position"] for dog in view.state[DOGS].values()])
        cells = int(side // fear) + 3
        dog_of = np.full((cells, cells), -1)  # a cell -> a dog of it, or of an adjacent cell
        at = (dogs // fear).astype(int) + 1
        for i, j in [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]:
            dog_of[at[:, 0] + i, at[:, 1] + j] = np.arange(len(dogs))
        dog = dog_of[tuple((position // fear).astype(int).T + 1)]
        away = position - dogs[dog]
        length = np.sqrt((away * away).sum(axis=1, keepdims=True))
        by = np.where(
            (dog >= 0)[:, None] & (length > 0), away / np.where(length > 0, length, 1), by
        )
    return {"Fly": {"to": np.clip(position + by, 0, side)}}
