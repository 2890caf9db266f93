"""The people of a town: they walk, meet, talk, fetch things and trade them.

Their policies collide on purpose: several agents want the same apple, children run into the wall,
criers exceed their quota, and merchants act during a cooldown. So a run has refusals of many kinds.

Positions are computed with + - * / and square root alone, which are the same on every machine.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from typing import ClassVar, Final, TypeAlias

from placet.kernel.prng import randint_below, random_unit
from placet.kernel.state.tree import WorldState
from placet.scenarios.policies import IntentFactory
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

Entity: TypeAlias = Mapping[str, Json]
Point: TypeAlias = tuple[float, float, float]

TRADE_PRIORITY: Final = 20
"""Trades are decided before walks, so that no partner walks away in the same tick."""

ERRAND_TICKS: Final = 25
HEARING: Final = 12.0
CANDIDATES: Final = 4
"""How many other agents or objects an agent considers in one tick."""


class _Resident:
    """Base class of the town's policies."""

    OPTIONS: ClassVar[Mapping[str, Json]] = {}
    """Options of the policy in a scenario, with their defaults."""

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._intent = intent
        self._agent_id = member.agent_id
        self._seed = scenario.seed
        self._tick_s = scenario.tick_s
        self._step = float(scenario.settings.get("max_step") or 1.0)
        self._reach = float(scenario.settings.get("interaction_range") or 1.0)
        self._home = _point(member.attributes.get("position", (0.0, 0.0)))
        self._cohorts = [(name, cohort.count) for name, cohort in scenario.agents.items()]
        self._people = sum(size for _, size in self._cohorts)
        self._sorts = [(name, sort.count) for name, sort in scenario.objects.items()]
        self._things = sum(size for _, size in self._sorts)
        self._options = self._read_options(member, scenario)

    def _read_options(self, member: Member, scenario: Scenario) -> Mapping[str, Json]:
        options = scenario.agents[member.cohort].options
        for name, value in options.items():
            key = f"agents.{member.cohort}.options.{name}"
            if name not in self.OPTIONS:
                known = ", ".join(self.OPTIONS) or "none"
                raise ScenarioError(scenario.name, key, f"no such option; there are {known}")
            expected = type(self.OPTIONS[name])
            if type(value) not in ({int, float} if expected is float else {expected}):
                problem = f"must be of type {expected.__name__}, got {value!r}"
                raise ScenarioError(scenario.name, key, problem)
        return {**self.OPTIONS, **options}

    def _tick(self, view: View) -> int:
        return round(view.sim_time / self._tick_s)

    def _chance(self, tick: int, purpose: str) -> float:
        return random_unit(self._seed, tick, 0, 0, purpose, self._agent_id)

    def _below(self, bound: int, tick: int, purpose: str) -> int:
        return randint_below(bound, self._seed, tick, 0, 0, purpose, self._agent_id)

    def _look(self, view: View, collection: str, entity: str) -> Entity | None:
        entities = view.state.get(collection)
        return None if entities is None else entities.get(entity)

    def _interact(self, target_id: Json, interaction_type: str, **data: Json) -> Intent:
        intent = self._intent(
            "Interact", target_id=target_id, interaction_type=interaction_type, **data
        )
        intent["priority"] = TRADE_PRIORITY
        return intent

    def _walk(self, here: Point, goal: Point) -> Iterator[Intent]:
        if here != goal:
            yield self._intent("Move", to=list(_towards(here, goal, self._step)))

    def _neighbor(self, view: View, tick: int, here: Point) -> str | None:
        """Return an agent within hearing, among a few drawn from all; None if there is none."""
        for number in range(CANDIDATES):
            other = _member(self._cohorts, self._below(self._people, tick, f"other {number}"))
            entity = None if other == self._agent_id else self._look(view, "world.agents", other)
            if entity is not None and _distance(here, entity["position"]) <= HEARING:
                return other
        return None


