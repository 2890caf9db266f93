"""The interactions of an agent with an object or with another agent.

An interaction is a rule with a name. A world's own interactions are added to the five here, or
replace them. Before a rule runs, its target is checked to exist and to be in range. The five check
the target as it is when they run; an added interaction declares by `when_stale` whether it does.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from placet.domains.world.inventory import holder_of, inventory_of, let_go, position_of, take
from placet.domains.world.payloads import AGENTS, OBJECTS
from placet.domains.world.rules import distance, is_within
from placet.domains.world.settings import WorldSettings
from placet.kernel.plugin.domain import (
    WHEN_STALE,
    Reads,
    Rule,
    RuleRefusal,
    WhenStale,
    conflict,
    refuse,
)
from placet.kernel.state.draft import Draft
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.schemas.codec import Json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.json_value import format_value
from placet.schemas.name_suggestions import nearest

_LISTED_MAX: Final = 16
"""Carried objects that a refusal names."""

_USES_MAX: Final = 2**64 - 1
"""The largest int that a state may hold."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """An interaction that a world adds, or by which it replaces one of the five.

    Attributes:
        rule: The rule `(draft, intent) -> RuleRefusal | None`, called after the target exists and
            is in range.
        when_stale: `reject`: the intent is stale if its target changed after its `context_seq`;
            `revalidate`: the rule judges the target as it is at its turn.

    Raises:
        ValueError: The rule cannot be called, or `when_stale` has another value.
    """

    rule: Rule
    when_stale: WhenStale = "reject"

    def __post_init__(self) -> None:
        if not callable(self.rule):
            raise ValueError(
                f"it must be a rule (draft, intent) -> RuleRefusal | None, got {self.rule!r}"
            )
        if self.when_stale not in WHEN_STALE:
            listed = " or ".join(map(repr, WHEN_STALE))
            raise ValueError(f"its when_stale must be {listed}, got {self.when_stale!r}")


def footprint_of(own: Mapping[str, Interaction]) -> Reads | None:
    """Return the footprint of `Interact`; None where each depends on its agent alone.

    The rules of the five built-in interactions judge the target at their turn. So a change of the
    target makes none of them stale: a slow agent could never use an object that others use.

    Args:
        own: The world's own interactions.
    """
    rejected = _rejected(own)

    def reads_self_and_target(intent: Intent) -> tuple[Ref, ...]:
        agent_id, payload = intent["agent_id"], intent["payload"]
        if payload["interaction_type"] not in rejected:
            return (Ref(AGENTS, agent_id),)
        return (Ref(AGENTS, agent_id), *_named_by(payload))

    return reads_self_and_target if rejected else None


def revalidated_by(own: Mapping[str, Interaction]) -> Reads:
    """Return the function of the references that `Interact` checks again after a change.

    They are the positions of all agents and, unless the interaction is declared `reject`, the
    target. An intent does not name the carrier of an object, so the rule checks the range itself.
    """
    rejected = _rejected(own)

    def revalidated(intent: Intent) -> tuple[Ref, ...]:
        payload, bearers = intent["payload"], Ref(AGENTS)
        if payload["interaction_type"] in rejected:
            return (bearers,)
        return (bearers, *_named_by(payload))

    return revalidated


def _rejected(own: Mapping[str, Interaction]) -> frozenset[str]:
    return frozenset(name for name, one in own.items() if one.when_stale == "reject")


def _named_by(payload: Mapping[str, Json]) -> tuple[Ref, ...]:
    """Return the target that a payload names, and the object of a give."""
    target_id, object_id = payload["target_id"], _given_object(payload)
    refs = (Ref(AGENTS, target_id), Ref(OBJECTS, target_id))
    return refs if object_id is None else (*refs, Ref(OBJECTS, object_id))


def interact_rule(
    settings: WorldSettings,
    own: Mapping[str, Interaction],
    sight: VisibilityPolicy | None = None,
) -> Rule:
    """Build the rule that applies an intent of kind `Interact`.

    Args:
        settings: WorldSettings of the world.
        own: Interactions that the world adds, by name.
        sight: Visibility policy of the agent, which also limits its reach; None for everything.
    """
    rules = {**_built_in(settings), **{name: one.rule for name, one in own.items()}}

    def interact(draft: Draft, intent: Intent) -> RuleRefusal | None:
        name = intent["payload"]["interaction_type"]
        rule = rules.get(name)
        if rule is None:
            return _interaction_unknown(name, rules)
        if sight is not None and not _is_seen(draft, intent, sight):
            return _target_unknown(intent["payload"]["target_id"])
        reach = settings.interaction_range
        return _out_of_reach(draft, intent, reach, sight) or rule(draft, intent)

    return interact


def interaction_names(settings: WorldSettings, own: Mapping[str, Interaction]) -> tuple[str, ...]:
    """Return the names of a world's interactions, sorted."""
    return tuple(sorted({**_built_in(settings), **own}))


