"""Batch in, decision out. No clock, no await, no I/O: the same on any machine.

    order > gate (seven stages) > apply > digest

Rules of the package: time, seed, order and configuration are arguments. Nothing here knows a
domain's name; domains implement the port in `kernel/domain.py`.
"""

from placet.kernel.domain import (
    Domain,
    EffectHandler,
    Kind,
    RuleRefusal,
    VisibilityPolicy,
    conflict,
    refuse,
)
from placet.kernel.kernel import Kernel
from placet.kernel.prng import randint_below, random_u64, random_unit
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import WorldState
from placet.schemas.config import KernelConfig

__all__ = [
    "Domain",
    "Draft",
    "EffectHandler",
    "Kernel",
    "KernelConfig",
    "Kind",
    "RuleRefusal",
    "VisibilityPolicy",
    "WorldState",
    "conflict",
    "randint_below",
    "random_u64",
    "random_unit",
    "refuse",
]
