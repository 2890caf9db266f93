"""The domain `accounts`: budgets that agents, sessions and effects share.

The worst case of a piece of work is reserved before it begins, and settled after it. A reservation
counts in the account and in all accounts above it. The kernel refuses a reservation for which too
little is left as `budget_exceeded`, which is not remembered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from placet.domains.accounts import rules
from placet.domains.accounts.balances import Balance
from placet.domains.accounts.payloads import (
    ACCOUNTS,
    BALANCES,
    RESERVATIONS,
    OpenPayload,
    ReleaseReservationPayload,
    ReservePayload,
    SettlePayload,
)
from placet.domains.accounts.views import may_see
from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent

MANAGER: Final = "accounts.manager"
"""Id of the agent that opens accounts and resolves reservations, unless others are named."""

BROKER: Final = "session.recorder"
"""Id of the agent that reserves for others: it records the sessions of a world."""

_TAKEN: Final = "The owner of an account is refused a new name that a hidden account has."
_USED_UP: Final = "A refusal names the hidden parent account that has too little left."


class Accounts(Domain):
    """Accounts in integers of their smallest units, such as micro-dollars, tokens or calls.

    Args:
        accounts: Name -> the payload of `account.open` without its name, for accounts that a new
            world has, such as `{"team": {"give": {"micro_usd": 5_000_000}}}`; a parent comes
            before its children in the order of names, or is given here too.
        managers: Agents that open accounts, and settle or release any reservation.
        brokers: Agents that may reserve for other agents.
        accounts_max: Greatest number of accounts.
        reservations_max: Greatest number of open reservations of one account.

    Raises:
        ValueError: A bound is not a positive int, or an account is invalid.
    """

    name = "accounts"
    version = "1"
    collections = (ACCOUNTS, BALANCES, RESERVATIONS)
    hides = (ACCOUNTS, BALANCES, RESERVATIONS)

    def __init__(
        self,
        *,
        accounts: Mapping[str, Mapping[str, Json]] | None = None,
        managers: Sequence[str] = (MANAGER,),
        brokers: Sequence[str] = (BROKER,),
        accounts_max: int = 1_024,
        reservations_max: int = 1_024,
    ) -> None:
        bounds = (("accounts_max", accounts_max), ("reservations_max", reservations_max))
        for name, bound in bounds:
            if type(bound) is not int or bound < 1:
                raise ValueError(f"{name} must be an int >= 1, got {bound!r}")
        self._accounts = _checked({} if accounts is None else accounts)
        self._managers = tuple(managers)
        self._brokers = tuple(brokers)
        self._accounts_max = accounts_max
        self._reservations_max = reservations_max
        self.kinds = (
            Kind(
                "account.open",
                OpenPayload,
                self._open,
                summary="Open an account, or add amounts to an existing one.",
                discloses=_TAKEN,
            ),
            Kind(
                "account.reserve",
                ReservePayload,
                self._reserve,
                summary="Reserve the most that a piece of work may use.",
                discloses=_USED_UP,
            ),
            Kind("account.settle", SettlePayload, self._end, summary="Settle a reservation."),
            Kind(
                "account.release",
                ReleaseReservationPayload,
                self._end,
                summary="End a reservation of which nothing was used.",
            ),
        )

    def settings(self) -> Mapping[str, Json]:
        """Return the arguments that rebuild this domain."""
        return {
            "accounts": self._accounts,
            "managers": self._managers,
            "brokers": self._brokers,
            "accounts_max": self._accounts_max,
            "reservations_max": self._reservations_max,
        }

    def on_open(self, draft: Draft) -> None:
        """Open the accounts of the settings, parents before children."""
        for name in _parents_first(self._accounts):
            refused = rules.open_account(draft, "", {"account": name, **self._accounts[name]})
            if refused is not None:
                raise ValueError(refused.message)

    def on_cost(self, draft: Draft, intent: Intent, cost: float) -> RuleRefusal | None:
        """Charge the cost of an intent to the account with its agent's name, if there is one."""
        return rules.charge(draft, intent["agent_id"], cost)

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Keep the reservations of a removed agent held, and clear the owner of its accounts.

        The amount that its work has used is unknown. So only a manager, or the owner of an account
        that holds the reservation, may settle or release it; a later agent of the same name may
        not, and does not own the accounts.
        """
        for entity in list(draft.ids(RESERVATIONS)):
            owner, _, _ = entity.rpartition("/")
            if agent_id in {owner, draft.get(RESERVATIONS, entity, "agent")}:
                draft.put(RESERVATIONS, entity, "is_orphan", True)
        for account in list(draft.ids(ACCOUNTS)):
            if draft.get(ACCOUNTS, account, "owner") == agent_id:
                draft.put(ACCOUNTS, account, "owner", "")

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether an account is the agent's own or shown to it, or a reservation is."""
        return may_see(state, agent_id, ref, self._managers)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        """Check that left + held + spent = given + overdrawn in each changed balance."""
        for ref in changed:
            fields = None if ref.entity is None else state.entity(ref.collection, ref.entity)
            if (
                ref.collection == BALANCES
                and fields is not None
                and not Balance.of(fields).is_balanced
            ):
                yield refuse(
                    "unbalanced",
                    f"balance {ref.entity} must have left + held + spent = given + overdrawn, "
                    "and no negative amount; correct its amounts together",
                )

    def _open(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        agent, account, parent = intent["agent_id"], payload["account"], payload.get("parent", "")
        ruling = draft.get(ACCOUNTS, account, "owner", None)
        if agent not in self._managers and agent not in {
            ruling,
            draft.get(ACCOUNTS, parent, "owner", None) if ruling is None else None,
        }:
            message = f"{agent!r} may give to its own accounts and open others below them; ask " + (
                " or ".join(map(repr, self._managers)) or "the operator"
            )
            return refuse("not_manager", message, at="/account")
        if ruling is not None:
            return _give_more(draft, payload)
        if parent and not draft.exists(ACCOUNTS, parent):
            return rules.account_unknown(draft, agent, parent, "/parent")
        count = draft.state.count(ACCOUNTS)
        if count >= self._accounts_max:
            message = f"there are {count} accounts, which is all there may be"
            return refuse("accounts_full", message, accounts_max=self._accounts_max)
        return rules.open_account(draft, agent, payload)

    def _reserve(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        submitter = intent["agent_id"]
        agent = intent["payload"].get("agent", submitter)
        if agent != submitter and submitter not in self._brokers:
            message = f"{submitter!r} reserves for itself alone; leave out agent"
            return refuse("not_broker", message, at="/agent")
        return rules.reserve(draft, intent, agent=agent, most=self._reservations_max)

    def _end(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        return rules.end(draft, intent, self._managers)


def _give_more(draft: Draft, payload: Mapping[str, Json]) -> RuleRefusal | None:
    """Add a gift to an account that is open."""
    fixed = [name for name in ("parent", "agents", "readers") if name in payload]
    if fixed:
        message = f"account {payload['account']!r} is open, and keeps its {fixed[0]}; leave it out"
        return refuse("account_exists", message, at=f"/{fixed[0]}")
    return rules.give(draft, payload)


def _checked(accounts: Mapping[str, Mapping[str, Json]]) -> dict[str, dict[str, Json]]:
    """Return the accounts of the settings, validated like payloads.

    Raises:
        ValueError: One is invalid, or its parent is missing.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415  # with the first kind

    adapter = TypeAdapter(OpenPayload)
    checked: dict[str, dict[str, Json]] = {}
    for name, fields in accounts.items():
        whole = adapter.validate_python({"account": name, **fields})  # pydantic's is a ValueError
        checked[name] = {key: value for key, value in whole.items() if key != "account"}
        parent = whole.get("parent")
        if parent is not None and parent not in accounts:
            raise ValueError(f"the parent {parent!r} of account {name!r} is no account of them")
    _parents_first(checked)
    return checked


def _parents_first(accounts: Mapping[str, Mapping[str, Json]]) -> list[str]:
    """Return the names of accounts, each after its parent.

    Raises:
        ValueError: An account is above itself.
    """
    ordered: dict[str, None] = {}
    for name in sorted(accounts):
        chain = [name]
        while parent := accounts[chain[-1]].get("parent"):
            if parent in chain:
                raise ValueError(f"account {name!r} is above itself")
            chain.append(parent)
        ordered |= dict.fromkeys(reversed(chain))
    return list(ordered)
