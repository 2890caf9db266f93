"""Project a record of the log to its events. Pure: the same record yields the same events.

A record contains its changes and the intents that caused them. So a projection needs no state, and
may start anywhere in the log.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet.schemas.identity import SYSTEM
from placet_design import payloads
from placet_design.actions.plans import is_action
from placet_design.events.events import EVENTS, KernelEvent, KernelEventType
from placet_design.phases import stale_by
from placet_design.phases.states import PhaseState

Fields: TypeAlias = dict[str, Any]
Projected: TypeAlias = tuple[KernelEventType, str, Fields]
"""An event before it is numbered: its type, its actor and the fields of its type."""

Changes: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Json]]]
"""Collection -> entity -> fields that a record put."""


def project(event: Event) -> list[KernelEvent]:
    """Return the design events that one log record stands for, in order."""
    projector = _PROJECTORS.get(event.type)
    if projector is None:
        return []
    common: Fields = {"seq": event.seq, "record": event.record, "sim_time": event.sim_time}
    return [
        EVENTS[event_type](n=n, actor=actor, **common, **fields)
        for n, (event_type, actor, fields) in enumerate(projector(event.data))
    ]


def changes_of(data: Mapping[str, Json]) -> Changes:
    """Group a record's changes by collection."""
    by_collection: dict[str, dict[str, Mapping[str, Json]]] = {}
    for change in data["changes"]:
        collection, _, entity = change["entity"].partition("/")
        by_collection.setdefault(collection, {})[entity] = change["fields"] or {}
    return by_collection


