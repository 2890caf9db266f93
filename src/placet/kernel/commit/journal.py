"""Where decisions become records: the chain that the log will hold."""

from collections.abc import Callable
from typing import TypeAlias

from placet.schemas.log.record import GENESIS, record_hash
from placet.schemas.verdict import NOT_KEPT

RecordSink: TypeAlias = Callable[[bytes], None]


class Journal:
    """The growing end of a log.

    Attributes:
        prev: Hash of the latest record.
        count: How many records there are.
        sink: Takes each encoded record; None drops it, and keeps the chain.
        durability: Durability level of the sink, once it has one; verdicts name it.
    """

    __slots__ = ("count", "durability", "prev", "sink")

    def __init__(self, sink: RecordSink | None = None, durability: str = NOT_KEPT) -> None:
        self.durability = durability
        self.prev = GENESIS
        self.count = 0
        self.sink = sink

    def append(self, data: bytes) -> None:
        """Take an encoded record, which must name `prev` as it is now."""
        self.prev = record_hash(data)
        self.count += 1
        sink = self.sink
        if sink is not None:
            sink(data)
