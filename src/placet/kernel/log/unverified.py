"""What of a log was folded and not decided again, and why."""

from dataclasses import dataclass


@dataclass(slots=True)
class Unverified:
    """Records that were folded and not decided again.

    Attributes:
        first_record: Ordinal number of the first.
        last_record: Ordinal number of the last.
        why: What is missing to decide them.
    """

    first_record: int
    last_record: int
    why: str
