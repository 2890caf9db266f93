"""The checked batch of a record, rebuilt for the schedule, for replay and for verify."""

from placet.schemas.batch import CheckedBatch, conditions_of, part_of
from placet.schemas.log.intents import checked_intents
from placet.schemas.log.record import Admitted, Refused, Scheduled


def recorded_batch(record: Admitted | Refused | Scheduled) -> CheckedBatch:
    """Rebuild the checked batch that a record was made of.

    Raises:
        ValueError: The record's bytes are not a batch.
    """
    batch = CheckedBatch()
    batch.intents = intents = checked_intents(
        record.encoded, record.contexts, record.valid_until_ns
    )
    batch.encoded = record.encoded
    batch.fingerprint = record.fingerprint
    batch.submitter = record.submitter
    batch.batch_id = record.batch_id
    batch.contexts = record.contexts
    batch.valid_until_ns = record.valid_until_ns
    batch.conditions = conditions_of(intents)
    batch.due_of = record.due_of
    batch.sim_time_ns = batch.valid_for_ns = batch.notices = None
    batch.dry_run = batch.shows_changes = False
    batch.index(list(map(part_of, intents)))
    return batch
