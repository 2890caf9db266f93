"""Count over ticks or time in bounded memory: bins double their width when there are many."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

BINS_MAX: Final = 400


class Bins:
    """Counts by bin and name. A bin is `width` positions, such as ticks.

    Attributes:
        width: Number of positions in a bin; it doubles when there are more than `BINS_MAX` bins.
    """

    def __init__(self) -> None:
        self.width = 1
        self._bins: dict[int, Counter[str]] = {}
        self._starts: dict[int, float] = {}
        self._last = -1

    def reach(self, position: int, x: float) -> None:
        """Note that a position was reached, which the x axis calls `x`."""
        while position // self.width >= BINS_MAX:
            self._double()
        place = position // self.width
        self._last = max(self._last, position)
        self._starts.setdefault(place, x)

    def add(self, position: int, name: str, count: float = 1) -> None:
        """Add to the count of a name at a position that was reached."""
        counts = self._bins.setdefault(position // self.width, Counter())
        counts[name] += count  # type: ignore[assignment]  # a Counter adds floats too

    @property
    def _count(self) -> int:
        return self._last // self.width + 1

    @property
    def names(self) -> list[str]:
        """All names, those with the highest counts first."""
        total: Counter[str] = Counter()
        for counts in self._bins.values():
            total.update(counts)
        return [name for name, _ in total.most_common()]

    def starts(self) -> list[float]:
        """Return the `x` at which each bin begins."""
        starts: list[float] = []
        for place in range(self._count):
            starts.append(self._starts.get(place, starts[-1] if starts else 0.0))
        return starts

    def per_position(self, names: Iterable[str]) -> dict[str, list[float]]:
        """Return the mean count at a position, bin by bin, for each name."""
        lengths = [
            min(self.width, self._last + 1 - place * self.width) for place in range(self._count)
        ]
        return {
            name: [
                self._bins.get(place, Counter())[name] / length
                for place, length in enumerate(lengths)
            ]
            for name in names
        }

    def sums(self, name: str) -> list[float]:
        """Return the count of a name, bin by bin."""
        return [self._bins.get(place, Counter())[name] for place in range(self._count)]

    def _double(self) -> None:
        bins, starts = self._bins, self._starts
        self._bins, self._starts, self.width = {}, {}, self.width * 2
        for place, counts in bins.items():
            self._bins.setdefault(place // 2, Counter()).update(counts)
        for place in sorted(starts):
            self._starts.setdefault(place // 2, starts[place])
