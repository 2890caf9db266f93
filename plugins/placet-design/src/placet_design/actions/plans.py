"""Convert a plan into a batch, and a request body into a plan.

A plan is one batch: its head, `design.plan`, then one intent per action. Their ids are
`<plan_id>:<n>`, so a plan sent again is the same request. A plan that was refused as stale may come
again on another version: then they are `<plan_id>@<version>:<n>`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.identity import ID_PATTERN
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.json_value import format_value, message_for, pointer
from placet.schemas.keywords import explain_keywords
from placet_design import payloads
from placet_design.actions.protocol import (
    Action,
    ActionPlan,
    ActionType,
    Dated,
    Intent,
    IntentType,
    Moment,
)
from placet_design.refinable_fields import Step

PRIORITY: Final = 10

_FIELDS: Final = ("path", "value", "amount", "unit", "phases", "format", "message")
_FIELD_OF: Final[Mapping[tuple[str, str], str]] = {("lock", "message"): "reason"}
"""Where a field of an action has another name in the payload of its kind."""


class PlanInvalidError(PlacetError, ValueError):
    """The input is not a valid plan.

    Attributes:
        at: JSON pointer to the first fault.
        problems: Pairs of a JSON pointer and a message.
        is_version_missing: The body has no `design_version_before`, and no other fault.
    """

    def __init__(self, problems: Sequence[tuple[str, str]], *, is_version_missing: bool) -> None:
        super().__init__("; ".join(f"{at or '/'}: {message}" for at, message in problems))
        self.problems = tuple(problems)
        self.at = problems[0][0]
        self.is_version_missing = is_version_missing


# a plan at the gate


@explain_keywords
def batch_of(
    plan: ActionPlan,
    agent_id: str,
    *,
    context_seq: int = 0,
    intent: Intent | None = None,
    dry_run: bool = False,
    is_retry: bool = False,
) -> dict[str, Json]:
    """Build the batch of a plan, preceded by the parsed message if it is to be logged.

    Args:
        plan: The plan.
        agent_id: Agent that submits it.
        context_seq: Seq of the world that the plan was made for.
        intent: The message.
        dry_run: Decide, and change nothing.
        is_retry: The plan was refused as stale, and comes again on another version.
    """
    pairs = [("design.plan", plan_payload(plan))]
    if intent is not None:
        pairs.append(("design.intent", intent_payload(intent)))
    pairs += map(payload_of, plan.actions)
    key = plan.plan_id
    if is_retry:
        key = payloads.retry_key(key, plan.design_version_before)
    intents = [
        {  # as `intent_of` has it; its call for each would be 2 % of a plan
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": f"{key}:{n}",
            "context_seq": context_seq,
            "priority": PRIORITY,
            "schema_version": SCHEMA_VERSION,
        }
        for n, (kind, payload) in enumerate(pairs)
    ]
    return {"intents": intents, "dry_run": dry_run}


def intent_of(
    kind: str, payload: Mapping[str, Json], agent_id: str, req_id: str, context_seq: int
) -> dict[str, Json]:
    """Build one intent in its wire form."""
    return {
        "kind": kind,
        "payload": payload,
        "agent_id": agent_id,
        "req_id": req_id,
        "context_seq": context_seq,
        "priority": PRIORITY,
        "schema_version": SCHEMA_VERSION,
    }


def plan_payload(plan: ActionPlan) -> dict[str, Json]:
    """Build the payload of `design.plan`, the first intent of a plan's batch."""
    payload: dict[str, Json] = {
        "plan_id": plan.plan_id,
        "intent_id": plan.intent_id,
        "design_id": plan.design_id,
        "design_version_before": plan.design_version_before,
    }
    if plan.proposed_at is not None:
        payload["proposed_at"] = _moment(plan.proposed_at)
    return payload


def intent_payload(intent: Intent) -> dict[str, Json]:
    """Build the payload of `design.intent` for a parsed message."""
    payload: dict[str, Json] = {
        "intent_id": intent.intent_id,
        "design_id": intent.design_id,
        "raw_text": intent.raw_text,
        "intent_type": str(intent.intent_type),
        "confidence": float(intent.confidence),
    }
    if intent.parsed_at is not None:
        payload["parsed_at"] = _moment(intent.parsed_at)
    return payload