def disclosed_by(settings: WorldSettings, hidden_fields: Collection[str]) -> str:
    """Return the sentence on what `Interact` discloses of hidden fields; empty for nothing.

    Args:
        settings: Settings of the world.
        hidden_fields: Fields of other agents that a world hides.
    """
    disclosed = []
    if settings.interaction_range is not None and "position" in hidden_fields:
        disclosed.append("whether a target, whose position is hidden, is in range")
    if settings.inventory_max is not None and "inventory" in hidden_fields:
        disclosed.append("whether the receiver of a give, whose inventory is hidden, has room")
    return f"{' and '.join(disclosed).capitalize()}." if disclosed else ""


def _built_in(settings: WorldSettings) -> dict[str, Rule]:
    hands = _InventoryRules(settings.inventory_max)
    return {**_FREE, "pickup": hands.pickup, "give": hands.give}


def _interaction_unknown(name: str, rules: Mapping[str, Rule]) -> RuleRefusal:
    names = sorted(rules)
    near = nearest(name, names)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    return refuse(
        "interaction_unknown",
        f"this world has no interaction {name!r}; {hint}",
        at="/interaction_type",
        suggestions=near,
    )


def _is_seen(draft: Draft, intent: Intent, sight: VisibilityPolicy) -> bool:
    target_id = intent["payload"]["target_id"]
    collection = OBJECTS if draft.exists(OBJECTS, target_id) else AGENTS
    return sight.may_see(draft.state, intent["agent_id"], Ref(collection, target_id))


def _target_unknown(target_id: str) -> RuleRefusal:
    return refuse(
        "target_unknown",
        f"there is no object and no agent {target_id!r}; name one that is in the world",
        at="/target_id",
    )


def _out_of_reach(
    draft: Draft, intent: Intent, reach: float | None, sight: VisibilityPolicy | None
) -> RuleRefusal | None:
    target_id = intent["payload"]["target_id"]
    if not draft.exists(OBJECTS, target_id) and not draft.exists(AGENTS, target_id):
        return _target_unknown(target_id)
    if reach is None:
        return None
    here, there = position_of(draft, intent["agent_id"]), position_of(draft, target_id)
    if here is None or there is None or is_within(here, there, reach):
        return None
    if sight is not None and _is_position_hidden(draft, intent, sight):
        return refuse(
            "out_of_range",
            f"{target_id!r} is more than {reach:g} away, which is the reach; move nearer first",
            at="/target_id",
            range=reach,
        )
    away = distance(here, there)
    return refuse(
        "out_of_range",
        f"{target_id!r} is {away:g} away at {list(there)}, at most {reach:g} is in reach; "
        "move nearer first",
        at="/target_id",
        distance=away,
        range=reach,
        position=list(there),
    )


def _is_position_hidden(draft: Draft, intent: Intent, sight: VisibilityPolicy) -> bool:
    """Return whether the agent may not see the position of its target, or of its carrier."""
    target_id = intent["payload"]["target_id"]
    holder = holder_of(draft, target_id)
    ref = Ref(AGENTS, target_id if holder is None else holder)
    if holder is None and draft.exists(OBJECTS, target_id):
        ref = Ref(OBJECTS, target_id)
    return "position" in sight.hidden_fields(draft.state, intent["agent_id"], ref)


def examine(_draft: Draft, _intent: Intent) -> None:
    """Apply the interaction `examine`: change nothing; existence and range are checked before."""


