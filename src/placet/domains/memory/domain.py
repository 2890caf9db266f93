"""The domain `memory`: the last writer wins, and the seq of each write is visible.

A fact has no footprint: it is stored regardless of what changed since the agent's view.
"""

from collections.abc import Mapping
from typing import Final

from placet.domains.memory.payloads import (
    FACTS,
    KEYS,
    PRINCIPAL,
    PROJECT,
    Forget,
    Remember,
    owner_of,
)
from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, thaw, to_json
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import nearest

FACTS_MAX: Final = 64
"""Default of the number of facts that an owner may have."""

VALUE_BYTES_MAX: Final = 1_024
"""Default of the size of a fact's value, as JSON, in bytes."""

_SUGGESTIONS: Final = 3


class Memory(Domain):
    """Facts by key, shared by the project or private to an agent.

    Args:
        facts_max: Maximum number of facts of the project, and of each agent.
        value_bytes_max: Maximum size of a value in bytes, as JSON.

    Raises:
        ValueError: A bound is not a positive int.
    """

    name = "memory"
    version = "1"
    collections = (FACTS, KEYS)
    guide = (
        "Facts outlive a conversation. Remember what later turns need and the view does not show; "
        "scope 'project' is for everybody, 'principal' for yourself alone. A fact has the seq at "
        "which it was remembered: what changed after it may have made it untrue."
    )

    def __init__(
        self, *, facts_max: int = FACTS_MAX, value_bytes_max: int = VALUE_BYTES_MAX
    ) -> None:
        for name, bound in (("facts_max", facts_max), ("value_bytes_max", value_bytes_max)):
            if type(bound) is not int or bound < 1:
                raise ValueError(f"{name} must be an int >= 1, got {bound!r}")
        self._facts_max = facts_max
        self._value_bytes_max = value_bytes_max
        self.kinds = (
            Kind("memory.remember", Remember, self._remember, summary="Keep a fact by its key."),
            Kind("memory.forget", Forget, _forget, summary="Keep a fact no longer."),
        )

    def settings(self) -> Mapping[str, Json]:
        """Return the arguments that rebuild this domain."""
        return {"facts_max": self._facts_max, "value_bytes_max": self._value_bytes_max}

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Delete an agent's private facts with it.

        So that a later agent of this name does not read them.
        """
        owner = owner_of(PRINCIPAL, agent_id)
        for key in _keys(draft, owner):
            draft.delete(FACTS, f"{owner}/{key}")
        if draft.exists(KEYS, owner):
            draft.delete(KEYS, owner)

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether a fact is the project's or the agent's own.

        The lists of keys are hidden from all agents.

        Visibility follows from the name, so that a deleted fact stays hidden from other agents.
        """
        if ref.entity is None or ref.collection != FACTS:
            return False
        owner, _, _ = ref.entity.rpartition("/")
        return owner in {PROJECT, owner_of(PRINCIPAL, agent_id)}

    def _remember(self, draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload: Mapping[str, Json] = intent["payload"]
        key, value, scope = payload["key"], payload["value"], payload.get("scope", PROJECT)
        size = len(to_json(thaw(value)))
        if size > self._value_bytes_max:
            return refuse(
                "value_too_large",
                f"a value may have {self._value_bytes_max} bytes as JSON, this one has {size}; "
                "remember the gist of it",
                at="/value",
                bytes=size,
                bytes_max=self._value_bytes_max,
            )
        owner = owner_of(scope, intent["agent_id"])
        keys = _keys(draft, owner)
        if key in keys:
            draft.put(FACTS, f"{owner}/{key}", "value", value)
            draft.put(FACTS, f"{owner}/{key}", "seq", draft.seq)
            return None
        if len(keys) >= self._facts_max:
            return refuse(
                "memory_full",
                f"{_whose(scope)} has {len(keys)} facts, which is all it may; forget one first",
                at="/key",
                facts_max=self._facts_max,
            )
        fields = {"key": key, "value": value, "seq": draft.seq, "scope": scope}
        draft.create(FACTS, f"{owner}/{key}", fields)
        if not keys and not draft.exists(KEYS, owner):
            draft.create(KEYS, owner)
        draft.put(KEYS, owner, "keys", tuple(sorted((*keys, key))))
        return None


def _forget(draft: Draft, intent: Intent) -> RuleRefusal | None:
    payload: Mapping[str, Json] = intent["payload"]
    key, scope = payload["key"], payload.get("scope", PROJECT)
    owner = owner_of(scope, intent["agent_id"])
    keys = _keys(draft, owner)
    if key not in keys:
        return refuse(
            "key_unknown",
            f"{_whose(scope)} has no fact {key!r}; look at the facts again",
            at="/key",
            suggestions=nearest(key, keys, _SUGGESTIONS),
        )
    draft.delete(FACTS, f"{owner}/{key}")
    draft.put(KEYS, owner, "keys", tuple(other for other in keys if other != key))
    return None


def _keys(draft: Draft, owner: str) -> tuple[str, ...]:
    keys: tuple[str, ...] = draft.get(KEYS, owner, "keys", ())
    return keys


def _whose(scope: str) -> str:
    return "the project" if scope == PROJECT else "this agent"
