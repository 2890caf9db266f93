"""The decision on one batch: ask the stages in order, then make the answer final."""

from typing import NamedTuple, TypeAlias

from placet.kernel.commit.commit import Applier
from placet.kernel.context import GateContext
from placet.kernel.gate import ON_ARRIVAL, WHEN_DUE
from placet.kernel.gate.domain_rules import DomainRules, rule_error
from placet.kernel.plugin_boundary import PluginError
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import Effect
from placet.schemas.refusal import Refusal
from placet.schemas.verdict import Verdict

_agent, _dedup, _staleness, _quota, _backpressure = ON_ARRIVAL

Answer: TypeAlias = tuple[CheckedBatch, Verdict]
"""A batch and what became of it."""


class Decision(NamedTuple):
    """The outcome of one group.

    Attributes:
        answers: In order of execution; batches that came due out of the schedule are among them.
        effects: To be dispatched once the group is durable.
    """

    answers: list[Answer]
    effects: list[Effect]


def decide_batch(
    batch: CheckedBatch, context: GateContext, rules: DomainRules, applier: Applier
) -> Verdict:
    """Decide one batch at the present state. Never raises for anything in the batch.

    Interrupts (`INTERRUPTS`, such as Ctrl-C) propagate; the draft is rolled back first.
    """
    try:
        if batch.due_of is None:
            answer = (  # the first that has one; a loop over them would cost as much as two of them
                _agent(batch, context)
                or _dedup(batch, context)
                or _staleness(batch, context)
                or _quota(batch, context)
                or _backpressure(batch, context)
            )
        else:
            answer = _when_due(batch, context)
        if answer is not None:
            if isinstance(answer, Verdict):
                return applier.repeat(batch, answer)
            return applier.refuse(batch, answer)
        sim_time_ns = batch.sim_time_ns
        if sim_time_ns is not None and sim_time_ns > context.now_ns and batch.due_of is None:
            return applier.schedule(batch)
        context.draft.open_batch()
        try:
            refusals = rules.check(batch, context)
        except BaseException:  # no fault of a rule's, such as Ctrl-C: it goes on to the caller
            context.draft.undo()
            raise
        if refusals is not None:
            context.draft.undo()
            return applier.refuse(batch, refusals)
        return applier.admit(batch)
    except PluginError as fault:
        rules.on_fault(fault.where, fault.error)
        return applier.refuse(batch, [rule_error(batch, fault.index, fault.where, fault.error)])


def _when_due(batch: CheckedBatch, context: GateContext) -> list[Refusal] | Verdict | None:
    for check in WHEN_DUE:
        answer = check(batch, context)
        if answer is not None:
            return answer
    return None
