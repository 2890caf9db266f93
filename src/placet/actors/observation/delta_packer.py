"""What fits one observation: the nearest first, and what had to wait grows until it is first.

Each change that waits adds its nearness to its score whenever an observation is made, and the
highest scores are sent. So what is near comes at once, what is far comes late, and nothing is lost.

Source: the priority accumulator of G. Fiedler, "State Synchronization" (gafferongames.com, 2015).
"""

from collections.abc import Callable, Iterable

from placet.schemas.identity import Ref
from placet.schemas.view import Change


class DeltaPacker:
    """The scores of one observer's changes.

    Args:
        bytes_max: How many bytes of encoded changes one observation holds; a single change that is
            larger is sent alone. Events, and snapshots, which are whole, are not counted.
    """

    __slots__ = ("_scores", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        if bytes_max < 1:
            raise ValueError(f"bytes_max must be at least 1, got {bytes_max!r}")
        self.bytes_max = bytes_max
        self._scores: dict[Ref, float] = {}

    def choose(
        self, changes: Iterable[tuple[Ref, Change]], relevance: Callable[[Ref], float]
    ) -> set[Ref]:
        """Choose what is sent now; the rest grows. O(n log n) of what waits."""
        waiting = list(changes)
        scores = {ref: self._scores.get(ref, 0.0) + relevance(ref) for ref, _ in waiting}
        waiting.sort(key=lambda one: -scores[one[0]])
        chosen: set[Ref] = set()
        left = self.bytes_max
        for ref, change in waiting:
            left -= len(change.encoded)
            if chosen and left < 0:
                break
            chosen.add(ref)
        self._scores = {ref: score for ref, score in scores.items() if ref not in chosen}
        return chosen

    def clear(self) -> None:
        """Forget the scores: all was sent."""
        self._scores.clear()
