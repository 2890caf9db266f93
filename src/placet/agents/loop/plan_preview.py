"""Dry-runs a plan and fingerprints its effects.

So that an approval can be matched to what was shown.
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
"""The code by which the gate says that a seq is not what it was."""
CONFLICT_CODES: Final = frozenset({SEQ_CHANGED, "session.grant_over", "session.grant_unknown"})
"""The codes by which it says that somebody else was faster, at the world or at a grant."""
RETRIES: Final = 5
"""How often something is tried again because the world moved meanwhile."""


async def preview_plan(
    world: WorldPort, recorder: SystemIntentFactory, intents: Sequence[Intent]
) -> tuple[Verdict, str]:
    """Try a plan; the digest is of all that it would do, but what depends on the seq alone.

    What that is, a second try of the same state one seq later tells: to hold a plan takes seqs,
    and to wait for a person takes more.
    """
    now = later = await world.submit(intents, dry_run=True)
    for _ in range(RETRIES):
        if not now.admitted:
            return now, ""
        seq = min(one.seq for one in now.results if one.seq is not None)
        guard = recorder.intent("session.guard", seq=seq)
        later = await world.submit([guard, *intents], dry_run=True)
        if SEQ_CHANGED not in later.codes:
            break
        now = await world.submit(intents, dry_run=True)
    return now, _digest_of_both(now, later if later.admitted else now)


def with_normalized_payloads(plan: Plan, foreseen: Verdict) -> Plan:
    """Return a plan with its payloads as the rules take them, where it passed when it was tried.

    A plan with another name of a field, or without a default, means the same; the normalized
    payload is what is judged.
    """
    if not foreseen.admitted:
        return plan
    actions = tuple(
        one.model_copy(update={"payload": thaw(result.normalized)})
        for one, result in zip(plan.actions, foreseen.results, strict=True)
    )
    return plan.model_copy(update={"actions": actions})


def digest_of(value: Json) -> str:
    """Name a plain value by its content."""
    return blake2b(canonical(value), digest_size=16).hexdigest()


def _digest_of_both(now: Verdict, later: Verdict) -> str:
    """Return a digest of the parts that two previews of a plan at two seqs have in common."""
    if [one.collection for one in now.diff] != [one.collection for one in later.diff]:
        later = now
    changes = [
        [
            one.collection,
            one.field,
            one.op,
            one.old,
            one.entity if one.entity == other.entity else None,
            [one.new] if one.new == other.new else [],
        ]
        for one, other in zip(now.diff, later.diff, strict=True)
    ]
    pairs = zip(now.preview_effects, later.preview_effects, strict=True)
    effects = [
        [kind, [payload] if payload == other else []] for (kind, payload), (_, other) in pairs
    ]
    return digest_of([changes, effects])
