"""The domain `design`: its settings, its kinds, and its hooks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.identity import Ref
from placet_design import payloads, phase_rules, rules
from placet_design.access import DesignSight, for_writers, may_read, set_access
from placet_design.effects import EXECUTORS
from placet_design.exports import FORMATS, keep_export
from placet_design.phase_results import ASSUMPTIONS, PENDING, keep_results
from placet_design.phases import PHASES
from placet_design.refinable_fields import REFINABLE_SCHEMA, RangePolicy, RefinableField
from placet_design.settings import UNDO_MAX, DesignSettings
from placet_design.state.design_json import DesignState
from placet_design.state.invariants import WATCHED, violations
from placet_design.state.versions import finish, redo, undo

RULES_VERSION: Final = "1"

_WORK: Final[Mapping[str, int]] = {
    "design.run_phases": 150,
    "design.export": 100,
    "design.transition": 30,
    "design.set_access": 30,
}
"""Units of the kinds that read the whole design, or all phases. The formulae of the phases run as
an effect, outside of the writer.
"""

_OF_PARAMETERS: Final = ("set", "increase", "decrease", "lock", "unlock")


class Design(Domain):
    """One parametric design that agents refine by plans of actions (seed 000).

    Agents are registered as designers, or by `register_agent(agent_id, role="operator")`.

    Attributes:
        setup: The constructor's arguments, in the form that the rules use.
    """

    name = "design"
    executors = "placet_design.effects:executors_of"
    invariant_reads = WATCHED
    sight = DesignSight()

    def __init__(
        self,
        *,
        design_id: str | None = None,
        policy: RangePolicy = "clamp",
        fields: Mapping[str, RefinableField] | None = None,
        undo_max: int = UNDO_MAX,
        initial: DesignState | Mapping[str, Json] | None = None,
    ) -> None:
        """Set up a design domain.

        Args:
            design_id: Id of the design; None accepts plans for any, until `design.create` sets it.
            policy: `clamp` a value to its bounds, with a warning, or `reject` it.
            fields: Path -> field; the standard whitelist when None.
            undo_max: Number of commits that can be undone.
            initial: Initial design: a `DesignState`, or its plain values.

        Raises:
            ValueError: A setting is invalid; the message names it.
        """
        fields = REFINABLE_SCHEMA if fields is None else fields
        if initial is not None and not isinstance(initial, DesignState):
            initial = DesignState.from_dict(dict(initial), fields)
        if initial is not None and design_id is None:
            design_id = initial.design_id
        self.setup = DesignSettings(design_id, policy, fields, undo_max, initial)
        is_default = self.setup == DesignSettings()
        self.version = RULES_VERSION if is_default else f"{RULES_VERSION}+{self.setup.digest()}"
        self.kinds = _kinds(self.setup)

    def settings(self) -> Mapping[str, Json] | None:
        """Return the arguments that rebuild this domain; None if its fields are custom."""
        return self.setup.keywords()

    def on_open(self, draft: Draft) -> None:
        """Create the initial design: all known paths, most of them unset."""
        initial = self.setup.initial or DesignState()
        fields = self.setup.fields
        for path in fields:
            draft.create(payloads.PARAMETERS, path, {"value": initial.parameters.get(path)})
            lock = None
            if path in initial.locked_parameters:
                lock = {"owner": draft.agent_id, "reason": None, "until_ns": None}
            draft.create(payloads.LOCKS, path, {"lock": lock})
        for path in ASSUMPTIONS:
            draft.create(payloads.PARAMETERS, path, {"value": initial.assumptions.get(path)})
        for name in PHASES:
            draft.create(payloads.PHASE_RESULTS, name, PENDING)
        about: dict[str, Json] = {
            "design_id": self.setup.design_id,
            "name": None,
            "version": initial.design_version,
            "counts": (0, 0, 0, 0),
            "paths": (*fields, *ASSUMPTIONS),
        }
        draft.create(payloads.ABOUT, payloads.DESIGN, about)

    def on_register(
        self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]
    ) -> RuleRefusal | None:
        """Store a new agent's role; return a refusal if the role is unknown, else None."""
        role = attributes.get("role", payloads.DESIGNER_ROLE)
        known = (payloads.DESIGNER_ROLE, payloads.OPERATOR_ROLE)
        if role not in known:
            return refuse("role_unknown", f"role must be one of {', '.join(known)}, got {role!r}")
        draft.create(payloads.ROLES, agent_id, {"role": role})
        return None

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        """Delete an agent's role; its locks stay until an operator removes them."""
        draft.delete(payloads.ROLES, agent_id)

    def shares_intents(self, state: State, agent_id: str) -> bool:
        """Return whether an agent may read the design: its plans are a part of it."""
        return may_read(state, agent_id)

    def on_batch(self, draft: Draft) -> None:
        """Increment the design's version if the batch changed it, and keep the previous values."""
        finish(draft, self.setup.undo_max)

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        """Store the result of a run of phases or of an export."""
        if effect.kind == payloads.RUN_EFFECT:
            keep_results(draft, effect.payload, settlement)
        elif effect.kind == payloads.EXPORT_EFFECT and settlement.succeeded:
            keep_export(draft, settlement.output)

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        """Check the invariants of the whole design."""
        return violations(state, changed)


