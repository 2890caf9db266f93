"""Stored results of phases, and whether they are still valid.

A result stores the seq of each of its inputs. It is stale as soon as one of them changed, or a
result that it read is stale. Staleness is computed on request.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json, thaw
from placet.schemas.effect import Settlement
from placet_design.payloads import PARAMETERS, PHASE_RESULTS
from placet_design.phases import PHASES, Phase
from placet_design.phases.states import FINISHED, PhaseState
from placet_design.refinable_fields import REFINABLE_SCHEMA

ASSUMPTIONS: Final[Mapping[str, Json]] = {
    reading.path: reading.default
    for phase in PHASES.values()
    for reading in phase.readings
    if ":" not in reading.path and reading.path not in REFINABLE_SCHEMA
}
"""Path -> default of what a phase reads that is neither refinable nor a result."""

PENDING: Final[Mapping[str, Json]] = {
    "status": PhaseState.PENDING.value,
    "source": None,
    "reason": None,
    "is_by_hand": False,
    "outputs": None,
    "flags": None,
    "method": None,
    "reads": None,
    "run": 0,
}
"""The stored result of a phase that has not run. `run` is the seq at which outputs were stored."""


def states_of(tree: State) -> dict[str, PhaseState]:
    """Return the state of every phase, in order of dependency."""
    states: dict[str, PhaseState] = {}
    for name, phase in PHASES.items():
        state = PhaseState(tree.get(PHASE_RESULTS, name, "status"))
        if state in FINISHED and not _is_fresh(tree, phase, states):
            state = PhaseState.STALE
        states[name] = state
    return states


def _is_fresh(tree: State, phase: Phase, earlier: Mapping[str, PhaseState]) -> bool:
    reads = tree.get(PHASE_RESULTS, phase.name, "reads") or {}
    for path in phase.inputs:
        if reads.get(path) != read_seq(tree, path):
            return False
        if earlier.get(_upstream(path)) is PhaseState.STALE:
            return False
    return True


def read_seq(tree: State, path: str) -> int:
    """Return the seq of an input's latest change; 0 if it never changed."""
    upstream = _upstream(path)
    if upstream:
        run: int = tree.get(PHASE_RESULTS, upstream, "run")
        return run
    stamp = tree.stamp(PARAMETERS, path)
    return 0 if stamp is None else stamp.seq


def reads_of(tree: State, phase: Phase) -> dict[str, int]:
    """Return the current seq of every input of a phase."""
    return {path: read_seq(tree, path) for path in phase.inputs}


def values_of(tree: State, phases: Iterable[Phase]) -> dict[str, Json]:
    """Return the current value of every input of phases; unset ones are left out."""
    values: dict[str, Json] = {}
    for path in dict.fromkeys(path for phase in phases for path in phase.inputs):
        value = _value(tree, path)
        if value is not None:
            values[path] = value
    return values


def run_phases(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Run the phases that an effect names on the values that it holds; return its output.

    The executor of the effect: a pure function of the payload.
    """
    values = dict(payload["values"])
    results: dict[str, Json] = {}
    for name in payload["phases"]:
        outcome = PHASES[name].run(values)
        flags = [{"code": f.code, "message": f.message, "at": f.at} for f in outcome.flags]
        results[name] = {"outputs": outcome.outputs, "flags": flags, "method": outcome.method}
        for path in [path for path in values if _upstream(path) == name]:
            del values[path]
        values.update({f"{name}:{output}": v for output, v in outcome.outputs.items()})
    return {"results": results}


def keep_results(draft: Draft, payload: Mapping[str, Json], settlement: Settlement) -> None:
    """Store the results of a run. A phase that was locked in the meantime keeps its result."""
    names = payload["phases"]
    for name in names:
        if draft.get(PHASE_RESULTS, name, "status") == PhaseState.LOCKED:
            continue
        if not settlement.succeeded:
            draft.put(PHASE_RESULTS, name, "status", PhaseState.FAILED.value)
            draft.put(PHASE_RESULTS, name, "reason", str(settlement.output))
            continue
        outcome = settlement.output["results"][name]
        reads = dict(payload["reads"][name])
        reads |= {path: draft.seq for path in reads if _upstream(path) in names}
        is_done = bool(outcome["outputs"])
        status = PhaseState.COMPLETED if is_done else PhaseState.FAILED
        reason = None if is_done else "; ".join(flag["message"] for flag in outcome["flags"])
        result = {
            "status": status.value,
            "reason": reason,
            "is_by_hand": False,
            "outputs": outcome["outputs"] or None,
            "flags": outcome["flags"],
            "method": outcome["method"],
            "reads": reads,
            "run": draft.seq,
        }
        for field, value in result.items():
            draft.put(PHASE_RESULTS, name, field, value)


def shown_phases(tree: State) -> dict[str, dict[str, Json]]:
    """Return every phase as plain values, with its computed state."""
    shown: dict[str, dict[str, Json]] = {}
    for name, state in states_of(tree).items():
        result = thaw(tree.entity(PHASE_RESULTS, name) or {})
        shown[name] = {**result, "status": state.value}
    return shown


def _upstream(path: str) -> str:
    """Return the phase that produces a result path; empty for a path of the state."""
    name, colon, _ = path.partition(":")
    return name if colon else ""


def _value(tree: State, path: str) -> Json:
    upstream, colon, output = path.partition(":")
    if not colon:
        return tree.get(PARAMETERS, path, "value")
    outputs = tree.get(PHASE_RESULTS, upstream, "outputs")
    return None if outputs is None else outputs.get(output)
