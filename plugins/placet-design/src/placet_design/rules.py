"""The rules of actions on a design. Each rule checks first and writes last.

Order of checks per action: whitelist, lock, unit, type, bounds, draft. Rules are made for the
settings of one world.
"""

from collections.abc import Mapping

from placet.kernel.plugin.domain import Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.limits import SECOND_NS
from placet_design.actions.normalize import (
    NormalizedValue,
    PayloadFault,
    normalize_change,
    normalize_set,
    unchanged,
)
from placet_design.actions.protocol import stale_message
from placet_design.payloads import ABOUT, DESIGN, PLANS, retry_key
from placet_design.phase_results import ASSUMPTIONS
from placet_design.refinable_fields import RefinableField, nearest_paths
from placet_design.settings import PLANS_MAX, DesignSettings
from placet_design.state.parameters import (
    is_operator,
    lock_of,
    locked,
    replace,
    value_of,
    write,
    write_lock,
)
from placet_design.state.versions import PLANS_COUNT


def set_rule(settings: DesignSettings) -> Rule:
    """Build the rule that applies an intent of kind `design.set`."""
    fields, policy = settings.fields, settings.policy
    bounds = {
        path: (field.min_value, field.max_value)
        for path, field in fields.items()
        if field.type == "float" and field.min_value is not None and field.max_value is not None
    }

    def set_(draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload = intent["payload"]
        path, value = payload["path"], payload["value"]
        if type(value) is float and path in bounds and not payload.get("unit"):
            low, high = bounds[path]
            if low <= value <= high and replace(draft, path, value + 0.0):  # -0.0 is 0.0
                return None
        field = fields.get(path)
        if field is None:
            return not_refinable(path, fields)
        refusal = locked(draft, path)
        if refusal is not None:
            return refusal
        normalized = normalize_set(field, payload, policy)
        return _apply(draft, path, payload, value_of(draft, path), normalized)

    return set_


def change_rule(settings: DesignSettings, sign: int) -> Rule:
    """Build the rule that applies `design.increase` (`sign` 1) or `design.decrease` (-1)."""
    fields, policy = settings.fields, settings.policy

    def change(draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload = intent["payload"]
        path = payload["path"]
        field = fields.get(path)
        if field is None:
            return not_refinable(path, fields)
        refusal = locked(draft, path)
        if refusal is not None:
            return refusal
        current = value_of(draft, path)
        normalized = normalize_change(field, payload, current, policy, sign)
        return _apply(draft, path, payload, current, normalized)

    return change


def _apply(
    draft: Draft,
    path: str,
    payload: dict[str, Json],
    current: Json,
    normalized: NormalizedValue | PayloadFault,
) -> RuleRefusal | None:
    if isinstance(normalized, PayloadFault):
        return refuse(
            normalized.code,
            normalized.message,
            at=normalized.at,
            suggestions=normalized.suggestions,
            path=path,
        )
    value, normal, adjustments = normalized
    for warning in adjustments:
        draft.warn(warning.code, warning.message, at=f"/{path}")
    if normal is not payload:
        draft.normalize(normal)
    if value == current and current is not None:
        draft.warn("no_op", unchanged(path, value).message, at=f"/{path}")
        return None
    return write(draft, path, value)


def lock_rule(settings: DesignSettings) -> Rule:
    """Build the rule that applies an intent of kind `design.lock`."""
    fields = settings.fields

    def lock(draft: Draft, intent: Intent) -> RuleRefusal | None:
        payload = intent["payload"]
        path = payload["path"]
        if path not in fields:
            return not_refinable(path, fields)
        for_s = payload.get("for_s")
        until_ns = None if for_s is None else draft.now_ns + round(for_s * SECOND_NS)
        lock_value = {
            "owner": draft.agent_id,
            "reason": payload.get("reason"),
            "until_ns": until_ns,
        }
        if lock_of(draft, path, draft.now_ns) == lock_value:
            draft.warn("no_op", f"{path} is locked so already", at=f"/{path}")
            return None
        return write_lock(draft, path, lock_value)

    return lock


def unlock_rule(settings: DesignSettings) -> Rule:
    """Build the rule that applies an intent of kind `design.unlock`."""
    fields = settings.fields

    def unlock(draft: Draft, intent: Intent) -> RuleRefusal | None:
        path = intent["payload"]["path"]
        if path not in fields:
            return not_refinable(path, fields)
        if lock_of(draft, path, draft.now_ns) is None:
            draft.warn("no_op", f"{path} is not locked", at=f"/{path}")
            return None
        return write_lock(draft, path, None)

    return unlock


def plan(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.plan`: check the plan's design and base version, and store its id."""
    payload = intent["payload"]
    expected, current = payload["design_version_before"], draft.get(ABOUT, DESIGN, "version")
    if expected != current:
        return refuse(
            "stale_plan",
            stale_message(expected, current),
            at="/design_version_before",
            current_design_version=current,
        )
    refusal = _other_design(draft, payload["design_id"])
    if refusal is not None:
        return refusal
    plan_id = payload["plan_id"]
    is_retry = intent["req_id"] == f"{retry_key(plan_id, expected)}:0"
    if is_retry and any(draft.get(PLANS, one, "plan") == plan_id for one in draft.ids(PLANS)):
        message = f"a plan {plan_id!r} was applied before; send this one under another plan_id"
        return refuse("plan_id_reused", message, at="/plan_id")
    slot = str(draft.get(ABOUT, DESIGN, "counts")[PLANS_COUNT] % PLANS_MAX)
    if not draft.exists(PLANS, slot):
        draft.create(PLANS, slot)
    draft.put(PLANS, slot, "plan", plan_id)
    return None


def log_intent(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.intent`: check its design; the message is kept by the log alone."""
    return _other_design(draft, intent["payload"]["design_id"])


def _other_design(draft: Draft, design_id: str) -> RuleRefusal | None:
    here = draft.get(ABOUT, DESIGN, "design_id")
    if here is None or here == design_id:
        return None
    message = f"there is no design {design_id!r} in this world, which holds {here!r}"
    return refuse("design_unknown", message, at="/design_id", suggestions=(here,))


def create(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.create`: set the id and the name of the design, once."""
    payload = intent["payload"]
    here = draft.get(ABOUT, DESIGN, "design_id")
    if here is not None:
        message = f"this world holds the design {here!r}; open another world for another design"
        return refuse("already_created", message, at="/design_id")
    draft.put(ABOUT, DESIGN, "design_id", payload["design_id"])
    draft.put(ABOUT, DESIGN, "name", payload.get("name"))
    return None


def assume(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.assume`: set an input that the phases assume; refuse if not an operator."""
    path, value = intent["payload"]["path"], intent["payload"]["value"]
    if path not in ASSUMPTIONS:
        near = nearest_paths(path, ASSUMPTIONS)
        message = f"{path!r} is no assumption of any phase{_hint(near)}"
        return refuse("not_an_assumption", message, at="/path", suggestions=near)
    if not is_operator(draft, draft.agent_id):
        message = f"only an operator may set {path}; {draft.agent_id!r} is none"
        return refuse("operator_only", message, at="/path")
    is_word = isinstance(ASSUMPTIONS[path], str)
    if value is not None and (isinstance(value, bool) or isinstance(value, str) != is_word):
        expected = "a word" if is_word else "a number"
        return refuse("not_a_number", f"{path} must be {expected} or null", at="/value")
    if value == value_of(draft, path):
        draft.warn("no_op", unchanged(path, value).message, at=f"/{path}")
        return None
    return write(draft, path, value)


def request_clarification(_draft: Draft, _intent: Intent) -> None:
    """Apply `design.request_clarification`: change nothing; the log keeps the question."""


def noop(_draft: Draft, _intent: Intent) -> None:
    """Apply `design.noop`: change nothing."""


def not_refinable(path: str, fields: Mapping[str, RefinableField]) -> RuleRefusal:
    """Return the refusal of a path that is not in the whitelist, with similar paths."""
    near = nearest_paths(path, fields)
    return refuse(
        "not_refinable",
        f"Path not refinable: {path}{_hint(near)}",
        at="/path",
        suggestions=near,
        path=path,
    )


def _hint(near: tuple[str, ...]) -> str:
    return f"; did you mean {', '.join(near)}?" if near else ""
