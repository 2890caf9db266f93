"""What one agent is shown, true at one seq."""

from collections.abc import Mapping

import msgspec

from placet.schemas.codec import Json


class View(msgspec.Struct, frozen=True):
    """An atomic cut of the world for one agent.

    Attributes:
        view_seq: The seq at which it is true; an agent sends it back as `context_seq`.
        sim_time: Simulated seconds.
        agent_id: For whom.
        state: `collection -> entity -> field -> value`, what the agent may see.
    """

    view_seq: int
    sim_time: float
    agent_id: str
    state: Mapping[str, Mapping[str, Mapping[str, Json]]]
