# wealth.py
"""Boltzmann wealth: all begin with the same coins; at every tick each gives one to somebody."""

from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.scenarios import IntentFactory
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

PEOPLE = "wealth.people"


class Give(TypedDict):
    pass


def give(draft: Draft, intent: Intent) -> RuleRefusal | None:
    giver = intent["agent_id"]
    coins = draft.get(PEOPLE, giver, "coins")
    if coins == 0:
        return refuse("broke", f"{giver} has no coin to give")
    people = sorted(draft.ids(PEOPLE))
    taker = people[draft.randint_below(len(people), "taker")]
    draft.put(PEOPLE, giver, "coins", coins - 1)
    draft.put(PEOPLE, taker, "coins", draft.get(PEOPLE, taker, "coins") + 1)
    return None


class Economy(Domain):
    name, version = "wealth", "1"
    kinds = (Kind("Give", Give, give),)

    def __init__(self, coins: int = 1) -> None:
        self.coins = coins

    def settings(self) -> Mapping[str, Json]:
        return {"coins": self.coins}

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]) -> None:
        draft.create(PEOPLE, agent_id)
        draft.put(PEOPLE, agent_id, "coins", self.coins)


def generous(view: View, intent: IntentFactory) -> Iterable[Intent]:
    """Give a coin, if there is one: the policy of every person."""
    if view.state[PEOPLE][view.agent_id]["coins"]:
        yield intent("Give")


def gini(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> float:
    """Return Gini's index of the coins: 0 if all have the same, nearly 1 if one has all."""
    coins: list[int] = sorted(person["coins"] for person in state[PEOPLE].values())
    ranked = sum(rank * value for rank, value in enumerate(coins, 1))
    return 2 * ranked / (len(coins) * sum(coins)) - (len(coins) + 1) / len(coins)
