"""An open transaction: the operations of a `StateManager` that are not committed yet."""

from placet.schemas.codec import Json


class Staging:
    """Steps of one batch, and the values as they will be.

    Attributes:
        version: The design's version when the transaction began.
        is_explicit: It was begun by `begin`, and so holds locks back too.
        steps: Kinds and payloads, in order.
        values: Path -> value to be.
        unlocked: Paths that will have been unlocked.
    """

    __slots__ = ("is_explicit", "steps", "unlocked", "values", "version")

    def __init__(self, version: int, *, is_explicit: bool) -> None:
        self.version = version
        self.is_explicit = is_explicit
        self.steps: list[tuple[str, dict[str, Json]]] = []
        self.values: dict[str, Json] = {}
        self.unlocked: set[str] = set()

    def add(self, kind: str, payload: dict[str, Json]) -> None:
        """Add a step."""
        self.steps.append((kind, payload))
        if kind == "design.unlock":
            self.unlocked.add(payload["path"])
