"""Builds the session's own intents, with `context_seq` set to the current seq."""

from placet.agents.ports import Handle, WorldPort
from placet.schemas.codec import Json
from placet.schemas.intent import Intent


class SystemIntentFactory:
    """Makes the recorder's intents, which depend on no view: their context is the current seq.

    Args:
        world: Where.
        handle: The recorder's.
    """

    def __init__(self, world: WorldPort, handle: Handle) -> None:
        self._world = world
        self._handle = handle

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload."""
        intent = self._handle.intent(kind, **payload)
        intent["context_seq"] = self._world.seq
        return intent
