"""Wall times that a program notes in the log, because records have simulated times alone.

A program submits an intent of a kind `<domain>.note_time` when it opens a world. Its payload has
the wall time `at`, in UTC. Until the next such intent, simulated and wall time pass alike in a
world that follows the machine's clock, so the wall time of a later record can be computed.
"""

from typing import Final

NOTE_TIME: Final = "note_time"
"""Name of the kind, without the prefix of its domain."""


def notes_time(kind: str) -> bool:
    """Return whether intents of a kind note a wall time."""
    return kind.endswith(f".{NOTE_TIME}")
