"""Visibility of accounts, balances and reservations, and a balance as it is at a time."""

from collections.abc import Collection, Mapping, Sequence

from placet.domains.accounts.balances import Balance
from placet.domains.accounts.payloads import ACCOUNTS, BALANCES, DEPTH_MAX, RESERVATIONS, balance_id
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.identity import Ref


def balance_of(state: State, account: str, unit: str, now_ns: int) -> Balance | None:
    """Return the balance of a unit of an account at a time; None if it does not count it."""
    fields = state.entity(BALANCES, balance_id(account, unit))
    return None if fields is None else Balance.of(fields).at(now_ns)


def levels_of(state: State, account: str) -> list[str]:
    """Return an account and the accounts above it, lowest first."""
    levels = [account]
    while parent := state.get(ACCOUNTS, levels[-1], "parent"):
        levels.append(parent)
        assert len(levels) <= DEPTH_MAX, "`account.open` bounds the depth"
    return levels


def may_draw(fields: Mapping[str, Json], agent_id: str) -> bool:
    """Return whether an agent may reserve on the account with these fields."""
    return fields["agents"] is None or agent_id in {*fields["agents"], fields["owner"]}


def sees_account(state: State, agent_id: str, account: str, officers: Collection[str] = ()) -> bool:
    """Return whether an agent may see an account and its balances."""
    fields = state.entity(ACCOUNTS, account)
    if fields is None:
        return False
    return may_draw(fields, agent_id) or agent_id in {*fields["readers"], *officers}


def may_decide(
    state: State, agent_id: str, by: str, fields: Mapping[str, Json], managers: Sequence[str]
) -> bool:
    """Return whether an agent may settle or release a reservation.

    That is the agent that made it, unless it was removed since; the owner of an account that holds
    it; and a manager.
    """
    if agent_id in managers or (agent_id == by and not fields["is_orphan"]):
        return True
    return any(state.get(ACCOUNTS, level, "owner") == agent_id for level in fields["levels"])


def may_see(state: State, agent_id: str, ref: Ref, managers: Sequence[str]) -> bool:
    """Return whether an agent may see an entity of the domain."""
    if ref.entity is None:
        return False
    if ref.collection == ACCOUNTS:
        return sees_account(state, agent_id, ref.entity, managers)
    owner, _, _ = ref.entity.rpartition("/")
    if ref.collection == BALANCES:
        return sees_account(state, agent_id, owner, managers)
    if ref.collection != RESERVATIONS:
        return True
    fields = state.entity(RESERVATIONS, ref.entity)
    if fields is None:
        return owner == agent_id
    is_for = fields["agent"] == agent_id and not fields["is_orphan"]
    return is_for or may_decide(state, agent_id, owner, fields, managers)
