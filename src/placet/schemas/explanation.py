"""Why one request was answered as it was: what each stage saw and said, from the log alone."""

from collections.abc import Mapping
from dataclasses import dataclass

from placet.schemas.codec import Json

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of the gate, as it was asked.

    Attributes:
        stage: Its name.
        said: `passed`, `refused`, `not asked`, or `passed on arrival` of a scheduled batch.
        saw: Compared values, one plain object for each agent, intent, bucket or executor.
        refusals: Refusals of the stage, as in a verdict.
    """

    stage: str
    said: str
    saw: tuple[Mapping[str, Json], ...] = ()
    refusals: tuple[Mapping[str, Json], ...] = ()

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return {
            "stage": self.stage,
            "said": self.said,
            "saw": [dict(fact) for fact in self.saw],
            "refusals": [dict(refusal) for refusal in self.refusals],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The account of one answer.

    Attributes:
        answer: `admitted`, `refused`, `scheduled`, the type of a record that is no batch's, or
            `unknown`, where the log holds no answer.
        agent_id: The requesting agent; `system` if there is none.
        req_id: The requested id; None if the record was not a request.
        record: Ordinal number of the record in the log.
        seq: Sequence number that the request, or the record, has.
        seq_before: Of the world when it was decided.
        sim_time: Simulated seconds.
        batch: `{batch_id, submitter, position, intents}`.
        stages: The seven, in order.
        changes: `{entity, what, fields: {name: {before, after}}, by}`.
        effects: `{key, kind, payload}` of each emitted effect.
        conflict: Who was first: `{winner, resource, batch_id, record, req_ids, priority}`.
        earlier: Answers to the same request before this one: `{record, seq, answer, codes}`.
        rules: What decided: domains and their versions.
        notes: Facts that the log does not hold, and where to find them.
    """

    answer: str
    agent_id: str
    req_id: str | None = None
    record: int | None = None
    seq: int | None = None
    seq_before: int | None = None
    sim_time: float | None = None
    batch: Mapping[str, Json] | None = None
    stages: tuple[StageReport, ...] = ()
    changes: tuple[Mapping[str, Json], ...] = ()
    effects: tuple[Mapping[str, Json], ...] = ()
    conflict: Mapping[str, Json] | None = None
    earlier: tuple[Mapping[str, Json], ...] = ()
    rules: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Return whether the log holds an answer."""
        return self.answer != UNKNOWN

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        fields: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "stages": [stage.as_dict() for stage in self.stages]}
