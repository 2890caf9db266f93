"""The rules of phases: run them, move them by hand, and export the design."""

from placet.kernel.plugin.domain import RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.schemas.intent import Intent
from placet_design.exports import FORMATS
from placet_design.payloads import EXPORT_EFFECT, PHASE_RESULTS, RUN_EFFECT
from placet_design.phase_results import PENDING, reads_of, states_of, values_of
from placet_design.phases import PHASES
from placet_design.phases.states import TRANSITIONS, PhaseState
from placet_design.refinable_fields import nearest_paths
from placet_design.views import read_design


def run(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.run_phases`: emit the effect that runs phases on the present values."""
    names = intent["payload"].get("phases")
    if names is None:
        names = list(PHASES)
    for name in names:
        if name not in PHASES:
            return phase_unknown(name)
    names = [name for name in PHASES if name in names]
    if not names:
        return refuse("phases_empty", f"no phase was named; there are {_all()}", at="/phases")
    for name in names:
        if draft.get(PHASE_RESULTS, name, "status") == PhaseState.LOCKED:
            first = TRANSITIONS[states_of(draft.state)[name]][0]  # another where it is stale
            message = f"phase {name!r} is locked and keeps its result; move it to {first} first"
            return refuse("phase_locked", message, at="/phases", path=name)
    phases = [PHASES[name] for name in names]
    for name in names:
        draft.put(PHASE_RESULTS, name, "status", PhaseState.ACTIVE.value)
        draft.put(PHASE_RESULTS, name, "source", draft.agent_id)
    tree = draft.state
    draft.emit(
        RUN_EFFECT,
        {
            "phases": names,
            "values": values_of(tree, phases),
            "reads": {phase.name: reads_of(tree, phase) for phase in phases},
        },
    )
    return None


def transition(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.transition`: move a phase by hand if the table of transitions allows it."""
    payload = intent["payload"]
    name, target = payload["phase"], PhaseState(payload["to"])
    if name not in PHASES:
        return phase_unknown(name)
    here = states_of(draft.state)[name]
    legal = [state.value for state in TRANSITIONS[here]]
    if target.value not in legal:
        return refuse(
            "illegal_transition",
            f"phase {name!r} is {here.value} and cannot become {target.value}; "
            f"from there it may become {', '.join(legal)}",
            at="/to",
            suggestions=legal,
            path=name,
            state=here.value,
        )
    result: dict[str, object] = {}
    if target is PhaseState.PENDING:
        result = {**PENDING, "run": draft.seq}
    elif target is PhaseState.COMPLETED and here is not PhaseState.APPROVED:
        # By hand there is no result; a change of a value that the phase reads makes it stale.
        reads = reads_of(draft.state, PHASES[name])
        result = {**PENDING, "is_by_hand": True, "reads": reads, "run": draft.seq}
    result |= {
        "status": target.value,
        "source": payload["source"],
        "reason": payload.get("reason"),
    }
    for field, value in result.items():
        draft.put(PHASE_RESULTS, name, field, value)
    return None


def export(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Apply `design.export`: emit the effect that writes the present design as text."""
    format_name = intent["payload"]["format"]
    if format_name not in FORMATS:
        message = f"format {format_name!r} is unknown; there are {', '.join(FORMATS)}"
        return refuse("format_unknown", message, at="/format", suggestions=tuple(FORMATS))
    design = read_design(draft.state, draft.now_ns).as_dict()
    draft.emit(EXPORT_EFFECT, {"format": format_name, "design": design})
    return None


def phase_unknown(name: str) -> RuleRefusal:
    """Return the refusal of a name that is no phase."""
    near = nearest_paths(name, PHASES) or tuple(PHASES)
    message = f"phase {name!r} is unknown; there are {_all()}"
    return refuse("phase_unknown", message, at="/phases", suggestions=near, path=name)


def _all() -> str:
    return ", ".join(PHASES)
