"""Stage 7: what the domain says.

Rules run in order inside the draft, so each intent sees what those before it did. Then the
invariants judge the post-state. What a rule raises is contained here and becomes `rule_error`.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from placet.kernel.domain import RuleRefusal
from placet.kernel.draft import ToolUnregistered
from placet.kernel.gate.context import GateContext, refuse_intent
from placet.kernel.state import WorldState
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json
from placet.schemas.intent import Intent
from placet.schemas.refusal import Refusal, RefusalCode, Stage

FaultSink = Callable[[str, BaseException], None]
"""Is told of what a rule raised: where, and the exception. The runtime logs it."""


class EffectValidator(Protocol):
    """The user's own rule of seed 003; its `set_agent_permissions` is called where it has one."""

    def validate_intent(self, intent: Intent, world_state: WorldState) -> object:
        """Answer True to let the intent pass, False or a `RuleRefusal` to refuse it."""


class DomainRules:
    """The last stage of one world.

    Attributes:
        on_fault: Is told of what a rule raised.
    """

    __slots__ = ("_validator", "on_fault")

    def __init__(self, validator: EffectValidator | None = None) -> None:
        self._validator = validator
        self.on_fault: FaultSink = _ignore

    def check(self, batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
        """Apply the batch to the draft; on refusal the caller undoes it."""
        draft, kinds = context.draft, context.registry.kinds
        intents = batch.intents
        seq = context.ledger.seq
        refusals: list[Refusal] | None = None
        validator = self._validator
        for position in range(len(intents)) if batch.order is None else batch.order:
            seq += 1
            intent = intents[position]
            draft.begin(position, seq, intent["agent_id"])
            mark = draft.mark()
            try:
                answer = None if validator is None else self._ask(validator, intent, context)
                if answer is None:
                    answer = kinds[intent["kind"]].rule(draft, intent)
                if answer is None:
                    continue
                found = _refusal(batch, position, answer, context)
            except ToolUnregistered as error:
                found = _tool_unregistered(batch, position, str(error))
            except Exception as error:  # noqa: BLE001  # the rule boundary: a bug refuses its batch
                self.on_fault(f"rule {intent['kind']}", error)
                found = _rule_error(batch, position, error)
            draft.undo(mark)
            refusals = refusals or []
            refusals.append(found)
        if refusals is not None:
            refusals.sort(key=lambda found: found.index or 0)
            return refusals[: context.listed_max]
        return self._check_effects(batch, context) or self._check_invariants(context)

    def _ask(
        self, validator: EffectValidator, intent: Intent, context: GateContext
    ) -> RuleRefusal | None:
        try:
            answer = validator.validate_intent(intent, WorldState(context.state))
        except RefusalRaised as raised:
            return raised.refusal
        if isinstance(answer, RuleRefusal):
            return answer
        if answer:
            return None
        return RuleRefusal(
            "refused", f"the world's validator refused {intent['kind']} of {intent['agent_id']!r}"
        )

    def _check_effects(self, batch: CheckedBatch, context: GateContext) -> list[Refusal] | None:
        limit = context.ledger.policy.limits.effects_per_batch_max
        count = len(context.draft.effects)
        if count <= limit:
            return None
        message = f"the batch asks for {count} effects, at most {limit} are allowed; split it"
        code = RefusalCode.INVARIANT_VIOLATED
        return [Refusal(code.value, message, Stage.DOMAIN, details={"value": count, "limit": limit})]

    def _check_invariants(self, context: GateContext) -> list[Refusal] | None:
        refusals: list[Refusal] = []
        changed = None
        for domain in context.registry.judging:
            changed = changed or context.draft.changed()
            try:
                broken = list(domain.invariants(context.state, changed))
            except Exception as error:  # noqa: BLE001  # the rule boundary
                self.on_fault(f"invariants of {domain.name}", error)
                message = f"an invariant of {domain.name!r} raised {type(error).__name__}"
                refusals.append(Refusal(RefusalCode.RULE_ERROR.value, message, Stage.DOMAIN))
                continue
            refusals += [
                Refusal(
                    RefusalCode.INVARIANT_VIOLATED.value,
                    found.message,
                    Stage.DOMAIN,
                    at=found.at,
                    suggestions=found.suggestions,
                    details={"invariant": f"{domain.name}.{found.code}", **found.details},
                )
                for found in broken
            ]
        return refusals[: context.listed_max] or None


class RefusalRaised(Exception):  # noqa: N818  # a validator's way to refuse with a code
    """Raise it from an `EffectValidator` to refuse with a code."""

    def __init__(self, refusal: RuleRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _refusal(
    batch: CheckedBatch, position: int, answer: RuleRefusal, context: GateContext
) -> Refusal:
    if not isinstance(answer, RuleRefusal):
        kind = batch.intents[position]["kind"]
        raise TypeError(f"the rule of {kind} must return None or a refusal, got {answer!r}")
    intent = batch.intents[position]
    domain = context.registry.domain_of[intent["kind"]]
    code = RefusalCode.CONFLICT.value if answer.is_conflict else f"{domain.name}.{answer.code}"
    details: Mapping[str, Json] = {
        "agent_id": intent["agent_id"],
        "kind": intent["kind"],
        **answer.details,
    }
    return Refusal(
        code,
        answer.message,
        Stage.DOMAIN,
        position,
        intent["req_id"],
        f"/intents/{position}/payload{answer.at}" if answer.at else f"/intents/{position}",
        answer.retry_after,
        answer.suggestions,
        details=details,
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


def _rule_error(batch: CheckedBatch, position: int, error: Exception) -> Refusal:
    return refuse_intent(
        batch,
        position,
        RefusalCode.RULE_ERROR,
        f"the rule of {batch.intents[position]['kind']} raised {type(error).__name__}; the batch "
        "changed nothing and the world goes on; report it to the domain's author",
        error=type(error).__name__,
    )


def _ignore(where: str, error: BaseException) -> None:
    """The sink of a kernel that nobody listens to; the refusal still says what happened."""


def permitted_sink(validator: object) -> Callable[[str, set[str]], None] | None:
    """Find a validator's `set_agent_permissions`, where it has one."""
    found = getattr(validator, "set_agent_permissions", None)
    return found if callable(found) else None

