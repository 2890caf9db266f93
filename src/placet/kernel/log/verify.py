"""Verify a log by re-executing every recorded decision (G16).

A replay that runs the rules. Each record that involves rules is re-executed from its inputs, at the
state that the records before it made, and must come out identical: verdict, changes, effects and
ledger. The first record that differs is reported, with the rule and its random draws. Records whose
rules are not available are folded and counted.

Decisions without a record are not verified: refusals that leave no trace, and their position in
the order of their group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from placet.kernel.gate.domain_rules import EffectValidator, FaultSink, ignore_fault
from placet.kernel.gate.structure import Structure
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.ledger.schedule import scheduled_batch
from placet.kernel.log.divergence import (
    BatchRecord,
    DecisionMismatch,
    Difference,
    DivergentField,
    Draw,
    HookRecord,
    difference_of_batch,
    difference_of_columns,
    difference_of_hook,
    name_of_rule,
)
from placet.kernel.log.replay import Replayer, seqs_of
from placet.kernel.log.sandbox import Read, ReadingDraft, Sandbox
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.kernel.plugin.rules_version import Rules, incompatibility, rules_in, validator_name
from placet.kernel.recorded_batch import recorded_batch
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.errors import PlacetError
from placet.schemas.log.expand import batches_of
from placet.schemas.log.record import (
    GENESIS,
    Admitted,
    AgentChanged,
    Columns,
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
    SingleBlock,
    TableMade,
    Tick,
    agents_of,
    decode_record,
    encode_record,
    record_type,
)
from placet.schemas.refusal import Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.limits import Limits

Maker: TypeAlias = Callable[[Rules], Sequence[Domain]]
"""Recreates the domains of recorded rules, or raises a `PlacetError` with the reason."""

_CUT_OFF: Final = "their group began before the first record of the log"


@dataclass(slots=True)
class Unverified:
    """A range of records that were folded and not re-executed.

    Attributes:
        first_record: Ordinal number of the first record.
        last_record: Ordinal number of the last record.
        why: Rules or settings that are missing for the re-execution.
    """

    first_record: int
    last_record: int
    why: str


class Verifier(Replayer):
    """A replay that re-executes the records it reads.

    Args:
        domains: The deciding domains, or a function that recreates those of recorded rules. Empty
            folds all records.
        validator: The effect validator, if the log was made with one.
        past: A replay to continue, which must not be used afterwards; None starts at the first
            record.

    Attributes:
        is_folding: Fold records without re-execution, to reach a position quickly.
        uses_arrays: Decide column batches by arrays; else row by row, with the same result.
        batches: Number of re-executed batches; a column batch is one.
        intents: Number of their intents; a column batch has one a row.
        hooks: Number of re-executed registrations, ticks, settlements and other hooks.
        unverified: Ranges of records that were folded and not re-executed, with the reason.
        records_reads: Keep the reads of the rules in `dry_run`; set before the first dry run.
        on_fault: Called with each exception of a rule in `dry_run`, and with the name of the rule.
        refused_by_host: Number of refusals that only the effect validator can have made, while it
            is not available.
    """

    def __init__(
        self,
        domains: Sequence[Domain] | Maker = (),
        *,
        validator: EffectValidator | None = None,
        past: Replayer | None = None,
    ) -> None:
        super().__init__()
        if past is not None:
            self.__dict__.update(vars(past))
        self._start_group = (self.ledger.tick, self.ledger.group)
        self._domains = domains
        self._registry: Registry | None = None
        self._validator = validator
        self._sandbox: Sandbox | None = None
        self._group: tuple[int, int] | None = None
        self._structure: tuple[Registry, Limits, Structure] | None = None
        self._why_not = ""
        self._current_header: Header | None = None
        self._has_leases = False
        self.is_folding, self.uses_arrays = False, True
        self.batches = self.intents = self.hooks = 0
        self.refused_by_host = 0
        self.records_reads = False
        self.on_fault: FaultSink = ignore_fault
        self.unverified: list[Unverified] = []

    def dry_run(self, record: BatchRecord) -> tuple[Verdict, CheckedBatch] | None:
        """Decide the batch of the next record as a dry run.

        Returns:
            The verdict and the batch; None if the rules are not available. The refusals of the
            verdict have the details that a record omits.
        """
        sandbox = self._ready()
        if sandbox is None:
            return None
        batch = self.batch_of(record)
        batch.dry_run = True
        sandbox.rules.on_fault = self.on_fault
        return self._decide(sandbox, record, batch), batch

    @property
    def registry(self) -> Registry | None:
        """Registry of the rules of this part of the log; None if they are not available."""
        if self.header is None:  # the header itself differs
            return self._registry
        sandbox = self._ready()
        return None if sandbox is None else sandbox.registry

    @property
    def drawn(self) -> tuple[Draw, ...]:
        """Random draws of the rules in the latest record."""
        return () if self._sandbox is None else tuple(self._sandbox.draft.drawn)

    @property
    def reads(self) -> tuple[Read, ...]:
        """Reads of the rules in the latest dry run; none without `records_reads`."""
        draft = None if self._sandbox is None else self._sandbox.draft
        return tuple(draft.reads) if isinstance(draft, ReadingDraft) else ()

    @property
    def why_not(self) -> str:
        """Reason why this part of the log is not re-executed; empty if it is."""
        return "" if self._ready() is not None else self._why_not

    def batch_of(self, record: BatchRecord) -> CheckedBatch:
        """Rebuild the batch of a record as it was submitted to the gate.

        The batch of a scheduled entry that came due is read from the ledger's schedule.
        """
        if record.due_of is None:
            batch = recorded_batch(record)
            batch.sim_time_ns = record.due_ns if isinstance(record, Scheduled) else None
            return batch
        return scheduled_batch(self.ledger.scheduled[record.due_of])

    def needs_host(self, record: BatchRecord) -> bool:
        """Return whether a record is a refusal that an unavailable effect validator may have made.

        Such a record cannot be re-executed.
        """
        return (
            isinstance(record, Refused)
            and bool(self.known_header.validator)
            and not self._has_host
            and any(stage == Stage.DOMAIN.value for _, stage, _, _ in record.refusals)
        )

    # the fold

    def _fold(self, record: Record, data: bytes) -> None:
        match record:
            case Header() | RulesChanged():
                self._change_rules(record, data)
            case Admitted() | Refused() | Scheduled():
                self._verify_batch(record, data)
            case SingleBlock():  # each batch by itself: it must come to the same
                for batch in batches_of(record):
                    self._verify_batch(batch, encode_record(batch))
            case Columns():
                self._verify_columns(record, data)
            case Registered() | AgentChanged() | Tick() | Settled() | ForkAdopted() | Patched():
                self._verify_hook(record, data)
            case TableMade():
                self._verify_hook(record, data)
            case _:
                super()._fold(record, data)
                if isinstance(record, Configured):
                    self._sandbox = None  # the structure stage depends on the limits

    def _change_rules(self, record: Header | RulesChanged, data: bytes) -> None:
        if isinstance(record, Header) and not self.is_folding:
            self._find_rules(record)
            if self._registry is not None:
                self._verify_header(self._registry, record)
        super()._fold(record, data)
        if isinstance(record, RulesChanged):  # a table of later rules has its defaults
            for name in [name for name, table in self.state.tables.items() if not table.seq]:
                self.state.drop_table(name)

    def _verify_header(self, registry: Registry, record: Header) -> None:
        """Open the domains in a new world, and compare their initial state with the header.

        The tables that `on_open` wrote stay in the state, for the records of tables that follow.
        """
        sandbox = Sandbox(
            registry, self._structure_of(registry), State(), Ledger(self.ledger.policy), record
        )
        sandbox.control.begin(record.world, record.seed, {}, rules_in(record))
        self._compare_hook(sandbox, record)
        for table in sandbox.context.state.tables.values():
            self.state.add_table(table)

    def _verify_batch(self, record: BatchRecord, data: bytes) -> None:
        sandbox = self._ready(record)
        if sandbox is None:
            super()._fold(record, data)
            return
        group = (record.tick, record.group)
        if group < self._start_group:  # earlier claims of the group are unknown
            self._note_unverified(record, _CUT_OFF)
            super()._fold(record, data)
            return
        batch = self.batch_of(record)
        self._batch(record)  # counts the batch and its group, as a fold does
        self.batches += 1
        self.intents += len(batch)
        if self.needs_host(record):
            batch.dry_run = True
            verdict = self._decide(sandbox, record, batch)
            if difference_of_batch(record, None, verdict) is not None:
                self.refused_by_host += 1
            super()._fold(record, data)
            return
        verdict = self._decide(sandbox, record, batch)
        self._sync_validator(record)
        again = sandbox.produced_record()
        if again == data:
            return
        part = difference_of_batch(record, None if again is None else decode_record(again), verdict)
        if again is None:  # the verdict leaves no record, but the log has one
            part = part or DivergentField("the outcome", record_type(record), "nothing is recorded")
        self._compare(part, sandbox, record, batch)
        if isinstance(record, Scheduled):  # the recorded kind versions, not the current ones
            self.ledger.scheduled[record.number] = replace(record, prev=GENESIS)

    def _verify_columns(self, record: Columns, data: bytes) -> None:
        sandbox = self._ready(record)
        if sandbox is None:
            super()._fold(record, data)
            return
        self._group = None
        self.batches_seen = max(self.batches_seen, record.number)
        self._count_group(record)
        self.batches += 1
        sandbox.start(self.journal.prev, record.now_ns)
        try:
            verdict = sandbox.decide_columns(record, uses_arrays=self.uses_arrays)
        except ValueError as error:
            part = DivergentField("its form", "valid", str(error))
            raise self._mismatch(part, sandbox, record) from error
        self.intents += len(verdict)
        again = sandbox.produced_record()
        if again == data:
            return
        if again is None:
            part = DivergentField("the outcome", "decided", "answered before")
            raise self._mismatch(part, sandbox, record)
        made = decode_record(again)
        assert isinstance(made, Columns), "a column batch has a record of its own type"
        stems = {name: table.stem for name, table in self.state.tables.items()}
        members = self.ledger.populations[record.population].count
        self._compare(difference_of_columns(record, made, stems, members), sandbox, record)
        # The texts of refusals alone differ. The verdict that is kept has those of the record.
        kept = self.ledger.populations[record.population].remembered
        kept[record.req_id] = kept[record.req_id]._replace(reasons=record.reasons)

    def _verify_hook(self, record: HookRecord, data: bytes) -> None:
        sandbox = self._ready(record)
        if sandbox is None:
            super()._fold(record, data)
            return
        self._group = None
        self.hooks += 1
        sandbox.start(self.journal.prev, record.now_ns)
        try:
            sandbox.execute(record)
        except Exception as error:  # noqa: BLE001  # the rule boundary
            raised = f"{type(error).__name__}: {error}"
            part = DivergentField("the outcome", record_type(record), raised)
            self._compare(part, sandbox, record)
        self._sync_validator(record)
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
            assert isinstance(made, HookRecord), "a hook writes a record of a hook"
            part = difference_of_hook(record, made)
        self._compare(part, sandbox, record)

    def _compare(
        self,
        part: DivergentField | None,
        sandbox: Sandbox,
        record: Record,
        batch: CheckedBatch | None = None,
    ) -> None:
        if part is not None:
            raise self._mismatch(part, sandbox, record, batch)

    def _mismatch(
        self,
        part: DivergentField,
        sandbox: Sandbox,
        record: Record,
        batch: CheckedBatch | None = None,
    ) -> DecisionMismatch:
        batch_id, agent_id, req_id = _request_at(part, record, batch)
        return DecisionMismatch(
            Difference(
                record=self.journal.count,
                seq=record.seq - seqs_of(record),
                type=record_type(record),
                part=part.name,
                recorded=part.recorded,
                decided=part.decided,
                rule=name_of_rule(part, record, sandbox.registry, batch),
                batch_id=batch_id,
                agent_id=agent_id,
                req_id=req_id,
                draws=tuple(sandbox.draft.drawn),
            )
        )

    # deciding

    def _ready(self, record: Record | None = None) -> Sandbox | None:
        """Return the sandbox for the rules in force, or None.

        If the rules are not available, add the record to `unverified`.
        """
        header = self.known_header
        if self.is_folding:
            return None
        has_leases = self.ledger.policy.leases is not None
        if header is not self._current_header or has_leases != self._has_leases:
            self._has_leases = has_leases
            self._find_rules(header)
        if self._registry is None:
            self._note_unverified(record, self._why_not)
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
                records_reads=self.records_reads,
            )
        return self._sandbox

    def _structure_of(self, registry: Registry) -> Structure:
        """Return the structure stage, cached because its compilation is slow."""
        limits = self.ledger.policy.limits
        if self._structure is None or self._structure[:2] != (registry, limits):
            self._structure = (registry, limits, Structure(registry, limits))
        return self._structure[2]

    def _find_rules(self, header: Header) -> None:
        """Recreate the rules of a header, or store the reason why they are not available."""
        then = rules_in(header)
        self._current_header, self._registry, self._sandbox = header, None, None
        self._why_not = "no domain is given"
        try:
            domains = self._domains(then) if callable(self._domains) else self._domains
        except PlacetError as error:
            self._why_not = str(error)
            return
        if domains:
            registry = Registry(domains, has_leases=self._has_leases)
            self._why_not = incompatibility(then, registry) or ""
            self._registry = None if self._why_not else registry

    def _note_unverified(self, record: Record | None, why: str) -> None:
        if record is None:
            return
        at = self.journal.count
        last = self.unverified[-1] if self.unverified else None
        if last is not None and last.why == why:
            last.last_record = at
        else:
            self.unverified.append(Unverified(at, at, why))

    @property
    def _has_host(self) -> bool:
        """Return whether the effect validator of this part of the log is available."""
        host = self._validator
        return host is not None and validator_name(host) == self.known_header.validator

    def _decide(self, sandbox: Sandbox, record: BatchRecord, batch: CheckedBatch) -> Verdict:
        context = sandbox.context
        sandbox.start(self.journal.prev, record.now_ns)
        group = (record.tick, record.group)
        if group != self._group:
            self._group = group
            sandbox.recorder.open_group()
            context.group_seq, context.group = record.group_seq, record.group
        try:
            return sandbox.decide(batch, self.known_header.kinds)
        except PluginError as fault:
            raise self._divergence(f"{fault.where} raised {fault.error!r}") from fault

    def _sync_validator(self, record: BatchRecord | HookRecord) -> None:
        """Pass changed permissions to the effect validator, as the kernel does."""
        tell = getattr(self._validator, "set_agent_permissions", None)
        if tell is None or self._registry is None:
            return
        changed = [change.agent_id for change in agents_of(record) if not change.is_removed]
        if isinstance(record, AgentChanged):
            changed.append(record.agent_id)
        for agent_id in filter(self.ledger.agents.__contains__, changed):
            permissions = self.ledger.agents[agent_id].permissions
            tell(agent_id, set(self._registry.kinds if permissions is None else permissions))


def _request_at(
    part: DivergentField, record: Record, batch: CheckedBatch | None
) -> tuple[str | None, str | None, str | None]:
    """Return the batch_id, the agent and the req_id of a difference; None for those it has not."""
    if batch is not None:
        intent = batch.intents[part.index or 0]
        return batch.batch_id, intent["agent_id"], intent["req_id"]
    if not isinstance(record, Columns):
        return None, getattr(record, "agent_id", None), None
    agent_id = record.population
    if part.index is not None:
        number = record.agents[4 * part.index :][:4]
        agent_id += f":{int.from_bytes(number, 'little') if number else part.index}"
    return f"b{record.number}", agent_id, record.req_id
