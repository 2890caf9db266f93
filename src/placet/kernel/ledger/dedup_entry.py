"""A dedup-window entry: the req_ids of one batch and the verdict stored for them.

Memory matters most here, because windows are most of what a busy world holds. Consecutive ids of
one sequence, as handles make them, are a `RangeEntry`: two numbers and no strings, a fifth of a
`ListEntry`. Neither is tracked by the garbage collector.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from placet.schemas.codec import Json, canonical, from_canonical
from placet.schemas.identity import Span, only_sequence

MIXED: Final = -1
"""In place of a highest number: the ids are of several sequences, or of none."""

PLAIN: Final = b""
"""Detail of an admitted batch of one agent whose ids have consecutive seqs."""


class ListEntry(msgspec.Struct, gc=False, eq=False):
    """An answer, with its ids.

    Attributes:
        fingerprint: Of the batch.
        now_ns: When it was given.
        seq: The first of an admitted batch, and the world's for every other answer.
        detail: What else it was, encoded; `unpack` reads it.
        highest: The highest number of an admitted batch's ids that are all of one sequence, so
            that they are read once; else `MIXED`.
        ids: In the submitter's order.
    """

    fingerprint: int
    now_ns: int
    seq: int
    detail: bytes
    highest: int
    ids: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many ids it is for."""
        return len(self.ids)


class RangeEntry(msgspec.Struct, gc=False, eq=False):
    """Admission of a batch whose ids are `name:lowest` to `name:highest`, with consecutive seqs.

    Attributes:
        fingerprint: As of a block; likewise the next two.
        name: Of the sequence.
        lowest: The first number.
        highest: The last.
    """

    fingerprint: int
    now_ns: int
    seq: int
    name: str
    lowest: int
    highest: int

    detail: ClassVar[bytes] = PLAIN

    @property
    def count(self) -> int:
        """How many ids it is for."""
        return self.highest - self.lowest + 1

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, in the submitter's order. O(count)."""
        name = self.name
        return tuple([f"{name}:{number}" for number in range(self.lowest, self.highest + 1)])

    def with_ids(self) -> ListEntry:
        """Return the same answer as a block."""
        return ListEntry(self.fingerprint, self.now_ns, self.seq, PLAIN, self.highest, self.ids)


DedupEntry: TypeAlias = ListEntry | RangeEntry
"""What a window remembers of one batch."""


class StoredRefusal(NamedTuple):
    """The stored part of one refusal, without its text.

    None in place of an index means the whole batch.
    """

    position: int | None
    agent_id: str | None
    req_id: str | None
    stage: str
    code: str


class StoredVerdict(NamedTuple):
    """An earlier answer to a batch, as one agent's window tells it.

    Attributes:
        seq: The verdict's seq; None for a refusal.
        ids: The agent's ids in the batch, in the submitter's order.
        seqs: seq of each id if it was admitted.
        refusals: Why the batch was refused, empty if it was not.
        contexts: context_seq of each id of a refused batch.
        is_scheduled: It waits in the schedule; the final answer is still to come.
    """

    seq: int | None
    ids: tuple[str, ...]
    seqs: dict[str, int]
    refusals: tuple[StoredRefusal, ...]
    contexts: dict[str, int]
    is_scheduled: bool


def admitted(
    fingerprint: int, now_ns: int, first_seq: int, ids: Sequence[str], span: Span | None = None
) -> DedupEntry:
    """Remember an admitted batch of one agent whose ids have consecutive seqs.

    Args:
        fingerprint: Of the batch.
        now_ns: When it was admitted.
        first_seq: Of the first id.
        ids: Its ids.
        span: Of them, if they are known to be of one sequence.
    """
    if span is None:
        return ListEntry(fingerprint, now_ns, first_seq, PLAIN, MIXED, tuple(ids))
    if span.is_run:
        return RangeEntry(fingerprint, now_ns, first_seq, span.name, span.lowest, span.highest)
    return ListEntry(fingerprint, now_ns, first_seq, PLAIN, span.highest, tuple(ids))


def admitted_in_part(
    fingerprint: int, now_ns: int, seqs: range, ids: Sequence[str], offsets: Sequence[int]
) -> ListEntry:
    """Remember an agent's share of an admitted batch: `seqs` of the batch, offsets of the ids."""
    detail = canonical({"offsets": offsets, "count": len(seqs)})
    return ListEntry(fingerprint, now_ns, seqs.start, detail, MIXED, tuple(ids))


def refused(
    fingerprint: int,
    now_ns: int,
    seq: int,
    asked: Sequence[tuple[str, int]],
    refusals: Sequence[StoredRefusal],
) -> ListEntry:
    """Store a final refusal: `(req_id, context_seq)` of each intent, and the refusals."""
    contexts = [context_seq for _, context_seq in asked]
    detail = canonical({"refusals": refusals, "contexts": contexts})
    ids = tuple([req_id for req_id, _ in asked])
    return ListEntry(fingerprint, now_ns, seq, detail, MIXED, ids)


def scheduled(fingerprint: int, now_ns: int, seq: int, ids: Sequence[str]) -> ListEntry:
    """Remember that a batch waits in the schedule."""
    return ListEntry(fingerprint, now_ns, seq, canonical({}), MIXED, tuple(ids))


def unpack(answered: DedupEntry) -> StoredVerdict:
    """Read an answer. O(its ids)."""
    ids, seq = answered.ids, answered.seq
    if answered.detail == PLAIN:
        seqs = {req_id: seq + offset for offset, req_id in enumerate(ids)}
        return StoredVerdict(seq + len(ids) - 1, ids, seqs, (), {}, is_scheduled=False)
    detail: dict[str, Json] = from_canonical(answered.detail)
    if "offsets" in detail:
        seqs = {i: seq + offset for i, offset in zip(ids, detail["offsets"], strict=True)}
        return StoredVerdict(seq + detail["count"] - 1, ids, seqs, (), {}, is_scheduled=False)
    if "refusals" in detail:
        refusals = tuple(StoredRefusal(*refusal) for refusal in detail["refusals"])
        contexts = dict(zip(ids, detail["contexts"], strict=True))
        return StoredVerdict(None, ids, {}, refusals, contexts, is_scheduled=False)
    return StoredVerdict(seq, ids, {}, (), {}, is_scheduled=True)


def dump_answer(one: DedupEntry) -> list[Json]:
    """Return an answer as plain values, the same whichever form it has."""
    return [one.fingerprint, one.now_ns, one.seq, one.detail, one.highest, *one.ids]


def load_answer(dumped: Sequence[Json]) -> DedupEntry:
    """Rebuild an answer from `dump_answer`."""
    fingerprint, now_ns, seq, detail, highest, *ids = dumped
    span = only_sequence(ids) if detail == PLAIN and highest != MIXED and ids else None
    if span is not None and span.is_run:
        return RangeEntry(fingerprint, now_ns, seq, span.name, span.lowest, span.highest)
    return ListEntry(fingerprint, now_ns, seq, detail, highest, tuple(ids))
