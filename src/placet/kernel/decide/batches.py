"""The decision on one batch: run the stages in order, then commit the answer."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from placet.kernel.commit.commit import DecisionRecorder, Unpaid
from placet.kernel.context import GateContext
from placet.kernel.decide.dry_run import show_undecided
from placet.kernel.gate import ON_ARRIVAL, WHEN_DUE
from placet.kernel.gate import leases as lease_stage
from placet.kernel.gate.domain_rules import DomainRules, rule_error
from placet.kernel.gate.quota import check_work
from placet.kernel.ledger.schedule import batches_of
from placet.kernel.ledger.token_buckets import work_charges
from placet.kernel.plugin.boundary import PluginError
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import Effect
from placet.schemas.verdict import Verdict

Answer: TypeAlias = tuple[CheckedBatch, Verdict]
"""A batch and its verdict."""


class Decision(NamedTuple):
    """The result of deciding one group of batches.

    Attributes:
        answers: Each batch with its verdict, in order of execution; includes the scheduled batches
            that were due.
        effects: Effects to dispatch once the group is durable.
        unpaid: Work and log bytes of the dry runs, refused and repeated batches.
        undecided: Batches not decided because the group used up `work_max`, or the scheduled ones
            reached `due_max`; empty without these bounds.
    """

    answers: list[Answer]
    effects: list[Effect]
    unpaid: list[Unpaid]
    undecided: Sequence[CheckedBatch] = ()


def decide_batch(
    batch: CheckedBatch, context: GateContext, rules: DomainRules, recorder: DecisionRecorder
) -> Verdict:
    """Decide one batch at the present state, commit it or refuse it, and return its verdict.

    Never raises for anything in the batch. An interrupt, such as Ctrl-C (`INTERRUPTS`), is raised,
    and the batch is undone; with `KernelConfig.on_rule_error="raise"` so is any exception of
    plug-in code.
    """
    context.charges = ()
    try:
        for check in ON_ARRIVAL if batch.due_of is None else WHEN_DUE:
            result = check(batch, context)
            if result is not None:
                if isinstance(result, Verdict):
                    return recorder.repeat(batch, result)
                return recorder.refuse(batch, result)
        sim_time_ns = batch.sim_time_ns
        if sim_time_ns is not None and sim_time_ns > context.now_ns and batch.due_of is None:
            return recorder.schedule(batch, context.charges)
        context.transaction.open_batch(batch)
        try:
            refusals = rules.check(batch, context)
            leases = context.ledger.leases
            if refusals is None and leases is not None:
                refusals = lease_stage.check(batch, leases, context)
        except BaseException:  # an interrupt or a PluginError: the state must be as before
            context.transaction.undo()
            raise
        if refusals is not None:
            context.transaction.undo()
            return recorder.refuse(batch, refusals)
        if context.ledger.policy.checks_work:
            verdict = _admit_within_work(batch, context, recorder)
        else:
            verdict = recorder.admit(batch, context.charges)
        if batch.dry_run:
            show_undecided(verdict, batch, context, recorder)
        return verdict
    except PluginError as fault:
        return refuse_fault(batch, fault, rules, recorder)


def decide_next(
    batch: CheckedBatch, context: GateContext, rules: DomainRules, recorder: DecisionRecorder
) -> Verdict:
    """Decide the next batch of a group, and refuse the scheduled batches of agents it removes."""
    orphan = recorder.orphans.pop(batch.due_of, None) if recorder.orphans else None
    if orphan is not None:  # due in this group, and an earlier batch removed its agent
        return orphan[1]
    verdict = decide_batch(batch, context, rules, recorder)
    if recorder.removed:
        refuse_orphans(context, rules, recorder)
    return verdict


def refuse_orphans(context: GateContext, rules: DomainRules, recorder: DecisionRecorder) -> None:
    """Refuse the scheduled batches of the agents that rules have removed.

    Now, because their names may belong to other agents when they are due.
    """
    for agent_id in recorder.removed:
        for batch in batches_of(context.ledger, agent_id):
            verdict = decide_batch(batch, context, rules, recorder)
            recorder.orphans[batch.due_of] = (batch, verdict)
    recorder.removed.clear()


def refuse_fault(
    batch: CheckedBatch, fault: PluginError, rules: DomainRules, recorder: DecisionRecorder
) -> Verdict:
    """Report a fault of plug-in code, and refuse the batch for it."""
    rules.report_fault(fault.where, fault.error)
    return recorder.refuse(batch, [rule_error(batch, fault.index, fault.where, fault.error)])


def _admit_within_work(
    batch: CheckedBatch, context: GateContext, recorder: DecisionRecorder
) -> Verdict:
    """Admit a batch whose rules have run, unless all of its work exceeds a limit or a quota."""
    draft = context.transaction
    units = batch.base_work + draft.work
    charges = work_charges(batch, context.ledger, units, context.now_ns)
    refusals = check_work(batch, context, units, charges)
    if refusals is not None:
        draft.undo()
        return recorder.refuse(batch, refusals)
    return recorder.admit(batch, context.charges + charges, units if charges else 0)