def payload_of(action: Action) -> tuple[str, dict[str, Json]]:
    """Return the kind and the payload of the intent that an action becomes.

    A field that the action's type does not use stays in the payload, so that the gate refuses it.
    """
    if (
        action.action_type is ActionType.SET  # which nearly every action is
        and action.amount is None
        and action.phases is None
        and action.format is None
        and action.message is None
    ):
        unit = action.unit
        if unit is None:
            return "design.set", {"path": action.path, "value": action.value}
        return "design.set", {"path": action.path, "value": action.value, "unit": unit}
    kind = str(action.action_type)
    payload = {_FIELD_OF.get((kind, name), name): value for name, value in _used(action)}
    return payloads.PREFIX + kind, payload


def _used(action: Action) -> Iterator[tuple[str, Json]]:
    """Return the fields that an action uses."""
    for name in _FIELDS:
        value = getattr(action, name)
        if value is not None:
            yield name, str(value) if isinstance(value, Step) else value


def action_of(kind: str, payload: Mapping[str, Json]) -> Action:
    """Return the action that an intent of this kind and payload was built from."""
    name = kind.removeprefix(payloads.PREFIX)
    fields: dict[str, Any] = {
        field: payload.get(_FIELD_OF.get((name, field), field)) for field in _FIELDS
    }
    return Action(ActionType(name), **fields)


def is_action(kind: str) -> bool:
    """Return whether a kind of intent is an action of a plan."""
    return kind in _ACTION_KINDS


_TYPES: Final = {kind.value: kind for kind in ActionType}
_TAGS: Final = frozenset(_TYPES)
_INTENT_TYPES: Final = tuple(kind.value for kind in IntentType)
_ACTION_KINDS: Final = frozenset(payloads.PREFIX + kind.value for kind in ActionType)


def _moment(moment: Moment) -> str:
    return moment.isoformat() if isinstance(moment, Dated) else moment


# a plan on the wire: one variant for each type of action, and nothing else in it

_CLOSED: Final = ConfigDict(extra="forbid", strict=True)
_Shape = Any


def _variant(kind: ActionType, payload: _Shape) -> _Shape:
    """Derive the wire form of an action from the payload of its kind."""
    names = {inner: outer for (name, outer), inner in _FIELD_OF.items() if name == kind.value}
    fields = {
        names.get(name, name): annotation
        for name, annotation in payload.__annotations__.items()
        if name != "for_s"  # an action has the eight fields of the seed, and no time
    }
    make: _Shape = TypedDict
    variant = make(f"{payload.__name__}Action", {"action_type": Literal[kind.value], **fields})
    variant.__pydantic_config__ = _CLOSED
    return variant


_PAYLOADS: Final[Mapping[ActionType, _Shape]] = {
    ActionType.SET: payloads.Set,
    ActionType.INCREASE: payloads.ParameterChange,
    ActionType.DECREASE: payloads.ParameterChange,
    ActionType.LOCK: payloads.Lock,
    ActionType.UNLOCK: payloads.Unlock,
    ActionType.RUN_PHASES: payloads.RunPhases,
    ActionType.EXPORT: payloads.Export,
    ActionType.REQUEST_CLARIFICATION: payloads.RequestClarification,
    ActionType.NOOP: payloads.Noop,
}

_variants: Final = [_variant(kind, payload) for kind, payload in _PAYLOADS.items()]
_one: _Shape = _variants[0]
for _other in _variants[1:]:
    _one = _one | _other

WireAction: TypeAlias = Annotated[_one, Field(discriminator="action_type")]
"""An action on the wire: a union that `action_type` tells apart."""


def _whole(value: object) -> object:
    """Return 3 for 3.0: to JSON they are one number."""
    return int(value) if type(value) is float and value.is_integer() else value


class PlanBody(TypedDict):
    """The body of a request to execute a plan; the request's path names the design."""

    __pydantic_config__ = _CLOSED  # type: ignore[misc]  # read by pydantic

    plan_id: Annotated[
        str, Field(min_length=1, max_length=payloads.PLAN_ID_CHARS_MAX, pattern=ID_PATTERN)
    ]
    intent_id: Annotated[str, Field(min_length=1, max_length=128)]
    design_version_before: Annotated[int, Field(ge=0, lt=2**63), BeforeValidator(_whole)]
    actions: Annotated[list[WireAction], Field(min_length=1, max_length=510)]
    proposed_at: NotRequired[Annotated[str, Field(max_length=64)] | None]
    intent: NotRequired[payloads.LogIntent | None]


