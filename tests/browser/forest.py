"""A model with agents as objects in the cells of a grid that is no square, and no portrayal."""

from collections.abc import Iterator
from typing import Any

from typing_extensions import TypedDict

from placet.domains.space import Grid, Occupancy
from placet.kernel import Domain, Draft, Kind

FOXES = "forest.foxes"
GRID = Grid(7, 4, torus=True)
PLACES = Occupancy(GRID, agents=FOXES, cells="forest.cells", capacity=None)


class Nothing(TypedDict):
    """Payload of a step."""


def go_on(draft: Draft, intent: Any) -> Any:
    """Go to the next cell."""
    fox = intent["agent_id"]
    return PLACES.move(draft, fox, (draft.get(FOXES, fox, "cell") + 1) % GRID.count)


class Forest(Domain):
    """Foxes that begin in the first row."""

    name, version = "forest", "1"
    kinds = (Kind("GoOn", Nothing, go_on),)

    def settings(self) -> dict[str, Any]:
        return {}

    def on_register(self, draft: Draft, agent_id: str, attributes: Any) -> Any:
        draft.create(FOXES, agent_id)
        return PLACES.move(draft, agent_id, int(agent_id.rpartition("_")[2]))


def go(view: Any, intent: Any) -> Iterator[Any]:
    """Go on in each tick."""
    yield intent("GoOn")
