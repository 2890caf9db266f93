"""From a record of the log to the events that it tells of. Pure: the same record, the same events.

A record holds its changes; their reason is in its intents. So a projection needs no state, and may
begin anywhere in the log.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from placet.domains.design import payloads as words
from placet.domains.design.actions.plans import is_action
from placet.domains.design.events import events as told
from placet.domains.design.phases import stale_by
from placet.domains.design.phases.states import PhaseState
from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet.schemas.identity import SYSTEM

Facts: TypeAlias = dict[str, Any]
Told: TypeAlias = tuple[type[told.KernelEvent], str, Facts]
"""An event before it is numbered: its type, its actor, and what it says."""

Changes: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Json]]]
"""Collection -> entity -> fields that a record put."""


def project(event: Event) -> list[told.KernelEvent]:
    """Return the events of one record, in order."""
    tell = _TELLERS.get(event.type)
    if tell is None:
        return []
    return [
        make(seq=event.seq, record=event.record, n=n, sim_time=event.sim_time, actor=actor, **facts)
        for n, (make, actor, facts) in enumerate(tell(event.data))
    ]


def changes_of(data: Mapping[str, Json]) -> Changes:
    """Sort a record's changes by collection."""
    found: dict[str, dict[str, Mapping[str, Json]]] = {}
    for change in data["changes"]:
        collection, _, entity = change["entity"].partition("/")
        found.setdefault(collection, {})[entity] = change["fields"] or {}
    return found


def plan_of(data: Mapping[str, Json]) -> dict[str, Json] | None:
    """Find the head of a batch that is a plan."""
    heads = (i["payload"] for i in data["intents"] if i["kind"] == "design.plan")
    return next(heads, None)


def _opened(data: Mapping[str, Json]) -> Iterator[Told]:
    about = changes_of(data).get(words.ABOUT, {}).get(words.DESIGN)
    if about is not None:
        facts = {"design_id": about["design_id"], "design_version": about["version"]}
        yield told.DesignOpenedEvent, SYSTEM, facts


def _admitted(data: Mapping[str, Json]) -> Iterator[Told]:
    plan, changes = plan_of(data), changes_of(data)
    plan_id = None if plan is None else plan["plan_id"]
    normalized = dict(data["normalized"] or ())
    notices = dict(data["notices"] or ())
    actor = data["intents"][0]["agent_id"]
    if plan is not None:
        count = sum(1 for intent in data["intents"] if is_action(intent["kind"]))
        facts = {"plan_id": plan_id, "intent_id": plan["intent_id"], "actions": count}
        yield told.PlanExecutedEvent, actor, facts
    for position, intent in enumerate(data["intents"]):
        payload = normalized.get(position, intent["payload"])
        yield from _intent(intent, payload, plan_id)
        for code, message, _ in notices.get(position, ()):
            if code != words.VERSION_NOTICE:
                said = {"plan_id": plan_id, "path": payload.get("path")}
                said |= {"code": code, "message": message}
                yield told.ActionAdjustedEvent, intent["agent_id"], said
    yield from _changed(data, changes, actor)


def _intent(intent: Facts, payload: Facts, plan_id: str | None) -> Iterator[Told]:
    kind, actor = intent["kind"], intent["agent_id"]
    if is_action(kind):
        action_type = kind.removeprefix(words.PREFIX)
        facts: Facts = {"plan_id": plan_id, "action_type": action_type}
        facts |= {"path": payload.get("path"), "payload": payload}
        yield told.ActionExecutedEvent, actor, facts
    match kind:
        case "design.intent":
            names = ("intent_id", "raw_text", "intent_type", "confidence")
            yield told.IntentUnderstoodEvent, actor, {name: payload[name] for name in names}
        case "design.request_clarification":
            yield told.ClarificationRequestedEvent, actor, {"message": payload["message"]}
        case "design.create":
            yield told.DesignCreatedEvent, actor, {"design_id": payload["design_id"]}
        case "design.export":
            yield told.ExportRequestedEvent, actor, {"format": payload["format"]}
        case "design.transition":
            facts = {name: payload.get(name) for name in ("phase", "to", "source", "reason")}
            yield told.PhaseTransitionedEvent, actor, facts
        case _:
            pass


