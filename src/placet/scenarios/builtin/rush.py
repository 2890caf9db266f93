"""A rush: everybody wants the same few things in the same moment.

Who holds one puts it back in the next moment, so all of them try again. Nothing but the seeded
order of a group decides who gets it, and the report says how evenly it did.
"""

from collections.abc import Iterable

from placet.kernel.prng import randint_below
from placet.scenarios.policies import IntentFactory
from placet.scenarios.scenario import Member, Scenario, ids_of
from placet.schemas.intent import Intent
from placet.schemas.view import View


class Grabber:
    """Grabs at one of the things that are free, whichever it draws; puts back what it has."""

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._agent_id = member.agent_id
        self._seed = scenario.seed
        self._tick_s = scenario.tick_s
        self._intent = intent
        self._wanted = [
            object_id
            for name, group in scenario.objects.items()
            for object_id in ids_of(name, group.count)
        ]

    def propose(self, view: View) -> Iterable[Intent]:
        """Propose to put back what is held, or to take what is free."""
        objects, agents = view.state.get("world.objects"), view.state.get("world.agents")
        me = None if agents is None else agents.get(self._agent_id)
        if me is None or objects is None:
            return []
        if me["inventory"]:
            return [self._interact(me["inventory"][0], "drop")]
        free = [name for name in self._wanted if objects[name]["holder"] is None]
        if not free:
            return []
        tick = round(view.sim_time / self._tick_s)
        drawn = randint_below(len(free), self._seed, tick, self._agent_id, "grabs")
        return [self._interact(free[drawn], "pickup")]

    def _interact(self, object_id: str, what: str) -> Intent:
        return self._intent("Interact", target_id=object_id, interaction_type=what)
