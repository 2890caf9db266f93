"""The rules of the domain `accounts`, as functions of a draft."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final

from placet.domains.accounts.balances import Balance, Refill
from placet.domains.accounts.payloads import (
    ACCOUNTS,
    BALANCES,
    COST_UNIT,
    DEPTH_MAX,
    RESERVATIONS,
    balance_id,
    reservation_id,
)
from placet.domains.accounts.views import (
    balance_of,
    levels_of,
    may_decide,
    may_draw,
    sees_account,
)
from placet.kernel.plugin.domain import RuleRefusal, budget_exceeded, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet.schemas.name_suggestions import nearest
from placet.schemas.names import name_fault
from placet.schemas.refusal import seconds_until

_MILLION: Final = 1_000_000

_ACCOUNTS_PER_UNIT: Final = 30
"""Accounts that are listed for one unit of work."""

_BALANCE_WORK: Final = 10
"""Units of work to read and write one balance."""


def open_account(draft: Draft, owner: str, payload: Mapping[str, Json]) -> RuleRefusal | None:
    """Create an account and its balances. The caller checks that the owner may open it.

    An empty `owner` stands for the world: then only a manager may give to the account.
    """
    account, parent = payload["account"], payload.get("parent", "")
    if fault := name_fault(account):
        return refuse("account_invalid", f"the name of an account {fault}", at="/account")
    if parent and len(levels_of(draft.state, parent)) >= DEPTH_MAX:
        message = f"a chain of accounts has at most {DEPTH_MAX}; choose a higher parent"
        return refuse("too_deep", message, at="/parent")
    agents = payload.get("agents")
    fields = {
        "owner": owner,
        "parent": parent,
        "agents": None if agents is None else tuple(agents),
        "readers": tuple(payload.get("readers", ())),
        "reservations": 0,
    }
    draft.create(ACCOUNTS, account, fields)
    return give(draft, payload)


def give(draft: Draft, payload: Mapping[str, Json]) -> RuleRefusal | None:
    """Add gifts to the balances of an account, and set its refills."""
    account, refills = payload["account"], payload.get("refill", {})
    unknown = sorted(refills.keys() - payload["give"].keys())
    if unknown:
        message = f"the refill of {unknown[0]!r} has no amount in give; give 0 or more"
        return refuse("refill_unknown", message, at="/refill")
    for unit, amount in payload["give"].items():
        old = balance_of(draft.state, account, unit, draft.now_ns)
        new = (old or Balance(since_ns=draft.now_ns)).with_gift(amount)
        if unit in refills:
            refill = refills[unit]
            every_ns = max(1, round(refill["seconds"] * SECOND_NS))
            most = refill.get("most", new.left + new.held)
            new = new._replace(
                refill=Refill(refill["amount"], every_ns, most), since_ns=draft.now_ns
            )
        if old is None:
            draft.charge(_BALANCE_WORK)
            draft.create(BALANCES, balance_id(account, unit), new.fields())
        else:
            _write(draft, account, unit, new)
    return None


def reserve(draft: Draft, intent: Intent, *, agent: str, most: int) -> RuleRefusal | None:
    """Hold an amount of an account for an agent; at most `most` reservations may be open."""
    payload: Mapping[str, Json] = intent["payload"]
    account, unit, amount = payload["account"], payload["unit"], payload["amount"]
    fields = draft.entity(ACCOUNTS, account)
    if fields is None or not may_draw(fields, agent):
        return account_unknown(draft, agent, account, "/account")
    entity = reservation_id(intent["agent_id"], payload["id"])
    if draft.exists(RESERVATIONS, entity):
        message = f"there is a reservation {payload['id']!r} already; settle it, or choose another"
        return refuse("reservation_exists", message, at="/id")
    if fields["reservations"] >= most:
        message = f"account {account!r} has {most} open reservations, which is all it may"
        return refuse("reservations_full", message, at="/account", reservations_max=most)
    refused = hold(draft, agent, account, unit, amount)
    if isinstance(refused, RuleRefusal):
        return refused
    draft.put(ACCOUNTS, account, "reservations", fields["reservations"] + 1)
    draft.create(
        RESERVATIONS,
        entity,
        {
            "account": account,
            "unit": unit,
            "amount": amount,
            "levels": tuple(refused),
            "agent": agent,
            "is_orphan": False,
        },
    )
    return None


def hold(
    draft: Draft, agent: str, account: str, unit: str, amount: int
) -> Sequence[str] | RuleRefusal:
    """Hold an amount at each level of an account that has the unit; return these levels."""
    balances = {
        level: balance
        for level in levels_of(draft.state, account)
        if (balance := balance_of(draft.state, level, unit, draft.now_ns)) is not None
    }
    if not balances:
        return refuse("unit_unknown", f"account {account!r} does not count {unit!r}", at="/unit")
    for level, balance in balances.items():
        if not balance.has(amount):
            return _over_budget(draft, agent, level, unit, amount, balance)
    for level, balance in balances.items():
        _write(draft, level, unit, balance.reserved(amount))
    return list(balances)


def charge(draft: Draft, agent: str, cost: float) -> RuleRefusal | None:
    """Charge the cost of an intent to the account of its agent's name, and those above it.

    An agent without such an account, or whose account does not count `micro_cost`, is not charged.
    """
    amount = ceil(cost * _MILLION)
    if not draft.exists(ACCOUNTS, agent):
        return None
    held = hold(draft, agent, agent, COST_UNIT, amount)
    if isinstance(held, RuleRefusal):
        return held._replace(at="") if held.is_over_budget else None
    for level in held:
        _write(draft, level, COST_UNIT, _balance(draft, level, COST_UNIT).settled(amount, amount))
    return None


def end(draft: Draft, intent: Intent, managers: Sequence[str]) -> RuleRefusal | None:
    """Settle or release a reservation at every level that holds it."""
    payload: Mapping[str, Json] = intent["payload"]
    agent, by = intent["agent_id"], payload.get("by", intent["agent_id"])
    entity = reservation_id(by, payload["id"])
    fields = draft.entity(RESERVATIONS, entity)
    if fields is None or not may_decide(draft.state, agent, by, fields, managers):
        message = f"there is no reservation {payload['id']!r} of {by!r} that {agent!r} may end"
        return refuse("reservation_unknown", message, at="/id")
    account, unit, amount = fields["account"], fields["unit"], fields["amount"]
    for level in fields["levels"]:
        balance = _balance(draft, level, unit)
        used = payload.get("used")
        ended = balance.released(amount) if used is None else balance.settled(amount, used)
        _write(draft, level, unit, ended)
    draft.put(ACCOUNTS, account, "reservations", draft.get(ACCOUNTS, account, "reservations") - 1)
    draft.delete(RESERVATIONS, entity)
    return None


def account_unknown(draft: Draft, agent: str, account: str, at: str) -> RuleRefusal:
    """Return the refusal for an account that is missing, or that the agent may not draw on."""
    accounts = list(draft.ids(ACCOUNTS))
    draft.charge(len(accounts) // _ACCOUNTS_PER_UNIT)
    own = [name for name in accounts if may_draw(draft.entity(ACCOUNTS, name) or {}, agent)]
    return refuse(
        "account_unknown",
        f"there is no account {account!r} that {agent!r} may use; look at the view's accounts",
        at=at,
        suggestions=nearest(account, own, 3),
    )


def _balance(draft: Draft, account: str, unit: str) -> Balance:
    """Return the balance of a level that holds an amount of the unit."""
    balance = balance_of(draft.state, account, unit, draft.now_ns)
    assert balance is not None, "balances are never deleted"
    return balance


def _over_budget(
    draft: Draft, agent: str, level: str, unit: str, amount: int, balance: Balance
) -> RuleRefusal:
    """Return the refusal for a level that has too little; numbers only of a visible one."""
    if not sees_account(draft.state, agent, level):
        message = f"account {level!r} has too little {unit} for {amount}; ask for less, or later"
        return budget_exceeded(message, at="/amount", account=level, unit=unit, amount=amount)
    has = f"has {balance.left} {unit} left" + (
        f" and is overdrawn by {balance.overdrawn}" if balance.overdrawn else ""
    )
    due_ns = balance.wait_ns(amount)
    return budget_exceeded(
        f"account {level!r} {has}, {amount} are needed; ask for less, or give it more",
        at="/amount",
        retry_after=None if due_ns is None else seconds_until(due_ns, draft.now_ns),
        account=level,
        unit=unit,
        amount=amount,
        left=balance.left,
        overdrawn=balance.overdrawn,
    )


def _write(draft: Draft, account: str, unit: str, balance: Balance) -> None:
    """Write the fields of a balance that have changed."""
    draft.charge(_BALANCE_WORK)
    entity, new = balance_id(account, unit), balance.fields()
    for name, value in new.items():
        if draft.get(BALANCES, entity, name) != value:
            draft.put(BALANCES, entity, name, value)
