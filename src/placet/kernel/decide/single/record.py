"""The commit of single batches: one `SingleBlock` record, with one hash, of many of them."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, cast

import msgspec
from msgspec.structs import asdict

from placet.kernel.commit.commit import DecisionRecorder, Journal
from placet.kernel.context import GateContext
from placet.kernel.decide.single.batch import SingleBatch
from placet.kernel.state.draft import Undo
from placet.schemas.batch import RELEASED, CheckedBatch
from placet.schemas.codec import Json, array_header, canonical
from placet.schemas.log.record import (
    Admitted,
    AdmittedWithAgents,
    AdmittedWithOutput,
    AdmittedWithWork,
    AgentChange,
    Changes,
    Refused,
    SingleBlock,
    SingleBlockWithAgents,
    encode_record,
)

NO_PUT: Final = b"\xc0"
"""The encoded None of an admitted batch without a change, or with other changes than one put."""

_RECORD_BYTES_MAX: Final = 1 << 18
"""Encoded intents of one record, some thousands; what is above begins another. A reader takes a
record as a whole, and its events need ten times the memory."""

_NAMES_MAX: Final = 65_536
"""Admitted batches that may wait to be counted; the end of a tick drops them uncounted."""

_AGENT, _CONTEXT, _PART, _NUMBER, _SUBMITTER = map(itemgetter, (1, 5, 6, 8, 9))


class SingleRecorder(DecisionRecorder):
    """Makes decisions final, and collects their records into one `SingleBlock` record.

    `flush` writes it. Until then the batches are in the ledger but not in the log, so the caller
    flushes before anything else is written, and also when it is interrupted.

    Attributes:
        singles: The batches of the record so far, in order of execution.
        keys: Number of each `(collection, field)` that a put names.
        puts: The encoded put of each admitted batch, or `NO_PUT`.
    """

    __slots__ = ("_others", "_room", "keys", "puts", "singles")

    def __init__(self, context: GateContext, journal: Journal, world: str) -> None:
        super().__init__(context, journal, world)
        self._begin()

    def _begin(self) -> None:
        self.singles: list[SingleBatch] = []
        self.keys: dict[tuple[str, str], int] = {}
        self.puts: list[bytes] = []
        self._others = _Others()
        self._room = _RECORD_BYTES_MAX

    @property
    def durability(self) -> str:
        """How the log keeps a record."""
        return self.journal.durability

    def add(self, single: SingleBatch, writes: Sequence[Undo]) -> None:
        """Add a plain batch that passed every stage; the caller applies it to the ledger.

        Args:
            single: The batch.
            writes: What its rule wrote: one put, or nothing.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError: The put has no encoding; nothing
                was added.
        """
        put = NO_PUT
        if writes:
            collection, entity, field, _, changed, _, _, _ = writes[0]
            key = self.keys.get((collection, field))
            if key is None:
                canonical((collection, field))  # a name that cannot be encoded spoils no other
                key = len(self.keys)
            owner = None if entity == single[1] else entity
            put = canonical((key, owner, changed.fields[field], changed.foreign_seq))
            if key == len(self.keys):
                self.keys[collection, field] = key
        self._room -= len(single[6])
        if self._room < 0:
            self.flush()
        self.singles.append(single)
        self.puts.append(put)

    def write(self, record: Admitted | Refused, data: bytes, batch: CheckedBatch) -> None:
        """Add the record of a batch, which is applied, to the record of the group."""
        place = len(self.singles)
        self._room -= len(batch.encoded)
        self.singles.append(
            (
                *(RELEASED, batch.agents[0], batch.req_ids[0], "", 0, batch.contexts[0]),
                *(batch.encoded[1:], 0, int(batch.batch_id[1:]), batch.submitter),
            )
        )
        if isinstance(record, Refused):
            self._others.refused += [(place, *refusal) for refusal in record.refusals]
        else:
            self.puts.append(NO_PUT)
            self._others.add(place, record)

    def flush(self) -> None:
        """Write the record of the batches since the last flush, if there are any."""
        singles, context, journal = self.singles, self.context, self.journal
        if not singles:
            return
        others = self._others
        record = SingleBlock(
            journal.prev,
            context.ledger.seq,
            context.now_ns,
            context.group_seq,
            context.ledger.tick,
            context.group,
            list(map(_NUMBER, singles)),
            _submitters(singles),
            array_header(len(singles)) + b"".join(map(_PART, singles)),
            _same_or_all(list(map(_CONTEXT, singles))),
            list(self.keys),
            cast("list[Json]", msgspec.Raw(array_header(len(self.puts)) + b"".join(self.puts))),
            others.refused,
            others.changes,
            others.effects,
            others.normalized,
            others.notices,
            others.answers,
            others.work,
        )
        if others.agents:
            record = SingleBlockWithAgents(**asdict(record), agents=others.agents)
        data = encode_record(record)
        ledger = context.ledger
        ledger.group = context.group + 1
        if len(ledger.ordinals.names) > _NAMES_MAX:
            ledger.ordinals.sum_up()
        self._begin()
        journal.append(data)


class _Others:
    """The rarer parts of the batches of a group, each with the place of its batch in front."""

    def __init__(self) -> None:
        self.refused: list[tuple[int, int | None, str, str, str]] = []
        self.changes: list[tuple[int, Changes]] = []
        self.effects: list[tuple[int, int, str, dict[str, Json], str]] = []
        self.normalized: list[tuple[int, dict[str, Json]]] = []
        self.notices: list[tuple[int, list[tuple[str, str, str]]]] = []
        self.answers: list[tuple[int, Json]] = []
        self.work: list[tuple[int, int]] = []
        self.agents: list[tuple[int, list[AgentChange]]] = []

    def add(self, place: int, record: Admitted) -> None:
        """Add the rarer parts of the record of an admitted batch of one intent."""
        changes = record.changes
        if changes.entities or changes.collections:
            self.changes.append((place, changes))
        self.effects += [(place, *effect) for effect in record.effects]
        self.normalized += [(place, payload) for _, payload in record.normalized or ()]
        self.notices += [(place, notices) for _, notices in record.notices or ()]
        if isinstance(record, AdmittedWithOutput):
            self.answers += [(place, answer) for _, answer in record.answers]
        if isinstance(record, AdmittedWithWork) and record.work:
            self.work.append((place, record.work))
        if isinstance(record, AdmittedWithAgents):
            self.agents.append((place, record.agents))


def _submitters(singles: list[SingleBatch]) -> str | list[str] | None:
    submitters = list(map(_SUBMITTER, singles))
    return None if submitters == list(map(_AGENT, singles)) else _same_or_all(submitters)


def _same_or_all(values: list[Json]) -> Json:
    """Return the one value of a list of equal ones; else the list."""
    return values[0] if values.count(values[0]) == len(values) else values
