"""Dry-runs a plan and computes a digest of its changes and effects.

An approval request stores the digest, so that its plan is applied only if it still does the same.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from placet.agents.loop.recorder import SystemIntentFactory
from placet.agents.ports import WorldPort
from placet.agents.proposal.plan import Plan
from placet.schemas.codec import Json, canonical, thaw
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict

SEQ_CHANGED: Final = "session.seq_changed"
"""Refusal code of `session.guard`: the world is no longer at the seq that it names."""
CONFLICT_CODES: Final = frozenset({SEQ_CHANGED, "session.grant_over", "session.grant_unknown"})
"""Refusal codes that mean a concurrent change, of the world or of a grant."""
RETRIES: Final = 5
"""Largest number of tries of a preview or a submission that a concurrent change made void."""


async def preview_plan(
    world: WorldPort, recorder: SystemIntentFactory, intents: Sequence[Intent]
) -> tuple[Verdict, str]:
    """Dry-run a plan; return its verdict, and a digest of its changes and effects.

    The digest leaves out values that depend on the seq alone, because holding a plan and waiting
    for a person take seqs. They are found by a second dry run of the same state one seq later.
    """
    now = later = await world.submit(intents, dry_run=True)
    for _ in range(RETRIES):
        if not now.admitted:
            return now, ""
        seq = min(result.seq for result in now.results if result.seq is not None)
        guard = recorder.intent("session.guard", seq=seq)
        later = await world.submit([guard, *intents], dry_run=True)
        if SEQ_CHANGED not in later.codes:
            break
        now = await world.submit(intents, dry_run=True)
    return now, _digest_of_both(now, later if later.admitted else now)


def with_normalized_payloads(plan: Plan, previewed: Verdict) -> Plan:
    """Return a plan with the normalized payloads of its admitted preview, else the plan itself.

    Risk and policy judge the normalized payload, so that an alias of a field or an omitted default
    does not change their decision.
    """
    if not previewed.admitted:
        return plan
    actions = tuple(
        action.model_copy(update={"payload": thaw(result.normalized)})
        for action, result in zip(plan.actions, previewed.results, strict=True)
    )
    return plan.model_copy(update={"actions": actions})


def digest_of(value: Json) -> str:
    """Return a hexadecimal BLAKE2b digest of a plain value."""
    return blake2b(canonical(value), digest_size=16).hexdigest()


def _digest_of_both(now: Verdict, later: Verdict) -> str:
    """Return a digest of the parts that two previews of a plan at two seqs have in common."""
    if [change.collection for change in now.diff] != [change.collection for change in later.diff]:
        later = now
    changes = [
        [
            change.collection,
            change.field,
            change.op,
            change.old,
            change.entity if change.entity == other.entity else None,
            [change.new] if change.new == other.new else [],
        ]
        for change, other in zip(now.diff, later.diff, strict=True)
    ]
    pairs = zip(now.preview_effects, later.preview_effects, strict=True)
    effects = [
        [kind, [payload] if payload == other else []] for (kind, payload), (_, other) in pairs
    ]
    return digest_of([changes, effects])
