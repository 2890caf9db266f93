"""Payloads, collections and bounds of the domain `accounts`."""

from typing import Annotated, Final, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

ACCOUNTS: Final = "accounts.accounts"
"""`owner` `parent` `agents` `readers` `reservations` (a count); the entity is the account."""

BALANCES: Final = "accounts.balances"
"""The amounts of a unit of an account (`balances.py`); the entity is named `ACCOUNT/UNIT`."""

RESERVATIONS: Final = "accounts.reservations"
"""`account` `unit` `amount` `levels` `agent`; the entity is named `BY/ID`."""

KINDS: Final = frozenset({"account.open", "account.reserve", "account.settle", "account.release"})
"""The kinds of the domain."""

COST_UNIT: Final = "micro_cost"
"""Unit in which `Kind.cost` is counted: millionths of it."""

AMOUNT_MAX: Final = 10**15
"""Greatest amount of one intent: 10^9 US dollars in micro-dollars; sums stay below 2^63."""

DEPTH_MAX: Final = 8
"""Greatest number of accounts in a chain of parents."""

_UNITS_MAX: Final = 8
_AGENTS_MAX: Final = 256
_NS: Final = 1e-9

Amount = Annotated[int, Field(ge=0, le=AMOUNT_MAX)]
Positive = Annotated[int, Field(ge=1, le=AMOUNT_MAX)]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Unit = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
ReservationId = Annotated[str, Field(pattern=r"^[^/\x00-\x1f\x7f-\x9f]{1,200}$")]
Agents = Annotated[list[Name], Field(max_length=_AGENTS_MAX)]
Seconds = Annotated[float, Field(ge=_NS, le=1e9)]


class RefillPayload(TypedDict):
    """A refill: an amount in every period of simulated time.

    Attributes:
        amount: Amount of each period.
        seconds: Length of a period, simulated seconds.
        most: Bound of the sum of `left` and `held`, up to which the balance is filled; without it
            the sum at the time of this intent.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    amount: Positive
    seconds: Seconds
    most: NotRequired[Amount]


class OpenPayload(TypedDict):
    """Payload of `account.open`: a new account, or a gift to an existing one.

    The gift and the amount left pay the debt first.

    Attributes:
        account: Name of the account.
        give: Unit -> amount, such as `{"micro_usd": 5_000_000}`.
        parent: Account above it, in whose balances its reservations count too.
        agents: Agents that may draw on it, and see it; without it every agent may.
        readers: Agents that see it without drawing on it.
        refill: Unit -> refill; of a unit in `give`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    account: Name
    give: Annotated[dict[Unit, Amount], Field(max_length=_UNITS_MAX)]
    parent: NotRequired[Name]
    agents: NotRequired[Agents]
    readers: NotRequired[Agents]
    refill: NotRequired[Annotated[dict[Unit, RefillPayload], Field(max_length=_UNITS_MAX)]]


class ReservePayload(TypedDict):
    """Payload of `account.reserve`: the most that a piece of work may use, before it begins.

    Attributes:
        account: Name of the account.
        id: Name of the reservation, which is new among those of its agent.
        unit: Unit of the amount.
        amount: The worst case.
        agent: Agent for which a broker reserves; without it the submitter.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    account: Name
    id: ReservationId
    unit: Unit
    amount: Positive
    agent: NotRequired[Name]


class SettlePayload(TypedDict):
    """Payload of `account.settle`: the use of a piece of work, by which its reservation ends.

    Attributes:
        id: Name of the reservation.
        used: Amount that was used.
        by: Agent that made it; without it the submitter.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    id: ReservationId
    used: Amount
    by: NotRequired[Name]


class ReleaseReservationPayload(TypedDict):
    """Payload of `account.release`: a reservation of which nothing was used ends.

    Attributes:
        id: Name of the reservation.
        by: Agent that made it; without it the submitter.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    id: ReservationId
    by: NotRequired[Name]


def balance_id(account: str, unit: str) -> str:
    """Return the name of the balance of a unit of an account."""
    return f"{account}/{unit}"


def reservation_id(by: str, name: str) -> str:
    """Return the name of the entity of a reservation of an agent."""
    return f"{by}/{name}"
