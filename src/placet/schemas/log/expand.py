"""The records that the batches of a `Group` would have had by themselves.

Every reader of records goes through `expanded`, so that it need not know in which form a batch was
recorded.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from placet.schemas.codec import Json, array_header
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithOutput,
    AdmittedWithWork,
    Changes,
    EntityChange,
    Group,
    Record,
    Refused,
    Scheduled,
)

BatchRecord: TypeAlias = Admitted | Refused | Scheduled
"""The record of one batch."""

_NO_CHANGES: Final = Changes()
_HASH64: Final = blake2b(digest_size=8)
_RAW_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_AGENT: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw, msgspec.Raw, msgspec.Raw, int])
_ONE: Final = array_header(1)


def expanded(record: Record) -> Sequence[Record]:
    """Return the record, or those that the batches of a `Group` would have had, in order.

    They all have the `prev` of the group: only the group itself is a link of the chain.

    Raises:
        ValueError: The group is inconsistent, so no gate has written it.
    """
    return batches_of(record) if isinstance(record, Group) else (record,)


def batches_of(record: BatchRecord | Group) -> Sequence[BatchRecord]:
    """Return the records of the batches that a record holds, in order of execution.

    Raises:
        ValueError: The group is inconsistent, so no gate has written it.
    """
    if not isinstance(record, Group):
        return (record,)
    try:
        return _expanded(record)
    except (IndexError, KeyError, msgspec.DecodeError, StopIteration, TypeError) as error:
        raise ValueError(f"a group of batches is inconsistent: {error!r}") from error


def _expanded(record: Group) -> list[Admitted | Refused]:
    parts = _RAW_PARTS.decode(record.encoded)
    count = len(parts)
    contexts = record.contexts
    contexts_of = [contexts] * count if isinstance(contexts, int) else contexts
    agents = [_AGENT.decode(part)[0] for part in parts]
    submitters = record.submitters
    if submitters is None:
        submitters = agents
    elif isinstance(submitters, str):
        submitters = [submitters] * count
    refusals: dict[int, list[tuple[int | None, str, str, str]]] = {}
    for place, index, stage, code, message in record.refused:
        refusals.setdefault(place, []).append((index, stage, code, message))
    effects: dict[int, list[tuple[int, str, dict[str, Json], str]]] = {}
    for place, effect_seq, kind, payload, by in record.effects:
        effects.setdefault(place, []).append((effect_seq, kind, payload, by))
    more = _More(record)
    puts = iter(record.puts)
    seq = record.seq - len(record.puts)
    records: list[Admitted | Refused] = []
    for place, (part, agent_id, number, submitter, context_seq) in enumerate(
        zip(parts, agents, record.numbers, submitters, contexts_of, strict=True)
    ):
        refused = refusals.get(place)
        if refused is None:
            seq += 1
        hashed = _HASH64.copy()
        hashed.update(part)
        body: list[Json] = [
            *(record.prev, seq, record.now_ns, f"b{number}", submitter),
            *(int.from_bytes(hashed.digest(), "big"), _ONE + part, [context_seq], None, None),
            *(record.group_seq, record.tick, record.group),
        ]
        if refused is not None:
            records.append(Refused(*[*body, refused]))
            continue
        put = next(puts)
        changes = more.changes.get(place, _NO_CHANGES)
        if put is not None:
            key, entity, value, foreign_seq = put
            collection, field = record.keys[key]
            owner = agent_id if entity is None else entity
            fields = {field: value}
            change = EntityChange(collection, owner, fields, False, seq, agent_id, foreign_seq)
            changes = Changes([change])
        records.append(more.admitted(place, body, changes, effects.get(place, [])))
    if next(puts, _NO_CHANGES) is not _NO_CHANGES:
        raise IndexError("it has more changes than admitted batches")
    return records


class _More:
    """What few batches of a group have, by place."""

    def __init__(self, record: Group) -> None:
        self.changes = dict(record.other_changes)
        self._normalized = dict(record.normalized)
        self._notices = dict(record.notices)
        self._answers = dict(record.answers)
        self._work = dict(record.work)

    def admitted(
        self,
        place: int,
        body: list[Json],
        changes: Changes,
        effects: list[tuple[int, str, dict[str, Json], str]],
    ) -> Admitted:
        """Build the record of an admitted batch; `body` are the fields of every batch record."""
        normalized = self._normalized.get(place)
        notices = self._notices.get(place)
        fields: list[Json] = [
            *body,
            None,
            changes,
            effects,
            None if normalized is None else [(0, normalized)],
            None if notices is None else [(0, notices)],
        ]
        answers = [(0, self._answers[place])] if place in self._answers else []
        if place in self._work:
            return AdmittedWithWork(*[*fields, answers, self._work[place]])
        if answers:
            return AdmittedWithOutput(*[*fields, answers])
        return Admitted(*fields)