def drop(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply the interaction `drop`: put a carried object down at the agent's position."""
    agent_id, object_id = intent["agent_id"], intent["payload"]["target_id"]
    refusal = _not_held(draft, agent_id, object_id, "/target_id")
    if refusal is None:
        let_go(draft, object_id, agent_id)
    return refusal


def use(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply the interaction `use` to an object that no other agent holds.

    Its number of uses and its last user are stored.
    """
    agent_id, object_id = intent["agent_id"], intent["payload"]["target_id"]
    refusal = _not_an_object(draft, object_id)
    if refusal is not None:
        return refusal
    holder = holder_of(draft, object_id)
    if holder is not None and holder != agent_id:
        return _held(object_id, holder, agent_id)
    uses = draft.get(OBJECTS, object_id, "uses", 0)
    if not isinstance(uses, int | float) or uses >= _USES_MAX:  # a world may have given its own
        return refuse(
            "target_unsuitable",
            f"the uses of {object_id!r} cannot be counted on from {format_value(uses)}",
            at="/target_id",
        )
    draft.put(OBJECTS, object_id, "uses", uses + 1)
    draft.put(OBJECTS, object_id, "used_by", agent_id)
    return None


_FREE: Final[Mapping[str, Rule]] = MappingProxyType({"examine": examine, "drop": drop, "use": use})
"""The interactions that no setting touches."""


class _InventoryRules:
    """The interactions that add to an agent's inventory, limited to `inventory_max` objects."""

    __slots__ = ("_inventory_max",)

    def __init__(self, inventory_max: int | None) -> None:
        self._inventory_max = inventory_max

    def pickup(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        """Take a free object. If several agents want it at once, the first in order gets it."""
        agent_id, object_id = intent["agent_id"], intent["payload"]["target_id"]
        refusal = _not_portable(draft, object_id)
        if refusal is not None:
            return refusal
        holder = holder_of(draft, object_id)
        if holder == agent_id:
            return _held(object_id, holder, agent_id)
        is_contended = draft.claim(f"{OBJECTS}/{object_id}") is not None
        if holder is not None:
            if is_contended:
                return conflict(f"{OBJECTS}/{object_id}", holder, at="/target_id")
            return _held(object_id, holder, agent_id)
        refusal = self._full(draft, agent_id, "/target_id")
        if refusal is None:
            take(draft, object_id, agent_id)
        return refusal

    def give(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        """Hand the object that `data` names to the agent that `target_id` names."""
        agent_id, payload = intent["agent_id"], intent["payload"]
        target_id, object_id = payload["target_id"], _given_object(payload)
        if not draft.exists(AGENTS, target_id) or target_id == agent_id:
            return refuse(
                "target_unsuitable",
                f"something is given to another agent, and {target_id!r} is not one; name the "
                "receiver in target_id and the object in data.object_id",
                at="/target_id",
            )
        if object_id is None:
            return refuse(
                "data_invalid",
                "give needs the object that is given: data = {'object_id': '...'}",
                at="/data/object_id",
            )
        refusal = _not_held(draft, agent_id, object_id, "/data/object_id")
        refusal = refusal or self._full(draft, target_id, "/target_id")
        if refusal is None:
            let_go(draft, object_id, agent_id)
            take(draft, object_id, target_id)
        return refusal

    def _full(self, draft: Draft, agent_id: str, at: str) -> RuleRefusal | None:
        limit = self._inventory_max
        if limit is None or len(inventory_of(draft, agent_id)) < limit:
            return None
        return refuse(
            "inventory_full",
            f"{agent_id!r} carries {limit} objects, which is all that an agent may; "
            "something must be dropped or given first",
            at=at,
            limit=limit,
        )


def _given_object(payload: Mapping[str, Json]) -> str | None:
    """Return the id of the object that a give hands over; None if its data names none."""
    if payload["interaction_type"] != "give":
        return None
    object_id = payload.get("data", {}).get("object_id")
    return object_id if isinstance(object_id, str) else None


def _not_an_object(draft: Draft, object_id: str) -> RuleRefusal | None:
    if draft.exists(OBJECTS, object_id):
        return None
    return refuse(
        "target_unsuitable", f"{object_id!r} is an agent; name an object", at="/target_id"
    )


def _not_portable(draft: Draft, object_id: str) -> RuleRefusal | None:
    refusal = _not_an_object(draft, object_id)
    if refusal is not None or draft.get(OBJECTS, object_id, "portable"):
        return refusal
    return refuse(
        "not_portable", f"{object_id!r} cannot be carried; use it where it is", at="/target_id"
    )


def _not_held(draft: Draft, agent_id: str, object_id: str, at: str) -> RuleRefusal | None:
    if holder_of(draft, object_id) == agent_id:
        return None
    carried = inventory_of(draft, agent_id)
    more = f" and {len(carried) - _LISTED_MAX} more" if len(carried) > _LISTED_MAX else ""
    return refuse(
        "not_held",
        f"{agent_id!r} does not hold {object_id!r}; it holds "
        f"{', '.join(carried[:_LISTED_MAX]) or 'nothing'}{more}",
        at=at,
    )


def _held(object_id: str, holder: str, agent_id: str) -> RuleRefusal:
    is_own = holder == agent_id
    reason = "you hold it already" if is_own else f"{holder!r} holds it; ask for it"
    return refuse(
        "held",
        f"{object_id!r} is not free: {reason}",
        at="/target_id",
        changed=() if is_own else (Ref(OBJECTS, object_id),),
        holder=holder,
    )
