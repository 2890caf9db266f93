"""The explanation of one answer: what each stage of the gate compared and decided.

`kernel/log/explain_record.py` builds it from the log; `placet explain` prints it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placet.schemas.codec import Json

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """The compared values and the result of one stage of the gate.

    Attributes:
        stage: Name of the stage.
        result: `passed`, `refused`, `not reached` after a refusal, and before the rules of a
            scheduled batch are due; `passed on arrival` for a scheduled batch that is due.
        compared: Compared values, one plain object for each agent, intent, quota or executor.
        refusals: Refusals of the stage, as in a verdict.
    """

    stage: str
    result: str
    compared: tuple[Mapping[str, Json], ...] = ()
    refusals: tuple[Mapping[str, Json], ...] = ()

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON."""
        return {
            "stage": self.stage,
            "result": self.result,
            "compared": [dict(values) for values in self.compared],
            "refusals": [dict(refusal) for refusal in self.refusals],
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation:
    """The explanation of the answer to one request, or of one record.

    Attributes:
        answer: `admitted`, `refused`, `scheduled`, the type of a record that holds no batch, or
            `unknown` if the log holds no answer.
        agent_id: The requesting agent; `system` if there is none.
        req_id: Id of the request; None if the record holds no batch.
        record: Ordinal number of the record in the log.
        seq: Sequence number of the request or the record.
        seq_before: Sequence number of the world before the decision.
        sim_time: Simulated time of the decision, seconds.
        batch: `{batch_id, submitter, position, intents}`.
        stages: Reports of the seven stages, in order.
        changes: `{entity, what, fields: {name: {before, after}}, by}`.
        effects: `{key, kind, payload}` of each emitted effect.
        conflict: The earlier claim on the resource: `{winner, resource, batch_id, record,
            req_ids, priority}`; None without a conflict.
        earlier: Earlier answers to the same request: `{record, seq, answer, codes}`.
        faults: `{where, error, place, traceback}` of each exception of a rule when the batch is run
            again, for the operator; no log has them.
        rules: The deciding domains and their versions.
        notes: Facts that the log does not hold, and where to find them; recorded names of no kind.
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
    faults: tuple[Mapping[str, Json], ...] = ()
    rules: str = ""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Explanation of {self._headline()}>"

    def __str__(self) -> str:
        """Return the answer, the stages with their refusals, and the changes, a line for each."""
        return "\n".join([self._headline(), *self._lines()])

    @property
    def is_known(self) -> bool:
        """Return whether the log holds an answer."""
        return self.answer != UNKNOWN

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON."""
        fields: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "stages": [stage.as_dict() for stage in self.stages]}

    def _headline(self) -> str:
        request = self.agent_id if self.req_id is None else f"{self.agent_id} {self.req_id}"
        codes = dict.fromkeys(r["code"] for stage in self.stages for r in stage.refusals)
        stage = next((s.stage for s in self.stages if s.result == "refused"), None)
        why = "" if stage is None else f" by {stage}: {', '.join(codes)}"
        at = "" if self.record is None else f" (record {self.record}, {self.sim_time} s)"
        return f"{request}: {self.answer}{why}{at}"

    def _lines(self) -> Iterator[str]:
        for stage in self.stages:
            yield f"  {stage.stage}: {stage.result}"
            yield from (f"    {r['code']}: {r['message']}" for r in stage.refusals)
        yield from (f"  {change['entity']}: {change['what']}" for change in self.changes)
        yield from (f"  effect {effect['key']}: {effect['kind']}" for effect in self.effects)
        yield from (f"  {one['where']}: {one['error']} ({one['place']})" for one in self.faults)
        yield from (f"  note: {note}" for note in self.notes)
