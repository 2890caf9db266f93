"""The batches of a record: one, or those of a `SingleBlock` as if each had a record by itself.

Every reader of records goes through `expanded`, so that it need not know in which form a batch was
recorded.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import msgspec

from placet.schemas.codec import Json, array_header
from placet.schemas.errors import StoreError
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithAgents,
    AdmittedWithOutput,
    AdmittedWithWork,
    Changes,
    EntityChange,
    Record,
    Refused,
    Scheduled,
    SingleBlock,
    SingleBlockWithAgents,
)

BatchRecord: TypeAlias = Admitted | Refused | Scheduled
"""The record of one batch."""

_NO_CHANGES: Final = Changes()
_HASH64: Final = blake2b(digest_size=8)
_RAW_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_IDS: Final = msgspec.msgpack.Decoder(tuple[str, str, msgspec.Raw, msgspec.Raw, int])
_ONE: Final = array_header(1)

_MISFITS: Final = (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError)
"""Errors of a block whose parts do not fit together."""


class InconsistentBlock(StoreError, ValueError):  # noqa: N818  # reads as the failure
    """A `SingleBlock` whose parts do not fit together: the log is damaged, or forged."""


def expanded(record: Record) -> Sequence[Record]:
    """Return the record, or the records that the batches of a `SingleBlock` would have had.

    They are in order of execution, and have the `prev` of the block, which alone is a link of the
    chain.

    Raises:
        InconsistentBlock: No gate has written the block.
    """
    return batches_of(record) if isinstance(record, SingleBlock) else (record,)


def batches_of(record: BatchRecord | SingleBlock) -> Sequence[BatchRecord]:
    """Return the records of the batches that a record holds, in order of execution.

    Raises:
        InconsistentBlock: No gate has written the block.
    """
    if not isinstance(record, SingleBlock):
        return (record,)
    try:
        batches = BlockBatches(record)
        return [batches.record_of(item) for item in batches]
    except _MISFITS as error:
        raise InconsistentBlock(
            f"the record of seq {record.seq} is an inconsistent block of batches: {error!r:.200}",
            seq=record.seq,
        ) from error


class BlockItem(NamedTuple):
    """One batch of a `SingleBlock`.

    Attributes:
        place: Its place in the record, from 0.
        seq: Sequence number of the world after it.
        agent_id: Agent of its intent.
        req_id: Its req_id.
        part: The encoded intent.
        fingerprint: 64-bit hash of its content.
        put: The one change of an admitted batch, as in `SingleBlock.puts`.
        is_plain: It was admitted, and did nothing but its put.
    """

    place: int
    seq: int
    agent_id: str
    req_id: str
    part: bytes
    fingerprint: int
    put: tuple[int, str | None, Json, int] | None
    is_plain: bool


class BlockBatches:
    """The batches of a `SingleBlock`, in order of execution."""

    def __init__(self, record: SingleBlock) -> None:
        self._record = record
        self._refusals: dict[int, list[tuple[int | None, str, str, str]]] = {}
        for place, index, stage, code, message in record.refused:
            self._refusals.setdefault(place, []).append((index, stage, code, message))
        self._effects: dict[int, list[tuple[int, str, dict[str, Json], str]]] = {}
        for place, effect_seq, kind, payload, by in record.effects:
            self._effects.setdefault(place, []).append((effect_seq, kind, payload, by))
        self._changes = dict(record.other_changes)
        self._normalized = dict(record.normalized)
        self._notices = dict(record.notices)
        self._answers = dict(record.answers)
        self._work = dict(record.work)
        self._agents = dict(record.agents) if isinstance(record, SingleBlockWithAgents) else {}
        self._special = {
            *self._refusals, *self._effects, *self._changes, *self._normalized, *self._notices,
            *self._answers, *self._work, *self._agents,
        }  # fmt: skip

    def __iter__(self) -> Iterator[BlockItem]:
        """Yield the batches.

        Raises:
            IndexError: There are more changes than admitted batches, or fewer.
        """
        record, refusals, special = self._record, self._refusals, self._special
        puts, admitted = record.puts, 0
        start = record.seq - len(puts)
        copy, decode = _HASH64.copy, _IDS.decode
        for place, part in enumerate(_RAW_PARTS.decode(record.encoded)):
            hashed = copy()
            hashed.update(part)
            agent_id, req_id, _, _, _ = decode(part)
            put = None
            if place not in refusals:
                put = puts[admitted]
                admitted += 1
            yield BlockItem(
                place, start + admitted, agent_id, req_id, bytes(part),
                int.from_bytes(hashed.digest(), "big"), put, place not in special,
            )  # fmt: skip
        if admitted != len(puts):
            raise IndexError("it has more changes than admitted batches")

    def record_of(self, item: BlockItem) -> Admitted | Refused:
        """Return the record that a batch would have had."""
        record, place = self._record, item.place
        contexts, submitters = record.contexts, record.submitters
        context = contexts if isinstance(contexts, int) else contexts[place]
        submitter = submitters[place] if isinstance(submitters, list) else submitters
        body: list[Json] = [
            record.prev, item.seq, record.now_ns, f"b{record.numbers[place]}",
            item.agent_id if submitter is None else submitter, item.fingerprint,
            _ONE + item.part, [context], None, None, record.group_seq, record.tick, record.group,
        ]  # fmt: skip
        refusals = self._refusals.get(place)
        if refusals is not None:
            return Refused(*[*body, refusals])
        normalized, notices = self._normalized.get(place), self._notices.get(place)
        fields: list[Json] = [
            *body,
            None,
            self._changes_of(item),
            self._effects.get(place, []),
            None if normalized is None else [(0, normalized)],
            None if notices is None else [(0, notices)],
        ]
        answers = [(0, self._answers[place])] if place in self._answers else []
        if place in self._agents:
            work, agents = self._work.get(place, 0), self._agents[place]
            return AdmittedWithAgents(*[*fields, answers, work, agents])
        if place in self._work:
            return AdmittedWithWork(*[*fields, answers, self._work[place]])
        if answers:
            return AdmittedWithOutput(*[*fields, answers])
        return Admitted(*fields)

    def _changes_of(self, item: BlockItem) -> Changes:
        if item.put is None:
            return self._changes.get(item.place, _NO_CHANGES)
        key, entity, value, foreign_seq = item.put
        collection, field = self._record.keys[key]
        owner, by = item.agent_id if entity is None else entity, item.agent_id
        change = EntityChange(collection, owner, {field: value}, False, item.seq, by, foreign_seq)
        return Changes([change])
