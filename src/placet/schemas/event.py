"""The event that a subscriber receives: one durable record as JSON."""

from collections.abc import Mapping

import msgspec

from placet.schemas.codec import Json


class Event(msgspec.Struct, frozen=True):
    """One record of the log in readable form, as a subscriber receives it.

    Attributes:
        seq: Sequence number of the world after the record.
        record: Ordinal number of the record in its log, from 0. The batches of a group share one.
        type: `header configured registered agent_changed executor_changed batch refused
            scheduled tick settled effect_changed checkpoint rules_changed
            fork_adopted patched table_made columns`.
        sim_time: Simulated seconds.
        data: The fields of the record, plain JSON; of a table and a column batch, counts in place
            of rows.
    """

    seq: int
    record: int
    type: str
    sim_time: float
    data: Mapping[str, Json]

    def as_dict(self) -> dict[str, Json]:
        """Return the event as one flat JSON object."""
        return {
            "seq": self.seq,
            "record": self.record,
            "type": self.type,
            "sim_time": self.sim_time,
            **self.data,
        }
