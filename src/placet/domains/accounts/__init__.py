"""The accounts domain: budgets that agents, sessions and effects share, in integers."""

from placet.domains.accounts.balances import Balance, Refill
from placet.domains.accounts.domain import BROKER, MANAGER, Accounts
from placet.domains.accounts.payloads import (
    ACCOUNTS,
    BALANCES,
    COST_UNIT,
    KINDS,
    RESERVATIONS,
    balance_id,
    reservation_id,
)
from placet.domains.accounts.views import balance_of, levels_of

__all__ = [
    "ACCOUNTS",
    "BALANCES",
    "BROKER",
    "COST_UNIT",
    "KINDS",
    "MANAGER",
    "RESERVATIONS",
    "Accounts",
    "Balance",
    "Refill",
    "balance_id",
    "balance_of",
    "levels_of",
    "reservation_id",
]
