"""A domain, policies and outcomes whose turning point is known: a coin is tossed at one tick."""

from collections.abc import Iterable, Mapping
from multiprocessing import parent_process
from threading import Event

from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.prng import random_unit
from placet.kernel.state.draft import Draft
from placet.scenarios import IntentFactory, Member, Scenario
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

COINS = "coin.coins"
TOSS = 4
"""The number of ticks before the toss; it is settled after one more."""

TOML = """
domain = "tests.lab.coin:Coin"
seed = 1
ticks = 8
[agents.tosser]
count = 1
policy = "tests.lab.coin:Tosser"
[agents.walker]
count = 6
policy = "tests.lab.coin:Walker"
"""


class Put(TypedDict):
    side: str


def put(draft: Draft, intent: Intent) -> RuleRefusal | None:
    side = intent["payload"]["side"]
    if side == draft.get(COINS, "rule", "refused"):
        return refuse("refused", "this side is refused")
    draft.put(COINS, intent["agent_id"], "side", side)
    draft.put(COINS, intent["agent_id"], "luck", draft.draw("luck"))
    return None


class Coin(Domain):
    name, version, kinds = "coin", "1", [Kind("Put", Put, put)]

    def __init__(self, refused: str = "") -> None:
        self.refused = refused

    def settings(self) -> Mapping[str, Json]:
        return {"refused": self.refused}

    def on_open(self, draft: Draft) -> None:
        draft.create(COINS, "rule")
        draft.put(COINS, "rule", "refused", self.refused)

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]) -> None:
        draft.create(COINS, agent_id)
        draft.put(COINS, agent_id, "side", "")


class Tosser:
    """All tossers show the same side: it is drawn from the seed alone."""

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._intent, self._seed = intent, scenario.seed
        options = scenario.agents[member.cohort].options
        self._fails, self._side = options.get("fails", False), options.get("side", "")

    def propose(self, view: View) -> Iterable[Intent]:
        if self._fails and view.sim_time > TOSS and self._seed > 2:
            raise RuntimeError("a policy that fails")
        if round(view.sim_time) == TOSS:
            is_heads = random_unit(self._seed, TOSS, 0, 0, "toss", "coin") < 0.5
            yield self._intent("Put", side=self._side or ("heads" if is_heads else "tails"))


class Walker:
    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._intent = intent

    def propose(self, view: View) -> Iterable[Intent]:
        yield self._intent("Put", side=f"walk {view.sim_time:g}")


def _sides(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> list[str]:
    return [str(coin["side"]) for name, coin in state[COINS].items() if "tosser" in name]


def any_heads(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    return "heads" in _sides(state)


def all_heads(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    return set(_sides(state)) == {"heads"}


def never(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    return False


def a_number(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> float:
    return 0.5


def hangs(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    """Never answer in a worker process."""
    if parent_process() is not None:
        Event().wait()
    return True


def exits(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    raise SystemExit(3)


def raises(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    raise KeyError("bank")
