"""Find a request in a log, and explain its answer at the state of its decision.

Two passes over the log: one finds the records that name the request, one replays up to its
decision. The group of the batch is re-executed from its first record, so that its claims are
restored. `kernel/log/explain_record.py` then explains the record.
"""

from collections.abc import Sequence
from dataclasses import replace
from re import compile as pattern
from typing import Final, NamedTuple

from placet.actors.ports import EventLog
from placet.history.batch_outcomes import noted_in
from placet.history.column_rows import code_of, row_of
from placet.history.effect_outcomes import with_outcomes
from placet.history.explain_requests import requests_around
from placet.history.position import last_seq
from placet.history.tracebacks import place_in_traceback, traceback_of
from placet.kernel.arrays.row_codes import refusal_of
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.ledger.dedup_window import DedupEntry
from placet.kernel.ledger.stored_verdict import unpack
from placet.kernel.log.explain_record import explain_batch, explain_other
from placet.kernel.log.replay import MISFITS, Divergence
from placet.kernel.log.verify import Maker, Verifier
from placet.kernel.plugin.approved import key_of
from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import remake
from placet.schemas.batch import sequence_form
from placet.schemas.codec import Json, canonical
from placet.schemas.errors import PositionError, describe_error
from placet.schemas.explanation import UNKNOWN, Explanation
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    Columns,
    Record,
    Refused,
    Scheduled,
    SingleBlock,
    group_of,
    intents_of,
    record_type,
)
from placet.schemas.name_suggestions import SETTINGS_MAX, did_you_mean, nearest
from placet.schemas.refusal import RefusalCode
from placet.stores.reading import Store, as_log
from placet.stores.snapshots.files import SnapshotStore
from placet.stores.snapshots.recovery import decode, read_on, recover

_EARLIER_MAX: Final = 16
_RAISES_NO_MORE: Final = (
    "the rule raised then and does not raise now: it, or something that it reads outside of the "
    "state, has changed"
)

_DIGIT: Final = pattern(r"\d")
_SIMILAR_KEYS: Final = 0.6
"""Keys are often numbered or random, so that many are a little alike."""


class _RequestRecord(NamedTuple):
    """A record of a request.

    Attributes:
        ordinal: Ordinal number of the record in the log.
        record: The record of the batch; in a group, the one that it would have had.
        position: Position of the request in its batch; -1 for a column batch as a whole.
        place: Place of the batch in the record of a group; 0 in every other record.
    """

    ordinal: int
    record: Record
    position: int
    place: int = 0


class _Replaying(NamedTuple):
    """The means of a replay, as `explain` takes them."""

    log: EventLog
    domains: Sequence[Domain] | Maker
    validator: EffectValidator | None
    files: SnapshotStore | None
    reads: bool


def explain(
    log: Store,
    agent_id: str,
    req_id: str,
    domains: Sequence[Domain] | Maker = remake,
    *,
    validator: EffectValidator | None = None,
    files: SnapshotStore | None = None,
    reads: bool = False,
) -> Explanation:
    """Return an explanation of the latest answer to a request. O(log).

    Args:
        log: The log, or its path or URL; it is only read.
        agent_id: Agent of the request.
        req_id: Id of the request; or its part before the last slash, the key of a call that was
            submitted with several ids (`placet.kernel.plugin.approved`).
        domains: The domains that decided the request. By default they are recreated from the log.
        validator: The effect validator, if the log was made with one.
        files: Snapshots to begin from; None are the snapshots of the log.
        reads: List the fields that the rule read, also those hidden from the agent.

    Raises:
        StoreError: The log cannot be read, or was compacted beyond the request.
    """
    log = as_log(log)
    positions = _find_request(log, agent_id, req_id) or _find_request(
        log, agent_id, req_id, is_key=True
    )
    around = requests_around(log, agent_id, req_id)
    latest = around.refusals[-1] if around.refusals else None
    if latest is not None and (not positions or positions[-1].ordinal < (latest.record or 0)):
        explained = latest
        answers = [*map(_summary, positions), *map(_noted_summary, around.refusals[:-1])]
    elif positions:
        explained = _explain(_Replaying(log, domains, validator, files, reads), positions[-1])
        answers = [*map(_summary, positions[:-1]), *map(_noted_summary, around.refusals)]
    else:
        return _unknown(log, agent_id, req_id)
    earlier = tuple(sorted(answers, key=lambda answer: answer["record"])[-_EARLIER_MAX:])
    explained = _with_outcomes(log, explained)
    return replace(explained, earlier=earlier, notes=(*explained.notes, *around.approvals))