PLAN_BODY: Final[TypeAdapter[PlanBody]] = TypeAdapter(PlanBody)
"""Validates a body, and gives its JSON Schema."""

_ACTION: Final[TypeAdapter[Any]] = TypeAdapter(WireAction)


class Proposed(NamedTuple):
    """A parsed request: the plan, and the user's message it derives from; None without one."""

    plan: ActionPlan
    intent: Intent | None


def parse_plan(design_id: str, body: object) -> ActionPlan:
    """Parse a decoded request body into a plan; an intent in it is checked and dropped.

    Raises:
        PlanInvalidError: The body is no valid plan.
    """
    return parse_proposed(design_id, body).plan


def parse_proposed(design_id: str, body: object) -> Proposed:
    """Parse a decoded request body into a plan and the intent that it may contain.

    Raises:
        PlanInvalidError: The body is no valid plan, or its intent belongs to another plan or
            design.
    """
    try:
        plan_body: Any = PLAN_BODY.validate_python(body)
    except ValidationError as error:
        raise _invalid(error) from None
    actions = [_parsed(action) for action in plan_body["actions"]]
    plan = ActionPlan(
        plan_body["plan_id"],
        plan_body["intent_id"],
        design_id,
        actions,
        plan_body["design_version_before"],
        plan_body.get("proposed_at"),
    )
    intent_body = plan_body.get("intent")
    return Proposed(plan, None if intent_body is None else _intent_for(plan, intent_body))


def _intent_for(plan: ActionPlan, intent_body: Mapping[str, Json]) -> Intent:
    problems = [
        (f"/intent/{name}", f"must be the plan's, {ours!r}, got {format_value(intent_body[name])}")
        for name, ours in (("intent_id", plan.intent_id), ("design_id", plan.design_id))
        if intent_body[name] != ours
    ]
    if intent_body["intent_type"] not in _INTENT_TYPES:
        expected = ", ".join(_INTENT_TYPES)
        message = f"must be one of {expected}, got {format_value(intent_body['intent_type'])}"
        problems.append(("/intent/intent_type", message))
    if problems:
        raise PlanInvalidError(problems, is_version_missing=False)
    return Intent(**{**intent_body, "intent_type": IntentType(intent_body["intent_type"])})


def parse_action(body: object) -> Action:
    """Parse one action from plain values.

    Raises:
        PlanInvalidError: The value is no valid action.
    """
    try:
        return _parsed(_ACTION.validate_python(body))
    except ValidationError as error:
        raise _invalid(error) from None


def action_as_dict(action: Action) -> dict[str, Json]:
    """Return an action in wire form, without the fields that its type does not use."""
    return {"action_type": str(action.action_type), **dict(_used(action))}


def plan_body(plan: ActionPlan, intent: Intent | None = None) -> dict[str, Json]:
    """Return a plan as a request body, the inverse of `parse_proposed`."""
    body = plan_payload(plan)
    del body["design_id"]  # the path of the request names it
    if intent is not None:
        body["intent"] = intent_payload(intent)
    return {**body, "actions": [action_as_dict(action) for action in plan.actions]}


def _parsed(body: Mapping[str, Json]) -> Action:
    fields = dict(body)
    return Action(_TYPES[fields.pop("action_type")], **fields)


def _invalid(error: ValidationError) -> PlanInvalidError:
    problems = [
        (pointer(_place(detail["loc"])), message_for(detail))
        for detail in error.errors(include_url=False)
    ]
    faults = [(detail["type"], detail["loc"]) for detail in error.errors(include_url=False)]
    is_alone = faults == [("missing", ("design_version_before",))]
    return PlanInvalidError(problems, is_version_missing=is_alone)


def _place(loc: Sequence[int | str]) -> list[int | str]:
    """Return the location without the union's tag after an action's index."""
    return [
        step
        for n, step in enumerate(loc)
        if not (step in _TAGS and (n == 0 or isinstance(loc[n - 1], int)))
    ]
