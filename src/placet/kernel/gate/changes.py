"""The `changed` list of a refusal: the changes of other agents, as far as the agent may see."""

from collections.abc import Iterable

from placet.kernel.context import GateContext
from placet.schemas.codec import Json, thaw
from placet.schemas.identity import Ref


def foreign_changes(
    refs: Iterable[Ref], agent_id: str, context: GateContext
) -> tuple[dict[str, Json], ...]:
    """Describe the entities that a rule names as changed by another agent.

    Entities that the agent may not see are left out, and entities that its batch has rewritten.
    """
    described = []
    for ref in refs:
        stamp = context.state.stamp(*ref)
        if (
            stamp is not None
            and stamp.seq <= context.ledger.seq
            and stamp.changed_for(agent_id)
            and context.registry.may_see(context.state, agent_id, ref)
        ):
            described.append(describe_change(ref, agent_id, context))
    return tuple(described[: context.ledger.policy.limits.changes_listed_max])


def describe_change(ref: Ref, agent_id: str, context: GateContext) -> dict[str, Json]:
    """Describe a change by another agent, of an entity that the agent may see.

    Its author is given while it is known, and if the agent may know of it.
    """
    registry, state = context.registry, context.state
    stamp = state.stamp(*ref)
    assert stamp is not None, "only a stamped thing is listed as changed"
    now = registry.seen(state, agent_id, ref)
    is_known = stamp.by != agent_id and registry.may_know_agent(state, agent_id, stamp.by)
    return {
        "entity": name_of(ref),
        "seq": stamp.changed_for(agent_id),
        "by": stamp.by if is_known else None,
        "now": None if now is None else thaw(now),
    }


def name_of(ref: Ref) -> str:
    """Return an entity as `collection/entity`, a whole collection by its name."""
    return ref.collection if ref.entity is None else f"{ref.collection}/{ref.entity}"
