# wolf_sheep.py
"""Wolves and sheep: sheep graze, wolves eat sheep, both bear young, and both starve.

Run it with the scenario beside it:

    placet run ./wolf_sheep.toml
"""

from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.scenarios import IntentFactory
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

SHEEP, WOLVES = "meadow.sheep", "meadow.wolves"
HERD = {"sheep": SHEEP, "wolf": WOLVES}


class Nothing(TypedDict):
    pass


class Prey(TypedDict):
    sheep: str


class Meadow(Domain):
    """A meadow.

    Args:
        grass: Energy of a sheep's meal.
        meals: Meals that grow in a tick; more sheep than these share them.
        meat: Energy of a wolf's meal.
        speed: A chase of this number is successful, on average.
        young: Energy at which an animal bears one young, and shares its energy with it.
    """

    name, version = "meadow", "1"
    collections = (SHEEP, WOLVES)

    def __init__(
        self, grass: int = 3, meals: int = 50, meat: int = 10, speed: int = 6, young: int = 16
    ) -> None:
        self.grass, self.meals, self.meat = grass, meals, meat
        self.speed, self.young = speed, young
        self.kinds = (Kind("Graze", Nothing, self.graze), Kind("Hunt", Prey, self.hunt))

    def settings(self) -> Mapping[str, Json]:
        names = ("grass", "meals", "meat", "speed", "young")
        return {name: getattr(self, name) for name in names}

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]) -> None:
        draft.create(HERD[attributes["sort"]], agent_id, {"energy": attributes.get("energy", 6)})

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        for herd in HERD.values():
            if draft.exists(herd, agent_id):
                draft.delete(herd, agent_id)

    def graze(self, draft: Draft, intent: Intent) -> None:
        if draft.randint_below(max(self.meals, draft.state.count(SHEEP)), "grass") < self.meals:
            self.feed(draft, "sheep", intent["agent_id"], self.grass)

    def hunt(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        prey = intent["payload"]["sheep"]
        if not draft.exists(SHEEP, prey):
            return refuse("gone", f"{prey} was eaten by another wolf", at="/sheep")
        if not draft.randint_below(self.speed, "chase"):
            draft.remove(prey)
            self.feed(draft, "wolf", intent["agent_id"], self.meat)
        return None

    def feed(self, draft: Draft, sort: str, animal: str, energy: int) -> None:
        """Add the energy of a meal; an animal that has enough bears one young."""
        energy += draft.get(HERD[sort], animal, "energy")
        if energy >= self.young:
            energy //= 2
            draft.register(f"{sort}_{draft.seq}", cohort=sort, sort=sort, energy=energy)
        draft.put(HERD[sort], animal, "energy", energy)

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        """Take a unit of energy from each animal; those that have none left starve."""
        for herd in HERD.values():
            for animal in list(draft.ids(herd)):
                energy = draft.get(herd, animal, "energy") - 1
                draft.put(herd, animal, "energy", energy)
                if energy <= 0:
                    draft.remove(animal)


def graze(_: View, intent: IntentFactory) -> Iterable[Intent]:
    yield intent("Graze")


def chase(view: View, intent: IntentFactory) -> Iterable[Intent]:
    sheep = list(view.state[SHEEP])  # empty once the last is eaten
    if sheep:
        yield intent("Hunt", sheep=sheep[view.randint_below(len(sheep), "prey")])


def is_extinct(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    return not state[SHEEP]


def sheep(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> int:
    return len(state[SHEEP])


def wolves(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> int:
    return len(state[WOLVES])
