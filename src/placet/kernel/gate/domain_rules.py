"""Stage 7: the rules of the domains.

Rules run in order inside the draft, so each intent reads the changes of those before it. Then the
invariants check the resulting state. An exception of a rule is contained here and becomes the
refusal `rule_error`.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from placet.kernel.context import GateContext
from placet.kernel.gate.changes import foreign_changes
from placet.kernel.gate.intent_refusals import refuse_batch, refuse_intent
from placet.kernel.plugin.boundary import place_of, plugin_boundary
from placet.kernel.plugin.domain import RuleRefusal, conflict_message
from placet.kernel.state.draft_errors import AgentRefused, ToolUnregistered, WorkExceeded
from placet.kernel.state.tree import WorldState
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import INTERRUPTS, advice_on, describe_error
from placet.schemas.identity import OPERATOR, Ref
from placet.schemas.intent import Intent
from placet.schemas.json_value import format_value, to_json_value
from placet.schemas.log.intents import decode_intents
from placet.schemas.portable_error import PortableError
from placet.schemas.refusal import Refusal, RefusalCode, Stage

if TYPE_CHECKING:
    from placet.schemas.codec import Json

FaultSink = Callable[[str, BaseException], None]
"""Called with the place and the exception that plug-in code raised there; the runtime logs it."""

_FIRST_ONLY: Final = (0,)
"""Positions of a batch of one; to make a range costs more than its rule."""

_REFUSAL_DEPTH_MAX: Final = 16
_REFUSAL_BYTES_MAX: Final = 16_384
"""Bounds of the depth and the size of a domain's refusal."""


class EffectValidator(Protocol):
    """A check that the host program adds: it may refuse each intent before the domain's rule.

    If it also has a method `set_agent_permissions`, changes of permissions are passed to it.
    """

    def validate_intent(self, intent: Intent, world_state: WorldState) -> object:
        """Return True to pass the intent, False or a `RuleRefusal` to refuse it."""


class Fault(NamedTuple):
    """An exception of plug-in code.

    Attributes:
        where: The call that raised, such as `rule of Move`.
        error: The exception.
        place: `FILE:LINE in FUNCTION`; empty if no line of the domain ran.
    """

    where: str
    error: BaseException
    place: str