def _changed(data: Mapping[str, Json], changes: Changes, actor: str) -> Iterator[Told]:
    old: dict[str, Json] = {}
    for entry in changes.get(words.HISTORY, {}).values():
        old |= dict(zip(entry.get("paths", ()), entry.get("values", ()), strict=False))
    mutated = changes.get(words.PARAMETERS, {})
    for path, fields in mutated.items():
        facts = {"path": path, "old_value": old.get(path), "new_value": fields["value"]}
        yield told.StateMutatedEvent, actor, facts
    for path, fields in changes.get(words.LOCKS, {}).items():
        lock = fields["lock"]
        if lock is None:
            yield told.ParameterUnlockedEvent, actor, {"path": path}
        else:
            facts = {"path": path, "owner": lock["owner"], "reason": lock["reason"]}
            yield told.ParameterLockedEvent, actor, facts
    phases = stale_by(mutated)
    if phases:
        yield told.PhasesInvalidatedEvent, actor, {"paths": list(mutated), "phases": list(phases)}
    yield from _version(data, changes, actor)
    for _, kind, payload, agent_id in data["effects"]:
        if kind == words.RUN_EFFECT:
            yield told.PipelineStartedEvent, agent_id, {"phases": list(payload["phases"])}
            for name in payload["phases"]:
                yield told.PhaseStartedEvent, agent_id, {"phase": name}


def _version(data: Mapping[str, Json], changes: Changes, actor: str) -> Iterator[Told]:
    version = changes.get(words.ABOUT, {}).get(words.DESIGN, {}).get("version")
    if version is None:
        return
    kinds = {intent["kind"] for intent in data["intents"]}
    if "design.undo" in kinds:
        yield told.UndoCommittedEvent, actor, {"design_version": version}
    elif "design.redo" in kinds:
        yield told.RedoCommittedEvent, actor, {"design_version": version}
    paths = [*changes.get(words.PARAMETERS, {}), *changes.get(words.LOCKS, {})]
    facts = {"design_version": version, "paths": list(dict.fromkeys(paths))}
    yield told.TransactionCommittedEvent, actor, facts


def _refused(data: Mapping[str, Json]) -> Iterator[Told]:
    plan, intents = plan_of(data), data["intents"]
    actor = intents[0]["agent_id"]
    plan_id = None if plan is None else plan["plan_id"]
    intent_id = None if plan is None else plan["intent_id"]
    yield told.PlanRejectedEvent, actor, {"plan_id": plan_id, "intent_id": intent_id}
    for index, _, code, message in data["refusals"]:
        said = {"plan_id": plan_id, "message": message}
        if code == "design.stale_plan":
            yield told.PlanStaleEvent, actor, said
        elif index is None:
            yield told.InvariantViolatedEvent, actor, said
        else:
            intent = intents[index]
            said |= {"action_type": intent["kind"].removeprefix(words.PREFIX)}
            said |= {"path": intent["payload"].get("path")}
            said |= {"code": code.removeprefix(words.PREFIX)}
            yield told.ActionRejectedEvent, intent["agent_id"], said


def _settled(data: Mapping[str, Json]) -> Iterator[Told]:
    changes = changes_of(data)
    kept = changes.get(words.PHASES_KEPT, {})
    failed = [name for name, fields in kept.items() if fields["status"] == PhaseState.FAILED]
    for name, fields in kept.items():
        if name in failed:
            yield told.PhaseFailedEvent, SYSTEM, {"phase": name, "reason": fields["reason"]}
        else:
            facts: Facts = {"phase": name, "outputs": fields["outputs"]}
            facts |= {"flags": fields["flags"], "method": fields["method"]}
            yield told.PhaseCompletedEvent, SYSTEM, facts
    if failed:
        yield told.PipelineFailedEvent, SYSTEM, {"phases": list(kept), "failed": failed}
    elif kept:
        yield told.PipelineCompletedEvent, SYSTEM, {"phases": list(kept)}
    for name, fields in changes.get(words.EXPORTS, {}).items():
        facts = {"format": name, "design_version": fields["version"]}
        yield told.ExportCompletedEvent, SYSTEM, facts


_TELLERS: Final[Mapping[str, Callable[[Mapping[str, Json]], Iterator[Told]]]] = {
    "header": _opened,
    "batch": _admitted,
    "refused": _refused,
    "settled": _settled,
}
