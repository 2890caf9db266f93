"""Counterfactual replay: re-execute the parent's recorded inputs in a modified fork.

Batches are submitted again at their times and in the recorded order; registrations, ticks and the
like are repeated. `context_seq` is translated, so that it names the same moment in the fork. The
recorded outcome and start of an effect apply again if the fork emits the very same effect; the
outcome of another effect is unknown, and it stays open.

Agents do not react: they submit the batches that they submitted in the parent. Refusals of load and
quota, which left no trace in the log, are not submitted again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from placet.history.diff import (
    BatchDecision,
    decision_of,
    decision_of_columns,
    decision_of_verdict,
)
from placet.kernel.commit.apply_record import apply_configured
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.gate.structure import Structure
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.kernel.log.replay import Replayer, header_after, seqs_of
from placet.kernel.log.sandbox import Sandbox
from placet.kernel.log.verify import Maker
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import (
    Rules,
    incompatibility,
    rules_in,
    rules_of,
    validator_name,
)
from placet.kernel.recorded_batch import recorded_batch
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import Json, canonical
from placet.schemas.config import KernelConfig
from placet.schemas.effect import EffectKey
from placet.schemas.errors import PlacetError, StoreError
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Checkpoint,
    Columns,
    Configured,
    EffectChanged,
    ExecutorChanged,
    ForkAdopted,
    Patched,
    Record,
    Refused,
    Registered,
    RulesChanged,
    Scheduled,
    Settled,
    TableMade,
    Tick,
    decode_record,
)
from placet.schemas.verdict import Verdict

_DIFFERENCES_MAX: Final = 10_000
"""At most so many differing decisions are listed; all are counted."""


@dataclass(frozen=True, slots=True)
class ChangedDecision:
    """A batch that was decided in one way in the parent's log and in another way in the fork.

    Attributes:
        record: Ordinal number of the batch's record in the parent's log.
        seq: Sequence number of the parent's world before the batch.
        sim_time: Simulated time of the decision in the parent, seconds.
        was: Decision in the parent's log.
        now: Decision in the fork; None if the batch is not submitted there.
        why: Message of the first refusal, in the fork or else in the parent.
    """

    record: int
    seq: int
    sim_time: float
    was: BatchDecision
    now: BatchDecision | None
    why: str

    def as_dict(self) -> dict[str, Json]:
        """Return the entry as plain JSON."""
        return {
            "record": self.record,
            "seq": self.seq,
            "sim_time": self.sim_time,
            "agent_ids": list(self.was.agent_ids),
            "req_ids": list(self.was.req_ids),
            "was": str(self.was),
            "now": "not proposed" if self.now is None else str(self.now),
            "why": self.why,
        }


@dataclass(slots=True)
class CounterfactualReport:
    """The result of a counterfactual replay: a parent's later inputs, re-executed in a fork.

    Attributes:
        batches: Number of re-executed batches.
        same: Number of batches with the same outcome and the same codes.
        admitted_instead: Number of batches that are admitted in the fork and were refused.
        refused_instead: Number of batches that are refused in the fork and were admitted.
        other_differences: Number of batches that differ in another way: refused with other codes,
            or scheduled where they were admitted.
        other_changes: Number of batches that are admitted in both and change the state differently.
        not_proposed: Number of batches of dropped agents, which are left out.
        effects_answered: Number of effects that have the recorded outcome.
        effects_unanswered: Number of recorded outcomes of effects that the fork does not have.
        changed: The decisions that differ, in order, at most 10 000.
        stopped: Why the replay ended before the end of the log; empty if it did not.
        notes: Sentences on inputs that could not be repeated exactly.
        seq: Sequence number at the end of the fork.
        digest: State digest of the fork there, hexadecimal.
        parent_seq: Sequence number at the end of the parent's log.
        parent_digest: The parent's state digest there.
    """

    batches: int = 0
    same: int = 0
    admitted_instead: int = 0
    refused_instead: int = 0
    other_differences: int = 0
    other_changes: int = 0
    not_proposed: int = 0
    effects_answered: int = 0
    effects_unanswered: int = 0
    changed: list[ChangedDecision] = field(default_factory=list)
    stopped: str = ""
    notes: list[str] = field(default_factory=list)
    seq: int = 0
    digest: str = ""
    parent_seq: int = 0
    parent_digest: str = ""

    def as_dict(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "changed": [decision.as_dict() for decision in self.changed]}


class CounterfactualReplay:
    """The re-execution, in a fork, of the inputs that its parent world had after the fork.

    Args:
        past: The replayed state of the fork; it is changed in place.
        domains: Domains that decide, or a function that creates them from recorded rules.
        dropped: Agents whose inputs are left out.
        is_refusing_effects: Do not register the executors that the parent registered later.
        validator: The host's effect validator, if the parent had one.

    Attributes:
        report: The results so far.
        records: The records appended to the fork's log.
    """

    def __init__(
        self,
        past: Replayer,
        domains: Sequence[Domain] | Maker,
        *,
        dropped: Sequence[str] = (),
        is_refusing_effects: bool = False,
        validator: EffectValidator | None = None,
    ) -> None:
        self.report = CounterfactualReport()
        self.records: list[bytes] = []
        self._past, self._domains, self._dropped = past, domains, frozenset(dropped)
        self._kinds = past.known_header.kinds
        self._is_refusing_effects, self._validator = is_refusing_effects, validator
        self._group: tuple[int, int] | None = None
        self._first_seq = past.ledger.seq
        self._first_group = (past.ledger.tick, past.ledger.group)
        self._seqs_there, self._seqs_here = [past.ledger.seq], [past.ledger.seq]
        self._numbers = {number: number for number in past.ledger.scheduled}
        self._effect_keys = {key: key for key in past.ledger.outbox}
        self._sandbox = self._made(rules=None)

    @property
    def seq(self) -> int:
        """Sequence number that the fork has reached."""
        return self._past.ledger.seq

    @property
    def digest(self) -> str:
        """State digest of the fork, hexadecimal."""
        return self._past.state.digest().hex()

    def live(self, ordinal: int, data: bytes, first: int = 0) -> bool:
        """Re-execute one record of the parent's log in the fork; return False if it cannot be.

        After False the replay has ended, and `report.stopped` says why.

        Args:
            ordinal: Ordinal number of the record.
            data: The encoded record.
            first: Place of the first batch to re-execute, if the record is a group of batches.
        """
        for record in expanded(decode_record(data))[first:]:
            try:
                self._live(ordinal, record)
            except StoreError as error:
                self.report.stopped = f"record {ordinal}: {error}"
                return False
            self._seqs_there.append(record.seq)
            self._seqs_here.append(self._past.ledger.seq)
        return True

    def _live(  # noqa: C901, PLR0912  # a branch for each type
        self, ordinal: int, record: Record
    ) -> None:
        match record:
            case Admitted() | Refused() | Scheduled():
                self._live_batch(ordinal, record)
            case Settled():
                self._live_settled(record)
            case EffectChanged():
                self._live_mark(record)
            case Columns():
                self._live_columns(ordinal, record)
            case Registered() | AgentChanged():
                if record.agent_id not in self._dropped:
                    self._let_happen(record)
            case Tick() | Patched() | TableMade():
                self._let_happen(record)
            case Checkpoint():
                self._start(record.now_ns)
                self._sandbox.control.checkpoint()
                self._write(record.now_ns)
            case ExecutorChanged() if not self._is_refusing_effects:
                self._start(record.now_ns)
                self._sandbox.outbox.change_executor(record.kind, record.depth_max)
                self._write(record.now_ns)
            case Configured():
                self._configure(record)
            case RulesChanged():
                self._change_rules(record)
            case ForkAdopted():
                raise StoreError(
                    "from here on the log is that of a fork; fork it here or later instead"
                )
            case _:
                pass  # executors that do not come here

    # batches

    def _live_batch(self, ordinal: int, record: Admitted | Refused | Scheduled) -> None:
        was = decision_of(record)
        if self._dropped.issuperset(was.agent_ids):
            self.report.not_proposed += 1
            return
        self._open_group(record)
        batch = self._batch(record)
        if batch is None:  # it was scheduled there, and is not here
            self._compare(ordinal, record, was, None, "it was refused when it was scheduled")
            return
        verdict = self._decide(batch)
        made = self._write(record.now_ns)
        now = decision_of_verdict(verdict, was)
        why = next((r.message for r in verdict.refusals), "")
        if not why and isinstance(record, Refused):
            why = next((message for *_, message in record.refusals), "")
        self._compare(ordinal, record, was, now, why)
        if isinstance(record, Scheduled) and isinstance(made, Scheduled):
            self._numbers[record.number] = made.number
        if isinstance(record, Admitted) and isinstance(made, Admitted):
            self._note_effects(record, made)
            if canonical(_puts(record)) != canonical(_puts(made)):
                self.report.other_changes += 1

    def _live_columns(self, ordinal: int, record: Columns) -> None:
        """Decide a column batch in the fork; the rows of dropped agents are left out."""
        from placet.history.column_batches import proposed_again  # noqa: PLC0415  # numpy is an extra

        members = self._past.ledger.populations.get(record.population)
        count = 0 if members is None else members.count
        proposed = proposed_again(record, count, self._dropped, self._seq_here)
        if proposed is None:
            self.report.not_proposed += 1
            return
        self._start(record.now_ns)
        try:
            self._sandbox.decide_columns(proposed)
        except ValueError as error:
            raise StoreError(f"the column batch {record.req_id!r} has no form: {error}") from error
        self._group = None
        made = self._write(record.now_ns)
        was = decision_of_columns(record)
        now = decision_of_columns(made) if isinstance(made, Columns) else None
        why = "the population remembers its request" if now is None else ", ".join(now.codes)
        self._compare(ordinal, record, was, now, why)
        if isinstance(made, Columns) and was == now and record.changes != made.changes:
            self.report.other_changes += 1

    def _decide(self, batch: CheckedBatch) -> Verdict:
        try:
            return self._sandbox.decide(batch, self._kinds)
        except PluginError as fault:
            raise StoreError(f"{fault.where} raised {fault.error!r}") from fault

    def _open_group(self, record: Admitted | Refused | Scheduled) -> None:
        group = (record.tick, record.group)
        self._start(record.now_ns)
        if group == self._group:
            return
        if self._group is None and group < self._first_group:
            self.report.notes.append(
                f"seq {self._first_seq} is inside a group of batches that were decided at the same "
                "moment; the claims of the earlier ones do not hold in the fork"
            )
        self._group = group
        self._sandbox.recorder.open_group()

    def _batch(self, record: Admitted | Refused | Scheduled) -> CheckedBatch | None:
        """Rebuild a batch as it was submitted, at the corresponding moment of the fork."""
        if record.due_of is not None:
            entry = self._past.ledger.scheduled.get(self._numbers.get(record.due_of, -1))
            if entry is None:
                return None
            batch = recorded_batch(entry)
            batch.due_of, batch.sim_time_ns = entry.number, entry.due_ns
            return batch
        batch = recorded_batch(record)
        batch.contexts = [self._seq_here(seq) for seq in batch.contexts]
        for intent, seq in zip(batch.intents, batch.contexts, strict=True):
            intent["context_seq"] = seq
        batch.sim_time_ns = record.due_ns if isinstance(record, Scheduled) else None
        return batch

    def _seq_here(self, seq: int) -> int:
        """Find the moment in the fork that a seq names in the parent."""
        place = bisect_right(self._seqs_there, seq) - 1
        if place < 0:
            return seq  # before the fork they are one
        beyond = self._seqs_here[place] + seq - self._seqs_there[place]
        following = self._seqs_here[place + 1] if place + 1 < len(self._seqs_here) else beyond
        return min(beyond, following)

    def _compare(
        self,
        ordinal: int,
        record: Admitted | Refused | Scheduled | Columns,
        was: BatchDecision,
        now: BatchDecision | None,
        why: str,
    ) -> None:
        report = self.report
        report.batches += 1
        if was == now:
            report.same += 1
            return
        passes = now is not None and now.passes
        if passes and not was.passes:
            report.admitted_instead += 1
        elif was.passes and not passes:
            report.refused_instead += 1
        else:
            report.other_differences += 1
        if len(report.changed) < _DIFFERENCES_MAX:
            seq_before = record.seq - seqs_of(record)
            sim_time = record.now_ns / SECOND_NS
            report.changed.append(ChangedDecision(ordinal, seq_before, sim_time, was, now, why))

    def _note_effects(self, there: Admitted, here: Admitted) -> None:
        """Remember which effects are the same: an outcome that was recorded is theirs alone."""
        for k, (recorded, made) in enumerate(zip(there.effects, here.effects, strict=False)):
            if canonical(recorded[1:]) == canonical(made[1:]):
                self._effect_keys[recorded[0], k] = (made[0], k)

    # records that are no batch

    def _live_settled(self, record: Settled) -> None:
        key = self._effect_keys.get((record.effect_seq, record.effect_index))
        if key is None or key not in self._past.ledger.outbox:
            self.report.effects_unanswered += 1
            return
        self.report.effects_answered += 1
        self._let_happen(msgspec.structs.replace(record, effect_seq=key[0], effect_index=key[1]))

    def _live_mark(self, record: EffectChanged) -> None:
        """Note that an effect was started in the parent, which takes a seq."""
        key = self._effect_keys.get((record.effect_seq, record.effect_index))
        if key is None:
            return
        self._start(record.now_ns)
        effect = EffectKey(self._sandbox.world, *key)
        self._sandbox.outbox.mark(effect, record.what, record.why)
        self._write(record.now_ns)

    def _let_happen(
        self, record: Registered | AgentChanged | Tick | Settled | Patched | TableMade
    ) -> None:
        self._start(record.now_ns)
        try:
            self._sandbox.execute(record)
        except PlacetError as error:  # such as of an agent that never came
            self.report.notes.append(f"not re-executed, at seq {self._past.ledger.seq}: {error}")
            return
        self._group = None
        self._write(record.now_ns)

    def _configure(self, record: Configured) -> None:
        scratch = Ledger(GateSettings.of(KernelConfig()))
        apply_configured(scratch, record)
        self._start(record.now_ns)
        self._sandbox.control.configure(scratch.policy)
        self._write(record.now_ns)
        self._sandbox = self._made(rules=None)

    def _change_rules(self, record: RulesChanged) -> None:
        self._kinds = record.kinds
        self._sandbox = self._made(rules=record)
        self._start(record.now_ns)
        rules = rules_of(self._sandbox.registry)._replace(validator=record.validator)
        self._sandbox.control.change_rules(rules)
        made = self._write(record.now_ns)
        assert isinstance(made, RulesChanged), "changed rules make this record"
        self._past.header = header_after(self._past.known_header, made)

    # making

    def _made(self, *, rules: RulesChanged | None) -> Sandbox:
        """Make what decides, by the rules of a record or else of the fork."""
        past, header = self._past, self._past.known_header
        then = rules_in(rules or header)
        registry = registry_of(self._domains, then)
        structure = Structure(registry, past.ledger.policy.limits)
        host = self._validator
        if then.validator and (host is None or validator_name(host) != then.validator):
            self.report.notes.append(
                f"the effect validator {then.validator} of the host does not run here"
            )
            host = None
        return Sandbox(registry, structure, past.state, past.ledger, header, host)

    def _start(self, now_ns: int) -> None:
        past = self._past
        self._sandbox.start(past.journal.prev, max(now_ns, past.ledger.now_ns))

    def _write(self, now_ns: int) -> Record | None:
        """Append the record that the sandbox made, and return it; None if it made none."""
        data = self._sandbox.produced_record()
        if data is None:
            return None
        past = self._past
        past.ledger.now_ns = max(now_ns, past.ledger.now_ns)
        past.journal.append(data)
        self.records.append(data)
        return decode_record(data)


def registry_of(domains: Sequence[Domain] | Maker, then: Rules) -> Registry:
    """Build the registry of domains; check that it can re-execute decisions of recorded rules.

    Args:
        domains: The domains, or a function that creates them from the rules.
        then: The recorded rules: names and settings of the domains.

    Raises:
        StoreError: The domains are not those of the log.
        PlacetError: The domains cannot be created from the log.
    """
    given = domains(then) if callable(domains) else domains
    registry = Registry(given, has_leases=True)
    why_not = incompatibility(then, registry)
    if why_not:
        raise StoreError(f"the given domains cannot re-execute the log: {why_not}")
    return registry


def _puts(record: Admitted) -> list[tuple[str, str, Json]]:
    """Return the state changes of a batch, without their stamps."""
    return [(change.collection, change.entity, change.fields) for change in record.changes.entities]
