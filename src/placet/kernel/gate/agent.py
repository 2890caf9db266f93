"""Stage 2: may this submitter propose this, as this agent?"""

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import positions_of, refuse_intent
from placet.kernel.ledger.agent import Agent
from placet.schemas.batch import CheckedBatch
from placet.schemas.identity import OPERATOR
from placet.schemas.refusal import Refusal, RefusalCode


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
    """Return a refusal for each intent that its submitter or agent may not propose; else None.

    The agent may be foreign, unknown, suspended, or not permitted the kind.
    An agent is foreign if the submitter is neither the agent, its owner, nor the operator; whether
    a foreign agent exists, or is suspended, is not told.
    """
    agents, submitter = context.ledger.agents, batch.submitter
    refusals: list[Refusal] | None = None
    for agent_id, kind, _ in batch.counts:
        agent = agents.get(agent_id)
        owner = None if agent is None else agent.owner
        if submitter != agent_id and submitter not in {OPERATOR, owner}:
            code = RefusalCode.AGENT_NOT_YOURS
        elif agent is None:
            code = RefusalCode.AGENT_UNKNOWN
        elif agent.is_suspended:
            code = RefusalCode.AGENT_SUSPENDED
        elif agent.permissions is not None and kind not in agent.permissions:
            code = RefusalCode.PERMISSION_DENIED
        else:
            continue
        message = _message(code, agent, agent_id, kind, submitter)
        at = "/kind" if code is RefusalCode.PERMISSION_DENIED else "/agent_id"
        refusals = refusals or []
        for index in positions_of(batch, agent_id, kind):
            refusals.append(refuse_intent(batch, index, code, message, at=at))
    return refusals


def _message(
    code: RefusalCode, agent: Agent | None, agent_id: str, kind: str, submitter: str
) -> str:
    if code is RefusalCode.AGENT_NOT_YOURS:
        return (
            f"submitter {submitter!r} may not speak for agent {agent_id!r}; "
            "submit through that agent's own handle"
        )
    if agent is None:
        return f"agent {agent_id!r} is not registered; register it before it proposes"
    if code is RefusalCode.AGENT_SUSPENDED:
        return f"agent {agent_id!r} is suspended; it may propose again once it is resumed"
    permitted = sorted(agent.permissions or ())
    return f"agent {agent_id!r} may not propose {kind}; it may propose {permitted or 'nothing'}"