def _kinds(settings: DesignSettings) -> tuple[Kind, ...]:
    """Return all kinds; each but `design.set_access` is refused to agents that may not write."""
    choices = _choices(settings)
    return (
        *[
            replace(kind, rule=for_writers(kind.rule), choices=choices.get(kind.name, {}))
            for kind in _kinds_of_work(settings)
        ],
        Kind(
            "design.set_access",
            payloads.SetAccess,
            set_access,
            risk="high",
            work=_WORK["design.set_access"],
            summary="Set who may read and change the design.",
        ),
    )


def _choices(settings: DesignSettings) -> dict[str, Mapping[str, Sequence[str]]]:
    """Return the paths, phases and formats that the payload of each kind may name."""
    paths = {"path": tuple(settings.fields)}
    phases = tuple(PHASES)
    return {
        **dict.fromkeys(map(payloads.PREFIX.__add__, _OF_PARAMETERS), paths),
        "design.assume": {"path": tuple(ASSUMPTIONS)},
        "design.transition": {"phase": phases},
        "design.run_phases": {"phases": phases},
        "design.export": {"format": tuple(FORMATS)},
    }


def _kinds_of_work(settings: DesignSettings) -> tuple[Kind, ...]:
    undo_max, change = settings.undo_max, rules.change_rule
    rows: tuple[tuple[str, object, Rule, str], ...] = (
        ("plan", payloads.PlanHead, rules.plan, "Begin the batch of a plan."),
        ("intent", payloads.LogIntent, rules.log_intent, "Record a request as understood."),
        ("set", payloads.Set, rules.set_rule(settings), "Set a parameter."),
        ("increase", payloads.ParameterChange, change(settings, 1), "Increase a parameter."),
        ("decrease", payloads.ParameterChange, change(settings, -1), "Decrease a parameter."),
        ("lock", payloads.Lock, rules.lock_rule(settings), "Lock a parameter."),
        ("unlock", payloads.Unlock, rules.unlock_rule(settings), "Unlock a parameter."),
        ("request_clarification", payloads.RequestClarification, rules.request_clarification,
         "Ask the person instead of guessing."),
        ("noop", payloads.Noop, rules.noop, "Do nothing."),
        ("create", payloads.Create, rules.create, "Name the design."),
        ("undo", payloads.Noop, lambda d, _: undo(d, undo_max), "Undo the latest commit."),
        ("redo", payloads.Noop, lambda d, _: redo(d, undo_max), "Redo an undone commit."),
        ("assume", payloads.Assume, rules.assume, "Set an assumption of the phases."),
        ("transition", payloads.Transition, phase_rules.transition,
         "Set the state of a phase by hand."),
        ("run_phases", payloads.RunPhases, phase_rules.run, "Run phases."),
        ("export", payloads.Export, phase_rules.export, "Write the design out."),
    )  # fmt: skip
    return tuple(
        Kind(
            name,
            payload,
            rule,
            # An effect has the name of its kind.
            effects=(name,) if name in EXECUTORS else (),
            summary=summary,
            work=_WORK.get(name, 0),
        )
        for short, payload, rule, summary in rows
        for name in [payloads.PREFIX + short]
    )
