"""Agents and objects with positions: Move, Speak, Interact, Custom (seed 003).

Imports: payloads > rules (interactions > inventory) > views; settings and spawn set up the world.
"""

from placet.domains.world.domain import World
from placet.domains.world.interactions import Interaction
from placet.domains.world.payloads import (
    AGENTS,
    OBJECTS,
    SPEECH,
    Interact,
    Move,
    Position,
    Speak,
)

__all__ = [
    "AGENTS",
    "OBJECTS",
    "SPEECH",
    "Interact",
    "Interaction",
    "Move",
    "Position",
    "Speak",
    "World",
]
