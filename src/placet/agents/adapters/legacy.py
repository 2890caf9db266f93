"""Seed 002's adapters: synchronous, so they are asked in a thread, under the turn's deadline."""

from typing import Any

from anyio import to_thread

from placet.agents.adapters.scripted import plan_of
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.legacy import AgentAdapter, ChatIntent, ExecutionPlan, action_of
from placet.agents.proposal.plan import VERSION
from placet.agents.proposal.repair_text import history_after, message_after
from placet.schemas.codec import Json


class Subclassed:
    """An adapter that calls an integration of the older interface `AgentAdapter`.

    Args:
        adapter: The integration.
    """

    is_priced = True

    def __init__(self, adapter: AgentAdapter) -> None:
        self._adapter = adapter

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the integration's answer to a message as a `PlannerOutput`.

        Its `message_to_intent_or_plan` is called in a worker thread. A thread that does not return
        before the deadline is abandoned. If it is asked again, the faults of its answers follow the
        message, and are in the history.

        Raises:
            Exception: Whatever the integration raises.
        """
        media = {"items": [item._asdict() for item in context.media]} if context.media else None
        answer = await to_thread.run_sync(
            self._adapter.message_to_intent_or_plan,
            message_after(context.message, context.repairs),
            history_after(context.message, context.history, context.repairs),
            context.state or {},
            registry_of(context),
            media,
            abandon_on_cancel=True,
        )
        ignored = {"confirmed": "ignored"} if confirms(answer) else None
        return PlannerOutput(plan=plan_of_answer(answer, context), response=ignored)


def registry_of(context: PlannerInput) -> dict[str, Any]:
    """Build the description of a context's kinds that `AgentAdapter` receives as `registry`."""
    schemas = context.catalogue.schemas()
    return {
        "actions": {
            kind.name: {
                "summary": kind.summary,
                "schema": schemas[kind.name],
                "risk": kind.risk,
                **({"cost": kind.cost} if context.catalogue.registry.charges_costs else {}),
            }
            for kind in context.catalogue
        },
        "components": {
            name: sorted({field for fields in rows.values() for field in fields})
            for name, rows in (context.state or {}).items()
        },
    }


def plan_of_answer(answer: object, context: PlannerInput) -> Json:
    """Convert a `ChatIntent` or an `ExecutionPlan` to an answer of an adapter.

    The field `confirmed` has no effect.
    """
    if isinstance(answer, ExecutionPlan):
        questions = [intent for intent in answer.actions if intent.type != "action_call"]
        actions = [action_of(intent) for intent in answer.actions if intent.type == "action_call"]
        plan = plan_of(context, [], goal=answer.goal)
        plan |= {"actions": actions, "notes": answer.notes}
        return {**plan, **_stop(questions[0])} if questions else plan
    if isinstance(answer, ChatIntent):
        if answer.type == "clarification_request":
            return {**plan_of(context, []), **_stop(answer)}
        return {**plan_of(context, []), "actions": [action_of(answer)]}
    return {"version": VERSION, "goal": "", "answer": type(answer).__name__}


def _stop(intent: ChatIntent) -> dict[str, Json]:
    message = (intent.question or "")[:500]
    return {"stop": {"code": "clarification_needed", "message": message}}


def confirms(answer: object) -> bool:
    """Return whether an answer claims to be confirmed; the claim is logged and has no effect."""
    parts = answer.actions if isinstance(answer, ExecutionPlan) else [answer]
    return any(isinstance(part, ChatIntent) and part.confirmed for part in parts)