def plan_of(data: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the payload of the `design.plan` intent of a batch; None if it is no plan."""
    heads = (i["payload"] for i in data["intents"] if i["kind"] == "design.plan")
    return next(heads, None)


def _opened(data: Mapping[str, Json]) -> Iterator[Projected]:
    about = changes_of(data).get(payloads.ABOUT, {}).get(payloads.DESIGN)
    if about is not None:
        facts = {"design_id": about["design_id"], "design_version": about["version"]}
        yield KernelEventType.DESIGN_OPENED, SYSTEM, facts


def _admitted(data: Mapping[str, Json]) -> Iterator[Projected]:
    plan, changes = plan_of(data), changes_of(data)
    plan_id = None if plan is None else plan["plan_id"]
    normalized = dict(data["normalized"] or ())
    notices = dict(data["notices"] or ())
    actor = data["intents"][0]["agent_id"]
    if plan is not None:
        count = sum(1 for intent in data["intents"] if is_action(intent["kind"]))
        facts = {"plan_id": plan_id, "intent_id": plan["intent_id"], "actions": count}
        yield KernelEventType.PLAN_EXECUTED, actor, facts
    for position, intent in enumerate(data["intents"]):
        payload = normalized.get(position, intent["payload"])
        yield from _intent(intent, payload, plan_id)
        for code, message, _ in notices.get(position, ()):
            if code != payloads.VERSION_NOTICE:
                body = {"plan_id": plan_id, "path": payload.get("path")}
                body |= {"code": code, "message": message}
                yield KernelEventType.ACTION_ADJUSTED, intent["agent_id"], body
    yield from _changed(data, changes, actor)


def _intent(intent: Fields, payload: Fields, plan_id: str | None) -> Iterator[Projected]:
    kind, actor = intent["kind"], intent["agent_id"]
    if is_action(kind):
        action_type = kind.removeprefix(payloads.PREFIX)
        facts: Fields = {"plan_id": plan_id, "action_type": action_type}
        facts |= {"path": payload.get("path"), "payload": payload}
        yield KernelEventType.ACTION_EXECUTED, actor, facts
    match kind:
        case "design.intent":
            names = ("intent_id", "raw_text", "intent_type", "confidence")
            yield KernelEventType.INTENT_UNDERSTOOD, actor, {name: payload[name] for name in names}
        case "design.request_clarification":
            yield KernelEventType.CLARIFICATION_REQUESTED, actor, {"message": payload["message"]}
        case "design.create":
            yield KernelEventType.DESIGN_CREATED, actor, {"design_id": payload["design_id"]}
        case "design.export":
            yield KernelEventType.EXPORT_REQUESTED, actor, {"format": payload["format"]}
        case "design.transition":
            facts = {name: payload.get(name) for name in ("phase", "to", "source", "reason")}
            yield KernelEventType.PHASE_TRANSITIONED, actor, facts
        case _:
            pass


def _changed(data: Mapping[str, Json], changes: Changes, actor: str) -> Iterator[Projected]:
    old: dict[str, Json] = {}
    for entry in changes.get(payloads.HISTORY, {}).values():
        old |= dict(zip(entry.get("paths", ()), entry.get("values", ()), strict=False))
    mutated = changes.get(payloads.PARAMETERS, {})
    for path, fields in mutated.items():
        facts = {"path": path, "old_value": old.get(path), "new_value": fields["value"]}
        yield KernelEventType.STATE_MUTATED, actor, facts
    for path, fields in changes.get(payloads.LOCKS, {}).items():
        lock = fields["lock"]
        if lock is None:
            yield KernelEventType.PARAMETER_UNLOCKED, actor, {"path": path}
        else:
            facts = {"path": path, "owner": lock["owner"], "reason": lock["reason"]}
            yield KernelEventType.PARAMETER_LOCKED, actor, facts
    phases = stale_by(mutated)
    if phases:
        yield (
            KernelEventType.PHASES_INVALIDATED,
            actor,
            {"paths": list(mutated), "phases": list(phases)},
        )
    yield from _version(data, changes, actor)
    for _, kind, payload, agent_id in data["effects"]:
        if kind == payloads.RUN_EFFECT:
            yield KernelEventType.PIPELINE_STARTED, agent_id, {"phases": list(payload["phases"])}
            for name in payload["phases"]:
                yield KernelEventType.PHASE_STARTED, agent_id, {"phase": name}


def _version(data: Mapping[str, Json], changes: Changes, actor: str) -> Iterator[Projected]:
    version = changes.get(payloads.ABOUT, {}).get(payloads.DESIGN, {}).get("version")
    if version is None:
        return
    kinds = {intent["kind"] for intent in data["intents"]}
    if "design.undo" in kinds:
        yield KernelEventType.UNDO_COMMITTED, actor, {"design_version": version}
    elif "design.redo" in kinds:
        yield KernelEventType.REDO_COMMITTED, actor, {"design_version": version}
    paths = [*changes.get(payloads.PARAMETERS, {}), *changes.get(payloads.LOCKS, {})]
    facts = {"design_version": version, "paths": list(dict.fromkeys(paths))}
    yield KernelEventType.TRANSACTION_COMMITTED, actor, facts


def _refused(data: Mapping[str, Json]) -> Iterator[Projected]:
    plan, intents = plan_of(data), data["intents"]
    actor = intents[0]["agent_id"]
    plan_id = None if plan is None else plan["plan_id"]
    intent_id = None if plan is None else plan["intent_id"]
    yield KernelEventType.PLAN_REJECTED, actor, {"plan_id": plan_id, "intent_id": intent_id}
    for index, _, code, message in data["refusals"]:
        body = {"plan_id": plan_id, "message": message}
        if code == "design.stale_plan":
            yield KernelEventType.PLAN_STALE, actor, body
        elif index is None:
            yield KernelEventType.INVARIANT_VIOLATED, actor, body
        else:
            intent = intents[index]
            body |= {"action_type": intent["kind"].removeprefix(payloads.PREFIX)}
            body |= {"path": intent["payload"].get("path")}
            body |= {"code": code.removeprefix(payloads.PREFIX)}
            yield KernelEventType.ACTION_REJECTED, intent["agent_id"], body


def _settled(data: Mapping[str, Json]) -> Iterator[Projected]:
    changes = changes_of(data)
    results = changes.get(payloads.PHASE_RESULTS, {})
    failed = [name for name, fields in results.items() if fields["status"] == PhaseState.FAILED]
    for name, fields in results.items():
        if name in failed:
            yield KernelEventType.PHASE_FAILED, SYSTEM, {"phase": name, "reason": fields["reason"]}
        else:
            facts: Fields = {"phase": name, "outputs": fields["outputs"]}
            facts |= {"flags": fields["flags"], "method": fields["method"]}
            yield KernelEventType.PHASE_COMPLETED, SYSTEM, facts
    if failed:
        yield KernelEventType.PIPELINE_FAILED, SYSTEM, {"phases": list(results), "failed": failed}
    elif results:
        yield KernelEventType.PIPELINE_COMPLETED, SYSTEM, {"phases": list(results)}
    for name, fields in changes.get(payloads.EXPORTS, {}).items():
        facts = {"format": name, "design_version": fields["version"]}
        yield KernelEventType.EXPORT_COMPLETED, SYSTEM, facts


_PROJECTORS: Final[Mapping[str, Callable[[Mapping[str, Json]], Iterator[Projected]]]] = {
    "header": _opened,
    "batch": _admitted,
    "refused": _refused,
    "settled": _settled,
}
