"""The report of a counterfactual replay."""

from dataclasses import dataclass, field

from placet.history.diff import BatchDecision
from placet.schemas.codec import Json


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """A batch that was decided in one way in the parent's log and in another way in the fork.

    Attributes:
        record: Ordinal number of the batch's record in the parent's log.
        seq: Sequence number of the parent's world before the batch.
        sim_time: Simulated time of the decision in the parent, seconds.
        was: Decision in the parent's log.
        now: Decision in the fork; None if the batch is not submitted there.
        why: Message of the first refusal, in the fork or else in the parent.
    """

    record: int
    seq: int
    sim_time: float
    was: BatchDecision
    now: BatchDecision | None
    why: str

    def as_dict(self) -> dict[str, Json]:
        """Return the entry as plain JSON."""
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
class CounterfactualReport:
    """The result of a counterfactual replay: a parent's later inputs, re-executed in a fork.

    Attributes:
        batches: Number of re-executed batches.
        same: Number of batches with the same outcome and the same codes.
        admitted_instead: Number of batches that are admitted in the fork and were refused.
        refused_instead: Number of batches that are refused in the fork and were admitted.
        other_differences: Number of batches that differ in another way: refused with other codes,
            or scheduled where they were admitted.
        other_changes: Number of batches that are admitted in both and change the state differently.
        not_proposed: Number of batches of dropped agents, which are left out.
        effects_answered: Number of effects that have the recorded outcome.
        effects_unanswered: Number of recorded outcomes of effects that the fork does not have.
        changed: The decisions that differ, in order, at most 10 000.
        stopped: Why the replay ended before the end of the log; empty if it did not.
        notes: Sentences on inputs that could not be repeated exactly.
        seq: Sequence number at the end of the fork.
        digest: State digest of the fork there, hexadecimal.
        parent_seq: Sequence number at the end of the parent's log.
        parent_digest: The parent's state digest there.
    """

    batches: int = 0
    same: int = 0
    admitted_instead: int = 0
    refused_instead: int = 0
    other_differences: int = 0
    other_changes: int = 0
    not_proposed: int = 0
    effects_answered: int = 0
    effects_unanswered: int = 0
    changed: list[ChangedDecision] = field(default_factory=list)
    stopped: str = ""
    notes: list[str] = field(default_factory=list)
    seq: int = 0
    digest: str = ""
    parent_seq: int = 0
    parent_digest: str = ""

    def as_dict(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "changed": [decision.as_dict() for decision in self.changed]}
