"""Random work on accounts, with kills and forgotten records, held to an oracle that reads the log.

The oracle adds up admitted intents by itself, and refills period by period.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domains.accounts import ACCOUNTS, BALANCES, Accounts, balance_of
from placet.domains.accounts.balances import Balance, Refill
from placet.domains.accounts.payloads import RESERVATIONS
from placet.kernel import Kernel
from placet.kernel.log import snapshot
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, decode_record
from tests.levels import examples

UNITS = ("tokens", "calls")
REFILL = {"tokens": {"amount": 3, "seconds": 0.5, "most": 40}}
CHAIN = {"team": "", "left": "team", "right": "team", "leaf": "left"}
AGENTS = ("ann", "bob", "accounts.manager")


def domain() -> Accounts:
    return Accounts(
        accounts={
            "team": {"give": {"tokens": 60, "calls": 9}, "refill": REFILL},
            "left": {"give": {"tokens": 30}, "parent": "team"},
            "right": {"give": {"tokens": 50, "calls": 5}, "parent": "team", "refill": REFILL},
            "leaf": {"give": {"tokens": 25, "calls": 4}, "parent": "left"},
        }
    )


class Oracle:
    """What the accounts must be, by the admitted intents of a log; written without `Balance`."""

    def __init__(self) -> None:
        names = ("given", "left", "held", "spent", "overdrawn", "periods")
        gifts = {name: fields["give"] for name, fields in domain().settings()["accounts"].items()}
        self.balances = {
            (account, unit): dict.fromkeys(names, 0) | {"given": gift, "left": gift}
            for account, gives in gifts.items()
            for unit, gift in gives.items()
        }
        self.open: dict[tuple[str, str], tuple[str, str, int]] = {}

    def chain(self, account: str, unit: str) -> list[dict[str, int]]:
        levels = [account]
        while CHAIN[levels[-1]]:
            levels.append(CHAIN[levels[-1]])
        return [self.balances[level, unit] for level in levels if (level, unit) in self.balances]

    def refill(self, now_ns: int) -> None:
        for account in ("team", "right"):
            balance = self.balances[account, "tokens"]
            while (balance["periods"] + 1) * SECOND_NS // 2 <= now_ns:
                balance["periods"] += 1
                for _ in range(3):  # one token at a time
                    if balance["overdrawn"]:
                        balance["overdrawn"] -= 1
                    elif balance["left"] + balance["held"] < 40:
                        balance["left"] += 1
                    else:
                        break
                    balance["given"] += 1

    def apply(self, now_ns: int, intent: Any) -> None:
        self.refill(now_ns)
        payload, who = intent["payload"], intent["agent_id"]
        if intent["kind"] == "account.open":
            for unit, amount in payload["give"].items():
                balance = self.balances[payload["account"], unit]
                balance["given"] += amount
                balance["left"] += amount
                while balance["left"] and balance["overdrawn"]:
                    balance["left"] -= 1
                    balance["overdrawn"] -= 1
        elif intent["kind"] == "account.reserve":
            account, unit, amount = payload["account"], payload["unit"], payload["amount"]
            self.open[who, payload["id"]] = account, unit, amount
            for balance in self.chain(account, unit):
                assert not balance["overdrawn"], "nothing is reserved while there is a debt"
                balance["left"] -= amount
                balance["held"] += amount
        else:
            account, unit, amount = self.open.pop((payload.get("by", who), payload["id"]))
            used = payload.get("used", 0)
            for balance in self.chain(account, unit):
                balance["held"] -= amount
                balance["spent"] += used
                balance["left"] += max(0, amount - used)
                balance["overdrawn"] += max(0, used - amount)


class Run:
    """A world of a seed, its log, and the number of kills and of answers."""

    def __init__(self, seed: int) -> None:
        self.random, self.log, self.now = Random(seed), list[bytes](), 0.0
        self.kernel = Kernel(domain(), sink=self.log.append)
        for name in AGENTS:
            self.kernel.register_agent(name)
        self.names = 0
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        """Decide a batch; it keeps the law, admitted or not."""
        self.now += self.random.choice([0.0, 0.0, 0.1, 0.5, 1.7])
        batch = [self._intent() for _ in range(self.random.randint(1, 3))]
        verdict = self.kernel.decide(batch, self.now)
        self.seen.update(verdict.codes or ("admitted",))
        self.check()

    def _intent(self) -> Any:
        random, who = self.random, self.random.choice(AGENTS)
        chance, held = random.random(), sorted(self.kernel.state.get(RESERVATIONS, {}))
        if chance < 0.45 or not held:
            self.names += 1
            unit = random.choice(UNITS)
            amount = random.randint(1, 25 if unit == "tokens" else 3)
            account = random.choice(list(CHAIN))
            payload = {"account": account, "unit": unit, "amount": amount, "id": f"r{self.names}"}
            return self.kernel.intent("account.reserve", payload, agent=who)
        if chance < 0.52:
            give = {"account": random.choice(list(CHAIN)), "give": {"tokens": random.randint(0, 9)}}
            return self.kernel.intent("account.open", give, agent="accounts.manager")
        by, _, name = random.choice(held).rpartition("/")
        who = random.choice([by, by, "accounts.manager"])
        payload = {"id": name, "by": by}
        if chance < 0.65:
            return self.kernel.intent("account.release", payload, agent=who)
        payload["used"] = random.choice([0, 1, random.randint(0, 25), random.randint(0, 40)])
        return self.kernel.intent("account.settle", payload, agent=who)

    def kill(self) -> None:
        """Lose the memory, and perhaps the latest records; continue from the log."""
        lost = self.random.choice([0, 0, 1, 2, 5])
        end = max(1 + len(AGENTS), len(self.log) - lost)
        del self.log[end:]
        past = folded(self.log)
        if self.random.random() < 0.5:
            past = snapshot.resume(snapshot.take(past))
        self.kernel = Kernel(domain(), history=past, sink=self.log.append)
        self.seen["kill"] += 1
        self.check()

    def check(self) -> None:
        """Compare every balance with the oracle, and what is held with the reservations."""
        now_ns = round(self.now * SECOND_NS)
        oracle = Oracle()
        for data in self.log:
            for record in expanded(decode_record(data)):
                if isinstance(record, Admitted):
                    for intent in recorded_batch(record).intents:
                        oracle.apply(record.now_ns, intent)
        oracle.refill(now_ns)
        tree, held = self.kernel.tree, Counter[tuple[str, str]]()
        for fields in self.kernel.state.get(RESERVATIONS, {}).values():
            for level in fields["levels"]:
                held[level, fields["unit"]] += fields["amount"]
        for (account, unit), expected in oracle.balances.items():
            balance = balance_of(tree, account, unit, now_ns)
            assert balance is not None
            del expected["periods"]
            found = dict(zip(expected, balance, strict=False))
            assert found == expected, (account, unit)
            assert balance.left + balance.held + balance.spent == balance.given + balance.overdrawn
            assert min(balance[:5]) >= 0
            assert balance.held == held[account, unit]
        counts = Counter(fields["account"] for fields in self.kernel.state[RESERVATIONS].values())
        for account in CHAIN:
            assert self.kernel.state[ACCOUNTS][account]["reservations"] == counts[account]

    def verify(self) -> None:
        verifier = Verifier([domain()])
        for data in self.log:
            verifier.apply(data)
        assert verifier.unverified == []


def run(seed: int, *, kills: int = 6) -> Counter[str]:
    tried = Run(seed)
    for _ in range(kills):
        for _ in range(tried.random.randint(1, 7)):
            tried.step()
        tried.kill()
    tried.verify()
    assert not tried.seen["invariant_violated"]
    return tried.seen


def test_the_sums_hold_over_random_work_refills_and_kills():
    seen: Counter[str] = Counter()
    for seed in range(20):
        seen += run(seed)
    for what in ("admitted", "budget_exceeded", "kill"):
        assert seen[what] > 50, seen


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 400, 100))
def test_the_sums_hold_over_many_random_kills(first):
    for seed in range(first, first + 100):
        run(seed, kills=10)


AMOUNTS = st.integers(0, 50)
BALANCES_OF_TIME = st.builds(
    lambda left, held, spent, overdrawn, refill: Balance(
        left + held + spent - overdrawn, left, held, spent, overdrawn, refill, 7
    ),
    *(AMOUNTS, AMOUNTS, st.integers(50, 99), AMOUNTS),
    st.builds(Refill, st.integers(1, 9), st.integers(1, 20), st.integers(0, 90)),
)


@settings(max_examples=examples(2_000))
@given(BALANCES_OF_TIME, st.lists(st.integers(0, 200), max_size=4), st.integers(0, 200))
def test_a_refill_does_not_depend_on_when_the_balance_is_looked_at(balance, looks, then):
    """at(t1).at(t2)... = at(tn) for increasing times, and the sum holds at each."""
    often = balance
    for now_ns in sorted([*looks, then]):
        often = often.at(now_ns)
        assert often.is_balanced
    assert often == balance.at(max([*looks, then]))
    due_ns = often.wait_ns(5)
    if due_ns is not None and not often.has(5):
        assert often.at(due_ns).has(5), "the wait is sufficient"
        assert not often.at(due_ns - 1).has(5), "and tight"


def test_the_oracle_names_every_balance():
    kernel = Kernel(domain())
    assert len(Oracle().balances) == len(kernel.state[BALANCES])
