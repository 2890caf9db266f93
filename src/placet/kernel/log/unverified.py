"""A part of a log that was folded without being re-executed, and the reason."""

from dataclasses import dataclass


@dataclass(slots=True)
class Unverified:
    """Records that were folded and not decided again.

    Attributes:
        first_record: Ordinal number of the first.
        last_record: Ordinal number of the last.
        why: Rules or settings that are missing for a re-execution.
    """

    first_record: int
    last_record: int
    why: str
