"""The states of a phase and their transitions: one table for code, tests and docs.

`stale` is computed from changed inputs and cannot be set: it is never a target of a transition.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class PhaseState(StrEnum):
    """The progress of one phase of the design calculation.

    A phase is pending until it runs. A completed result may be approved and then locked; it
    becomes stale when an input changes. A phase may also fail or be skipped.
    """

    PENDING = "pending"
    ACTIVE = "active"
    COMPLETED = "completed"
    APPROVED = "approved"
    LOCKED = "locked"
    STALE = "stale"
    FAILED = "failed"
    SKIPPED = "skipped"


_P, _A, _C, _S = PhaseState.PENDING, PhaseState.ACTIVE, PhaseState.COMPLETED, PhaseState.SKIPPED

TRANSITIONS: Final[Mapping[PhaseState, tuple[PhaseState, ...]]] = {
    PhaseState.PENDING: (_A, _C, _S),
    PhaseState.ACTIVE: (_P, _C, PhaseState.FAILED, _S),
    PhaseState.COMPLETED: (_P, _A, PhaseState.APPROVED),
    PhaseState.APPROVED: (_P, _C, PhaseState.LOCKED),
    PhaseState.LOCKED: (PhaseState.APPROVED,),
    PhaseState.STALE: (_P, _A, _C),
    PhaseState.FAILED: (_P, _A, _S),
    PhaseState.SKIPPED: (_P, _A),
}
"""State -> the states to which it may be moved by hand."""

FINISHED: Final = frozenset({_C, PhaseState.APPROVED, PhaseState.LOCKED})
"""Kept states that become `stale` when what the phase read changes."""
