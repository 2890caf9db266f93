"""Stage 2: may this submitter propose this, as this agent?"""

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_intent
from placet.kernel.ledger.ledger import Agent
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.refusal import Refusal, RefusalCode


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Refuse agents that are unknown, suspended, not permitted, or of another submitter."""
    agents, submitter = context.ledger.agents, batch.submitter
    refusals: list[Refusal] | None = None
    for agent_id, kind, _ in batch.counts:
        agent = agents.get(agent_id)
        if (
            agent is not None
            and not agent.is_suspended
            and (submitter == agent_id or submitter in {OPERATOR, agent.owner})
            and (agent.permissions is None or kind in agent.permissions)
        ):
            continue
        code, message = _why(agent, agent_id, kind, submitter)
        refusals = refusals or []
        for index in positions_of(batch, agent_id, kind):
            refusals.append(refuse_intent(batch, index, code, message, at=_AT[code]))
    return refusals


_AT = {
    RefusalCode.AGENT_UNKNOWN: "/agent_id",
    RefusalCode.AGENT_SUSPENDED: "/agent_id",
    RefusalCode.AGENT_NOT_YOURS: "/agent_id",
    RefusalCode.PERMISSION_DENIED: "/kind",
}


def _why(agent: Agent | None, agent_id: str, kind: str, submitter: str) -> tuple[RefusalCode, str]:
    if agent is None:
        message = f"agent {agent_id!r} is not registered; register it before it proposes"
        return RefusalCode.AGENT_UNKNOWN, message
    if agent.is_suspended:
        message = f"agent {agent_id!r} is suspended; it may propose again once it is resumed"
        return RefusalCode.AGENT_SUSPENDED, message
    if submitter not in {OPERATOR, agent_id, agent.owner}:
        message = (
            f"submitter {submitter!r} may not speak for agent {agent_id!r}; "
            "submit through that agent's own handle"
        )
        return RefusalCode.AGENT_NOT_YOURS, message
    permitted = sorted(agent.permissions or ())
    message = f"agent {agent_id!r} may not propose {kind}; it may propose {permitted or 'nothing'}"
    return RefusalCode.PERMISSION_DENIED, message
