"""Who asked for what, what was made of it, and what was said: one entry for each plan in the log.

A projection of records. Refused plans are in it too, with the values as they came and as they would
have been applied. What the gate turned away before its books - a malformed body, a quota, a full
queue - left no record and is not in it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from placet.domains.design import vocabulary as words
from placet.domains.design.normalize import normal_payload
from placet.domains.design.plans import is_action
from placet.domains.design.projection import changes_of, plan_of
from placet.domains.design.settings import Settings
from placet.schemas.codec import Json
from placet.schemas.event import Event

_STANDARD = Settings()


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """One action of a plan: raw as it came, normalized as it was, or would have been, applied."""

    action_type: str
    raw: Mapping[str, Json]
    normalized: Mapping[str, Json] | None
    seq: int | None
    warnings: list[str] = field(default_factory=list)
    rejections: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One plan.

    Attributes:
        plan_id: The plan.
        intent_id: What it comes from.
        intent: What was said, where it was logged.
        actor: Who submitted it.
        sim_time: Simulated seconds of the decision.
        proposed_at: When it was proposed, as it says itself.
        admitted: It was executed.
        design_version_before: The version that it was based on.
        design_version_after: The version that it led to.
        actions: In order.
        rejections: What is about the plan as a whole.
    """

    plan_id: str
    intent_id: str
    intent: Mapping[str, Json] | None
    actor: str
    sim_time: float
    proposed_at: str | None
    admitted: bool
    design_version_before: int
    design_version_after: int
    actions: list[AuditedAction]
    rejections: list[dict[str, str]]

    def as_dict(self) -> dict[str, Json]:
        """Give it as plain JSON."""
        return asdict(self)


def audit(log: Iterable[Event], settings: Settings = _STANDARD) -> Iterator[AuditEntry]:
    """Read the audit out of a log, or out of a part of it.

    Args:
        log: Events of the world, such as `StateManager.events()`.
        settings: Of the design, for its fields.
    """
    said: dict[str, Mapping[str, Json]] = {}
    for event in log:
        if event.type not in {"batch", "refused"}:
            continue
        for intent in event.data["intents"]:
            if intent["kind"] == "design.intent" and event.type == "batch":
                said[intent["payload"]["intent_id"]] = intent["payload"]
        plan = plan_of(event.data)
        if plan is not None:
            yield _entry(event, plan, said.get(plan["intent_id"]), settings)


def _entry(
    event: Event, plan: Mapping[str, Json], said: Mapping[str, Json] | None, settings: Settings
) -> AuditEntry:
    data, admitted = event.data, event.type == "batch"
    before = after = plan["design_version_before"]
    refusals: dict[int | None, list[dict[str, str]]] = {}
    if admitted:
        about = changes_of(data).get(words.ABOUT, {}).get(words.DESIGN, {})
        after = about.get("version", before)
    else:
        for index, _, code, message in data["refusals"]:
            named = {"code": code.removeprefix(words.PREFIX), "reason": message}
            refusals.setdefault(index, []).append(named)
    actions = [
        _action(event, position, refusals.pop(position, []), settings)
        for position, intent in enumerate(data["intents"])
        if is_action(intent["kind"])
    ]
    return AuditEntry(
        plan["plan_id"],
        plan["intent_id"],
        said,
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
    event: Event, position: int, refusals: list[dict[str, str]], settings: Settings
) -> AuditedAction:
    data = event.data
    intent = data["intents"][position]
    raw, kind = intent["payload"], intent["kind"].removeprefix(words.PREFIX)
    if event.type == "refused":
        return AuditedAction(kind, raw, _meant(kind, raw, settings), None, [], refusals)
    normalized = dict(data["normalized"] or ()).get(position, raw)
    notices = dict(data["notices"] or ()).get(position, ())
    warnings = [message for code, message, _ in notices if code != words.VERSION_NOTICE]
    first = event.seq - len(data["intents"]) + 1
    rank = position if data["order"] is None else data["order"].index(position)
    return AuditedAction(kind, raw, normalized, first + rank, warnings)


def _meant(kind: str, raw: dict[str, Json], settings: Settings) -> Json:
    if kind not in {"set", "increase", "decrease"}:
        return raw
    refinable = settings.fields.get(raw["path"])
    return None if refinable is None else normal_payload(refinable, raw, settings.policy)
