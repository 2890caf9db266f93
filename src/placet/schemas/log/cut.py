"""Cuts a `SingleBlock` record after one of its batches, for a world that ends or forks there."""

from typing import Final

import msgspec

from placet.schemas.codec import array_header
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import SingleBlock, SingleBlockWithAgents, decode_record

_BY_PLACE: Final = (
    *("refused", "other_changes", "effects", "normalized", "notices", "answers", "work"),
)
"""Fields of a `SingleBlock` whose items begin with the place of their batch."""

_RAW_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


def first_batches(record: SingleBlock, count: int) -> SingleBlock:
    """Return the record that the first batches of a group would have had without the others.

    Args:
        record: The group.
        count: Number of batches to keep, at least 1.
    """
    parts = _RAW_PARTS.decode(record.encoded)[:count]
    admitted = len(parts) - len({place for place, *_ in record.refused if place < count})
    contexts, submitters = record.contexts, record.submitters
    names = (*_BY_PLACE, "agents") if isinstance(record, SingleBlockWithAgents) else _BY_PLACE
    kept = {name: [item for item in getattr(record, name) if item[0] < count] for name in names}
    return msgspec.structs.replace(
        record,
        seq=record.seq - len(record.puts) + admitted,
        numbers=record.numbers[:count],
        submitters=submitters[:count] if isinstance(submitters, list) else submitters,
        encoded=array_header(len(parts)) + b"".join(parts),
        contexts=contexts[:count] if isinstance(contexts, list) else contexts,
        puts=record.puts[:admitted],
        **kept,
    )


def batches_in(data: bytes) -> int:
    """Return the number of batches in an encoded `SingleBlock`."""
    record = decode_record(data)
    assert isinstance(record, SingleBlock), "only a group is cut"
    return len(record.numbers)


def count_to_seq(record: SingleBlock, seq: int) -> int:
    """Return how many batches of a group were decided at a seq, those without a seq included.

    Refusals take no seq: those after the batch that took `seq` belong to it.
    """
    return sum(batch.seq <= seq for batch in batches_of(record))
