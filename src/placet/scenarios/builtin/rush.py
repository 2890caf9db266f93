"""A rush: every agent wants the same few objects at the same time.

An agent that holds an object puts it back at the next tick, so all of them try again. Only the
seeded order of a group decides who gets it, and the report shows how evenly it did.
"""

from collections.abc import Iterable

from placet.kernel.prng import randint_below
from placet.kernel.state.tree import WorldState
from placet.scenarios.policies import IntentFactory, require_no_options
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Member, ids_of
from placet.schemas.intent import Intent
from placet.schemas.view import View


class Grabber:
    """A policy that picks up a random free object, and puts it back in its next turn."""

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        require_no_options("grabber", member, scenario)
        self._agent_id = member.agent_id
        self._seed = scenario.seed
        self._tick_s = scenario.tick_s
        self._intent = intent
        self._objects = [
            object_id
            for name, sort in scenario.objects.items()
            for object_id in ids_of(name, sort.count)
        ]

    def propose(self, view: View) -> Iterable[Intent]:
        """Return an intent to put back the held object, or to pick up a free object."""
        objects, agents = view.state.get("world.objects"), view.state.get("world.agents")
        me = None if agents is None else agents.get(self._agent_id)
        if me is None or objects is None:
            return []
        if me["inventory"]:
            return [self._interact(me["inventory"][0], "drop")]
        free = [name for name in self._objects if objects[name]["holder"] is None]
        if not free:
            return []
        tick = round(view.sim_time / self._tick_s)
        index = randint_below(len(free), self._seed, tick, 0, 0, "grabs", self._agent_id)
        return [self._interact(free[index], "pickup")]

    def _interact(self, object_id: str, interaction: str) -> Intent:
        return self._intent("Interact", target_id=object_id, interaction_type=interaction)


def held(state: WorldState) -> int:
    """Return the number of objects that an agent holds."""
    return sum(thing["holder"] is not None for thing in state["world.objects"].values())
