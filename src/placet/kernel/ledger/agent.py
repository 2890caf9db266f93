"""A registered agent, as the ledger keeps it."""

from typing import TYPE_CHECKING

from placet.kernel.prng import LANE_BYTES, agent_key

if TYPE_CHECKING:
    from placet.kernel.ledger.dedup_window import Window
    from placet.schemas.config import Quota


class Agent:
    """A registered agent: its permissions, quotas and dedup window.

    Attributes:
        agent_id: Its name.
        owner: Submitter that may submit for it, besides itself and the operator.
        permissions: Kinds that it may propose; None is all.
        priority_max: Cap on the priority by which its batches are ordered.
        is_suspended: Its batches are refused until it is resumed.
        quotas: Quotas of this agent by kind (`*` is all kinds together), besides the world's.
        tats: GCRA theoretical arrival time of each bucket, nanoseconds.
        window: Its dedup window; None before its first remembered verdict.
        generation: Number of times the name was registered, or more if the count was forgotten.
        cohort: Cohort that a rule registered it under; None for none.
        order_key: Key of its name as `prng.mix_lanes` takes it; it breaks ties of order.
    """

    is_member = False
    """It is a member of a population, which is suspended in the place of being removed."""

    __slots__ = (
        "agent_id",
        "cohort",
        "generation",
        "is_suspended",
        "order_key",
        "owner",
        "permissions",
        "priority_max",
        "quotas",
        "tats",
        "window",
    )

    def __init__(self, agent_id: str, owner: str, generation: int = 1) -> None:
        self.agent_id = agent_id
        self.owner = owner
        self.permissions: frozenset[str] | None = None
        self.priority_max = 100
        self.is_suspended = False
        self.quotas: dict[str, Quota] | None = None
        self.tats: dict[str, int] | None = None
        self.window: Window | None = None
        self.generation = generation
        self.cohort: str | None = None
        self.order_key = agent_key(agent_id).to_bytes(LANE_BYTES, "little")
