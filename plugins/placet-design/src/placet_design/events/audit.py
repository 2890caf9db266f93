"""The audit trail: each batch with its proposals, their normalized form and the decision.

One entry for each batch in the log.

A batch is a plan, or a single step: an undo, a redo, a run of phases, a call of the state manager.
The audit is a projection of records. It includes refused batches, with their values as submitted
and as they would have been applied. Batches refused before the ledger (a malformed body, a quota, a
full queue) have no record and no entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Final

from placet.schemas.codec import Json
from placet.schemas.event import Event
from placet_design import payloads
from placet_design.actions.normalize import normal_payload
from placet_design.events.projection import changes_of, plan_of
from placet_design.settings import DesignSettings

_STANDARD: Final = DesignSettings()
_CHANGING: Final = frozenset({"header", "batch", "refused"})
_HEADS: Final = frozenset({"design.plan", "design.intent"})
_NO_PLAN: Final[Mapping[str, Json]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """One action or step: raw as submitted, and normalized as applied or as it would have been."""

    action_type: str
    raw: Mapping[str, Json]
    normalized: Mapping[str, Json] | None
    seq: int | None
    warnings: list[str] = field(default_factory=list)
    rejections: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """The entry of one batch.

    Attributes:
        plan_id: Id of the plan; None if the batch is no plan.
        intent_id: Id of the message that the plan derives from.
        req_id: req_id of the batch's first intent.
        intent: The message, if it was logged.
        actor: Agent that submitted the batch.
        sim_time: Simulated seconds of the decision.
        proposed_at: Time of the proposal, as stated by the plan.
        admitted: True if the batch was executed.
        design_version_before: Version that the batch was based on; None if the part of the log that
            was read does not contain it, which is possible only for batches other than plans.
        design_version_after: Version after the batch.
        actions: Actions and steps, in order.
        rejections: Refusals of the batch as a whole.
    """

    plan_id: str | None
    intent_id: str | None
    req_id: str
    intent: Mapping[str, Json] | None
    actor: str
    sim_time: float
    proposed_at: str | None
    admitted: bool
    design_version_before: int | None
    design_version_after: int | None
    actions: list[AuditedAction]
    rejections: list[dict[str, str]]

    def as_dict(self) -> dict[str, Json]:
        """Return the entry as plain JSON."""
        return asdict(self)


def audit(log: Iterable[Event], settings: DesignSettings = _STANDARD) -> Iterator[AuditEntry]:
    """Yield the audit entries of a log, or of a part of it.

    Args:
        log: Events of the world, for example `StateManager.events()`.
        settings: DesignSettings of the design, for its fields.
    """
    messages: dict[str, Mapping[str, Json]] = {}
    version: int | None = None
    for event in log:
        if event.type not in _CHANGING:
            continue
        after = _version_in(event.data)
        if event.type in {"batch", "refused"} and _is_about_design(event.data):
            for intent in event.data["intents"]:
                if intent["kind"] == "design.intent" and event.type == "batch":
                    messages[intent["payload"]["intent_id"]] = intent["payload"]
            if version is None and after is not None:
                version = after - 1  # a batch raises it by one
            yield _entry(event, version, messages, settings)
        version = version if after is None else after


def _version_in(data: Mapping[str, Json]) -> int | None:
    """Return the version that a record led to; None if the version did not change."""
    if not data.get("changes"):
        return None
    version: int | None = (
        changes_of(data).get(payloads.ABOUT, {}).get(payloads.DESIGN, {}).get("version")
    )
    return version


def _is_about_design(data: Mapping[str, Json]) -> bool:
    return any(intent["kind"].startswith(payloads.PREFIX) for intent in data["intents"])


def _entry(
    event: Event,
    version: int | None,
    messages: Mapping[str, Mapping[str, Json]],
    settings: DesignSettings,
) -> AuditEntry:
    data, admitted = event.data, event.type == "batch"
    plan = plan_of(data) or _NO_PLAN
    before = after = plan.get("design_version_before", version)
    refusals: dict[int | None, list[dict[str, str]]] = {}
    if admitted:
        after = before if (version_after := _version_in(data)) is None else version_after
    else:
        for index, _, code, message in data["refusals"]:
            named = {"code": code.removeprefix(payloads.PREFIX), "reason": message}
            refusals.setdefault(index, []).append(named)
    actions = [
        _action(event, position, refusals.pop(position, []), settings)
        for position, intent in enumerate(data["intents"])
        if intent["kind"] not in _HEADS and intent["kind"].startswith(payloads.PREFIX)
    ]
    return AuditEntry(
        plan.get("plan_id"),
        plan.get("intent_id"),
        data["intents"][0]["req_id"],
        messages.get(plan.get("intent_id", "")),
        data["intents"][0]["agent_id"],
        event.sim_time,
        plan.get("proposed_at"),
        admitted,
        before,
        after,
        actions,
        [refusal for listed in refusals.values() for refusal in listed],
    )


def _action(
    event: Event, position: int, refusals: list[dict[str, str]], settings: DesignSettings
) -> AuditedAction:
    data = event.data
    intent = data["intents"][position]
    raw, kind = intent["payload"], intent["kind"].removeprefix(payloads.PREFIX)
    if event.type == "refused":
        return AuditedAction(kind, raw, _normal_payload(kind, raw, settings), None, [], refusals)
    normalized = dict(data["normalized"] or ()).get(position, raw)
    notices = dict(data["notices"] or ()).get(position, ())
    warnings = [message for code, message, _ in notices if code != payloads.VERSION_NOTICE]
    first = event.seq - len(data["intents"]) + 1
    rank = position if data["order"] is None else data["order"].index(position)
    return AuditedAction(kind, raw, normalized, first + rank, warnings)


def _normal_payload(kind: str, raw: dict[str, Json], settings: DesignSettings) -> Json:
    if kind not in {"set", "increase", "decrease"}:
        return raw
    refinable = settings.fields.get(raw["path"])
    return None if refinable is None else normal_payload(refinable, raw, settings.policy)
