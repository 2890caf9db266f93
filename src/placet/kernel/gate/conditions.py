"""Checks the conditions of intents, in stage 4, against the visible state before the batch.

This state has the changes of earlier batches, also of the same agent, and not those of earlier
intents of the same batch. The conditions of a scheduled batch are checked when it is due.
"""

from collections.abc import Mapping
from typing import Final

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

_FOUND_SIZE_MAX: Final = 4096


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
    is_shown = found is not ABSENT and _is_short(found)
    shown: Json = thaw(found) if is_shown else None
    text = "nothing" if found is ABSENT else "a value that is too long to be shown"
    return refuse_intent(
        batch,
        index,
        RefusalCode.CONDITION_FAILED,
        f"expected {text_of(condition)}, found {format_value(shown) if is_shown else text}; "
        "refresh the view and propose again",
        at=f"/expect/{place}",
        context_seq=batch.contexts[index],
        path=list(condition["path"]),
        found=shown,
    )


def _is_short(value: Json) -> bool:
    """Return whether a value has at most 4096 characters and values. O(that bound)."""
    left, waiting = _FOUND_SIZE_MAX, [value]
    while waiting and left >= 0:
        each = waiting.pop()
        left -= len(each) if isinstance(each, str | Mapping | list | tuple) else 1
        if left >= 0 and isinstance(each, Mapping):
            left -= sum(map(len, each))
            waiting += each.values()
        elif left >= 0 and isinstance(each, list | tuple):
            waiting += each
    return left >= 0
