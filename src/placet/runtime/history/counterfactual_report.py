"""The report of a counterfactual replay."""

from dataclasses import dataclass, field

from placet.runtime.history.diff import BatchDecision
from placet.schemas.codec import Json


@dataclass(frozen=True, slots=True)
class Changed:
    """A batch that is decided otherwise than it was.

    Attributes:
        record: Ordinal number of its record in the parent's log.
        seq: Of the parent's world before it.
        sim_time: When, in simulated seconds.
        was: Verdict in the parent's log.
        now: Verdict in the fork; None if the batch is not submitted there.
        why: The first refusal in words, of the side that refuses.
    """

    record: int
    seq: int
    sim_time: float
    was: BatchDecision
    now: BatchDecision | None
    why: str

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return {
            "record": self.record,
            "seq": self.seq,
            "sim_time": self.sim_time,
            "agent_ids": list(self.was.agent_ids),
            "req_ids": list(self.was.req_ids),
            "was": str(self.was),
            "now": "not proposed" if self.now is None else str(self.now),
            "why": self.why,
        }


@dataclass(slots=True)
class WhatIf:
    """The results of a log's inputs in a fork.

    Attributes:
        batches: How many were decided again.
        same: How many of them with the same outcome and codes.
        admitted_instead: How many are admitted that were refused.
        refused_instead: How many are refused that were admitted.
        otherwise: How many differ in another way, such as in their codes.
        changed_otherwise: How many of the same outcome do something else to the state.
        not_proposed: Batches of dropped agents.
        effects_answered: How many effects have the recorded outcome.
        effects_unanswered: How many recorded outcomes are of effects that the fork does not have.
        changed: The differences, in order, as many as are told.
        stopped: Why the replay ended before the end of the log; empty if it did not.
        notes: What else is to be known.
        seq: Where the fork ends.
        digest: Its state digest there.
        parent_seq: Where the parent's log ends.
        parent_digest: The parent's state digest there.
    """

    batches: int = 0
    same: int = 0
    admitted_instead: int = 0
    refused_instead: int = 0
    otherwise: int = 0
    changed_otherwise: int = 0
    not_proposed: int = 0
    effects_answered: int = 0
    effects_unanswered: int = 0
    changed: list[Changed] = field(default_factory=list)
    stopped: str = ""
    notes: list[str] = field(default_factory=list)
    seq: int = 0
    digest: str = ""
    parent_seq: int = 0
    parent_digest: str = ""

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "changed": [one.as_dict() for one in self.changed]}
