"""A market: slow traders think for a second about a stall at which fast traders trade all the time.

`settings.slow` is the remedy of the slow traders: `none`, `revalidate` (the rule judges the price
again, so a trade depends on its trader alone), `if_unchanged` (a trade expects that the stall still
sells the same good) or `lease` (a slow trader leases its stall, then looks and thinks).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from typing_extensions import TypedDict

from placet.kernel.ledger.leases import LEASE, RELEASE
from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.scenarios.policies import IntentFactory, require_no_options
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.condition import if_unchanged
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.view import View

STALLS, TRADERS = "market.stalls", "market.traders"
GOODS: Final = ("apples", "bread", "cheese", "dates")
REMEDIES: Final = ("none", "revalidate", "if_unchanged", "lease")
PRICE: Final = 100
THOUGHT_TICKS: Final = 20
PAUSE_TICKS: Final = 6
"""Ticks between two trades of a fast trader."""

REQUEST_TICKS: Final = 4


class TradeFields(TypedDict):
    """The payload of a trade: buy at the limit at most, or sell at the limit at least."""

    stall: str
    side: Literal["buy", "sell"]
    limit: int


class Market(Domain):
    """Stalls with a price, which rises by 1 with each purchase and falls by 1 with each sale.

    Args:
        stalls: Number of stalls.
        slow: Remedy of the slow traders.

    Raises:
        ValueError: There is no such remedy, or no stall.
    """

    name, version = "market", "1"
    collections = (TRADERS,)

    def __init__(self, stalls: int = 2, slow: str = "none") -> None:
        if slow not in REMEDIES:
            raise ValueError(f"slow: there is no remedy {slow!r}; {did_you_mean(slow, REMEDIES)}")
        if stalls < 1:
            raise ValueError(f"stalls must be at least 1, got {stalls!r}")
        self._stalls, self._slow = stalls, slow
        judges_again = slow == "revalidate"
        self.kinds = (
            Kind(
                "Trade",
                TradeFields,
                trade,
                reads=None if judges_again else _trader_and_stall,
                reads_self=TRADERS if judges_again else None,
                summary="buy or sell one piece at a stall, within a limit",
            ),
        )

    def settings(self) -> Mapping[str, Any]:
        """Return the keywords that rebuild this domain."""
        return {"stalls": self._stalls, "slow": self._slow}

    def on_open(self, draft: Draft) -> None:
        """Open the stalls."""
        for number in range(self._stalls):
            good = GOODS[number % len(GOODS)]
            draft.create(STALLS, f"stall_{number + 1}", {"good": good, "price": PRICE, "trades": 0})

    def on_register(self, draft: Draft, agent_id: str, _attributes: Mapping[str, Any]) -> None:
        """Create the entity of a trader."""
        draft.create(TRADERS, agent_id, {"bought": 0, "sold": 0})


def trade(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Trade at the present price, if that is within the limit."""
    stall, side, limit = (intent["payload"][name] for name in ("stall", "side", "limit"))
    price = draft.get(STALLS, stall, "price", None)
    if price is None:
        return refuse("no_stall", f"there is no stall {stall!r}")
    sign = 1 if side == "buy" else -1
    if sign * (price - limit) > 0:
        return refuse("limit", f"the price is {price}, beyond the limit {limit}")
    draft.put(STALLS, stall, "price", price + sign)
    draft.put(STALLS, stall, "trades", draft.get(STALLS, stall, "trades") + 1)
    name, trader = "bought" if side == "buy" else "sold", intent["agent_id"]
    draft.put(TRADERS, trader, name, draft.get(TRADERS, trader, name) + 1)
    return None


def _trader_and_stall(intent: Intent) -> tuple[Ref, ...]:
    return Ref(TRADERS, intent["agent_id"]), Ref(STALLS, intent["payload"]["stall"])


class Fast:
    """A policy that trades in every sixth of its turns, at once, on its present view.

    Fast traders take turns, so that none of them loses to another fast one.
    """

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        require_no_options("market:Fast", member, scenario)
        self._intent = intent
        self._turn = self._number = number_of(member)

    def propose(self, view: View) -> Iterable[Intent]:
        """Return a trade at the trader's stall, or none."""
        self._turn += 1
        if self._turn % PAUSE_TICKS:
            return []
        return [trade_at(view, stall_of(view, self._number // PAUSE_TICKS), self._intent)]


class Slow:
    """A policy that looks, thinks for some ticks, and then sends the trade that it decided on.

    Option: `ticks` is the length of a thought (20).
    """

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        options = dict(scenario.agents[member.cohort].options)
        ticks = options.pop("ticks", THOUGHT_TICKS)
        if options or type(ticks) is not int or ticks < 1:
            key = f"agents.{member.cohort}.options"
            problem = f"the one option is ticks, an integer from 1, got {options or ticks!r}"
            raise ScenarioError(scenario.name, key, problem)
        self._intent, self._remedy = intent, scenario.settings.get("slow", "none")
        self._ticks, self._tick_s = ticks, scenario.tick_s
        self._number = number_of(member)
        self._thought: list[Intent] = []
        self._left = 0  # ticks until it is sent
        self._requests = 0

    def propose(self, view: View) -> Iterable[Intent]:
        """Return the trade that the trader has thought about, or a request for a lease."""
        if self._left:
            self._left -= 1
            return [] if self._left else self._thought
        stall = stall_of(view, self._number)
        if self._remedy == "lease" and not view.leases.get(f"{STALLS}/{stall}", {}).get("own"):
            return self._request(stall)
        self._left, self._thought = self._ticks, self._decided(view, stall)
        return []

    def _request(self, stall: str) -> list[Intent]:
        """Return a request in every fourth turn: the first asks, a later one starts the lease."""
        self._requests += 1
        if self._requests % REQUEST_TICKS != 1:
            return []
        seconds = 2 * self._ticks * self._tick_s
        return [self._intent(LEASE, refs=[[STALLS, stall]], seconds=seconds)]

    def _decided(self, view: View, stall: str) -> list[Intent]:
        intent = trade_at(view, stall, self._intent, slack=10)
        if self._remedy == "if_unchanged":
            intent["expect"] = if_unchanged(view.state, [f"{STALLS}/{stall}/good"])
        return [intent, self._intent(RELEASE, {})] if self._remedy == "lease" else [intent]


def number_of(member: Member) -> int:
    """Return the number of an agent in its cohort, from 0."""
    return int(member.agent_id.rpartition("_")[2]) - 1


def stall_of(view: View, number: int) -> str:
    """Return the stall of a trader with a number."""
    stalls = view.ids(STALLS)
    return stalls[number % len(stalls)]


def trade_at(view: View, stall: str, intent: IntentFactory, *, slack: int = 0) -> Intent:
    """Return a trade: buy at a low price, sell at a high one, with some slack in the limit."""
    price = view.state[STALLS][stall]["price"]
    is_cheap = price <= PRICE
    limit = price + slack if is_cheap else price - slack
    return intent("Trade", stall=stall, side="buy" if is_cheap else "sell", limit=limit)
