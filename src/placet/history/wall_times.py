"""Wall times of records: computed from the latest time that a program noted before them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from placet.schemas.codec import Json

_US: Final = 1_000


class NotedTime:
    """A wall time and the simulated time at which it was noted.

    Args:
        payload: Payload of an intent of a kind `<domain>.note_time`.
        now_ns: Simulated time of its record, nanoseconds.

    Raises:
        ValueError: The text is no time.
    """

    __slots__ = ("_at", "_now_ns")

    def __init__(self, payload: Mapping[str, Json], now_ns: int) -> None:
        self._at = datetime.fromisoformat(payload["at"])
        self._now_ns = now_ns

    def wall_time(self, now_ns: int) -> datetime:
        """Return the wall time at a later simulated time, nanoseconds."""
        return self._at + timedelta(microseconds=(now_ns - self._now_ns) // _US)
