"""The voice in which a session records: of the present, where an agent's is of what it saw."""

from placet.agents.ports import Handle, World
from placet.schemas.codec import Json
from placet.schemas.intent import Intent


class SystemIntentFactory:
    """Makes the clerk's intents: it goes by no view, so what it says is said now.

    Args:
        world: Where.
        handle: The clerk's.
    """

    def __init__(self, world: World, handle: Handle) -> None:
        self._world = world
        self._handle = handle

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload."""
        intent = self._handle.intent(kind, **payload)
        intent["context_seq"] = self._world.seq
        return intent
