"""The dedup window of one agent: which req_ids were answered, and how.

Memory is what matters here: one shared tuple per batch and one dict slot per id, nothing that the
garbage collector has to follow. Blocks leave whole, oldest first.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from placet.schemas.codec import Json, canonical, from_canonical
from placet.schemas.identity import sequence_form, sequences_of

Block: TypeAlias = tuple[int, int, int, bytes, int, *tuple[str, ...]]
"""`(fingerprint, now_ns, seq, detail, highest, req_id, req_id, ...)`, ids in the submitter's order.

The seq is the first of an admitted batch, and the world's for every other answer. `highest` is the
highest number of ids that are all of one sequence, so that they are read once; else it is `MIXED`.
"""

FINGERPRINT: Final = 0
NOW_NS: Final = 1
SEQ: Final = 2
DETAIL: Final = 3
HIGHEST: Final = 4
IDS: Final = 5

MIXED: Final = -1

PLAIN: Final = b""
"""Detail of an admitted batch of one agent whose ids have consecutive seqs."""


class PastRefusal(NamedTuple):
    """What is remembered of one refusal: not its text. None where it was of the whole batch."""

    position: int | None
    agent_id: str | None
    req_id: str | None
    stage: str
    code: str


class Past(NamedTuple):
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
    refusals: tuple[PastRefusal, ...]
    contexts: dict[str, int]
    is_scheduled: bool


def admitted_block(
    fingerprint: int,
    now_ns: int,
    first_seq: int,
    ids: Sequence[str],
    sequence: tuple[str, int, int] | None = None,
) -> Block:
    """Remember an admitted batch of one agent whose ids have consecutive seqs."""
    highest = MIXED if sequence is None else sequence[2]
    return (fingerprint, now_ns, first_seq, PLAIN, highest, *ids)


def scattered_block(
    fingerprint: int, now_ns: int, seqs: range, ids: Sequence[str], offsets: Sequence[int]
) -> Block:
    """Remember an agent's share of an admitted batch: `seqs` of the batch, offsets of the ids."""
    detail = canonical({"offsets": offsets, "count": len(seqs)})
    return (fingerprint, now_ns, seqs.start, detail, MIXED, *ids)


def refused_block(
    fingerprint: int,
    now_ns: int,
    seq: int,
    asked: Sequence[tuple[str, int]],
    refusals: Sequence[PastRefusal],
) -> Block:
    """Remember a final refusal: `(req_id, context_seq)` of what was asked, and why not."""
    contexts = [context_seq for _, context_seq in asked]
    detail = canonical({"refusals": refusals, "contexts": contexts})
    return (fingerprint, now_ns, seq, detail, MIXED, *[req_id for req_id, _ in asked])


def scheduled_block(fingerprint: int, now_ns: int, seq: int, ids: Sequence[str]) -> Block:
    """Remember that a batch waits in the schedule."""
    return (fingerprint, now_ns, seq, canonical({}), MIXED, *ids)


def unpack(block: Block) -> Past:
    """Read a block. O(its ids)."""
    ids, seq = block[IDS:], block[SEQ]
    if block[DETAIL] == PLAIN:
        seqs = {req_id: seq + offset for offset, req_id in enumerate(ids)}
        return Past(seq + len(ids) - 1, ids, seqs, (), {}, is_scheduled=False)
    detail: dict[str, Json] = from_canonical(block[DETAIL])
    if "offsets" in detail:
        seqs = {i: seq + offset for i, offset in zip(ids, detail["offsets"], strict=True)}
        return Past(seq + detail["count"] - 1, ids, seqs, (), {}, is_scheduled=False)
    if "refusals" in detail:
        refusals = tuple(PastRefusal(*refusal) for refusal in detail["refusals"])
        contexts = dict(zip(ids, detail["contexts"], strict=True))
        return Past(None, ids, {}, refusals, contexts, is_scheduled=False)
    return Past(seq, ids, {}, (), {}, is_scheduled=True)