class DomainRules:
    """The domain stage of one world: applies the rules of the domains, and checks invariants.

    Args:
        validator: The host's own rule; None for none.
        raises_faults: Raise an exception of plug-in code to the caller of the kernel, instead of
            refusing its batch.

    Attributes:
        raises_faults: As the argument.
        on_fault: Called with the name of the called rule or hook, and the exception it raised.
        faults: Number of exceptions that were contained: their batches were refused, or the changes
            of their hooks undone.
        raised: The fault that was raised last; None before the first.
    """

    __slots__ = ("_validator", "faults", "on_fault", "raised", "raises_faults")

    def __init__(
        self, validator: EffectValidator | None = None, *, raises_faults: bool = False
    ) -> None:
        self._validator = validator
        self.raises_faults = raises_faults
        self.on_fault: FaultSink = ignore_fault
        self.faults = 0
        self.raised: Fault | None = None

    def report_fault(self, where: str, error: BaseException) -> None:
        """Report an exception of plug-in code to `on_fault`, or raise it to the kernel's caller.

        Args:
            where: The call that raised, such as `rule of Move`.
            error: The exception. It is raised unchanged, with a note that names the call.
        """
        if not self.raises_faults:
            self.faults += 1
            self.on_fault(where, error)
            return
        self.raised = Fault(where, error, place_of(error))
        error.add_note(f"raised by the {where}; it changed nothing, and no record was made of it")
        advice = advice_on(error)
        if advice:
            error.add_note(advice)
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # else it would be the kernel's own `PluginError`

    def check(
        self, batch: CheckedBatch, context: GateContext, later: int = 0
    ) -> list[Refusal] | None:
        """Apply the intents of a batch to the draft by their rules.

        Args:
            batch: The batch.
            context: The world.
            later: Number of intents by which the batch is decided as if it came later.

        Returns:
            None if all pass, else the refusals; the caller then undoes the draft.
        """
        draft, registry, intents = context.transaction, context.registry, batch.intents
        rules, validator = registry.rules, self._validator
        seq = context.ledger.seq + later
        refusals: list[Refusal] | None = None
        positions = batch.order or (_FIRST_ONLY if len(intents) == 1 else range(len(intents)))
        for position in positions:
            seq += 1
            intent = intents[position]
            mark = draft.begin(position, seq, intent["agent_id"])
            try:
                returned = None if validator is None else self._validate(validator, intent, context)
                if returned is None:
                    returned = rules[intent["kind"]](draft, intent)
                if returned is None:
                    continue
                refusal = _refusal(
                    batch if refusals else _reparsed(batch), position, returned, context
                )
            except AgentRefused as refused:
                refusal = _agent_refusal(
                    batch if refusals else _reparsed(batch), position, refused, context
                )
            except WorkExceeded:
                return refusals or [_work_exceeded(_reparsed(batch), position, context)]
            except INTERRUPTS:
                raise
            except BaseException as error:  # noqa: BLE001  # the rule boundary: a bug refuses its batch
                refusal = self._contain(batch if refusals else _reparsed(batch), position, error)
            draft.undo(mark)
            refusals = refusals or []
            refusals.append(refusal)
            if len(refusals) >= context.ledger.policy.limits.refusals_listed_max:
                return refusals  # the others would not be listed
        if refusals is None and (
            registry.has_whole_checks or draft.work or draft.effects or draft.checks
        ):
            return self.check_whole(batch, context, later)
        return refusals

    @property
    def has_validator(self) -> bool:
        """The host program adds a check of each intent."""
        return self._validator is not None

    def refusal_of(
        self,
        batch: CheckedBatch,
        returned: object,
        error: BaseException | None,
        context: GateContext,
    ) -> Refusal:
        """Return the refusal of a batch of one intent by what its rule returned or raised.

        Args:
            batch: The batch.
            returned: The value that the rule returned.
            error: The exception that it raised; None if it returned.
            context: The world.
        """
        batch.reparse()
        if error is None:
            try:
                return _refusal(batch, 0, returned, context)
            except INTERRUPTS:
                raise
            except BaseException as raised:  # noqa: BLE001  # the rule boundary
                error = raised
        if isinstance(error, AgentRefused):
            return _agent_refusal(batch, 0, error, context)
        if isinstance(error, WorkExceeded):
            return _work_exceeded(batch, 0, context)
        return self._contain(batch, 0, error)

    def _contain(self, batch: CheckedBatch, position: int, error: BaseException) -> Refusal:
        """Return the refusal for an exception that ended a rule."""
        if isinstance(error, ToolUnregistered):
            return _tool_unregistered(batch, position, str(error))
        where = f"rule of {batch.intents[position]['kind']}"
        self.report_fault(where, error)
        return rule_error(batch, position, where, error)

    def check_whole(
        self, batch: CheckedBatch, context: GateContext, later: int = 0
    ) -> list[Refusal] | None:
        """Run the hooks and checks of a batch as a whole, once all of its rules have passed."""
        draft, registry = context.transaction, context.registry
        if registry.with_on_batch and (refused := self._finish(context)) is not None:
            return [_agent_refusal(_reparsed(batch), len(batch.intents) - 1, refused, context)]
        if draft.work and draft.is_overrun:  # also where a rule or a hook caught the exception
            return [_work_exceeded(_reparsed(batch), len(batch.intents) - 1, context)]
        refusals: list[Refusal] | None = None
        if draft.effects:
            refusals = self._check_effects(batch, context, later)
        if refusals is None and registry.with_invariants:
            refusals = self._check_invariants(batch, context)
        if refusals is None and draft.checks:
            refusals = self._check_changes(batch, context)
        return refusals

    def _validate(
        self, validator: EffectValidator, intent: Intent, context: GateContext
    ) -> RuleRefusal | None:
        try:
            returned = validator.validate_intent(
                intent, WorldState(context.state, context.registry.collections)
            )
        except RefusalRaised as raised:
            return raised.refusal
        if isinstance(returned, RuleRefusal):
            return returned
        if returned:
            return None
        return RuleRefusal(
            "refused", f"the world's validator refused {intent['kind']} of {intent['agent_id']!r}"
        )

    def _finish(self, context: GateContext) -> AgentRefused | None:
        """Run `on_batch` of every domain that has one; return the refusal of an agent.

        Raises:
            PluginError: A domain raised; the caller undoes the batch.
        """
        draft, registry = context.transaction, context.registry
        for domain in registry.with_on_batch:
            with plugin_boundary(f"on_batch of {domain.name}"):
                since = draft.writes_count
                try:
                    domain.on_batch(draft)
                except WorkExceeded:
                    return None  # the caller refuses the batch for it
                except AgentRefused as refused:
                    return refused
                registry.require_own_writes(domain, draft, since)
        return None

    def _check_effects(
        self, batch: CheckedBatch, context: GateContext, later: int
    ) -> list[Refusal] | None:
        """Check the number of a batch's effects, and that each is declared by its kind.

        The backpressure stage does not check undeclared effects: their outbox would grow without
        bound.
        """
        kinds = context.registry.kinds
        parts = decode_intents(batch.encoded)  # not the intents, into which a rule may have written
        positions = range(len(batch)) if batch.order is None else batch.order
        for seq, effect, _, _ in context.transaction.effects:
            position = positions[seq - context.ledger.seq - later - 1]
            kind = kinds[parts[position][2]]
            if effect not in kind.effects:
                error = TypeError(f"{kind.name} does not declare {effect!r} among its effects")
                where = f"rule of {kind.name}"
                self.report_fault(where, error)
                return [rule_error(_reparsed(batch), position, where, error)]
        limit = context.ledger.policy.limits.effects_per_batch_max
        count = len(context.transaction.effects)
        if count <= limit:
            return None
        message = f"the batch asks for {count} effects, at most {limit} are allowed; split it"
        code = RefusalCode.INVARIANT_VIOLATED
        return [refuse_batch(code, message, value=count, limit=limit)]

    def _check_invariants(self, batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
        refusals: list[Refusal] = []
        registry = context.registry
        for domain in registry.with_invariants:
            watched = registry.watched[domain.name]
            changed = context.transaction.changed(watched)
            if not changed and watched is not None:
                continue
            try:
                violations: object = domain.invariants(context.state, changed)
                if not isinstance(violations, Iterable):
                    shown = format_value(violations)
                    raise TypeError(f"they must return a list of refuse(...), got {shown}")
                refusals += [_violation(violation, domain.name) for violation in violations]
            except INTERRUPTS:
                raise
            except BaseException as error:  # noqa: BLE001  # the rule boundary
                where = f"invariants of {domain.name}"
                self.report_fault(where, error)
                refusals.append(rule_error(batch, None, where, error))
        return refusals or None

    def _check_changes(self, batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
        """Run the checks of the whole batch that its rules asked for."""
        preview = context.transaction.preview()
        for position, check in context.transaction.checks:
            with plugin_boundary("check of a batch's changes", position):
                returned = check(preview)
                if returned is not None:
                    return [_refusal(_reparsed(batch), position, returned, context)]
        return None


def _work_exceeded(batch: CheckedBatch, position: int, context: GateContext) -> Refusal:
    """Refuse a batch whose rules need more work than one batch may use."""
    limit = context.ledger.policy.limits.batch_work_max
    kind = batch.intents[position]["kind"]
    message = (
        f"the batch needs more than {limit} units of work (batch_work_max), reached at {kind} of "
        "this intent; ask for less at once, or split the batch"
    )
    value = context.transaction.work + batch.base_work
    return refuse_intent(
        batch, position, RefusalCode.WORK_EXCEEDED, message, value=value, limit=limit
    )


def _reparsed(batch: CheckedBatch) -> CheckedBatch:
    """Restore the intents, into which a rule may have written, before a refusal refers to one."""
    batch.reparse()
    return batch


class RefusalRaised(PortableError):  # noqa: N818  # a validator's way to refuse with a code
    """Raised by an `EffectValidator` to refuse with a code."""

    def __init__(self, refusal: RuleRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _agent_refusal(
    batch: CheckedBatch, position: int, refused: AgentRefused, context: GateContext
) -> Refusal:
    """Return the refusal of an intent whose rule may not register or remove an agent."""
    return _refusal(batch, position, refused.refusal, context, refused.domain)


def _refusal(
    batch: CheckedBatch, position: int, returned: object, context: GateContext, by: str = ""
) -> Refusal:
    """Return the refusal of an intent by the value that its rule, or the domain `by`, returned."""
    intent = batch.intents[position]
    rule_refusal = _checked_refusal(returned)
    if rule_refusal.is_conflict:
        rule_refusal = _without_hidden_winner(rule_refusal, intent["agent_id"], context)
    by = by or context.registry.domain_of[intent["kind"]].name
    return Refusal(
        _code_of(rule_refusal, by),
        rule_refusal.message,
        Stage.DOMAIN,
        position,
        intent["req_id"],
        f"/intents/{position}/payload{rule_refusal.at}"
        if rule_refusal.at
        else f"/intents/{position}",
        rule_refusal.retry_after,
        rule_refusal.suggestions,
        foreign_changes(rule_refusal.changed, intent["agent_id"], context),
        {"agent_id": intent["agent_id"], "kind": intent["kind"], **rule_refusal.details},
    )


def _code_of(refusal: RuleRefusal, domain: str) -> str:
    """Return the code of a domain's refusal: one of the gate's, or its own with its name."""
    if refusal.is_conflict:
        return RefusalCode.CONFLICT.value
    if refusal.is_over_budget:
        return RefusalCode.BUDGET_EXCEEDED.value
    return f"{domain}.{refusal.code}"


def _without_hidden_winner(
    refusal: RuleRefusal, agent_id: str, context: GateContext
) -> RuleRefusal:
    """Return a conflict without its winner if the agent may not see it."""
    resource, winner = refusal.details.get("resource"), refusal.details.get("winner")
    if type(winner) is not str or context.registry.may_know_agent(context.state, agent_id, winner):
        return refusal
    return refusal._replace(
        message=conflict_message(str(resource), "another agent"),
        details={**refusal.details, "winner": None},
    )


def _violation(returned: object, domain: str) -> Refusal:
    rule_refusal = _checked_refusal(returned)
    return Refusal(
        RefusalCode.INVARIANT_VIOLATED.value,
        rule_refusal.message,
        Stage.DOMAIN,
        at=rule_refusal.at,
        suggestions=rule_refusal.suggestions,
        details={"invariant": f"{domain}.{rule_refusal.code}", **rule_refusal.details},
    )


def _checked_refusal(returned: object) -> RuleRefusal:
    """Check that a domain's refusal fits into a verdict and a record.

    Raises:
        TypeError: It is no refusal.
        InvalidJsonValue: A part of it is not plain JSON.
    """
    if not isinstance(returned, RuleRefusal):
        raise TypeError(
            f"a rule must return None, or refuse(code, message), got {format_value(returned)}"
        )
    depth_max, bytes_max = _REFUSAL_DEPTH_MAX, _REFUSAL_BYTES_MAX
    rule_refusal = RuleRefusal(*[to_json_value(part, depth_max, bytes_max) for part in returned])
    for part in (rule_refusal.code, rule_refusal.message, rule_refusal.at):
        if type(part) is not str:
            raise TypeError(f"a refusal's code, message and place must be strings, got {part!r}")
    if rule_refusal.retry_after is not None and type(rule_refusal.retry_after) not in {int, float}:
        raise TypeError(
            f"a refusal's retry_after must be seconds, got {rule_refusal.retry_after!r}"
        )
    changed = [Ref(*names) for names in rule_refusal.changed]
    if any(type(name) is not str for ref in changed for name in ref if name is not None):
        raise TypeError(f"the changed entities of a refusal must be Refs, got {changed!r}")
    return rule_refusal._replace(
        suggestions=tuple([str(suggestion) for suggestion in rule_refusal.suggestions]),
        changed=tuple(changed),
    )


def _tool_unregistered(batch: CheckedBatch, position: int, effect: str) -> Refusal:
    return refuse_intent(
        batch,
        position,
        RefusalCode.TOOL_UNREGISTERED,
        f"{batch.intents[position]['kind']} needs an executor for {effect!r} effects and none is "
        "registered; register one before proposing it",
        effect=effect,
    )


def rule_error(batch: CheckedBatch, index: int | None, where: str, error: BaseException) -> Refusal:
    """Return the refusal (`rule_error`) of a batch for which a domain's code raised.

    The text of the exception may hold hidden values, and its place is a path of this machine.
    Both are put into the details of batches that the operator submitted. The message, which the
    log keeps, has the type alone.

    Args:
        batch: The batch.
        index: Position of the intent; None if the call was for the whole batch.
        where: The call that raised, such as `rule of Move`.
        error: The exception.
    """
    name = type(error).__name__
    message = (
        f"the {where} raised {name}; the batch changed nothing and the world goes on; report it "
        "to the domain's author"
    )
    details: dict[str, Json] = {"error": name}
    if batch.submitter == OPERATOR:
        details |= {"message": describe_error(error), "place": place_of(error)}
    if index is None:
        return refuse_batch(RefusalCode.RULE_ERROR, message, **details)
    return refuse_intent(batch, index, RefusalCode.RULE_ERROR, message, **details)


def ignore_fault(where: str, error: BaseException) -> None:
    """Ignore a fault: the default `on_fault` of a kernel; the refusal still reports it."""