def _with_outcomes(log: EventLog, explained: Explanation) -> Explanation:
    """Return an explanation whose effects have their outcomes."""
    after = (explained.record or 0) + 1
    return replace(explained, effects=with_outcomes(log, after, explained.effects))


def explain_seq(
    log: Store,
    seq: int,
    domains: Sequence[Domain] | Maker = remake,
    *,
    validator: EffectValidator | None = None,
    files: SnapshotStore | None = None,
    agent_id: str | None = None,
    reads: bool = False,
) -> Explanation:
    """Return an explanation of the decision that took a sequence number. O(log).

    Args:
        log: The log, or its path or URL; it is only read.
        seq: The sequence number.
        domains: The domains that decided it. By default they are recreated from the log.
        validator: The effect validator, if the log was made with one.
        files: Snapshots to begin from; None are the snapshots of the log.
        agent_id: Member of which the row of a column batch is explained; None explains the whole
            record.
        reads: List the fields that the rule read, also those hidden from the agent.

    Raises:
        StoreError: The log cannot be read, was compacted beyond the seq, or ends before it; or the
            agent has no row there.
    """
    log = as_log(log)
    request = _find_seq(log, seq)
    if request is not None and agent_id is not None:
        request = _row_request(log, request, agent_id)
    if request is not None:
        explained = _explain(_Replaying(log, domains, validator, files, reads), request)
        explained = _with_outcomes(log, explained)
        if explained.req_id is None:
            return explained
        at = (request.ordinal, request.place)
        positions = _find_request(log, explained.agent_id, explained.req_id)
        earlier = tuple(_summary(one) for one in positions if (one.ordinal, one.place) < at)
        return replace(explained, earlier=earlier[-_EARLIER_MAX:])
    message = f"cannot explain seq {seq} of {log.url}: it ends at seq {last_seq(log)}"
    raise PositionError(message, store=log.url)


def _find_seq(log: EventLog, seq: int) -> _RequestRecord | None:
    """Return the record that took a seq; None if the log ends before it."""
    for ordinal, data in log.read(log.find_seq(seq)):
        for place, record in enumerate(expanded(decode(data, ordinal))):
            if isinstance(record, Refused) or record.seq < seq:
                continue
            position = -1 if isinstance(record, Columns) else 0
            if isinstance(record, Admitted):
                rank = seq - (record.seq - len(record.contexts) + 1)
                position = rank if record.order is None else record.order[rank]
            return _RequestRecord(ordinal, record, position, place)
    return None


def _row_request(log: EventLog, request: _RequestRecord, agent_id: str) -> _RequestRecord:
    """Return the request of a member in the column batch of a record.

    Raises:
        PositionError: The record is no column batch, or has no row of the member.
    """
    record = request.record
    row = row_of(record, agent_id) if isinstance(record, Columns) else None
    if row is None:
        raise PositionError(
            f"{agent_id!r} has no row in the record of seq {record.seq} of {log.url}, which is a "
            f"{record_type(record)}; give the seq of a column batch of its population",
            store=log.url,
        )
    return request._replace(position=row)


def _find_request(
    log: EventLog, agent_id: str, req_id: str, *, is_key: bool = False
) -> list[_RequestRecord]:
    """Return every record of a batch that contains a request, oldest first. O(log).

    With `is_key`, the requests of a key: of which `req_id` is the part before the last slash.
    """
    agent, request = canonical(agent_id), req_id.encode() if is_key else canonical(req_id)
    form = sequence_form(agent_id)
    population = agent if form is None else canonical(form[0])
    positions = []
    for ordinal, data in log.read():
        # A search in the bytes is 20 times cheaper than to decode.
        if request not in data or (agent not in data and population not in data):
            continue
        for place, record in enumerate(expanded(decode(data, ordinal))):
            if isinstance(record, Admitted | Refused | Scheduled):
                positions += [
                    _RequestRecord(ordinal, record, position, place)
                    for position, intent in enumerate(intents_of(record))
                    if intent["agent_id"] == agent_id
                    and (key_of(intent["req_id"]) if is_key else intent["req_id"]) == req_id
                ]
            elif isinstance(record, Columns) and record.req_id == req_id:
                row = row_of(record, agent_id)
                if row is not None:
                    positions.append(_RequestRecord(ordinal, record, row))
    return positions


