"""The phases of a design, in the order in which they depend on each other.

`PHASES` is the registry that the state machine, RUN_PHASES and the tests read.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from placet_design.phases.compliance import COMPLIANCE
from placet_design.phases.hull import HULL
from placet_design.phases.mission import MISSION
from placet_design.phases.phase import Phase
from placet_design.phases.propulsion import PROPULSION
from placet_design.phases.stability import STABILITY
from placet_design.phases.weight import WEIGHT

__all__ = [
    "PHASES",
    "Phase",
    "stale_by",
]

PHASES: Final[Mapping[str, Phase]] = MappingProxyType(
    {phase.name: phase for phase in (MISSION, HULL, PROPULSION, WEIGHT, STABILITY, COMPLIANCE)}
)
"""Name of a phase -> the phase, in the order in which they are computed."""


def stale_by(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the phases whose results become stale if these state paths change.

    A phase that reads a result of a stale phase is stale too. In order of dependency.
    """
    changed = set(paths)
    stale: list[str] = []
    for phase in PHASES.values():
        read = {path.split(":")[0] if ":" in path else path for path in phase.inputs}
        if not read.isdisjoint(changed):
            stale.append(phase.name)
            changed.add(phase.name)
    return tuple(stale)
