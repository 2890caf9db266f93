"""The conditions of intents, in stage 4: compared with the visible state before the batch.

An own change of an earlier batch counts, that of an earlier intent of the same batch does not. The
conditions of a scheduled batch are judged when it is due.
"""

from placet.kernel.context import GateContext
from placet.kernel.gate.intent_refusals import refuse_intent
from placet.kernel.plugin.boundary import plugin_boundary
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, thaw
from placet.schemas.condition import ABSENT, Condition, holds, path_text, value_at
from placet.schemas.identity import Ref
from placet.schemas.json_value import format_value
from placet.schemas.refusal import Refusal, RefusalCode


def check(batch: CheckedBatch, context: GateContext) -> list[Refusal]:
    """Return a refusal for each intent with a condition that does not hold; it names the first.

    They are at most `refusals_listed_max`, those of the first intents.

    Raises:
        PluginError: A domain's `may_see` or `hidden_fields` raised.
    """
    refusals: list[Refusal] = []
    with plugin_boundary() as boundary:
        for index, conditions in enumerate(batch.conditions or ()):
            agent_id = batch.intents[index]["agent_id"]
            boundary.where, boundary.index = "visibility of a condition", index
            for place, condition in enumerate(conditions or ()):
                found = found_by(condition, agent_id, context.registry, context.state)
                if not holds(found, condition["op"], condition.get("value")):
                    refusals.append(_failed(batch, index, place, condition, found))
                    break
            if len(refusals) == context.ledger.policy.limits.refusals_listed_max:
                break
    return refusals


def found_by(condition: Condition, agent_id: str, registry: Registry, state: State) -> object:
    """Return the value at the path of a condition that its agent may see; `ABSENT` for none."""
    collection, entity, *steps = condition["path"]
    return value_at(registry.seen(state, agent_id, Ref(collection, entity)), steps)


def text_of(condition: Condition) -> str:
    """Return a condition as text, such as `world.objects/lamp/uses == 3`."""
    path, op = path_text(condition["path"]), condition["op"]
    return f"{path} {op} {format_value(condition['value'])}" if "value" in condition else (
        f"{path} {op}"
    )  # fmt: skip


def _failed(
    batch: CheckedBatch, index: int, place: int, condition: Condition, found: object
) -> Refusal:
    shown: Json = None if found is ABSENT else thaw(found)
    return refuse_intent(
        batch,
        index,
        RefusalCode.CONDITION_FAILED,
        f"expected {text_of(condition)}, found "
        f"{'nothing' if found is ABSENT else format_value(shown)}; "
        "refresh the view and propose again",
        at=f"/expect/{place}",
        context_seq=batch.contexts[index],
        path=list(condition["path"]),
        found=shown,
    )
