"""The balance of one unit of an account: integers, and the sum that every change keeps.

    left + held + spent = given + overdrawn

`held` is reserved and not settled. `overdrawn` is the debt of work that cost more than was reserved
for it: nothing is reserved while there is a debt. A refill and a gift pay the debt first.

A refill is a function of the balance and the time: `Balance.at(now)` adds the periods since it was
last written, and no record is made of them. `at(a).at(b)` equals `at(b)` for a <= b, so the sum
does not depend on the times of reads.
"""

from collections.abc import Mapping
from typing import NamedTuple

from placet.schemas.codec import Json


class Refill(NamedTuple):
    """The refill of a balance: an amount in every period.

    Attributes:
        amount: Amount of each period.
        every_ns: Length of a period, nanoseconds of simulated time.
        most: Bound of `left + held`, up to which a period fills the balance.
    """

    amount: int
    every_ns: int
    most: int


class Balance(NamedTuple):
    """The amounts of one unit of one account.

    Attributes:
        given: All that was given, refills included.
        left: Amount that may be reserved.
        held: Amount of the open reservations.
        spent: All that was used.
        overdrawn: Amount that was used beyond reservations, and is not paid yet.
        refill: The refill; None for none.
        since_ns: Time up to which the refill is in the amounts, nanoseconds.
    """

    given: int = 0
    left: int = 0
    held: int = 0
    spent: int = 0
    overdrawn: int = 0
    refill: Refill | None = None
    since_ns: int = 0

    @classmethod
    def of(cls, fields: Mapping[str, Json]) -> "Balance":
        """Return the balance of an entity of the collection `accounts.balances`."""
        refill = fields["refill"]
        return cls(**{**fields, "refill": None if refill is None else Refill(**refill)})

    def fields(self) -> dict[str, Json]:
        """Return the fields of the balance's entity."""
        refill = None if self.refill is None else self.refill._asdict()
        return {**self._asdict(), "refill": refill}

    @property
    def is_balanced(self) -> bool:
        """Whether the sum holds and no amount is negative."""
        given, left, held, spent, overdrawn, _, _ = self
        is_sum = left + held + spent == given + overdrawn
        return is_sum and min(given, left, held, spent, overdrawn) >= 0

    def at(self, now_ns: int) -> "Balance":
        """Return the balance as it is at a time, refilled; this one is not changed."""
        if self.refill is None or now_ns < self.since_ns:
            return self
        amount, every_ns, most = self.refill
        periods = (now_ns - self.since_ns) // every_ns
        paid = min(self.overdrawn, periods * amount)
        room = max(0, most - self.left - self.held)
        added = min(periods * amount - paid, room)
        return self._replace(
            given=self.given + paid + added,
            left=self.left + added,
            overdrawn=self.overdrawn - paid,
            since_ns=self.since_ns + periods * every_ns,
        )

    def has(self, amount: int) -> bool:
        """Return whether an amount may be reserved: it is left, and there is no debt."""
        return amount <= self.left and not self.overdrawn

    def wait_ns(self, amount: int) -> int | None:
        """Return the time from which the refill alone makes room for an amount; None for never.

        For a balance that `at` has refilled.
        """
        if self.refill is None or self.refill.amount == 0:
            return None
        missing = max(0, amount - self.left)
        if missing > max(0, self.refill.most - self.left - self.held):
            return None
        periods = -(-(self.overdrawn + missing) // self.refill.amount)
        return self.since_ns + periods * self.refill.every_ns

    def reserved(self, amount: int) -> "Balance":
        """Return the balance after a reservation."""
        return self._replace(left=self.left - amount, held=self.held + amount)

    def released(self, amount: int) -> "Balance":
        """Return the balance after the release of a reservation."""
        return self._replace(left=self.left + amount, held=self.held - amount)

    def settled(self, amount: int, used: int) -> "Balance":
        """Return the balance after work that used an amount, of which another was reserved.

        The unused part is left again; the part beyond the reservation is a debt.
        """
        return self._replace(
            left=self.left + max(0, amount - used),
            held=self.held - amount,
            spent=self.spent + used,
            overdrawn=self.overdrawn + max(0, used - amount),
        )

    def with_gift(self, amount: int) -> "Balance":
        """Return the balance after a gift; it and the amount left pay the debt."""
        left = self.left + amount
        paid = min(left, self.overdrawn)
        return self._replace(
            given=self.given + amount, left=left - paid, overdrawn=self.overdrawn - paid
        )
