"""The parts of an explanation that other records have: noted refusals, and requests for approval.

One pass over the log for both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from placet.actors.ports import EventLog
from placet.history.wall_times import NotedTime
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, key_of
from placet.kernel.plugin.noted_refusals import REFUSE, noted_refusals
from placet.kernel.plugin.noted_times import NOTE_TIME, notes_time
from placet.schemas.approval import ASKS
from placet.schemas.codec import Json, canonical
from placet.schemas.explanation import Explanation, StageReport
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, intents_of
from placet.schemas.refusal import STAGE_OF, Stage
from placet.stores.snapshots.recovery import decode

_NOTE: Final = f".{NOTE_TIME}".encode()
_DECISIONS: Final = frozenset({DECIDE, AMEND})


@dataclass(slots=True)
class RequestsAround:
    """The refusals and the approvals of one request, as other records have them.

    Attributes:
        refusals: Explanations of the refusals that intents noted, oldest first.
        approvals: Sentences about its request for approval and the decision, oldest first.
    """

    refusals: list[Explanation] = field(default_factory=list)
    approvals: list[str] = field(default_factory=list)


def requests_around(log: EventLog, agent_id: str, req_id: str) -> RequestsAround:
    """Return the noted refusals and the approvals of a request, found by its key. O(log).

    Args:
        log: The log; it is only read.
        agent_id: Agent of the request.
        req_id: Id of the request, or its key.
    """
    keys = dict.fromkeys((req_id, key_of(req_id)))
    found, asked = RequestsAround(), dict[str, bytes]()
    agent, noted = canonical(agent_id), None
    for ordinal, data in log.read():
        is_by_key = agent in data and any(canonical(key) in data for key in keys)
        is_of_request = any(request in data for request in asked.values())
        if not is_by_key and not is_of_request and _NOTE not in data:
            continue
        for record in expanded(decode(data, ordinal)):
            if not isinstance(record, Admitted):
                continue
            for intent in intents_of(record):
                if is_by_key and intent["kind"].endswith(f".{REFUSE}"):
                    found.refusals += _noted(ordinal, record, intent, agent_id, tuple(keys))
                elif is_by_key and intent["kind"] == ASK:
                    request = intent["payload"]
                    if any(_is_of(one, agent_id, keys) for one in request["intents"]):
                        asked[request["id"]] = canonical(request["id"])
                        found.approvals.append(
                            _request_text(_place(ordinal, record, noted), request)
                        )
                elif notes_time(intent["kind"]):
                    noted = NotedTime(intent["payload"], record.now_ns)
                elif intent["kind"] in _DECISIONS and intent["payload"]["id"] in asked:
                    place = _place(ordinal, record, noted)
                    found.approvals.append(_decision_text(place, intent["payload"]))
    return found


def _is_of(one: Mapping[str, Json], agent_id: str, keys: Mapping[str, None]) -> bool:
    return one["agent"] == agent_id and one["key"] in keys


def _place(ordinal: int, record: Admitted, noted: NotedTime | None) -> str:
    """Return the record, and its wall time where a program has noted one before."""
    if noted is None:
        return f"record {ordinal}"
    return f"record {ordinal}, {noted.wall_time(record.now_ns):%Y-%m-%d %H:%M:%S} UTC"


def _request_text(place: str, request: Mapping[str, Json]) -> str:
    role = f"a person with the role {request['role']!r}" if request["role"] else "a person"
    asks = request["about"].get(ASKS)
    reasons = [one for one in asks if isinstance(one, str)] if isinstance(asks, list) else []
    why = f", because {'; '.join(reasons)}" if reasons else ""
    return (
        f"it was held for {role}{why}: request {request['id']!r}, open for "
        f"{request['seconds']:g} s of simulated time ({place})"
    )


def _decision_text(place: str, made: Mapping[str, Json]) -> str:
    verb = made.get("decision", "amend")
    if verb in {"expire", "stale"}:
        what = "was not decided in time" if verb == "expire" else "would not do what was shown"
        return f"request {made['id']!r} {what} ({place})"
    reason = f": {made['reason']}" if made["reason"] else ""
    return f"{made['by']!r} decided {verb!r} on request {made['id']!r} ({place}){reason}"


def _noted(
    ordinal: int,
    record: Admitted,
    intent: Mapping[str, Json],
    agent_id: str,
    keys: Sequence[str],
) -> list[Explanation]:
    return [
        _explained(ordinal, record, intent["kind"], agent_id, call)
        for agent, call in noted_refusals([intent])
        if agent == agent_id and call["key"] in keys
    ]


def _explained(
    ordinal: int, record: Admitted, kind: str, agent_id: str, call: Mapping[str, Json]
) -> Explanation:
    codes, message = list(call["codes"]), call["message"]
    stage = STAGE_OF.get(codes[0], Stage.DOMAIN) if codes else Stage.STRUCTURE
    refusals = tuple({"code": code, "message": message} for code in codes)
    return Explanation(
        answer="refused",
        agent_id=agent_id,
        req_id=call["key"],
        record=ordinal,
        seq_before=record.seq - 1,
        sim_time=record.now_ns / 1e9,
        batch={name: call[name] for name in ("key", "tool", "arguments")},
        stages=(StageReport(stage=stage.value, result="refused", refusals=refusals),),
        notes=(f"the kernel records no such refusal; the program noted it by {kind!r}",),
    )
