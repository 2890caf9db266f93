"""The decision of a group of batches: the single ones in one loop, the others stage by stage.

The loop asks, for each batch of one intent, whether every stage passes it without a closer look,
with the objects of its agent and kind in hand. If a stage does not, the batch takes the ordinary
stages (`kernel/decide/batches.py`), which give the reason. `placet.testing` holds both to the
same verdicts.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from placet.kernel.commit.commit import RECORDING, DecisionRecorder
from placet.kernel.context import GateContext
from placet.kernel.decide.batches import (
    decide_batch,
    decide_next,
    refuse_fault,
    refuse_orphans,
)
from placet.kernel.decide.single.batch import ONE, AnyBatch, SingleBatch, SingleSize, checked_of
from placet.kernel.decide.single.record import SingleRecorder
from placet.kernel.gate import GATE
from placet.kernel.gate.domain_rules import DomainRules
from placet.kernel.ledger.dedup_window import RangeEntry, admitted
from placet.kernel.ledger.leases import LEASE_KINDS
from placet.kernel.ledger.token_buckets import Charges, charge, charge_of, is_exceeded
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.plugin.domain import Rule
from placet.kernel.state.collection import Entity
from placet.schemas.batch import CheckedBatch, sequence_form
from placet.schemas.codec import ENCODE_ERRORS
from placet.schemas.config import ALL_KINDS, Quota
from placet.schemas.errors import INTERRUPTS
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS, UNLIMITED
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

INLINED: Final = frozenset(
    {Stage.AGENT, Stage.DEDUP, Stage.STALENESS, Stage.QUOTA, Stage.BACKPRESSURE, Stage.DOMAIN}
)
"""The stages that the loop inlines: their calls would cost more than the rule of a batch."""

INLINES_GATE: Final = {row.stage for row in GATE[1:]} == INLINED  # structure has passed before
"""False for a gate with another stage: each batch then takes the calls of the table."""


class _KindFacts(NamedTuple):
    """The facts of a kind that the loop reads.

    Attributes:
        rule: The rule, with the charge of the kind's declared work.
        is_plain: Its intents may pass without the ordinary stages.
        own: Entities of the collection whose entity of the agent's name it depends on; None if
            it depends on nothing.
        quota: The world's quota of each agent for this kind; None is no limit.
    """

    rule: Rule
    is_plain: bool
    own: dict[str, Entity] | None
    quota: Quota | None


class SingleDecision:
    """Decides groups that contain single batches."""

    __slots__ = ("_context", "_ordinary", "_recorder", "_rules", "_size")

    def __init__(
        self,
        context: GateContext,
        rules: DomainRules,
        recorder: SingleRecorder,
        ordinary: DecisionRecorder,
    ) -> None:
        self._context = context
        self._rules = rules
        self._recorder = recorder
        self._ordinary = ordinary
        self._size = SingleSize()

    def decide(
        self, entries: Iterable[AnyBatch], verdicts: list[Verdict], work_max: int = UNLIMITED
    ) -> None:
        """Decide batches in the order given, and append the verdict of each.

        Args:
            entries: The batches, in order of execution.
            verdicts: Receives the verdicts.
            work_max: Leave the rest undecided once the rules charged more units than this.
        """
        context, recorder, ordinary = self._context, self._recorder, self._ordinary
        recorder.effects, recorder.unpaid = ordinary.effects, ordinary.unpaid
        recorder.agents, recorder.removed = ordinary.agents, ordinary.removed
        draft, decide_plain = context.transaction, self._plain_decision()
        try:
            for entry in entries:
                if isinstance(entry, CheckedBatch):
                    recorder.flush()
                    verdicts.append(decide_next(entry, context, self._rules, ordinary))
                else:
                    verdicts.append(
                        decide_plain(entry)
                        or decide_batch(checked_of(entry), context, self._rules, recorder)
                    )
                    if recorder.removed:
                        recorder.flush()
                        refuse_orphans(context, self._rules, ordinary)
                if draft.work:
                    work_max -= draft.work
                    draft.work = 0
                    if work_max < 0:
                        return
        finally:  # an interrupt ends the group; the batches before it are in the log and stay
            recorder.flush()

    def _plain_decision(self) -> Callable[[SingleBatch], Verdict | None]:  # noqa: C901, PLR0915  # its function
        """Return a function that decides a plain batch, with the group's objects in hand.

        It is called a thousand times a tick, so its objects are looked up once a group.
        """
        context, recorder, size = self._context, self._recorder, self._size
        ledger, draft, now_ns = context.ledger, context.transaction, context.now_ns
        agents, policy, dedup = ledger.agents, ledger.policy, ledger.dedup
        ordinals, leases = ledger.ordinals, ledger.leases
        limits, lag_max = policy.limits, policy.staleness_threshold
        lag_max = UNLIMITED if lag_max is None else lag_max
        has_whole_checks = context.registry.has_whole_checks
        sim_time, durability = now_ns / SECOND_NS, recorder.durability
        remember_above = dedup.remembering(now_ns, limits)
        facts_of: dict[str, _KindFacts] = {}

        def decide_plain(single: SingleBatch) -> Verdict | None:  # noqa: C901, PLR0912  # all stages, inlined
            """Decide a batch; return None, with nothing done, if a stage must look closely."""
            intent, agent_id, req_id, kind, _, context_seq, part, fingerprint, number, by = single
            facts = facts_of.get(kind)
            if facts is None:
                facts = facts_of[kind] = self._facts_of(kind)
            rule, is_plain, own, quota = facts
            agent, seq = agents.get(agent_id), ledger.seq
            read = None if own is None else own.get(agent_id)
            if (
                not is_plain
                or agent is None
                or agent.is_suspended
                or (leases is not None and leases.at(now_ns).tickets)
                or (by != OPERATOR and by != agent_id and by != agent.owner)  # noqa: PLR1714  # no set
                or (agent.permissions is not None and kind not in agent.permissions)
                or agent.quotas is not None
                or not context_seq <= seq <= context_seq + lag_max
                or (read is None and own is not None)
                or (
                    read is not None  # `Stamp.changed_for`, inlined
                    and (read.foreign_seq if read.by == agent_id else read.seq) > context_seq
                )
            ):
                return None
            sequence, window = sequence_form(req_id), agent.window
            if window is not None and not window.is_above(req_id, sequence):
                return None
            charges: Charges = ()
            if quota is not None:
                charges = (charge_of(agent, kind, kind, quota, 1, now_ns),)
                if is_exceeded(charges[0], now_ns):
                    return None
            size.bytes = len(part)
            draft.open_single(size, seq + 1, agent_id)
            try:
                returned = rule(draft, intent)
            except INTERRUPTS:
                draft.undo()
                raise
            except BaseException as error:  # noqa: BLE001  # the rule boundary
                return self._refuse(single, None, error)
            if returned is not None:
                return self._refuse(single, returned, None)
            writes = draft.plain_writes()
            if writes is None or has_whole_checks:
                return self._check_and_admit(single, charges)
            try:
                recorder.add(single, writes)
            except ENCODE_ERRORS as error:
                return self._refuse_unrecordable(single, error)
            ledger.seq = seq = seq + 1
            if ordinals.now_ns != now_ns:
                ordinals.begin(now_ns)
            ordinals.names.append(agent_id)
            if charges:
                charge(ledger, charges)
            if sequence is None:
                dedup.remember(agent, admitted(fingerprint, now_ns, seq, (req_id,)), limits)
            else:
                name, n = sequence
                entry = RangeEntry(fingerprint, now_ns, seq, name, n, n)
                remember_above(agent, window, entry)
            return Verdict(
                f"b{number}", True, seq, seq, sim_time, (), False, False, False, durability,
                [req_id], ONE + part, (seq,),
            )  # fmt: skip

        return decide_plain

    def _facts_of(self, name: str) -> _KindFacts:
        context, ledger = self._context, self._context.ledger
        registry, policy = context.registry, ledger.policy
        kind = registry.kinds[name]
        collection = (
            None if kind.reads_self is None else context.state.collections.get(kind.reads_self)
        )
        is_plain = (
            INLINES_GATE
            and not self._rules.has_validator
            and ALL_KINDS not in policy.quotas
            and policy.world_quota is None
            and not policy.checks_work
            and name not in registry.read_only_kinds
            and name not in LEASE_KINDS
            and not (ledger.executors and kind.effects)
            and (kind.reads_self is None or collection is not None)
            and (kind.reads is None or kind.when_stale == "revalidate")
        )
        own = None if collection is None else collection.entities
        return _KindFacts(registry.rules[name], is_plain, own, policy.quotas.get(name))

    def _refuse(
        self, single: SingleBatch, returned: object, error: BaseException | None
    ) -> Verdict:
        """Refuse a batch by what its rule returned or raised."""
        batch = self._resumed(single)
        try:
            refusal = self._rules.refusal_of(batch, returned, error, self._context)
        finally:  # an exception that the kernel's caller wants
            self._context.transaction.undo()
        return self._recorder.refuse(batch, [refusal])

    def _refuse_unrecordable(self, single: SingleBatch, error: BaseException) -> Verdict:
        """Refuse a batch whose rule made a value that no record can hold."""
        batch = self._resumed(single)
        self._context.transaction.undo()
        return refuse_fault(batch, PluginError(RECORDING, error), self._rules, self._recorder)

    def _check_and_admit(self, single: SingleBatch, charges: Charges) -> Verdict:
        """Admit a batch whose rule did more than one put, unless a check of the whole fails."""
        batch, context, draft = self._resumed(single), self._context, self._context.transaction
        try:
            refusals = None
            if context.registry.has_whole_checks or draft.work or draft.effects or draft.checks:
                try:
                    refusals = self._rules.check_whole(batch, context)
                except BaseException:
                    draft.undo()
                    raise
            if refusals is not None:
                draft.undo()
                return self._recorder.refuse(batch, refusals)
            return self._recorder.admit(batch, charges)
        except PluginError as fault:
            return refuse_fault(batch, fault, self._rules, self._recorder)

    def _resumed(self, single: SingleBatch) -> CheckedBatch:
        """Build the checked batch of a single batch whose rule has run."""
        batch = checked_of(single)
        self._context.transaction.resume(batch)
        return batch
