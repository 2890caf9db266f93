"""The objects that a draft calls, by the methods that it needs of them."""

from collections.abc import Mapping
from typing import Protocol

from placet.schemas.codec import Json


class AgentRegistrar(Protocol):
    """Registers and removes agents within a draft (`kernel/control/registrar.py`)."""

    def register(self, agent_id: str, cohort: str | None, attributes: Mapping[str, Json]) -> None:
        """Register an agent, as `Draft.register`."""

    def remove(self, agent_id: str) -> None:
        """Remove an agent, as `Draft.remove`."""


class Sized(Protocol):
    """A batch, as far as a draft counts its work."""

    @property
    def base_work(self) -> int:
        """Units of work of the batch by its size, without the work that its rules charge."""
