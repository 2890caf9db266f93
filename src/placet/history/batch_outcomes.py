"""The outcomes of recorded batches, as readers of a log count them: admitted, refused, or held.

A batch that was refused for nothing but the approval of a person is held, and not refused. An
intent that notes refused calls (`refuse_calls`) stands for these refusals: it is no call that was
admitted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from placet.kernel.plugin.approved import APPROVAL_REQUIRED
from placet.kernel.plugin.noted_refusals import (
    REFUSE,
    NotedRefusal,
    noted_refusals,
    notes_refusals,
)
from placet.schemas.log.expand import BatchRecord
from placet.schemas.log.record import Admitted, Record, Refused, intents_of
from placet.schemas.refusal import STAGE_OF, Stage

_NOTE: Final = f".{REFUSE}".encode()
_NO_CODES: Final[Mapping[str, int]] = MappingProxyType({})


class BatchOutcome(NamedTuple):
    """The number of intents of a batch, by outcome.

    Attributes:
        admitted: Admitted intents, except notes of refusals.
        refused: Refused intents, and the noted refusals.
        held: Intents that wait for a person.
        codes: Number of refused intents by `stage/code`, all of a batch by each of its codes.
        noted: The refused calls that the batch notes.
    """

    admitted: int = 0
    refused: int = 0
    held: int = 0
    codes: Mapping[str, int] = _NO_CODES
    noted: tuple[NotedRefusal, ...] = ()


def outcome_of(record: BatchRecord) -> BatchOutcome:
    """Return the outcome of a batch; a scheduled one has none yet. O(refusals)."""
    if isinstance(record, Refused):
        count = len(record.contexts)
        if is_held(record):
            return BatchOutcome(held=count)
        codes = {f"{stage}/{code}": count for _, stage, code, _ in record.refusals}
        return BatchOutcome(refused=count, codes=codes)
    if not isinstance(record, Admitted):
        return BatchOutcome()
    count = len(record.contexts)
    if _NOTE not in record.encoded:
        return BatchOutcome(admitted=count)
    intents = intents_of(record)
    noting = sum(notes_refusals(intent["kind"]) for intent in intents)
    noted = tuple(noted_refusals(intents))
    codes = Counter(f"{stage_of(one)}/{code}" for one in noted for code in one.call["codes"])
    return BatchOutcome(count - noting, len(noted), codes=codes, noted=noted)


def is_held(record: Record) -> bool:
    """Return whether a batch was refused for nothing but the approval of a person."""
    return isinstance(record, Refused) and all(
        code.rpartition(".")[2] == APPROVAL_REQUIRED for _, _, code, _ in record.refusals
    )


def noted_in(record: Record) -> Iterator[NotedRefusal]:
    """Yield the refused calls that a batch notes."""
    if isinstance(record, Admitted) and _NOTE in record.encoded:
        yield from noted_refusals(intents_of(record))


def stage_of(noted: NotedRefusal) -> str:
    """Return the stage of a noted refusal, by its first code."""
    codes = noted.call["codes"]
    return (STAGE_OF.get(codes[0], Stage.DOMAIN) if codes else Stage.STRUCTURE).value
