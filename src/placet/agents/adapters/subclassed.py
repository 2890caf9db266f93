"""Seed 002's adapters: synchronous, so they are asked in a thread, under the turn's deadline."""

from typing import Any

from anyio import to_thread

from placet.agents.adapter import Context, Raw
from placet.agents.adapters.scripted import plan_of
from placet.agents.chat_intent import AgentAdapter, ChatIntent, ExecutionPlan
from placet.agents.plan import VERSION
from placet.schemas.codec import Json


class Subclassed:
    """Asks an `AgentAdapter`.

    Args:
        adapter: The integration.
    """

    is_priced = True

    def __init__(self, adapter: AgentAdapter) -> None:
        self._adapter = adapter

    async def propose(self, context: Context) -> Raw:
        """Ask in a worker thread; a thread that does not return is left behind at the deadline.

        Raises:
            Exception: Whatever the integration raises.
        """
        media = {"items": [one._asdict() for one in context.media]} if context.media else None
        answer = await to_thread.run_sync(
            self._adapter.message_to_intent_or_plan,
            context.message,
            [dict(turn) for turn in context.history],
            context.state or {},
            registry_of(context),
            media,
            abandon_on_cancel=True,
        )
        return Raw(plan=plan_of_answer(answer, context))


def registry_of(context: Context) -> dict[str, Any]:
    """Describe what may be proposed, in the seed's words."""
    schemas = context.catalogue.schemas()
    return {
        "actions": {
            kind.name: {
                "summary": kind.summary,
                "schema": schemas[kind.name],
                "risk": kind.risk,
                "cost": kind.cost,
            }
            for kind in context.catalogue
        },
        "components": {
            name: sorted({field for fields in rows.values() for field in fields})
            for name, rows in (context.state or {}).items()
        },
    }


def plan_of_answer(answer: object, context: Context) -> Json:
    """Make a plan of the seed's two answers. `confirmed` is read, and decides nothing."""
    if isinstance(answer, ExecutionPlan):
        asked = next((one for one in answer.actions if one.type != "action_call"), None)
        if asked is not None:
            return _question(asked, context)
        actions = [_action(one) for one in answer.actions]
        return {**plan_of(context, actions, goal=answer.goal), "notes": answer.notes}
    if isinstance(answer, ChatIntent):
        if answer.type == "clarification_request":
            return _question(answer, context)
        return plan_of(context, [_action(answer)])
    return {"version": VERSION, "goal": "", "answer": type(answer).__name__}


def _action(intent: ChatIntent) -> dict[str, Json]:
    return {"kind": intent.action_id or "", "payload": intent.inputs}


def _question(intent: ChatIntent, context: Context) -> Json:
    stop = {"code": "clarification_needed", "message": (intent.question or "")[:500]}
    return {**plan_of(context, []), "stop": stop}
