"""The parameters of a design and their locks; the only functions that write them.

No agent and no kind of intent writes a locked parameter: `write` checks the lock itself. A lock
ends when its owner or an operator removes it, or when it expires.
"""

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.refusal import seconds_until
from placet_design.payloads import LOCKS, OPERATOR_ROLE, PARAMETERS, ROLES


def value_of(draft: Draft, path: str) -> Json:
    """Return the value of a parameter; None if it is unset."""
    return draft.get(PARAMETERS, path, "value")


def lock_of(tree: State | Draft, path: str, now_ns: int) -> dict[str, Json] | None:
    """Return the lock of a parameter at a time; None if it is free."""
    lock: dict[str, Json] | None = tree.get(LOCKS, path, "lock")
    if lock is None or (lock["until_ns"] is not None and lock["until_ns"] <= now_ns):
        return None
    return lock


def locked(draft: Draft, path: str) -> RuleRefusal | None:
    """Return the refusal of a write to a parameter if it is locked; else None."""
    lock = lock_of(draft, path, draft.now_ns)
    if lock is None:
        return None
    until_ns = lock["until_ns"]
    left_s = None if until_ns is None else seconds_until(until_ns, draft.now_ns)
    why = f" ({lock['reason']})" if lock["reason"] else ""
    return refuse(
        "locked",
        f"{path} is locked by {lock['owner']!r}{why}; it must be unlocked before it can change",
        at="/path",
        retry_after=left_s,
        path=path,
        owner=lock["owner"],
    )


def replace(draft: Draft, path: str, value: float) -> bool:
    """Write a parameter's value, and return whether it was written.

    It is not written if the parameter is locked or has this value already.

    The fast path of nearly every SET: every path has both rows from the start, so they are read
    directly from the tree. Two calls of `draft.get` are 3 % of a plan.
    """
    collections = draft.state.collections
    if (
        collections[LOCKS].entities[path].fields["lock"] is not None
        or collections[PARAMETERS].entities[path].fields["value"] == value
    ):
        return False
    draft.put(PARAMETERS, path, "value", value)
    return True


def write(draft: Draft, path: str, value: Json) -> RuleRefusal | None:
    """Write a parameter's value and return None; if it is locked, only return a refusal."""
    if draft.get(LOCKS, path, "lock") is not None:
        refusal = locked(draft, path)
        if refusal is not None:
            return refusal
    draft.put(PARAMETERS, path, "value", value)
    return None


def write_lock(draft: Draft, path: str, lock: Json) -> RuleRefusal | None:
    """Set a parameter's lock, or remove it (None); return a refusal if not permitted.

    Only its owner and operators may change an existing lock.
    """
    held = lock_of(draft, path, draft.now_ns)
    if (
        held is not None
        and held["owner"] != draft.agent_id
        and not is_operator(draft, draft.agent_id)
    ):
        return refuse(
            "not_owner",
            f"{path} is locked by {held['owner']!r}; only its owner or an operator may change that",
            at="/path",
            path=path,
            owner=held["owner"],
        )
    draft.put(LOCKS, path, "lock", lock)
    return None


def is_operator(tree: State | Draft, agent_id: str) -> bool:
    """Return whether an agent is an operator."""
    return bool(tree.get(ROLES, agent_id, "role") == OPERATOR_ROLE)
