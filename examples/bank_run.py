# bank_run.py
"""A bank, its depositors, and the day on which too many of them want their money.

One file: the domain (what may be proposed, and what it does), the policy of a depositor, and the
outcome that is asked about. Run it with the scenario beside it:

    placet run ./bank_run.toml
    placet turning-point bank_run.db --outcome bank_run:bank_failed
"""

from collections.abc import Iterable, Mapping

from pydantic import PositiveInt
from typing_extensions import TypedDict

from placet.kernel import Domain, Kind, RuleRefusal, refuse
from placet.kernel.prng import random_u64, random_unit
from placet.kernel.state.draft import Draft
from placet.scenarios import IntentFactory, Member, Scenario
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.view import View

ACCOUNTS, BANKS, BANK = "bank.accounts", "bank.banks", "bank"


class Amount(TypedDict):
    amount: PositiveInt


class Bank(Domain):
    """A bank that lends most of what it holds, and closes when it cannot pay.

    Args:
        deposit: What each depositor has at the bank at the beginning.
        reserves: Share of the deposits that the bank keeps as cash.
        per_tick: The rule under study: the most that one depositor may withdraw in one tick.
    """

    name, version = "bank", "1"

    def __init__(self, deposit: int = 10, reserves: float = 0.4, per_tick: int = 10) -> None:
        self.deposit, self.reserves, self.per_tick = deposit, reserves, per_tick
        self.kinds = [
            Kind("Withdraw", Amount, self.withdraw),
            Kind("Deposit", Amount, deposit_cash),
        ]

    def settings(self) -> Mapping[str, Json]:
        return {"deposit": self.deposit, "reserves": self.reserves, "per_tick": self.per_tick}

    def on_open(self, draft: Draft) -> None:
        draft.create(BANKS, BANK)
        draft.put(BANKS, BANK, "cash", 0)
        draft.put(BANKS, BANK, "deposits", 0)
        draft.put(BANKS, BANK, "lent", 0)
        draft.put(BANKS, BANK, "closed", False)

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        before = draft.get(BANKS, BANK, "deposits")
        draft.create(ACCOUNTS, agent_id)
        draft.put(ACCOUNTS, agent_id, "balance", self.deposit)
        # Spread evenly, the same under every seed: the question is about chance in the run.
        spread = before // self.deposit * 0.618034 % 1
        draft.put(ACCOUNTS, agent_id, "nerve", round(0.25 + 0.6 * spread, 3))
        deposits = before + self.deposit
        kept = int(deposits * self.reserves) - int(before * self.reserves)
        draft.put(BANKS, BANK, "deposits", deposits)
        draft.put(BANKS, BANK, "cash", draft.get(BANKS, BANK, "cash") + kept)
        draft.put(BANKS, BANK, "lent", draft.get(BANKS, BANK, "lent") + self.deposit - kept)
        return None

    def withdraw(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        agent_id, amount = intent["agent_id"], intent["payload"]["amount"]
        if draft.get(BANKS, BANK, "closed"):
            return refuse("closed", "the bank is closed; nothing is paid any more")
        if amount > self.per_tick:
            return refuse("limit", f"the bank pays {self.per_tick} a tick", at="/amount")
        balance, cash = draft.get(ACCOUNTS, agent_id, "balance"), draft.get(BANKS, BANK, "cash")
        if amount > balance:
            return refuse("balance", f"the balance is {balance}, not {amount}", at="/amount")
        if amount > cash:
            draft.put(BANKS, BANK, "closed", True)
            return None
        draft.put(ACCOUNTS, agent_id, "balance", balance - amount)
        draft.put(BANKS, BANK, "cash", cash - amount)
        draft.put(BANKS, BANK, "deposits", draft.get(BANKS, BANK, "deposits") - amount)
        return None


def deposit_cash(draft: Draft, intent: Intent) -> RuleRefusal | None:
    agent_id, amount = intent["agent_id"], intent["payload"]["amount"]
    if draft.get(BANKS, BANK, "closed"):
        return refuse("closed", "the bank is closed; nothing is taken any more")
    draft.put(ACCOUNTS, agent_id, "balance", draft.get(ACCOUNTS, agent_id, "balance") + amount)
    draft.put(BANKS, BANK, "cash", draft.get(BANKS, BANK, "cash") + amount)
    draft.put(BANKS, BANK, "deposits", draft.get(BANKS, BANK, "deposits") + amount)
    return None


class Depositor:
    """Withdraws if it needs cash, or if it hears that too many others did; returns when calm.

    At every tick it hears of eight others whether they have withdrawn.
    """

    def __init__(self, member: Member, scenario: Scenario, intent: IntentFactory) -> None:
        self._intent, self._name, self._seed = intent, member.agent_id, scenario.seed
        self._names = [other.agent_id for other in scenario.members()]
        self._deposit = int(scenario.settings.get("deposit", 10))
        self._most = int(scenario.settings.get("per_tick", 10))
        options = scenario.agents[member.cohort].options
        self._need = float(options.get("need", 0.03))

    def propose(self, view: View) -> Iterable[Intent]:
        accounts, bank = view.state[ACCOUNTS], view.state[BANKS][BANK]
        if bank["closed"]:
            return
        me = accounts[self._name]
        gone = [accounts[other]["balance"] < self._deposit for other in self._others(view)]
        rumor = sum(gone) / len(gone)
        if me["balance"] and (rumor > me["nerve"] or self._draw(view, "need") < self._need):
            yield self._intent("Withdraw", amount=min(me["balance"], self._most))
        elif (
            me["balance"] < self._deposit
            and rumor < me["nerve"] / 2
            and self._draw(view, "return") < 0.5
        ):
            yield self._intent("Deposit", amount=self._deposit - me["balance"])

    def _others(self, view: View) -> Iterable[str]:
        """Return eight depositors, drawn anew at every tick: one for each byte of a draw."""
        drawn = random_u64(self._seed, round(view.sim_time), 0, 0, "others", self._name)
        return (self._names[byte * len(self._names) >> 8] for byte in drawn.to_bytes(8, "big"))

    def _draw(self, view: View, purpose: str) -> float:
        return random_unit(self._seed, round(view.sim_time), 0, 0, purpose, self._name)


def bank_failed(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    """Return whether the bank could not pay; the outcome of the turning point."""
    return bool(state[BANKS][BANK]["closed"])


def out_of_the_bank(state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> float:
    """Return the share of depositors who have withdrawn all; for the collector."""
    accounts = state[ACCOUNTS].values()
    gone: list[bool] = [account["balance"] == 0 for account in accounts]
    return sum(gone) / len(gone)
