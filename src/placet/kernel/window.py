"""The dedup window of one agent: which req_ids were answered, and how.

Memory is what matters here: one shared tuple per batch and one dict slot per id, nothing that the
garbage collector has to follow. Blocks leave whole, oldest first.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from placet.schemas.codec import Json, canonical, from_canonical
from placet.schemas.identity import sequence_form

Block: TypeAlias = tuple[int | str | bytes, ...]
"""`(fingerprint, now_ns, first seq, detail, req_id, req_id, ...)`, ids in order of execution."""

FINGERPRINT: Final = 0
NOW_NS: Final = 1
FIRST_SEQ: Final = 2
DETAIL: Final = 3
IDS: Final = 4

PLAIN: Final = b""
"""Detail of an admitted batch whose ids have consecutive seqs."""


class PastRefusal(NamedTuple):
    """What is remembered of one refusal: not its text."""

    req_id: str | None
    stage: str
    code: str


class Past(NamedTuple):
    """An earlier answer, unpacked.

    Attributes:
        seqs: seq of each id if it was admitted.
        refusals: Why it was refused, empty if it was not.
        contexts: context_seq of each id of a refused batch.
        scheduled: Number of the schedule entry, while the final answer is awaited.
    """

    seqs: dict[str, int]
    refusals: tuple[PastRefusal, ...] = ()
    contexts: dict[str, int] = {}
    scheduled: int | None = None


def admitted_block(
    fingerprint: int, now_ns: int, first_seq: int, ids: Sequence[str], offsets: Sequence[int] | None
) -> Block:
    """Remember an admitted batch; `offsets` where the ids' seqs are not consecutive."""
    detail = PLAIN if offsets is None else canonical({"offsets": offsets})
    return (fingerprint, now_ns, first_seq, detail, *ids)


def refused_block(
    fingerprint: int,
    now_ns: int,
    seq: int,
    ids: Sequence[str],
    contexts: Sequence[int],
    refusals: Sequence[PastRefusal],
) -> Block:
    """Remember a final refusal, with the contexts it was judged on."""
    detail = canonical({"refusals": [tuple(r) for r in refusals], "contexts": list(contexts)})
    return (fingerprint, now_ns, seq, detail, *ids)


def scheduled_block(fingerprint: int, now_ns: int, seq: int, ids: Sequence[str], n: int) -> Block:
    """Remember that a batch waits in the schedule."""
    return (fingerprint, now_ns, seq, canonical({"scheduled": n}), *ids)


def unpack(block: Block) -> Past:
    """Read a block. O(its ids)."""
    ids: Sequence[str] = block[IDS:]  # type: ignore[assignment]  # the tail is str by construction
    first: int = block[FIRST_SEQ]  # type: ignore[assignment]  # likewise int
    if block[DETAIL] == PLAIN:
        return Past({req_id: first + offset for offset, req_id in enumerate(ids)})
    detail: dict[str, Json] = from_canonical(block[DETAIL])  # type: ignore[arg-type]  # bytes
    if "offsets" in detail:
        return Past({i: first + o for i, o in zip(ids, detail["offsets"], strict=True)})
    if "scheduled" in detail:
        return Past({}, scheduled=detail["scheduled"])
    return Past(
        {},
        tuple(PastRefusal(*refusal) for refusal in detail["refusals"]),
        dict(zip(ids, detail["contexts"], strict=True)),
    )


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
        """Add a block and evict what is beyond the bounds; answers by how much `count` grew."""
        before = self.count
        ids = self.ids
        for req_id in block[IDS:]:
            ids[req_id] = block  # type: ignore[index]  # the tail is str by construction
        self.blocks.append(block)
        self.count += len(block) - IDS
        oldest_ns = block[NOW_NS] - age_ns_max  # type: ignore[operator]  # an int
        while True:
            oldest = self.blocks[0]
            if self.count - len(oldest) + IDS < ids_max and oldest[NOW_NS] >= oldest_ns:  # type: ignore[operator]  # an int
                return self.count - before
            if oldest is block:
                return self.count - before
            self.forget_oldest(sequences_max)

    def forget_oldest(self, sequences_max: int) -> None:
        """Evict the oldest block; keep the high-water marks of its sequences."""
        block = self.blocks.popleft()
        self.count -= len(block) - IDS
        ids, forgotten = self.ids, self.forgotten
        for req_id in block[IDS:]:
            if ids.get(req_id) is block:  # type: ignore[call-overload]  # a str; else: a retry owns it
                del ids[req_id]  # type: ignore[arg-type]  # likewise
            name, _, digits = req_id.rpartition(":")  # type: ignore[union-attr]  # likewise
            if digits.isdecimal():
                sequence = sequence_form(req_id)  # type: ignore[arg-type]  # likewise
                if sequence is not None and sequence[1] > forgotten.get(name, -1):
                    forgotten[name] = sequence[1]
        while len(forgotten) > sequences_max:
            del forgotten[next(iter(forgotten))]

    def is_too_old(self, req_id: str) -> bool:
        """Tell whether an unknown id of the sequence form must have been evicted."""
        name, _, digits = req_id.rpartition(":")
        high = self.forgotten.get(name)
        if high is None or not digits.isdecimal() or int(digits) > high:
            return False
        return sequence_form(req_id) is not None

    def dump(self) -> list[Json]:
        """Give the window as plain values."""
        return [[list(block) for block in self.blocks], sorted(self.forgotten.items())]

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
                window.ids[req_id] = block  # type: ignore[index]  # the tail is str
        window.forgotten = dict(forgotten)
        return window
