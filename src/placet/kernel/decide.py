"""The decision on one batch: ask the stages in order, then make the answer final."""

from functools import partial
from typing import Final, NamedTuple

from placet.kernel.apply import Applier
from placet.kernel.gate import ON_ARRIVAL, WHEN_DUE
from placet.kernel.gate.context import GateContext, GuestFault
from placet.kernel.gate.domain_rules import DomainRules, rule_error
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import Effect
from placet.schemas.verdict import Verdict


class Answer(NamedTuple):
    """A batch and what became of it."""

    batch: CheckedBatch
    verdict: Verdict


make_answer: Final = partial(tuple.__new__, Answer)
"""Make an `Answer` of such a pair, in a third of what the class itself takes."""


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
    """Decide one batch at the present state. Never raises for anything in the batch."""
    try:
        for check in ON_ARRIVAL if batch.due_of is None else WHEN_DUE:
            answer = check(batch, context)
            if answer is None:
                continue
            if isinstance(answer, Verdict):
                return applier.repeat(batch, answer)
            return applier.refuse(batch, answer)
        sim_time_ns = batch.sim_time_ns
        if sim_time_ns is not None and sim_time_ns > context.now_ns and batch.due_of is None:
            return applier.schedule(batch)
        context.draft.open_batch()
        refusals = rules.check(batch, context)
        if refusals is not None:
            context.draft.undo()
            return applier.refuse(batch, refusals)
        return applier.admit(batch)
    except GuestFault as fault:
        rules.on_fault(fault.where, fault.error)
        return applier.refuse(batch, [rule_error(batch, fault.index, fault.where, fault.error)])
