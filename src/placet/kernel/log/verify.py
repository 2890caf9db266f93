"""Verify a log by re-executing every recorded decision (G16).

A replay that runs the rules. Each record that involves rules is re-executed from its inputs, at the
state that the records before it made, and must come out identical: verdict, changes, effects and
ledger. The first record that differs is reported, with the rule and its random draws. Records whose
rules are not available are folded and counted.

What no record holds is not judged: refusals that leave no trace, and the order among the batches
of one group, in which such batches had their place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from placet.kernel.checked_batch import recorded_batch
from placet.kernel.decide import decide_batch
from placet.kernel.domain import Domain
from placet.kernel.gate.domain_rules import EffectValidator
from placet.kernel.gate.structure import Structure
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.log.divergence import (
    BatchRecord,
    DecisionMismatch,
    Difference,
    DivergentField,
    Draw,
    HookRecord,
    difference_of_batch,
    difference_of_hook,
    name_of_rule,
)
from placet.kernel.log.re_execution import Sandbox
from placet.kernel.log.replay import Replayer, seqs_of
from placet.kernel.plugin_boundary import PluginError
from placet.kernel.registry import Registry
from placet.kernel.rules_version import Rules, incompatibility, rules_in, validator_name
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import PlacetError
from placet.schemas.log.record import (
    Admitted,
    AgentChanged,
    Configured,
    ForkAdopted,
    Header,
    Patched,
    Record,
    Refused,
    Registered,
    RulesChanged,
    Scheduled,
    Settled,
    Tick,
    decode_record,
    record_type,
)
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.limits import Limits

Maker: TypeAlias = Callable[[Rules], Sequence[Domain]]
"""Makes the domains of given rules again, or raises a `PlacetError` that says why it cannot."""

_CUT_OFF: Final = "the group that they were decided in began before what is left of the log"


@dataclass(slots=True)
class Unverified:
    """Records that were folded and not decided again.

    Attributes:
        first_record: Ordinal number of the first.
        last_record: Ordinal number of the last.
        why: Rules or settings that are missing for a re-execution.
    """

    first_record: int
    last_record: int
    why: str


class Verifier(Replayer):
    """A replay that re-executes the records it reads.

    Args:
        domains: What decides: domains, or what makes those of given rules again. None folds all.
        validator: The host's own rule, if the log was made with one.
        past: Where to begin, which is taken over; None is the beginning of a log.

    Attributes:
        is_folding: Fold, and decide nothing: to come quickly to the place that is of interest.
        batches: How many batches were decided again.
        intents: How many intents they had.
        hooks: How many registrations, ticks, settlements and the like were.
        undecided: Parts that were folded instead, with the reason.
        refused_by_host: Refusals that only the host's own rule can have made, which is not at hand.
    """

    __slots__ = (
        "_begun_at",
        "_domains",
        "_group",
        "_judged",
        "_registry",
        "_sandbox",
        "_structure",
        "_validator",
        "_why_not",
        "batches",
        "hooks",
        "intents",
        "is_folding",
        "refused_by_host",
        "undecided",
    )

    def __init__(
        self,
        domains: Sequence[Domain] | Maker = (),
        *,
        validator: EffectValidator | None = None,
        past: Replayer | None = None,
    ) -> None:
        super().__init__()
        if past is not None:
            for name in Replayer.__slots__:
                setattr(self, name, getattr(past, name))
        self._begun_at = 0 if past is None else past.ledger.seq
        self._domains = domains
        self._registry: Registry | None = None
        self._validator = validator
        self._sandbox: Sandbox | None = None
        self._group: tuple[int, int] | None = None
        self._structure: tuple[Registry, Limits, Structure] | None = None
        self._why_not = ""
        self._judged: Header | None = None
        self.is_folding = False
        self.batches = self.intents = self.hooks = 0
        self.refused_by_host = 0
        self.undecided: list[Unverified] = []

    def reverify(self, record: BatchRecord) -> tuple[Verdict, CheckedBatch] | None:
        """Decide the next record's batch and change nothing; None where its rules are not at hand.

        The refusals of such a verdict have all that the record has not: details, what has changed.
        """
        sandbox = self._ready()
        if sandbox is None:
            return None
        batch = self.batch_of(record)
        batch.dry_run = True
        return self._decided(sandbox, record, batch), batch

    @property
    def registry(self) -> Registry | None:
        """registry: Registry of the deciding rules.

        None where those of this part of the log are not available.
        """
        if self.header is None:  # it is the header that came out otherwise
            return self._registry
        sandbox = self._ready()
        return None if sandbox is None else sandbox.registry

    @property
    def drawn(self) -> tuple[Draw, ...]:
        """drawn: Random draws of the rules of the latest record."""
        return () if self._sandbox is None else tuple(self._sandbox.draft.drawn)

    @property
    def why_not(self) -> str:
        """Why nothing is decided here; empty where it is."""
        return "" if self._ready() is not None else self._why_not

    def batch_of(self, record: BatchRecord) -> CheckedBatch:
        """Rebuild a batch as it was before the gate."""
        if record.due_of is None:
            batch = recorded_batch(record)
            batch.sim_time_ns = record.due_ns if isinstance(record, Scheduled) else None
            return batch
        entry = self.ledger.scheduled[record.due_of]
        batch = recorded_batch(entry)
        batch.due_of, batch.sim_time_ns = entry.number, entry.due_ns
        return batch

    def needs_host(self, record: BatchRecord) -> bool:
        """Return whether a refusal may be the host's own rule's, which is not in the log."""
        assert self.header is not None, "a log begins with its header"
        return (
            isinstance(record, Refused)
            and bool(self.header.validator)
            and not self._has_host
            and any(stage == Stage.DOMAIN.value for _, stage, _, _ in record.refusals)
        )

    # the fold

    def _fold(self, record: Record, data: bytes) -> None:
        match record:
            case Header() | RulesChanged():
                self._take_rules(record, data)
            case Admitted() | Refused() | Scheduled():
                self._live_batch(record, data)
            case Registered() | AgentChanged() | Tick() | Settled() | ForkAdopted() | Patched():
                self._live_hook(record, data)
            case _:
                super()._fold(record, data)
                if isinstance(record, Configured):
                    self._sandbox = None  # its limits bind the structure stage

    def _take_rules(self, record: Header | RulesChanged, data: bytes) -> None:
        if isinstance(record, Header) and not self.is_folding:
            self._judge(record)
            if self._registry is not None:
                self._open_again(self._registry, record)
        super()._fold(record, data)

    def _open_again(self, registry: Registry, record: Header) -> None:
        """Open the domains in a new world, and compare their initial state with the header."""
        sandbox = Sandbox(
            registry, self._structure_of(registry), State(), Ledger(self.ledger.policy), record
        )
        sandbox.control.begin(record.world, record.seed, {}, rules_in(record))
        self._compare_hook(sandbox, record)

    def _live_batch(self, record: BatchRecord, data: bytes) -> None:
        sandbox = self._ready(record)
        if sandbox is None:
            super()._fold(record, data)
            return
        if record.group_seq < self._begun_at:  # who claimed what before that, nobody knows
            self._note_undecided(record, _CUT_OFF)
            super()._fold(record, data)
            return
        batch = self.batch_of(record)
        self._batch(record)  # what a fold takes note of
        self.batches += 1
        self.intents += len(batch)
        if self.needs_host(record):
            batch.dry_run = True
            verdict = self._decided(sandbox, record, batch)
            if difference_of_batch(record, None, verdict) is not None:
                self.refused_by_host += 1
            super()._fold(record, data)
            return
        verdict = self._decided(sandbox, record, batch)
        again = sandbox.produced_record()
        if again == data:
            return
        part = difference_of_batch(record, None if again is None else decode_record(again), verdict)
        if again is None:  # a verdict that leaves no trace, though here is one
            part = part or DivergentField("the outcome", record_type(record), "nothing is recorded")
        self._compare(part, sandbox, record, batch)
        if isinstance(record, Scheduled):  # of the versions that it says, not of today's
            self.ledger.scheduled[record.number] = record

    def _live_hook(self, record: HookRecord, data: bytes) -> None:
        sandbox = self._ready(record)
        if sandbox is None:
            super()._fold(record, data)
            return
        self._group = None
        self.hooks += 1
        sandbox.start(self.journal.prev, record.now_ns)
        try:
            sandbox.execute(record)
        except Exception as error:  # noqa: BLE001  # the rule boundary: a domain was asked
            said = f"{type(error).__name__}: {error}"
            self._compare(DivergentField("the outcome", record_type(record), said), sandbox, record)
        self._tell_validator(record)
        self._compare_hook(sandbox, record, data)

    # comparing

    def _compare_hook(self, sandbox: Sandbox, record: HookRecord, data: bytes = b"") -> None:
        again = sandbox.produced_record()
        if again == data:
            return
        if again is None:
            part: DivergentField | None = DivergentField(
                "the outcome", record_type(record), "nothing"
            )
        else:
            made = decode_record(again)
            assert isinstance(made, HookRecord), "as lived"
            part = difference_of_hook(record, made)
        self._compare(part, sandbox, record)

    def _compare(
        self,
        part: DivergentField | None,
        sandbox: Sandbox,
        record: BatchRecord | HookRecord,
        batch: CheckedBatch | None = None,
    ) -> None:
        if part is None:
            return
        intent = None if batch is None else batch.intents[part.index or 0]
        raise DecisionMismatch(
            Difference(
                record=self.journal.count,
                seq=record.seq - seqs_of(record),
                type=record_type(record),
                what=part.what,
                recorded=part.recorded,
                decided=part.decided,
                rule=name_of_rule(part, record, sandbox.registry, batch),
                batch_id=None if batch is None else batch.batch_id,
                agent_id=intent["agent_id"] if intent else getattr(record, "agent_id", None),
                req_id=None if intent is None else intent["req_id"],
                draws=tuple(sandbox.draft.drawn),
            )
        )

    # deciding

    def _ready(self, record: Record | None = None) -> Sandbox | None:
        """Return the deciding sandbox.

        If no rules are available, note which record is not verified.
        """
        header = self.header
        assert header is not None, "a log begins with its header"
        if self.is_folding:
            return None
        if header is not self._judged:  # other rules than a moment ago
            self._judge(header)
        if self._registry is None:
            self._note_undecided(record, self._why_not)
            return None
        if self._sandbox is None:
            host = self._validator if self._has_host else None
            self._sandbox = Sandbox(
                self._registry,
                self._structure_of(self._registry),
                self.state,
                self.ledger,
                header,
                host,
            )
        return self._sandbox

    def _structure_of(self, registry: Registry) -> Structure:
        """Compile the first stage, or take the one that is compiled: it is what takes time here."""
        limits = self.ledger.policy.limits
        if self._structure is None or self._structure[:2] != (registry, limits):
            self._structure = (registry, limits, Structure(registry, limits))
        return self._structure[2]

    def _judge(self, header: Header) -> None:
        """Make what decided, or learn why there is nothing that could."""
        then = rules_in(header)
        self._judged, self._registry, self._sandbox = header, None, None
        self._why_not = "no domain is given"
        try:
            domains = self._domains(then) if callable(self._domains) else self._domains
        except PlacetError as error:
            self._why_not = str(error)
            return
        if domains:
            registry = Registry(domains)
            self._why_not = incompatibility(then, registry) or ""
            self._registry = None if self._why_not else registry

    def _note_undecided(self, record: Record | None, why: str) -> None:
        if record is None:
            return
        at = self.journal.count
        last = self.undecided[-1] if self.undecided else None
        if last is not None and last.why == why:
            last.last_record = at
        else:
            self.undecided.append(Unverified(at, at, why))

    @property
    def _has_host(self) -> bool:
        """Return whether the host's own rule of this part of the log is at hand."""
        assert self.header is not None, "a log begins with its header"
        return (
            self._validator is not None and validator_name(self._validator) == self.header.validator
        )

    def _decided(self, sandbox: Sandbox, record: BatchRecord, batch: CheckedBatch) -> Verdict:
        context = sandbox.context
        sandbox.start(self.journal.prev, record.now_ns)
        group = (record.group_seq, record.now_ns)
        if group != self._group:
            self._group = group
            context.group_seq = record.group_seq
            sandbox.draft.open_group(record.now_ns)
        assert self.header is not None, "a log begins with its header"
        if record.due_of is None:  # one that was due passes the structure stage at the gate
            try:
                unsound = context.check_recorded(batch, self.header.kinds)
            except PluginError as fault:
                raise self._divergence(f"{fault.where} raised {fault.error!r}") from fault
            if unsound is not None:
                return sandbox.applier.refuse(batch, unsound)
        return decide_batch(batch, context, sandbox.rules, sandbox.applier)

    def _tell_validator(self, record: HookRecord) -> None:
        """Keep a host's own rule informed of permissions, as a kernel does."""
        tell = getattr(self._validator, "set_agent_permissions", None)
        if tell is None or self._registry is None:
            return
        if isinstance(record, Registered | AgentChanged) and record.agent_id in self.ledger.agents:
            permissions = self.ledger.agents[record.agent_id].permissions
            tell(record.agent_id, set(self._registry.kinds if permissions is None else permissions))
