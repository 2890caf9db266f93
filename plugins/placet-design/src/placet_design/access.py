"""The access to a design: who may read it, and who may change it.

A design is readable and writable by its owner and its editors, readable by its readers, and both by
operators. To any other agent it does not exist: its view is empty, and every intent is refused
before anything of the design is looked at.

A design without an access record, such as that of an older log or of a `StateManager`, is open to
every registered agent: the host program decides which agents it registers.
"""

from collections.abc import Mapping
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.kernel.visibility.policy import Visibility
from placet.schemas.codec import Json, thaw
from placet.schemas.identity import OPERATOR, RESERVED_IDS, Ref, is_identity
from placet.schemas.intent import Intent
from placet.schemas.names import name_fault
from placet_design import payloads
from placet_design.payloads import ABOUT, ACCESS, DESIGN, ROLES
from placet_design.state.parameters import is_operator

FIELDS: Final = ("owner", "editors", "readers")

_COLLECTIONS: Final = (
    ABOUT,
    ACCESS,
    ROLES,
    payloads.PARAMETERS,
    payloads.LOCKS,
    payloads.HISTORY,
    payloads.PLANS,
    payloads.PHASE_RESULTS,
    payloads.EXPORTS,
)


def access_of(tree: State | Draft) -> Mapping[str, Json] | None:
    """Return the record with `owner`, `editors` and `readers`; None if there is none."""
    return tree.entity(ACCESS, DESIGN)


def shown_access(kernel: Kernel) -> dict[str, Json]:
    """Return `owner`, `editors` and `readers` of a design as plain JSON.

    Without an access record the operators own it, and the registered designers are its editors.
    """
    tree = kernel.tree
    stored = access_of(tree)
    if stored is not None:
        return {field: thaw(stored[field]) for field in FIELDS}
    designers = [name for name in sorted(kernel.ledger.agents) if not is_operator(tree, name)]
    return {"owner": OPERATOR, "editors": designers, "readers": []}


def access_fault(shown: Mapping[str, Json], wanted: Mapping[str, Json]) -> str:
    """Return why a person cannot ask for an access: a new name that the rule for names refuses.

    The rule of `design.set_access` does not check it: a log with other names verifies.

    Args:
        shown: The present access, as in `shown_access`; its names stay allowed.
        wanted: The fields to set, each with a name or a list of names.

    Returns:
        The fault, such as `owner must ..., got ...`; empty if there is none.
    """
    present = {name for field in FIELDS for name in _names(shown[field])}
    for field in FIELDS:
        for name in _names(wanted.get(field, [])):
            fault = "" if name in present else name_fault(name)
            if fault:
                return f"a name in {field!r} {fault}"
    return ""


def _names(value: Json) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def may_read(tree: State | Draft, agent_id: str) -> bool:
    """Return whether an agent may read the design."""
    stored = access_of(tree)
    return stored is None or (
        agent_id == stored["owner"]
        or agent_id in stored["editors"]
        or agent_id in stored["readers"]
        or is_operator(tree, agent_id)
    )


def may_write(tree: State | Draft, agent_id: str) -> bool:
    """Return whether an agent may change the design."""
    stored = access_of(tree)
    return stored is None or (
        agent_id == stored["owner"] or agent_id in stored["editors"] or is_operator(tree, agent_id)
    )


class DesignSight(Visibility):
    """The visibility of a design: all of it to the agents that may read it, nothing to others."""

    agent_collection = ROLES
    hides: frozenset[str] | None = frozenset(_COLLECTIONS)
    depends_on: frozenset[str] | None = frozenset({"role"})

    def may_see(self, state: State, agent_id: str, ref: Ref) -> bool:
        """Return whether the agent may read the design that the entity belongs to."""
        return may_read(state, agent_id)

    def dependents_of(self, state: State, ref: Ref) -> list[Ref]:
        """Return every entity of the design for its access record; else none."""
        if ref.collection != ACCESS:
            return []
        return [Ref(name, entity) for name in _COLLECTIONS for entity in state.ids(name)]


def for_writers(rule: Rule) -> Rule:
    """Return a rule that first refuses every agent which may not change the design."""

    def checked(draft: Draft, intent: Intent) -> RuleRefusal | None:
        # The first half is for speed: most designs of a program have no access record.
        if ACCESS not in draft.state.collections or may_write(draft, draft.agent_id):
            return rule(draft, intent)
        return no_access(draft)

    return checked


def no_access(draft: Draft) -> RuleRefusal:
    """Return the refusal of an agent that may not change the design."""
    agent_id = draft.agent_id
    if may_read(draft, agent_id):
        return refuse(
            "read_only",
            f"{agent_id!r} may read this design and not change it; its owner or an operator "
            "makes it an editor by design.set_access",
        )
    return refuse(
        "no_access",
        f"{agent_id!r} may neither read nor change the design of this world; its owner or an "
        "operator adds agents by design.set_access",
    )


def set_access(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.set_access`: replace the access record; its owner and operators may."""
    agent_id, payload = draft.agent_id, intent["payload"]
    stored = access_of(draft)
    is_owner = stored is not None and stored["owner"] == agent_id
    if not is_owner and not is_operator(draft, agent_id):
        if not may_read(draft, agent_id):
            return no_access(draft)
        return refuse(
            "not_owner",
            f"only the owner of a design and operators set its access, not {agent_id!r}",
        )
    for field in FIELDS:
        names = [payload[field]] if field == "owner" else payload[field]
        for name in names:
            if not is_identity(name) or (name in RESERVED_IDS and (field, name) != _OPERATORS):
                return refuse(
                    "name_invalid",
                    f"{field} names agents: 1 to 128 characters, none of them a control "
                    f"character, and none of {', '.join(sorted(RESERVED_IDS))}; got {name!r}",
                    at=f"/{field}",
                )
    access: dict[str, Json] = {
        "owner": payload["owner"],
        "editors": tuple(sorted(set(payload["editors"]))),
        "readers": tuple(sorted(set(payload["readers"]))),
    }
    if stored is None:
        draft.create(ACCESS, DESIGN, access)
        return None
    changed = {field: value for field, value in access.items() if stored[field] != value}
    for field, value in changed.items():
        draft.put(ACCESS, DESIGN, field, value)
    if not changed:
        draft.warn("no_op", "the design has this access already")
    return None


_OPERATORS: Final = ("owner", OPERATOR)
"""A design that no agent owns belongs to the operators."""
