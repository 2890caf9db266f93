"""Explain a row of a column batch: the values that each stage compared for one member.

A column batch is not decided again for it: the record has the code of the row, and state and ledger
of the replay have the values that led to it. `explain_stages.py` describes them, as those of an
ordinary intent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from placet.kernel.arrays.row_codes import (
    CONFLICT,
    DENIED,
    FUTURE,
    OK,
    OWNER,
    PAYLOAD,
    QUOTA,
    STALE,
    SUSPENDED,
    TOO_FAR,
    refusal_of,
)
from placet.kernel.arrays.values import json_of
from placet.kernel.columns.decide import quotas_of
from placet.kernel.columns.recorded import RecordedColumns, sizes_of
from placet.kernel.gate import GATE
from placet.kernel.log.explain_stages import compared_agent, compared_charge, compared_kind
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import Kind
from placet.kernel.plugin.rows import RowCall, Rows64
from placet.kernel.plugin.rules_version import rules_in
from placet.schemas.codec import Json, thaw
from placet.schemas.config import ALL_KINDS
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.column_records import Columns
from placet.schemas.refusal import Stage

if TYPE_CHECKING:
    from placet.kernel.ledger.members import Members

_BEFORE_WORLD_QUOTA: Final = (PAYLOAD, OWNER, DENIED, SUSPENDED, FUTURE, TOO_FAR, STALE, QUOTA)


def explain_row(past: Verifier, record: Columns, row: int) -> Explanation:
    """Return the explanation of one row of the next record of a replay, a column batch.

    Args:
        past: A replay of all records before it; it is not changed.
        record: The next record of the log.
        row: Number of the row in the batch.
    """
    found = _Row(past, record, row)
    is_admitted = found.code == OK
    return Explanation(
        answer="admitted" if is_admitted else "refused",
        agent_id=found.name,
        req_id=record.req_id,
        record=past.journal.count,
        seq=record.seq if is_admitted else None,
        seq_before=past.ledger.seq,
        sim_time=record.now_ns / SECOND_NS,
        batch={
            "batch_id": f"b{record.number}",
            "submitter": record.submitter,
            "position": 0,
            "row": row,
            "rows": len(found.numbers),
            "group_seq": record.group_seq,
            "tick": record.tick,
            "group": record.group,
            "intents": [found.intent()],
        },
        stages=tuple(_stages(found)),
        changes=tuple(found.changes()) if is_admitted else (),
        rules=str(rules_in(past.known_header)),
        notes=() if past.registry is not None else (f"its rule is not known: {past.why_not}",),
    )


class _Row:
    """A row of a column batch, at the state and the ledger before it.

    Attributes:
        numbers: Number of the member of each row.
        codes: Code of each row.
        number: Number of the row's member.
        name: Its name.
        code: Code of the row.
    """

    def __init__(self, past: Verifier, record: Columns, row: int) -> None:
        self.past, self.record, self.row = past, record, row
        self.members: Members = past.ledger.populations[record.population]
        self.columns = RecordedColumns(record, self.members.count)
        self.numbers, codes = self.columns.numbers, self.columns.codes
        self.codes = np.zeros(len(self.numbers), np.uint8) if codes is None else codes
        self.number, self.code = int(self.numbers[row]), int(self.codes[row])
        self.name = f"{record.population}:{self.number}"

    @property
    def kind(self) -> Kind | None:
        """The kind of the batch; None if its domain is not available."""
        registry = self.past.registry
        return None if registry is None else registry.kinds.get(self.record.kind)

    @property
    def context_seq(self) -> int:
        """`context_seq` of the row."""
        contexts = self.columns.contexts
        return contexts if isinstance(contexts, int) else int(contexts[self.row])

    def intent(self) -> dict[str, Json]:
        """Return the row as an intent."""
        payload = {
            name: thaw(json_of(values[self.row])) for name, values in self.columns.payload.items()
        }
        return {
            "agent_id": self.name,
            "req_id": self.record.req_id,
            "kind": self.record.kind,
            "payload": payload,
            "context_seq": self.context_seq,
        }

    def refusal(self) -> dict[str, Json]:
        """Return the refusal of the row."""
        stage, name, message = refusal_of(self.record.reasons, self.code)
        refusal: dict[str, Json] = {"index": 0, "stage": stage.value, "code": name}
        if self.code == CONFLICT:
            winner = f"{self.record.population}:{self.columns.winners[self.row]}"
            message += f", by {winner}"
            refusal["details"] = {"winner": winner, "resource": "a row that it claimed"}
        return {**refusal, "message": message}

    def changes(self) -> Iterator[dict[str, Json]]:
        """Yield the changed entities, with their fields before and after the whole batch."""
        place = int((self.codes[: self.row] == OK).sum())
        calls = [
            (call, self.columns.targets(call.at))
            for call in self.columns.calls(sizes_of(self.past.state.tables))
        ]
        found: dict[tuple[str, int], dict[str, Json]] = {}
        for call, targets in calls:
            target = int(targets[place])
            if target >= 0:
                fields = found.setdefault((call.table, target), {})
                fields[call.field] = self._before_and_after(call, target, calls)
        for (name, target), fields in found.items():
            yield {
                "entity": f"{name}/{self.past.state.tables[name].stem}:{target}",
                "what": "changed",
                "fields": fields,
                "seq": self.record.seq,
                "by": self.name,
            }

    def _before_and_after(
        self, of: RowCall, target: int, calls: Sequence[tuple[RowCall, Rows64]]
    ) -> dict[str, Json]:
        """Return the value of a field before and after the changes of all rows."""
        column = self.past.state.tables[of.table].columns[of.field]
        before = after = column[target : target + 1]  # an array wraps round, a scalar warns
        for call, targets in calls:
            values = call.values[targets == target]
            if (call.table, call.field) == (of.table, of.field) and len(values):
                # In the dtype of the field, as the batch adds: i8 and u8 together are floats.
                total = values.astype(column.dtype).sum(axis=0, dtype=column.dtype)
                after = after + total if call.op == "add" else values[-1:]
        return {
            "before": thaw(json_of(before[0])),
            "after": thaw(json_of(after.astype(column.dtype)[0])),
        }


def _stages(row: _Row) -> Iterator[StageReport]:
    refusal = row.refusal() if row.code != OK else None
    is_reached = True
    for stage in (each.stage for each in GATE):
        if not is_reached:
            yield StageReport(stage=stage.value, result="not reached")
            continue
        compared = tuple(_COMPARED[stage](row))
        if refusal is not None and refusal["stage"] == stage.value:
            is_reached = False
            yield StageReport(
                stage=stage.value, result="refused", compared=compared, refusals=(refusal,)
            )
        else:
            yield StageReport(stage=stage.value, result="passed", compared=compared)


def _structure(row: _Row) -> Iterator[Mapping[str, Json]]:
    limits, record = row.past.ledger.policy.limits, row.record
    yield {
        "intents": len(row.numbers),
        "intents_max": limits.column_rows_max,
        "bytes": sum(len(data) for *_, data in record.payload),
        "bytes_max": limits.column_bytes_max,
    }
    if row.kind is None:
        return
    for name, value in row.intent()["payload"].items():
        low, high = row.kind.fields[name].limits
        yield {"field": name, "value": value, "low": low, "high": high}


def _agent(row: _Row) -> Iterator[Mapping[str, Json]]:
    submitter = row.record.submitter
    yield {
        "agent_id": row.name,
        "registered": True,
        "submitter": submitter,
        "kinds": [row.record.kind],
        **compared_agent(row.past.ledger.agents[row.name], submitter),
    }


def _dedup(row: _Row) -> Iterator[Mapping[str, Json]]:
    yield {
        "population": row.record.population,
        "req_id": row.record.req_id,
        "remembered": len(row.members.remembered),
        "remembered_max": row.past.ledger.policy.limits.column_batches_kept,
    }


def _staleness(row: _Row) -> Iterator[Mapping[str, Json]]:
    past, kind = row.past, row.kind
    reads: list[dict[str, Json]] | None = None if kind is None else []
    if kind is not None and kind.reads_self is not None and reads is not None:
        stamp = past.state.tables[kind.reads_self].entities[row.name]
        changed = stamp.changed_for(row.name)
        reads.append(
            {
                "entity": f"{kind.reads_self}/{row.name}",
                "changed": changed,
                "by": stamp.by if stamp.by not in {"", row.name} else None,
                "is_stale": changed > row.context_seq,
            }
        )
    yield {
        "index": row.row,
        "context_seq": row.context_seq,
        "seq": past.ledger.seq,
        "threshold": past.ledger.policy.staleness_threshold,
        "valid_until": None,
        "reads": reads,
    }


def _quota(row: _Row) -> Iterator[Mapping[str, Json]]:
    ledger, now_ns = row.past.ledger, row.record.now_ns
    for bucket, quota in quotas_of(ledger, row.members, row.record.kind):
        tats = row.members.tats.get(bucket)
        tat_ns = 0 if tats is None else int(tats[row.number])
        is_of_all = bucket.endswith(ALL_KINDS)
        kind = None if is_of_all else row.record.kind
        yield compared_charge(row.name, kind, quota, 1, quota.charged(tat_ns, 1, now_ns) - now_ns)
    world = ledger.policy.world_quota
    if world is not None:
        reached = int((~np.isin(row.codes, _BEFORE_WORLD_QUOTA)).sum())
        after_ns = world.charged(ledger.world_tat, reached, now_ns) - now_ns
        yield compared_charge(None, None, world, reached, after_ns)


def _backpressure(_: _Row) -> Iterator[Mapping[str, Json]]:
    return iter(())


def _domain(row: _Row) -> Iterator[Mapping[str, Json]]:
    record = row.record
    yield compared_kind(row.past.registry, row.row, record.kind, record.version)


_COMPARED: Final = {
    Stage.STRUCTURE: _structure,
    Stage.AGENT: _agent,
    Stage.DEDUP: _dedup,
    Stage.STALENESS: _staleness,
    Stage.QUOTA: _quota,
    Stage.BACKPRESSURE: _backpressure,
    Stage.DOMAIN: _domain,
}

assert list(_COMPARED) == [row.stage for row in GATE], "each stage of the gate is explained"