def _explain(by: _Replaying, request: _RequestRecord) -> Explanation:
    try:
        past, group = _replay_to(by, request)
        explained = _explain_next(past, request)
    except Divergence as error:  # the log diverges: explain it as written, without its rules
        past, group = _replay_to(by._replace(domains=(), validator=None), request)
        explained = _explain_next(past, request)
        note = f"the log differs from what its rules decide, see `placet verify`: {error}"
        explained = replace(explained, notes=(*explained.notes, note))
    return replace(explained, conflict=_conflict(explained, group))


def _replay_to(by: _Replaying, request: _RequestRecord) -> tuple[Verifier, list[_RequestRecord]]:
    """Fold up to a record, and re-execute the earlier records of its group.

    Returns:
        The replay, and the batches of the group so far.
    """
    record = request.record
    own, group_seq = group_of(record), getattr(record, "group_seq", record.seq)
    # A group is opened at `group_seq`, so a record with that seq may belong to it.
    recovered = recover(by.log, to_seq=group_seq - 1, files=by.files).past
    past = Verifier(by.domains, validator=by.validator, past=recovered)
    past.is_folding, past.records_reads = True, by.reads
    group: list[_RequestRecord] = []
    for ordinal, data in read_on(by.log, past.journal.count):
        if ordinal > request.ordinal or (ordinal == request.ordinal and not request.place):
            break
        before = decode(data, ordinal)
        if own is not None and group_of(before) == own:
            past.is_folding = False
            batches = expanded(before)[: request.place if ordinal == request.ordinal else None]
            group += [_RequestRecord(ordinal, batch, 0, at) for at, batch in enumerate(batches)]
        if ordinal == request.ordinal:
            assert isinstance(before, SingleBlock), "only a group holds several batches"
            past.apply_part(before, request.place)
            break
        past.apply(data)
    past.is_folding = False
    if past.journal.count != request.ordinal:
        raise Divergence(past.journal.count, past.ledger.seq, "the log ends before it should")
    return past, group


def _explain_next(past: Verifier, request: _RequestRecord) -> Explanation:
    record = request.record
    try:
        if isinstance(record, Admitted | Refused | Scheduled):
            return _with_faults(past, record, request.position)
        if isinstance(record, Columns) and request.position >= 0:
            from placet.kernel.log.explain_row import explain_row  # noqa: PLC0415  # numpy is an extra

            return explain_row(past, record, request.position)
        return explain_other(past, record)
    except MISFITS as error:
        raise Divergence(
            request.ordinal, past.ledger.seq, f"{record_type(record)} does not fit: {error!r}"
        ) from error


def _with_faults(
    past: Verifier, record: Admitted | Refused | Scheduled, position: int
) -> Explanation:
    """Explain a batch, with the exceptions of its re-execution: its record has their type alone."""
    faults: list[dict[str, Json]] = []

    def note(where: str, error: BaseException) -> None:
        faults.append(
            {
                "where": where,
                "error": describe_error(error),
                "place": place_in_traceback(error),
                "traceback": traceback_of(error),
            }
        )

    past.on_fault = note
    explained = explain_batch(past, record, position)
    notes = explained.notes
    has_raised = isinstance(record, Refused) and any(
        code == RefusalCode.RULE_ERROR for _, _, code, _ in record.refusals
    )
    if has_raised and not faults and past.registry is not None:
        notes = (*notes, _RAISES_NO_MORE)
    return replace(explained, faults=tuple(faults), notes=notes)


def _conflict(explained: Explanation, group: Sequence[_RequestRecord]) -> dict[str, Json] | None:
    """Return which agent's claim an intent was refused for."""
    for stage in explained.stages:
        for refusal in stage.refusals:
            if refusal["code"] == RefusalCode.CONFLICT and "details" in refusal:
                details = refusal["details"]
                claim = {name: details.get(name) for name in ("winner", "resource")}
                won = _winning_batch(claim["winner"], group)
                return {**claim, "index": refusal["index"], **won}
    return None


def _winning_batch(winner: str, group: Sequence[_RequestRecord]) -> dict[str, Json]:
    """Return the winner's latest admitted batch in the same group."""
    for ordinal, record, _, _ in reversed(group):
        if isinstance(record, Admitted):
            intents = [i for i in intents_of(record) if i["agent_id"] == winner]
            if intents:
                return {
                    "record": ordinal,
                    "batch_id": record.batch_id,
                    "seq": record.seq,
                    "req_ids": [intent["req_id"] for intent in intents],
                    "priority": max(intent["priority"] for intent in intents),
                }
    return {}