class Townsfolk(_Resident):
    """A policy that fetches wanted objects, sells them or takes them home, and talks on the way.

    Options: `merchants` is the name of the cohort that buys, `popular` the number of wanted objects
    per day, `talkative` the share of ticks in which the agent looks for another agent to talk to.
    """

    OPTIONS: ClassVar[Mapping[str, Json]] = {"merchants": "", "popular": 24, "talkative": 0.25}

    def propose(self, view: View) -> Iterable[Intent]:
        """Return the next intent of the present errand, and sometimes a message to a neighbor."""
        me = self._look(view, "world.agents", self._agent_id)
        if me is None:
            return []
        tick, here = self._tick(view), me["position"]
        steps = self._trade(view, tick, me) if me["inventory"] else self._fetch(view, tick, here)
        return [*steps, *self._talk(view, tick, here)]

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        super().__init__(member, scenario, intent)
        self._begins = self._below(ERRAND_TICKS, 0, "begins")
        # Draws that stay the same for many ticks; another agent object would draw them again.
        self._wishes: tuple[tuple[int, int], list[str]] = ((-1, -1), [])
        self._sale: tuple[int, str | None] = (-1, None)

    def _errand(self, tick: int) -> int:
        """Return the number of the errand; each agent starts errands at its own offset."""
        return (tick + self._begins) // ERRAND_TICKS

    def _fetch(self, view: View, tick: int, here: Point) -> Iterable[Intent]:
        for object_id in self._wanted(tick):
            wanted = self._look(view, "world.objects", object_id)
            if wanted is None or wanted["holder"] is not None or not wanted["portable"]:
                continue
            if _distance(here, wanted["position"]) > self._reach:
                return self._walk(here, wanted["position"])
            return [self._interact(object_id, "pickup")]
        return self._walk(here, self._home)

    def _wanted(self, tick: int) -> list[str]:
        """Return the objects this agent wants, best first: a few popular objects of the day."""
        errand, day = self._errand(tick), tick // (2 * ERRAND_TICKS)
        if self._wishes[0] != (errand, day):
            self._wishes = ((errand, day), list(self._draw_wishes(errand, day)))
        return self._wishes[1]

    def _draw_wishes(self, errand: int, day: int) -> Iterator[str]:
        count, popular = self._things, max(1, self._options["popular"])
        first = self._below(popular, errand, "taste")
        for number in range(CANDIDATES if count else 0):
            taste = (first + number) % popular
            yield _member(
                self._sorts,
                randint_below(count, self._seed, day, 0, taste, "popular", "town"),
            )

    def _trade(self, view: View, tick: int, me: Entity) -> Iterable[Intent]:
        here, object_id = me["position"], me["inventory"][0]
        buyer_id = self._buyer(tick)
        buyer = None if buyer_id is None else self._look(view, "world.agents", buyer_id)
        if buyer is None:
            if here != self._home:
                return self._walk(here, self._home)
            return [self._interact(object_id, "drop")]
        if _distance(here, buyer["position"]) > self._reach:
            return self._walk(here, buyer["position"])
        return [
            self._interact(buyer_id, "give", data={"object_id": object_id}),
            self._intent(
                "Speak", text=f"here is {object_id}", channel="private", target_id=buyer_id
            ),
        ]

    def _buyer(self, tick: int) -> str | None:
        """Return a merchant for this errand; None: the object is taken home."""
        errand = self._errand(tick)
        if self._sale[0] != errand:
            self._sale = (errand, self._draw_buyer(errand))
        return self._sale[1]

    def _draw_buyer(self, errand: int) -> str | None:
        merchants = self._options["merchants"]
        count = dict(self._cohorts).get(merchants, 0)
        if not count or self._chance(errand, "keeps it") < 0.4:  # noqa: PLR2004  # two in five
            return None
        return f"{merchants}_{1 + self._below(count, errand, 'buyer')}"

    def _talk(self, view: View, tick: int, here: Point) -> Iterator[Intent]:
        if self._chance(tick, "talks") < self._options["talkative"]:
            neighbor = self._neighbor(view, tick, here)
            if neighbor is not None:
                yield self._intent("Speak", text=f"good day, {neighbor}", target_id=neighbor)


