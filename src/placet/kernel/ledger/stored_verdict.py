"""Builds and reads the entries of dedup windows that hold more than a plain admission."""

from collections.abc import Sequence
from typing import NamedTuple

from placet.kernel.ledger.dedup_window import (
    MIXED,
    PLAIN,
    DedupEntry,
    ListEntry,
)
from placet.schemas.codec import Json, canonical, from_canonical


class StoredRefusal(NamedTuple):
    """The remembered part of a refusal: all but its text.

    `position`, `agent_id` and `req_id` are None for a refusal of the whole batch.
    """

    position: int | None
    agent_id: str | None
    req_id: str | None
    stage: str
    code: str


class StoredVerdict(NamedTuple):
    """A remembered verdict, decoded from the entry in one agent's window.

    Attributes:
        seq: Seq of the verdict; None for a refusal.
        ids: The agent's req_ids in the batch, in the submitted order.
        seqs: Seq of each id, if the batch was admitted.
        refusals: Refusals of the batch; empty if it was not refused.
        contexts: `context_seq` of each id of a refused batch.
        is_scheduled: The batch waits in the schedule; its final verdict is still to come.
    """

    seq: int | None
    ids: tuple[str, ...]
    seqs: dict[str, int]
    refusals: tuple[StoredRefusal, ...]
    contexts: dict[str, int]
    is_scheduled: bool


def admitted_in_part(
    fingerprint: int, now_ns: int, seqs: range, ids: Sequence[str], offsets: Sequence[int]
) -> ListEntry:
    """Build the dedup-window entry of one agent's part of an admitted batch.

    Args:
        fingerprint: Fingerprint of the batch.
        now_ns: Simulated time of the admission, nanoseconds.
        seqs: Seqs of the whole batch.
        ids: The agent's req_ids.
        offsets: Offset into `seqs` of each id.
    """
    detail = canonical({"offsets": offsets, "count": len(seqs)})
    return ListEntry(fingerprint, now_ns, seqs.start, detail, MIXED, tuple(ids))


def refused(
    fingerprint: int,
    now_ns: int,
    seq: int,
    requests: Sequence[tuple[str, int]],
    refusals: Sequence[StoredRefusal],
) -> ListEntry:
    """Build the dedup-window entry of a final refusal.

    `requests` holds `(req_id, context_seq)` of each intent of the agent.
    """
    contexts = [context_seq for _, context_seq in requests]
    detail = canonical({"refusals": refusals, "contexts": contexts})
    ids = tuple([req_id for req_id, _ in requests])
    return ListEntry(fingerprint, now_ns, seq, detail, MIXED, ids)


def scheduled(fingerprint: int, now_ns: int, seq: int, ids: Sequence[str]) -> ListEntry:
    """Build the dedup-window entry of a batch that waits in the schedule."""
    return ListEntry(fingerprint, now_ns, seq, canonical({}), MIXED, tuple(ids))


def unpack(entry: DedupEntry) -> StoredVerdict:
    """Decode an entry of a dedup window to the verdict that it stores. O(ids of the entry)."""
    ids, seq = entry.ids, entry.seq
    if entry.detail == PLAIN:
        seqs = {req_id: seq + offset for offset, req_id in enumerate(ids)}
        return StoredVerdict(seq + len(ids) - 1, ids, seqs, (), {}, is_scheduled=False)
    detail: dict[str, Json] = from_canonical(entry.detail)
    if "offsets" in detail:
        seqs = {i: seq + offset for i, offset in zip(ids, detail["offsets"], strict=True)}
        return StoredVerdict(seq + detail["count"] - 1, ids, seqs, (), {}, is_scheduled=False)
    if "refusals" in detail:
        refusals = tuple(StoredRefusal(*refusal) for refusal in detail["refusals"])
        contexts = dict(zip(ids, detail["contexts"], strict=True))
        return StoredVerdict(None, ids, {}, refusals, contexts, is_scheduled=False)
    return StoredVerdict(seq, ids, {}, (), {}, is_scheduled=True)
