"""Planners: every agent searches for a way to its goal through the crowd, and takes the first step.

The search draws plans of some steps and takes the one with the least cost: the distance to the
goal at its end, and the nearness of others on its way. Its time grows with the number of plans.
"""

from collections.abc import Iterable, Sequence
from math import hypot
from typing import Final

from placet.kernel.prng import random_u64, random_unit
from placet.scenarios.policies import IntentFactory
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.intent import Intent
from placet.schemas.view import View

OPTIONS: Final = {"plans": 220, "steps": 6}
LEG_TICKS: Final = 25
"""Ticks for which an agent has the same goal."""

_SIGHT: Final = 4.0
_OTHERS: Final = 4
_MASK: Final = 2**64 - 1
_WAYS: Final = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, -1), (1, -1))


class Planner:
    """A policy that searches for its next step."""

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        given = scenario.agents[member.cohort].options
        for name, value in given.items():
            if name not in OPTIONS or type(value) is not int or value < 1:
                problem = f"expected {' and '.join(OPTIONS)}, each an int above 0, got {value!r}"
                key = f"agents.{member.cohort}.options.{name}"
                raise ScenarioError(scenario.name, key, problem)
        options = {**OPTIONS, **given}
        self._plans, self._steps = options["plans"], options["steps"]
        self._agent_id, self._intent = member.agent_id, intent
        self._seed, self._tick_s = scenario.seed, scenario.tick_s
        low, high = scenario.settings.get("bounds") or ((0, 0), (60, 60))
        self._low, self._high = (low[0], low[1]), (high[0], high[1])

    def propose(self, view: View) -> Iterable[Intent]:
        """Return a move: the first step of the best plan."""
        agents = view.state.get("world.agents")
        me = None if agents is None else agents.get(self._agent_id)
        if agents is None or me is None:
            return []
        x, y = me["position"][0], me["position"][1]
        places = (one["position"] for name, one in agents.items() if name != self._agent_id)
        others = [place for place in places if hypot(place[0] - x, place[1] - y) <= _SIGHT]
        dx, dy = self._best(x, y, others[:_OTHERS], round(view.sim_time / self._tick_s))
        return [self._intent("Move", to=[self._inside(x + dx, 0), self._inside(y + dy, 1)])]

    def _inside(self, value: float, axis: int) -> float:
        return min(max(value, self._low[axis]), self._high[axis])

    def _best(
        self, x: float, y: float, others: Sequence[Sequence[float]], tick: int
    ) -> tuple[int, int]:
        leg = tick // LEG_TICKS
        goal = [
            low + (high - low) * random_unit(self._seed, leg, 0, axis, "goal", self._agent_id)
            for axis, (low, high) in enumerate(zip(self._low, self._high, strict=True))
        ]
        draw = random_u64(self._seed, tick, 0, 0, "plan", self._agent_id)
        best, first = float("inf"), _WAYS[0]
        for _ in range(self._plans):
            at_x, at_y, cost, way = x, y, 0.0, _WAYS[0]
            for step in range(self._steps):
                # Knuth's generator (MMIX): draws by name would take half of the time.
                draw = (draw * 6364136223846793005 + 1442695040888963407) & _MASK
                dx, dy = _WAYS[draw >> 61]
                at_x, at_y = at_x + dx, at_y + dy
                if step == 0:
                    way = dx, dy
                for other in others:
                    cost += max(0.0, 1.5 - hypot(other[0] - at_x, other[1] - at_y))
            cost += hypot(goal[0] - at_x, goal[1] - at_y)
            if cost < best:
                best, first = cost, way
        return first