def _summary(request: _RequestRecord) -> dict[str, Json]:
    record = request.record
    refusals = record.refusals if isinstance(record, Refused) else []
    if isinstance(record, Columns) and (code := code_of(record, request.position)):
        refusals = [(0, *refusal_of(record.reasons, code))]
    answer = "scheduled" if isinstance(record, Scheduled) else "refused" if refusals else "admitted"
    return {
        "record": request.ordinal,
        "seq": record.seq,
        "answer": answer,
        "codes": list(dict.fromkeys(code for _, _, code, _ in refusals)),
    }


def _noted_summary(noted: Explanation) -> dict[str, Json]:
    codes = [refusal["code"] for stage in noted.stages for refusal in stage.refusals]
    return {
        "record": noted.record,
        "seq": noted.seq_before,
        "answer": noted.answer,
        "codes": list(dict.fromkeys(codes)),
    }


def _remembered(entry: DedupEntry) -> str:
    """Return what remains of an answer whose record was compacted away."""
    past = unpack(entry)
    if past.refusals:
        return f"refused by {past.refusals[0].stage}: {past.refusals[0].code}"
    return f"{'scheduled' if past.is_scheduled else 'admitted'}, with its batch, at seq {past.seq}"


def _unknown(log: EventLog, agent_id: str, req_id: str) -> Explanation:
    """Return an explanation without an answer: reasons, and the state of the agent."""
    start = log.start()
    past = recover(log).past
    agent = past.ledger.agents.get(agent_id)
    notes = []
    if start.record:
        notes = [f"the log was compacted up to seq {start.seq}: an earlier verdict is not in it"]
    if agent is not None:
        window = agent.window
        count = 0 if window is None else window.count
        notes.append(
            f"{agent_id!r} is registered and {'' if agent.is_suspended else 'not '}suspended; of "
            f"its requests {count} verdicts are remembered"
        )
        entry = None if window is None else window.find(req_id)
        if entry is not None:
            notes.append(f"this request among them: it was {_remembered(entry)}")
        elif window is not None and window.entries:
            notes.append(f"its latest decided request is {window.entries[-1].ids[-1]!r}")
    elif agent_id in past.ledger.gone:
        notes.append(f"{agent_id!r} was registered once, and was removed")
    elif past.ledger.generation_floor:
        notes.append(f"{agent_id!r} is not registered; agents removed long ago are forgotten")
    else:
        hint = did_you_mean(agent_id, past.ledger.agents)
        notes.append(f"no agent {agent_id!r} was ever registered in this world; {hint}")
    return Explanation(
        answer=UNKNOWN,
        agent_id=agent_id,
        req_id=req_id,
        seq_before=past.ledger.seq,
        sim_time=past.ledger.now_ns / 1e9,
        notes=tuple(notes),
        suggestions=_similar_keys(log, agent_id, req_id),
    )


def _similar_keys(log: EventLog, agent_id: str, req_id: str) -> tuple[str, ...]:
    """Return keys of requests of an agent of which an id may be a misspelling.

    An id with another number is of another request.
    """
    form = _DIGIT.sub("0", req_id)
    known = [key for key in _keys_of(log, agent_id) if _DIGIT.sub("0", key) != form]
    return nearest(req_id, known, similar=_SIMILAR_KEYS, compared_max=SETTINGS_MAX)


def _keys_of(log: EventLog, agent_id: str) -> list[str]:
    """Return the keys of the latest requests of an agent, noted refusals included. O(log)."""
    agent, keys = canonical(agent_id), dict[str, None]()
    for ordinal, data in log.read():
        if agent not in data:
            continue
        for record in expanded(decode(data, ordinal)):
            found = [one.call["key"] for one in noted_in(record) if one.agent == agent_id]
            if isinstance(record, Admitted | Refused | Scheduled):
                intents = intents_of(record)
                own = [one["req_id"] for one in intents if one["agent_id"] == agent_id]
                found += [key_of(req_id) or req_id for req_id in own]
            keys.update(dict.fromkeys(found))
            for key in list(keys)[: max(0, len(keys) - SETTINGS_MAX)]:
                del keys[key]
    return list(keys)