class Merchant(_Resident):
    """A policy that stays at its stall, drops bought objects there at once, and advertises them.

    Options: `talkative` is the share of idle ticks in which it advertises.
    """

    OPTIONS: ClassVar[Mapping[str, Json]] = {"talkative": 0.1}

    def propose(self, view: View) -> Iterable[Intent]:
        """Return an intent to drop the oldest carried object, or sometimes to advertise."""
        me = self._look(view, "world.agents", self._agent_id)
        if me is None:
            return []
        if me["inventory"]:
            return [self._interact(me["inventory"][0], "drop")]
        if self._chance(self._tick(view), "praises") < self._options["talkative"]:
            return [self._intent("Speak", text="fresh wares, come and look")]
        return []


class Child(_Resident):
    """A policy that moves by random steps, and uses objects nearby, some just out of its reach."""

    def propose(self, view: View) -> Iterable[Intent]:
        """Return an intent to move by a random step, or to use an object nearby."""
        me = self._look(view, "world.agents", self._agent_id)
        if me is None:
            return []
        tick, here = self._tick(view), me["position"]
        toy = self._toy(view, tick, here)
        if toy is not None:
            return [self._intent("Interact", target_id=toy, interaction_type="use")]
        dx, dy = (self._step * (1.4 * self._chance(tick, axis) - 0.7) for axis in ("x", "y"))
        return [self._intent("Move", to=[here[0] + dx, here[1] + dy, here[2]])]

    def _toy(self, view: View, tick: int, here: Point) -> str | None:
        """Return an object nearby, among a few drawn from all; it may be just out of reach."""
        for number in range(CANDIDATES if self._things else 0):
            toy = _member(self._sorts, self._below(self._things, tick, f"toy {number}"))
            entity = self._look(view, "world.objects", toy)
            place = None if entity is None else entity["position"]
            if place is not None and _distance(here, place) <= self._reach * 1.25:
                return toy
        return None


class Crier(_Resident):
    """A policy that walks round the town and speaks to all at every step, even beyond its quota."""

    def propose(self, view: View) -> Iterable[Intent]:
        """Return an intent to speak to all, and an intent to move one step on the round."""
        me = self._look(view, "world.agents", self._agent_id)
        if me is None:
            return []
        tick = self._tick(view)
        host = _member(self._cohorts, self._below(self._people, tick // ERRAND_TICKS, "round"))
        entity = self._look(view, "world.agents", host)
        goal = self._home if entity is None else entity["position"]
        cry = self._intent("Speak", text=f"hear the news of moment {tick}")
        return [cry, *self._walk(me["position"], goal)]


def goods(state: WorldState) -> dict[str, int]:
    """Return the number of objects that are carried, that lie at a stall, and that lie elsewhere.

    Objects lie at a stall where a merchant has dropped them: a merchant stays at its stall.
    """
    agents, objects = state["world.agents"], state["world.objects"].values()
    stalls = {_point(a["position"]) for name, a in agents.items() if name.startswith("merchant_")}
    lying = [_point(thing["position"]) for thing in objects if thing["holder"] is None]
    sold = sum(place in stalls for place in lying)
    carried = len(objects) - len(lying)
    return {"carried": carried, "at a stall": sold, "elsewhere": len(lying) - sold}


def _member(cohorts: Iterable[tuple[str, int]], index: int) -> str:
    """Return the id of the member at an index, counted through all cohorts."""
    for name, size in cohorts:
        if index < size:
            return f"{name}_{1 + index}"
        index -= size
    raise IndexError("the index is not below the count of members")


def _point(position: Json) -> Point:
    x, y, *rest = position
    return float(x), float(y), float(rest[0]) if rest else 0.0


def _distance(here: Point, there: Point) -> float:
    dx, dy, dz = there[0] - here[0], there[1] - here[1], there[2] - here[2]
    return sqrt(dx * dx + dy * dy + dz * dz)


def _towards(here: Point, goal: Point, step: float) -> Point:
    """Return the point at most one step from here on the straight line to the goal."""
    way = _distance(here, goal)
    if way <= step:
        return goal
    share = step / way
    x, y, z = (a + (b - a) * share for a, b in zip(here, goal, strict=True))
    return x, y, z
