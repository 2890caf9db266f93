"""The accounts domain: budgets that agents, sessions and effects share, in integers."""

from placet.domains.accounts.domain import Accounts
from placet.domains.accounts.payloads import ACCOUNTS, BALANCES, KINDS, balance_id
from placet.domains.accounts.views import balance_of

__all__ = ["ACCOUNTS", "BALANCES", "KINDS", "Accounts", "balance_id", "balance_of"]
