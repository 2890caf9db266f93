"""Who lost, and since when: what the ages of `shed_lowest` are counted from."""


class AgeTracker:
    """The group since which each owner has had nothing but losses.

    Bounded by recency: whoever has not come again while half as many others as are kept did is
    forgotten, and counts from its next loss. So names that come once crowd out nobody who comes
    again and again. All cost O(1), and one look where nothing is forgotten.

        Source: two generations in place of a list in order of use, as in the 2Q family of caches
        (Johnson and Shasha, 1994); nothing is moved when somebody is looked up.

    Args:
        count_max: How many owners are kept, at most.

    Attributes:
        recent: The group by owner, of those who came lately; to look in, before `since`.
        earlier: Those who came before them; where there are none, `recent` has all.
    """

    __slots__ = ("_half", "earlier", "recent")

    def __init__(self, count_max: int) -> None:
        self._half = max(1, count_max // 2)
        self.recent: dict[str, int] = {}
        self.earlier: dict[str, int] = {}

    def since(self, owner: str) -> int | None:
        """Return the group at which an owner lost first; None for who has lost nothing."""
        group = self.recent.get(owner)
        if group is None:
            group = self.earlier.get(owner)
            if group is not None:
                self._keep(owner, group)
        return group

    def note(self, owner: str, group: int) -> None:
        """Note a loss; a later one changes nothing."""
        if self.since(owner) is None:
            self._keep(owner, group)

    def forget(self, owner: str) -> None:
        """Forget the losses of one that has had its turn."""
        self.recent.pop(owner, None)
        self.earlier.pop(owner, None)

    def clear(self) -> None:
        """Forget all."""
        self.recent.clear()
        self.earlier.clear()

    def __len__(self) -> int:
        return len(self.recent) + len(self.earlier)

    def _keep(self, owner: str, group: int) -> None:
        if len(self.recent) >= self._half:
            self.earlier, self.recent = self.recent, {}
        self.recent[owner] = group
