"""Verify a log by re-execution: check its chain and its digests, and every decision in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from placet.history.reader import IntegrityReport, check_integrity
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.log.replay import Replayer
from placet.kernel.log.verify import Maker, Unverified, Verifier
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import remake
from placet.schemas.codec import Json
from placet.stores.reading import Store, as_log


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a log by re-execution.

    Attributes:
        integrity: Whether chain, digests and re-executed decisions are valid, and the first invalid
            record; true also where nothing was re-executed, so ask `is_ok`.
        batches: Number of re-executed batches.
        intents: Number of intents in the re-executed batches.
        others: Number of registrations, ticks, settlements and similar records that were
            re-executed.
        unverified: Ranges of records that were applied without re-execution, with the reason.
        refused_by_host: Number of refusals that only the host's effect validator can have made,
            while it is not available.
    """

    integrity: IntegrityReport
    batches: int
    intents: int
    others: int
    unverified: tuple[Unverified, ...]
    refused_by_host: int

    @property
    def is_ok(self) -> bool | None:
        """Whether the log is valid and every decision in it was re-executed with its result.

        None if chain and digests are valid and some decisions were not re-executed: `unverified`
        and `refused_by_host` say which and why. `integrity.is_ok` is true then.
        """
        if not self.integrity.is_ok:
            return False
        return None if self.unverified or self.refused_by_host else True

    def __str__(self) -> str:
        """Return the result as a sentence."""
        if not self.integrity.is_ok:
            first = self.integrity.first_divergence or {}
            return f"not valid from record {first.get('record')} on: {first.get('why')}"
        done = f"{self.batches} batches of {self.intents} intents were re-executed"
        if self.is_ok:
            return f"valid: {done}"
        left = [
            f"the decisions of records {u.first_record} to {u.last_record} were not: {u.why}"
            for u in self.unverified
        ]
        if self.refused_by_host:
            left.append(f"{self.refused_by_host} refusals of the host's effect validator were not")
        return f"chain and digests are valid; {done}, and {'; '.join(left)}"

    def as_dict(self) -> dict[str, Json]:
        """Return the result as plain JSON.

        The entry `verified` has the counts of re-executed records.
        """
        verified: dict[str, Json] = {
            "batches": self.batches,
            "intents": self.intents,
            "others": self.others,
            "unverified": [
                {"first_record": u.first_record, "last_record": u.last_record, "why": u.why}
                for u in self.unverified
            ],
            "refused_by_host": self.refused_by_host,
        }
        return {**self.integrity.as_dict(), "verified": verified}


def verify_log(
    log: Store,
    domains: Sequence[Domain] | Maker = remake,
    *,
    validator: EffectValidator | None = None,
) -> Verification:
    """Check the chain and the digests of a log, and re-execute every decision in it. O(log).

    Args:
        log: The log, or its path or URL; it is only read, and may be written meanwhile.
        domains: The domains that decided the log. By default they are recreated from the names and
            settings in the log.
        validator: The host's effect validator, if the log was made with one.

    Raises:
        StoreError: There is no log to check.
    """
    log = as_log(log)
    verifier = Verifier(domains, validator=validator)

    def verifier_of(past: Replayer) -> Replayer:
        nonlocal verifier
        verifier = Verifier(domains, validator=validator, past=past)
        return verifier

    integrity = check_integrity(log, continue_with=verifier_of)
    return Verification(
        integrity,
        verifier.batches,
        verifier.intents,
        verifier.hooks,
        tuple(verifier.unverified),
        verifier.refused_by_host,
    )
