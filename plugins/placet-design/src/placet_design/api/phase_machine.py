"""Seed 000's `PhaseMachine` and `Conductor`: move phases by hand, and run them."""

import warnings
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

from placet.schemas.codec import Json
from placet_design.api.workspace import StateManager
from placet_design.phase_results import shown_phases, states_of
from placet_design.phases import PHASES
from placet_design.phases.states import PhaseState


class PhaseMachine:
    """The states of a design's phases, and their legal transitions by hand."""

    def __init__(self, state_manager: StateManager) -> None:
        self._manager = state_manager

    def get_state(self, phase: str) -> PhaseState:
        """Return the state of a phase; `stale` is computed from its inputs.

        Raises:
            KeyError: There is no such phase.
        """
        if phase not in PHASES:
            raise KeyError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")
        return self.get_states()[phase]

    def get_states(self) -> dict[str, PhaseState]:
        """Return the state of every phase, in order of dependency."""
        return states_of(self._manager.tree)

    def get_result(self, phase: str) -> dict[str, Json]:
        """Return the stored result of a phase: outputs, flags, method, and the seqs of its inputs.

        Raises:
            KeyError: There is no such phase.
        """
        self.get_state(phase)
        return shown_phases(self._manager.tree)[phase]

    def transition(
        self, phase: str, to: PhaseState | str, source: str, reason: str | None = None
    ) -> PhaseState:
        """Move a phase by hand and return its new state; the log records who and why.

        Raises:
            ValidationError: There is no such phase, or the table does not allow it; the refusal's
                suggestions are the legal targets.
        """
        payload = {"phase": phase, "to": PhaseState(to).value, "source": source, "reason": reason}
        self._manager.propose([("design.transition", payload)])
        return self.get_state(phase)


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The result of a run of phases of the design calculation.

    Attributes:
        states: State of each phase that ran.
        flags: Phase -> remarks on its result, or the reason why it has none.
    """

    states: dict[str, PhaseState]
    flags: dict[str, list[dict[str, Json]]]

    @property
    def success(self) -> bool:
        """Return whether every phase has a result."""
        return all(state is PhaseState.COMPLETED for state in self.states.values())


class Conductor:
    """Runs phases of a design's calculation in the order of their dependencies."""

    def __init__(self, state_manager: StateManager) -> None:
        self._manager = state_manager

    def run_default_pipeline(self) -> PipelineResult:
        """Run every phase and return the result."""
        return self.run_phases(list(PHASES))

    def run_phases(self, phases: Sequence[str]) -> PipelineResult:
        """Run phases, each on the latest results of those before it, and return the result.

        Raises:
            ValidationError: A name is unknown, or a phase is locked.
        """
        self._manager.propose([("design.run_phases", {"phases": list(phases)})])
        shown = shown_phases(self._manager.tree)
        ran = [name for name in PHASES if name in phases]
        return PipelineResult(
            {name: PhaseState(shown[name]["status"]) for name in ran},
            {name: shown[name]["flags"] or [] for name in ran},
        )


def set_phase_status(
    state_manager: StateManager | MutableMapping[str, Json],
    phase: str,
    status: str,
    source: str = "set_phase_status",
) -> None:
    """Move a phase, in the form of seed 000's function. Prefer `PhaseMachine(...).transition`."""
    warnings.warn(
        "set_phase_status is deprecated and will be removed in 2.0; use "
        "PhaseMachine(state_manager).transition(phase, state, source, reason)",
        DeprecationWarning,
        stacklevel=2,
    )
    if isinstance(state_manager, StateManager):
        machine = PhaseMachine(state_manager)
        machine.transition(phase, PhaseState(status), source, "set_phase_status")
        return
    state_manager.setdefault("phases", {})[phase] = {"status": status, "source": source}
