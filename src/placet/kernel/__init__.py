"""Batch in, decision out. No clock, no await, no I/O: the same on any machine.

    order > gate (seven stages) > apply > digest

Rules of the room: time, seed, order and configuration arrive as data. Nothing here knows a
domain's name; domains enter by the port in `kernel/domain.py`.
"""

from placet.kernel.domain import Domain, Kind, RuleRefusal, conflict, refuse
from placet.kernel.kernel import Kernel
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import WorldState
from placet.schemas.config import KernelConfig

__all__ = [
    "Domain",
    "Draft",
    "Kernel",
    "KernelConfig",
    "Kind",
    "RuleRefusal",
    "WorldState",
    "conflict",
    "refuse",
]
