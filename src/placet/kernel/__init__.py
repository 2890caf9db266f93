"""The kernel: batch in, decision out. No clock, no await, no I/O: the same result on any machine.

    order > gate (seven stages) > commit > digest

Time, seed, order and configuration arrive as data. The kernel knows no domain by name; domains
are plugged in through the port in `kernel/plugin/domain.py`.
"""

from placet.kernel.arrays.field import Field, Table
from placet.kernel.columns.batch import ColumnBatch
from placet.kernel.commit.commit import RecordList
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.approved import is_approved
from placet.kernel.plugin.domain import (
    Domain,
    EffectHandler,
    Kind,
    RuleRefusal,
    budget_exceeded,
    conflict,
    refuse,
)
from placet.kernel.prng import randint_below, random_u64, random_unit
from placet.kernel.rollback import RollbackMark
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import WorldState
from placet.kernel.visibility.protocols import VisibilityPolicy
from placet.schemas.config import KernelConfig

__all__ = [
    "ColumnBatch",
    "Domain",
    "Draft",
    "EffectHandler",
    "Field",
    "Kernel",
    "KernelConfig",
    "Kind",
    "RecordList",
    "RollbackMark",
    "RuleRefusal",
    "Table",
    "VisibilityPolicy",
    "WorldState",
    "budget_exceeded",
    "conflict",
    "is_approved",
    "randint_below",
    "random_u64",
    "random_unit",
    "refuse",
]
