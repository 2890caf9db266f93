"""The gate: seven stages over whole batches, asked in this order.

    structure > agent > dedup > staleness > quota > backpressure > domain_rules

`structure` runs at the door, in the submitter's turn, and makes the `CheckedBatch` that the others
read. A batch is refused at the first stage where any of its intents fails.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from placet.kernel.context import GateContext
from placet.kernel.gate import agent, backpressure, dedup, quota, staleness
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

StageCheck: TypeAlias = Callable[[CheckedBatch, GateContext], list[Refusal] | Verdict | None]


def _structure_again(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    assert batch.due_of is not None, "only a scheduled batch is read back"
    versions = context.ledger.scheduled[batch.due_of].versions
    return context.structure.check_recorded(batch, versions)


ON_ARRIVAL: Final[tuple[StageCheck, ...]] = (
    agent.check,
    dedup.check,
    staleness.check,
    quota.check,
    backpressure.check,
)
"""Stages 2 to 6; the domain's rules, stage 7, follow once the batch is due."""

WHEN_DUE: Final[tuple[StageCheck, ...]] = (_structure_again, agent.check, staleness.check)
"""What a scheduled batch passes again before the domain's rules. The first reads it back from its
record: the log may be older than the domain."""
