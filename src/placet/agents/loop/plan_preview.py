"""Dry-runs a plan for an approval request, and reads its normalized payloads."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from placet.agents.loop.recorder import SystemIntentFactory
from placet.agents.ports import WorldPort
from placet.agents.proposal.plan import Plan
from placet.domains.session import PLAN_CHANGED
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict

SEQ_CHANGED: Final = "session.seq_changed"
"""Refusal code of `session.guard`: the world is no longer at the seq that it names."""
NOT_FORESEEN: Final = f"session.{PLAN_CHANGED}"
"""Refusal code of an approved plan that would not change what was shown."""
CONFLICT_CODES: Final = frozenset({SEQ_CHANGED, "session.grant_over", "session.grant_unknown"})
"""Refusal codes that mean a concurrent change, of the world or of a grant."""
RETRIES: Final = 5
"""Largest number of tries of a preview or a submission that a concurrent change made void."""


async def preview_plan(
    world: WorldPort, recorder: SystemIntentFactory, intents: Sequence[Intent], approval_id: str
) -> Verdict:
    """Dry-run a plan with the draws that it will have when its approval request is approved."""
    pin = recorder.intent("session.pin_draws", approval_id=approval_id)
    return await world.submit([pin, *intents], dry_run=True)


def with_normalized_payloads(plan: Plan, previewed: Verdict, ahead: int = 0) -> Plan:
    """Return a plan with the normalized payloads of its admitted preview, else the plan itself.

    Risk and policy judge the normalized payload, so that an alias of a field or an omitted default
    does not change their decision.

    Args:
        plan: The plan.
        previewed: Its preview.
        ahead: Number of the recorder's intents before those of the plan.
    """
    if not previewed.admitted:
        return plan
    actions = tuple(
        action.model_copy(update={"payload": thaw(result.normalized)})
        for action, result in zip(plan.actions, previewed.results[ahead:], strict=True)
    )
    return plan.model_copy(update={"actions": actions})


def digest_of(value: Json) -> str:
    """Return a hexadecimal BLAKE2b digest of a plain value."""
    return blake2b(canonical(value), digest_size=16).hexdigest()
