"""The single batch, as the decision of a group reads it: a plain batch of one intent.

A plain batch is decided now: it has no time, no options, no warnings, no `valid_until` and no
conditions. A tuple is a quarter of the cost of a `CheckedBatch`, which is built from it where an
ordinary stage needs one.
"""

from typing import Final, TypeAlias

from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import array_header
from placet.schemas.intent import Intent
from placet.schemas.limits import base_work

SingleBatch: TypeAlias = tuple[Intent, str, str, str, int, int, bytes, int, int, str]
"""`(intent, agent_id, req_id, kind, priority, context_seq, part, fingerprint, number, submitter)`.

`part` is the encoded `Part` of the intent, and `number` that of the batch id `b{number}`.
"""

AnyBatch: TypeAlias = SingleBatch | CheckedBatch
"""A batch of a group, in either form."""

ONE: Final = array_header(1)
"""The bytes before the encoded part of the only intent of a batch."""


def single_of(batch: CheckedBatch) -> SingleBatch | None:
    """Return the single batch of a checked batch; None if it is not a plain batch of one intent."""
    if (
        len(batch.req_ids) != 1
        or batch.due_of is not None
        or batch.sim_time_ns is not None
        or batch.dry_run
        or batch.shows_changes
        or batch.notices is not None
        or batch.valid_until_ns is not None
        or batch.conditions is not None
    ):
        return None
    agent_id, kind, _ = batch.counts[0]
    return (
        *(batch.intents[0], agent_id, batch.req_ids[0], kind, batch.priority, batch.contexts[0]),
        *(batch.encoded[1:], batch.fingerprint, int(batch.batch_id[1:]), batch.submitter),
    )


def checked_of(single: SingleBatch) -> CheckedBatch:
    """Build the checked batch of a single batch."""
    intent, agent_id, req_id, kind, priority, context_seq, part, fingerprint, number, who = single
    batch = CheckedBatch()
    batch.intents = [intent]
    batch.encoded = ONE + part
    batch.fingerprint = fingerprint
    batch.submitter, batch.batch_id = who, f"b{number}"
    batch.contexts = [context_seq]
    batch.notices = batch.valid_until_ns = batch.due_of = batch.conditions = None
    batch.sim_time_ns = batch.valid_for_ns = None
    batch.dry_run = batch.shows_changes = False
    batch.index([(agent_id, req_id, kind, None, priority)])
    return batch


class SingleSize:
    """The size of the batch that is being decided, from which a draft knows its work.

    Attributes:
        bytes: Encoded bytes of its intent.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    @property
    def base_work(self) -> int:
        """Units of work of the batch, without the work of its rule."""
        return base_work(1, self.bytes + 1)
