"""The gate: seven stages over whole batches, run in this order.

    structure > agent > dedup > staleness > quota > backpressure > domain_rules

`structure` runs at admission, in the submitter's task, and builds the `CheckedBatch` that the
others read. A batch is refused at the first stage where any of its intents fails.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from placet.kernel.context import GateContext
from placet.kernel.gate import agent, backpressure, dedup, quota, staleness
from placet.schemas.batch import CheckedBatch
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

StageCheck: TypeAlias = Callable[[CheckedBatch, GateContext], list[Refusal] | Verdict | None]


def _check_recorded(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    assert batch.due_of is not None, "only a scheduled batch is read back"
    versions = context.ledger.scheduled[batch.due_of].versions
    return context.check_recorded(batch, versions)


ON_ARRIVAL: Final = (agent.check, dedup.check, staleness.check, quota.check, backpressure.check)
"""Stages 2 to 6, in order; stage 7 (`domain_rules`) runs when the batch is due."""

WHEN_DUE: Final[tuple[StageCheck, ...]] = (_check_recorded, agent.check, staleness.check)
"""The stages that a scheduled batch passes again before the domain's rules. The first upcasts and
validates it, for it was read back from its record and the domain may be newer."""