class Window:
    """The answered req_ids of one agent, bounded by count and by age.

    Attributes:
        ids: req_id -> the block that answers it.
        blocks: The blocks, oldest first.
        count: req_ids in the blocks.
        forgotten: For ids of the sequence form `name:<n>`: name -> highest n that was evicted.
    """

    __slots__ = ("blocks", "count", "forgotten", "ids")

    def __init__(self) -> None:
        self.ids: dict[str, Block] = {}
        self.blocks: deque[Block] = deque()
        self.count = 0
        self.forgotten: dict[str, int] = {}

    def remember(self, block: Block, ids_max: int, age_ns_max: int, sequences_max: int) -> int:
        """Add a block and evict what is beyond the bounds; answers by how much `count` grew.

        The latest `ids_max` ids stay; as blocks leave whole, some older ones may.
        """
        before, blocks, ids = self.count, self.blocks, self.ids
        for req_id in block[IDS:]:
            ids[req_id] = block
        blocks.append(block)
        self.count = count = before + len(block) - IDS
        oldest_ns = block[NOW_NS] - age_ns_max
        oldest = blocks[0]
        while count - len(oldest) + IDS >= ids_max or oldest[NOW_NS] < oldest_ns:
            self.forget_oldest(sequences_max)
            count, oldest = self.count, blocks[0]
        return count - before

    def forget_oldest(self, sequences_max: int) -> None:
        """Evict the oldest block; keep the high-water marks of its sequences."""
        block = self.blocks.popleft()
        old_ids = block[IDS:]
        self.count -= len(old_ids)
        ids, forgotten = self.ids, self.forgotten
        for req_id in old_ids:
            if ids.get(req_id) is block:  # else a later answer owns it
                del ids[req_id]
        highest = block[HIGHEST]
        if highest != MIXED:
            name = old_ids[0].rpartition(":")[0]
            if highest > forgotten.get(name, -1):
                forgotten[name] = highest
        else:
            for name, _, highest in sequences_of(old_ids):
                if highest > forgotten.get(name, -1):
                    forgotten[name] = highest
        while len(forgotten) > sequences_max:
            del forgotten[next(iter(forgotten))]

    def is_new(self, req_ids: Sequence[str], sequence: tuple[str, int, int] | None = None) -> bool:
        """Tell whether no id is known and none can have been forgotten. One call per batch.

        Args:
            req_ids: Ids of one batch.
            sequence: Name, lowest and highest number, if it is known that all are of one sequence.
        """
        ids = self.ids
        if req_ids[0] in ids or (len(req_ids) > 1 and not ids.keys().isdisjoint(req_ids)):
            return False
        forgotten = self.forgotten
        if not forgotten:
            return True
        if sequence is not None:
            return sequence[1] > forgotten.get(sequence[0], -1)
        return all(lowest > forgotten.get(name, -1) for name, lowest, _ in sequences_of(req_ids))

    def is_too_old(self, req_id: str) -> bool:
        """Tell whether an unknown id of the sequence form must have been evicted."""
        name, _, digits = req_id.rpartition(":")
        high = self.forgotten.get(name)
        if high is None or not digits.isdecimal() or int(digits) > high:
            return False
        return sequence_form(req_id) is not None

    def dump(self) -> list[Json]:
        """Give the window as plain values; the order of `forgotten` says which goes first."""
        return [[list(block) for block in self.blocks], list(self.forgotten.items())]

    @classmethod
    def load(cls, dumped: list[Json]) -> "Window":
        """Rebuild a window from `dump`."""
        window = cls()
        blocks, forgotten = dumped
        for values in blocks:
            block: Block = tuple(values)
            window.blocks.append(block)
            window.count += len(block) - IDS
            for req_id in block[IDS:]:
                window.ids[req_id] = block
        window.forgotten = dict(forgotten)
        return window
