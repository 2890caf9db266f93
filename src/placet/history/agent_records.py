"""The records of a log about an agent, or about one request of it, found in the order of the log.

joined and left · its batches · the outcomes of their effects, with the persons who settled a
doubt · the requests for approval of its intents, with the decisions · the refusals that a program
noted
"""

from collections.abc import Iterator, Mapping
from typing import Final

from placet.history.batch_outcomes import is_held
from placet.history.column_rows import code_of, row_of
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, RECORDER, SETTLE, key_of
from placet.kernel.plugin.noted_refusals import noted_refusals
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, canonical
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Columns,
    EffectChanged,
    Record,
    Refused,
    Scheduled,
    Settled,
    SettlementFailed,
    TableMade,
    agents_of,
    intents_of,
)

_SEARCHED_MAX: Final = 16
"""Open effects and requests whose names are searched for in a record before it is decoded."""

_NOT_DONE: Final = frozenset({"deny", "expire", "stale"})
_ENDED: Final = "session.end"
_FAILED: Final = frozenset({"refused", "failed"})


class AgentRecords:
    """The search for the records about one agent; each record is passed once, in order.

    Args:
        agent: The agent.
        request: Id of one of its requests, or its key; empty for all of the agent.
    """

    def __init__(self, agent: str, request: str = "") -> None:
        self._agent, self._request = agent, request
        form = sequence_form(agent)
        self._names = [canonical(agent), *([] if form is None else [canonical(form[0])])]
        self._effects: dict[tuple[int, int], str] = {}
        self._requests: set[str] = set()

    def may_be_about(self, data: bytes) -> bool:
        """Return whether an encoded record may be about the agent; a search in bytes is cheap."""
        if any(name in data for name in self._names):
            return True
        if len(self._effects) + len(self._requests) > _SEARCHED_MAX:
            return True
        seqs = {seq for seq, _ in self._effects}
        return any(canonical(one) in data for one in (*seqs, *self._requests))

    def found(self, record: Record) -> tuple[bool, str] | None:
        """Return whether a record is a failure, and its effect; None for one of others."""
        match record:
            case Admitted() | Refused() | Scheduled():
                return self._of_batch(record)
            case SettlementFailed() | Settled() | EffectChanged():
                return self._of_effect(record)
            case Columns():
                row = row_of(record, self._agent)
                is_wanted = row is not None and self._request in {"", record.req_id}
                return (bool(code_of(record, row)), "") if is_wanted and row is not None else None
            case _ if self._request:
                return None
            case AgentChanged():
                is_own = record.agent_id == self._agent
                return (record.what == "suspended", "") if is_own else None
            case TableMade() if record.members is not None:
                form = sequence_form(self._agent)
                is_member = form is not None and form[0] == record.stem and form[1] < record.count
                return (False, "") if is_member else None
            case _:
                return (False, "") if self._is_changed(record) else None

    def _of_effect(self, record: Settled | EffectChanged) -> tuple[bool, str] | None:
        at = record.effect_seq, record.effect_index
        kind = self._effects.get(at)
        if kind is None:
            return None
        if isinstance(record, EffectChanged):
            return record.what == "in_doubt", kind
        if not isinstance(record, SettlementFailed):
            del self._effects[at]
        return isinstance(record, SettlementFailed) or not record.succeeded, kind

    def _of_batch(self, record: Admitted | Refused | Scheduled) -> tuple[bool, str] | None:
        if not self._requests and not any(name in record.encoded for name in self._names):
            is_born = not self._request and self._is_changed(record)
            return (False, "") if is_born else None
        intents = intents_of(record)
        own = [place for place, intent in enumerate(intents) if self.is_own(intent)]
        others = [self._of_other(intent) for intent in intents]
        if isinstance(record, Admitted):
            for intent in intents:
                self._note_request(intent)
        is_about = any(other is not None for other in others)
        is_born = not self._request and self._is_changed(record)
        if not (own or is_about or is_born):
            return None
        if isinstance(record, Admitted) and own:
            seqs = {_seq_at(record, place) for place in own}
            for index, (seq, kind, _, agent) in enumerate(record.effects):
                if seq in seqs or (agent == self._agent and not self._request):
                    self._effects[seq, index] = kind
        is_refused = bool(own) and isinstance(record, Refused) and not is_held(record)
        is_failed = any(_ends_badly(intents[place]) for place in own)
        return is_refused or is_failed or any(other is True for other in others), ""

    def _is_changed(self, record: Record) -> bool:
        """Return whether a record registered or removed the agent."""
        return any(change.agent_id == self._agent for change in agents_of(record))

    def is_own(self, intent: Mapping[str, Json]) -> bool:
        """Return whether an intent is of the agent and of the request."""
        if intent["agent_id"] != self._agent:
            return False
        return self._request in {"", intent["req_id"], key_of(intent["req_id"])}

    def _of_other(self, intent: Mapping[str, Json]) -> bool | None:
        """Return whether an intent about the agent is a failure; None if it is not about it."""
        kind, payload = intent["kind"], intent["payload"]
        if kind in {ASK, AMEND}:
            held = payload if kind == ASK else payload["request"]
            is_known = kind == AMEND and payload["id"] in self._requests
            is_about = is_known or any(self._is_held_for(one) for one in held["intents"])
            return False if is_about else None
        if kind == DECIDE:
            return payload["decision"] in _NOT_DONE if payload["id"] in self._requests else None
        if kind == SETTLE and intent["agent_id"] == RECORDER and self._is_settled_by(payload):
            return payload["outcome"] in _FAILED
        return True if any(self.noted(intent)) else None

    def _is_settled_by(self, payload: Mapping[str, Json]) -> bool:
        """Return whether a person settles an effect of the agent, by the payload of the record."""
        if not self._request:
            return bool(payload["agent"] == self._agent)
        effect = str(payload["effect"])  # any text, if its batch was refused
        return any(effect.endswith(f"/{seq}/{index}") for seq, index in self._effects)

    def _note_request(self, intent: Mapping[str, Json]) -> None:
        """Keep the id of a request for the agent from its admission to its end."""
        kind, payload = intent["kind"], intent["payload"]
        if kind in {AMEND, DECIDE}:  # the request of an amendment ends in the batch that makes it
            self._requests.discard(payload["id"])
        elif kind == ASK and any(self._is_held_for(one) for one in payload["intents"]):
            self._requests.add(payload["id"])

    def _is_held_for(self, one: Mapping[str, Json]) -> bool:
        return one["agent"] == self._agent and self._request in {"", one["key"]}

    def noted(self, intent: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
        """Yield the calls of the agent whose refusal an intent notes."""
        keys = {"", key_of(self._request), self._request} if self._request else {""}
        for agent, call in noted_refusals([intent]):
            if agent == self._agent and (not self._request or call["key"] in keys):
                yield call


def _seq_at(record: Admitted, position: int) -> int:
    """Return the seq of an intent of an admitted batch."""
    rank = position if record.order is None else record.order.index(position)
    return record.seq - len(record.contexts) + 1 + rank


def _ends_badly(intent: Mapping[str, Json]) -> bool:
    """Return whether an intent records the end of a plan that was not applied."""
    return intent["kind"] == _ENDED and intent["payload"].get("outcome") in _FAILED
