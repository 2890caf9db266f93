"""The kernel: batch in, decision out. No clock, no await, no I/O: the same result on any machine.

    order > gate (seven stages) > commit > digest

Time, seed, order and configuration arrive as data. The kernel knows no domain by name; domains
are plugged in through the port in `kernel/domain.py`.
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
