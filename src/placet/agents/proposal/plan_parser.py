"""Parses an answer of a proposer into a plan, or into the issues that make it none.

The checks need no state and have a fixed order: size, JSON, version, envelope, counts, and for each
action kind, tool, size, payload. All issues of a layer are collected, so that one repair sees them
all. No input raises an exception.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from placet.agents.proposal.catalogue import ASK, STOP, Catalogue, Vocabulary, kind_name
from placet.agents.proposal.codes import Code
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.plan import (
    IF_UNCHANGED,
    VERSION,
    Action,
    Issue,
    Paths,
    Plan,
    Stop,
)
from placet.schemas.codec import Json, canonical, from_json, to_json
from placet.schemas.json_value import (
    InvalidJsonValue,
    TooLarge,
    format_value,
    message_for,
    pointer,
    to_json_value,
)

ISSUES_MAX: Final = 32
"""Number of issues of one answer; a repair that leaves others gets those next."""

_DEPTH_MAX: Final = 32
_LIMITS: Final = AgentLimits()
_STOPS: Final[TypeAdapter[Stop]] = TypeAdapter(Stop)
_PATHS: Final[TypeAdapter[tuple[str, ...]]] = TypeAdapter(Paths)


class Call(NamedTuple):
    """A tool call of a model.

    Attributes:
        name: Wire name of the tool.
        arguments: JSON text, as the model wrote it.
        call_id: The provider's id of the call.
    """

    name: str
    arguments: str
    call_id: str = ""


def parse(
    text: object,
    *,
    domain: Vocabulary,
    limits: AgentLimits = _LIMITS,
    actions_max: int | None = None,
) -> tuple[Plan | None, list[Issue]]:
    """Parse a plan.

    Args:
        text: A plan as JSON text, or as the parsed value.
        domain: Domain whose kinds may be proposed.
        limits: Limits of sizes and counts.
        actions_max: The mode's limit of the number of actions; None for none.

    Returns:
        The plan and no issues; or None and at least one issue.
    """
    value, issues = _decode(text, limits)
    if issues:
        return None, issues
    issues = _check_version(value) or _check_count(value.get("actions"), limits.actions_max)
    if issues:
        return None, issues
    try:
        plan = Plan.model_validate(value)
    except ValidationError as error:
        return None, [
            Issue(
                code=Code.ENVELOPE_INVALID, message=message_for(detail), at=pointer(detail["loc"])
            )
            for detail in islice(error.errors(include_url=False), ISSUES_MAX)
        ]
    return _judged(plan, Catalogue.of(domain), limits, actions_max)


def parse_calls(
    calls: Sequence[Call],
    *,
    goal: str,
    base_seq: int,
    domain: Vocabulary,
    limits: AgentLimits = _LIMITS,
    actions_max: int | None = None,
) -> tuple[Plan | None, list[Issue]]:
    """Convert the tool calls of a model to a plan: each call is an action, in order.

    Args:
        calls: The model's tool calls; at least one.
        goal: The message that the model answers.
        base_seq: Sequence number of the context that the model received.
        domain: Domain whose kinds may be proposed.
        limits: Limits of sizes and counts.
        actions_max: The mode's limit of the number of actions; None for none.

    Returns:
        The plan and no issues; or None and at least one issue, which points at
        `/actions/<number of the call>`.
    """
    size = sum(len(str(call.arguments).encode("utf-8", "replace")) for call in calls)
    if size > limits.plan_bytes_max:
        return None, [_too_large(size, limits)]
    catalogue = Catalogue.of(domain)
    issues: list[Issue] = []
    stops: list[Stop] = []
    actions: list[Action] = []
    places: list[str] = []
    for index, call in enumerate(calls):
        at = f"/actions/{index}"
        value, call_issues = _arguments(call, at, limits)
        if call_issues:
            issues += call_issues
        elif call.name in {ASK, STOP}:
            stop, call_issues = _stop_of(call.name, value, at)
            issues += call_issues
            stops += [] if stop is None else [stop]
        else:
            kind = kind_name(call.name)
            paths, call_issues = _paths_of(kind, value, at, catalogue)
            issues += call_issues
            actions.append(Action.model_construct(kind=kind, payload=value, if_unchanged=paths))
            places.append(at)
    if len(stops) > 1:
        message = f"a plan stops for one reason, got {len(stops)}; leave the others out"
        issues.append(Issue(code=Code.STOP_CONFLICT, message=message, at="/stop"))
    if issues:
        return None, issues[:ISSUES_MAX]
    text = goal.strip()[:2000] or "(no message)"
    plan = Plan.model_construct(
        version=VERSION,
        goal=text,
        base_seq=base_seq,
        actions=tuple(actions),
        stop=stops[0] if stops else None,
    )
    return _judged(plan, catalogue, limits, actions_max, places)


def _paths_of(
    kind: str, arguments: dict[str, Json], at: str, catalogue: Catalogue
) -> tuple[tuple[str, ...], list[Issue]]:
    """Take the paths of `if_unchanged` out of the arguments of a call."""
    if IF_UNCHANGED not in arguments or not catalogue.takes_conditions(kind):
        return (), []
    paths = arguments.pop(IF_UNCHANGED)
    try:
        return _PATHS.validate_python([] if paths is None else paths), []
    except ValidationError as error:
        return (), [
            Issue(
                code=Code.ENVELOPE_INVALID,
                message=message_for(detail),
                at=f"{at}/{IF_UNCHANGED}{pointer(detail['loc'])}",
            )
            for detail in error.errors(include_url=False)
        ]


def _arguments(call: Call, at: str, limits: AgentLimits) -> tuple[Json, list[Issue]]:
    """Read the arguments of one call."""
    name: object = call.name  # an adapter may pass any value
    if not isinstance(name, str):
        message = f"the name of a tool is text, got {format_value(name)}"
        return None, [Issue(code=Code.ENVELOPE_INVALID, message=message, at=f"{at}/kind")]
    value, issues = _decode(call.arguments or "{}", limits)
    if not issues and not isinstance(value, dict):
        message = f"the arguments of a call are one JSON object, got {format_value(value)}"
        issues = [Issue(code=Code.ENVELOPE_INVALID, message=message)]
    return value, [issue.model_copy(update={"at": f"{at}/payload{issue.at}"}) for issue in issues]


def _decode(text: object, limits: AgentLimits) -> tuple[Json, list[Issue]]:
    """Read JSON text, or take a value as it is, where it is plain and not too large."""
    try:
        if isinstance(text, str | bytes | bytearray):
            data = text.encode() if isinstance(text, str) else bytes(text)
            if len(data) > limits.plan_bytes_max:
                return None, [_too_large(len(data), limits)]
            return from_json(data), []
        value = to_json_value(text, _DEPTH_MAX, limits.plan_bytes_max)
        size = len(to_json(value))
        return (None, [_too_large(size, limits)]) if size > limits.plan_bytes_max else (value, [])
    except TooLarge:
        return None, [_too_large(None, limits)]
    except InvalidJsonValue as error:
        message = f"a plan is made of plain JSON values: {error}"
        return None, [Issue(code=Code.JSON_INVALID, message=message, at=error.at)]
    except ValueError as error:  # also UnicodeError
        message = f"expected one JSON object and no other text: {error}"
        return None, [Issue(code=Code.JSON_INVALID, message=message)]


def _too_large(size: int | None, limits: AgentLimits) -> Issue:
    """Return the issue of a plan that is too large.

    None as size means that it was not read to its end.
    """
    most = limits.plan_bytes_max
    has = f"more than {most}" if size is None else size
    message = f"the plan has {has} bytes, at most {most} are read; propose less"
    return Issue(code=Code.PLAN_TOO_LARGE, message=message)


def _check_version(value: Json) -> list[Issue]:
    if not isinstance(value, Mapping):
        message = f"a plan is a JSON object with version {VERSION!r}, got {format_value(value)}"
        return [Issue(code=Code.ENVELOPE_INVALID, message=message)]
    if value.get("version") == VERSION:
        return []
    came = f"got {format_value(value['version'])}" if "version" in value else "it is missing"
    message = f"the plan's version must be {VERSION!r}; {came}"
    return [Issue(code=Code.VERSION_UNSUPPORTED, message=message, at="/version")]


def _judged(
    plan: Plan,
    catalogue: Catalogue,
    limits: AgentLimits,
    actions_max: int | None,
    places: Sequence[str] | None = None,
) -> tuple[Plan | None, list[Issue]]:
    """Check the actions against the catalogue.

    Of too many actions only the allowed number is checked.
    """
    issues = _check_counts(plan, limits, actions_max)
    for index, action in enumerate(plan.actions[: limits.actions_max]):
        if len(issues) >= ISSUES_MAX:
            break
        at = f"/actions/{index}" if places is None else places[index]
        issues += _check_action(action, at, catalogue, limits)
    return (None, issues[:ISSUES_MAX]) if issues else (plan, issues)


def _check_counts(plan: Plan, limits: AgentLimits, actions_max: int | None) -> list[Issue]:
    issues = []
    if not plan.goal.strip():
        message = "the goal is empty; say in a few words what the plan is for"
        issues.append(Issue(code=Code.GOAL_EMPTY, message=message, at="/goal"))
    if not plan.actions and plan.stop is None:
        message = "give at least one action, or a stop that says why there is none"
        issues.append(Issue(code=Code.ACTIONS_MISSING, message=message, at="/actions"))
    if plan.actions and plan.stop is not None:
        message = "a plan has actions or a stop, got both; leave one out"
        issues.append(Issue(code=Code.STOP_CONFLICT, message=message, at="/stop"))
    most = limits.actions_max if actions_max is None else min(limits.actions_max, actions_max)
    issues += _check_count(plan.actions, most)
    named = Counter(action.id for action in plan.actions if action.id)
    for name, count in islice(((name, n) for name, n in named.items() if n > 1), ISSUES_MAX):
        message = f"the action id {name!r} is used {count} times; each action needs its own id"
        issues.append(Issue(code=Code.ACTION_ID_DUPLICATE, message=message, at="/actions"))
    return issues


def _check_count(actions: object, most: int) -> list[Issue]:
    if not isinstance(actions, list | tuple) or len(actions) <= most:
        return []
    message = f"at most {most} actions may stand in one plan here, got {len(actions)}"
    return [Issue(code=Code.ACTIONS_TOO_MANY, message=message, at="/actions")]


def _check_action(
    action: Action, at: str, catalogue: Catalogue, limits: AgentLimits
) -> list[Issue]:
    kind = catalogue.kinds.get(action.kind)
    if kind is None:
        names = catalogue.kind_names() or "nothing; no kind is permitted"
        message = f"{format_value(action.kind)} does not exist. Choose from: {names}"
        near = catalogue.nearest(action.kind)
        return [Issue(code=Code.KIND_UNKNOWN, message=message, at=f"{at}/kind", suggestions=near)]
    tool = catalogue.missing_tool(kind)
    if tool is not None:
        message = f"{kind.name} needs an executor for {tool!r} effects, and none is registered"
        return [Issue(code=Code.TOOL_UNREGISTERED, message=message, at=at)]
    try:
        size = len(canonical(action.payload))
        details = catalogue.unsound(kind.name, action.payload)
    except Exception as error:  # noqa: BLE001  # a payload's validator may raise any error
        message = f"payload of {kind.name}: it cannot be validated: {type(error).__name__}"
        return [Issue(code=Code.PAYLOAD_INVALID, message=message, at=f"{at}/payload")]
    if size > limits.payload_bytes_max:
        message = f"the payload has {size} bytes, at most {limits.payload_bytes_max} are allowed"
        return [Issue(code=Code.PAYLOAD_TOO_LARGE, message=message, at=f"{at}/payload")]
    return [_payload_issue(kind.name, at, detail) for detail in details[:ISSUES_MAX]]


def _payload_issue(kind: str, at: str, detail: ErrorDetails) -> Issue:
    path = pointer(detail["loc"][1:])  # without the box that it is validated in
    code = Code.PAYLOAD_MISSING if detail["type"] == "missing" else Code.PAYLOAD_INVALID
    message = f"payload of {kind}{path}: {message_for(detail)}"
    return Issue(code=code, message=message, at=f"{at}/payload{path}")


def _stop_of(name: str, value: Json, at: str) -> tuple[Stop | None, list[Issue]]:
    """Read a call of one of the two tools that propose nothing."""
    fields = dict(value)
    if name == ASK:
        question = fields.pop("question", fields.pop("message", None))
        fields = {"code": "clarification_needed", "message": question, **fields}
    try:
        return _STOPS.validate_python(fields), []
    except ValidationError as error:
        return None, [
            Issue(
                code=Code.PAYLOAD_INVALID,
                message=f"arguments of {name}{pointer(detail['loc'])}: {message_for(detail)}",
                at=f"{at}/payload{pointer(detail['loc'])}",
            )
            for detail in error.errors(include_url=False)
        ]
