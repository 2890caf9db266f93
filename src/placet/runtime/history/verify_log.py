"""Checks a log by deciding it again: the chain, the digests, and every decision in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from placet.actors.ports import EventLog
from placet.kernel.domain import Domain
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Maker, Unverified, Verifier
from placet.runtime.history.reader import Verification, verify
from placet.runtime.plugins import remake
from placet.schemas.codec import Json


@dataclass(frozen=True, slots=True)
class Redecision:
    """The result of verifying a log by re-execution.

    Attributes:
        verification: Whether it holds, and where it first does not.
        batches: How many were decided again.
        intents: How many intents they had.
        others: Number of registrations, ticks, settlements and similar records that were
            re-executed.
        undecided: Parts that were folded instead, with the reason.
        refused_by_host: Refusals that only the host's own rule can have made, which is not at hand.
    """

    verification: Verification
    batches: int
    intents: int
    others: int
    undecided: tuple[Unverified, ...]
    refused_by_host: int

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON: the verification, and the re-execution."""
        decided: dict[str, Json] = {
            "batches": self.batches,
            "intents": self.intents,
            "others": self.others,
            "undecided": [
                {"first_record": u.first_record, "last_record": u.last_record, "why": u.why}
                for u in self.undecided
            ],
            "refused_by_host": self.refused_by_host,
        }
        return {**self.verification.as_dict(), "decided_again": decided}


def redecide(
    log: EventLog,
    domains: Sequence[Domain] | Maker = remake,
    *,
    validator: EffectValidator | None = None,
) -> Redecision:
    """Check the chain of a log and its digests, and decide all of it again. O(log).

    Args:
        log: Which; it is only read, and may be written meanwhile.
        domains: The domains that decided the log. By default they are remade from the names and
            settings in it.
        validator: The host's own rule, where the log was made with one.

    Raises:
        StoreError: There is no log to check.
    """
    redecider = Verifier(domains, validator=validator)

    def taken_up(past: Replayer) -> Replayer:
        nonlocal redecider
        redecider = Verifier(domains, validator=validator, past=past)
        return redecider

    verification = verify(log, taken_up=taken_up)
    return Redecision(
        verification,
        redecider.batches,
        redecider.intents,
        redecider.hooks,
        tuple(redecider.undecided),
        redecider.refused_by_host,
    )
