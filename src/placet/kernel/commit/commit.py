"""The commit of one batch: make its record, apply it to the ledger, append it to the chain.

The draft has changed the state already; here the change becomes final. A refusal that is final for
its req_ids is recorded too; every other refusal leaves no trace.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import asdict

from placet.kernel.commit.apply_record import apply_admitted, apply_refused, apply_scheduled
from placet.kernel.context import GateContext
from placet.kernel.gate import is_final
from placet.kernel.ledger.token_buckets import Charges
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.state.transaction import Transaction
from placet.schemas.batch import CheckedBatch, encoded_part_of
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical
from placet.schemas.effect import Effect, EffectKey
from placet.schemas.errors import RollbackError
from placet.schemas.foreseen import Preview
from placet.schemas.identity import OPERATOR
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import (
    GENESIS,
    Admitted,
    AdmittedWithAgents,
    AdmittedWithOutput,
    AdmittedWithWork,
    AgentChange,
    Refused,
    Scheduled,
    encode_record,
    record_hash,
)
from placet.schemas.refusal import Notice, Refusal
from placet.schemas.verdict import NOT_KEPT, Verdict

RecordSink: TypeAlias = Callable[[bytes], None]

RECORDING: Final = "recording of what the rules did"
"""Where a value of a rule was found to have no encoding."""


class Unpaid(NamedTuple):
    """Work and log bytes of a dry run, a refused or a repeated batch, which no quota counts.

    Attributes:
        agent_id: Submitter of the batch, or the agent of its first intent if that is the operator.
        log_bytes: Size of the batch's record; 0 if it has none.
        work: Units of work of the batch.
    """

    agent_id: str
    log_bytes: int
    work: int


class RecordList(list[bytes]):
    """A sink that keeps records in memory; a rollback takes the latest ones away again."""

    def __call__(self, record: bytes) -> None:
        """Append a record."""
        self.append(record)

    def retract(self, count: int) -> None:
        """Remove the latest records.

        Raises:
            RollbackError: There are fewer, because others were taken out of the list before.
        """
        if count > len(self):
            raise RollbackError(
                f"{count} records were made since the mark, and {len(self)} of them are not "
                "written yet; a record that was written is final"
            )
        del self[len(self) - count :]


class Journal:
    """The end of a log, to which records are appended: its last hash and its record count.

    Attributes:
        prev: Hash of the latest record.
        count: Number of records.
        sink: Called with each encoded record, to store it; None stores none.
        durability: How the sink keeps a record; verdicts name it.
    """

    __slots__ = ("count", "durability", "prev", "sink")

    def __init__(self, sink: RecordSink | None = None, durability: str = NOT_KEPT) -> None:
        self.durability = durability
        self.prev = GENESIS
        self.count = 0
        self.sink = sink

    def append(self, data: bytes) -> None:
        """Append an encoded record, whose field `prev` must be the journal's `prev`."""
        self.prev = record_hash(data)
        self.count += 1
        sink = self.sink
        if sink is not None:
            sink(data)


class DecisionRecorder:
    """Makes decisions final: builds the record, applies it to the ledger, appends it to the log.

    Attributes:
        context: The world.
        journal: The end of its log.
        effects: Effects of the group so far, to be dispatched once it is durable.
        agents: The agents that rules of the group registered and removed so far.
        removed: Those whose scheduled batches are not refused yet.
        orphans: The scheduled batches of removed agents, refused, by the number of their entry.
        unpaid: Work and log bytes of the dry runs, refused and repeated batches of the group.
    """

    __slots__ = (
        *("_world", "agents", "context", "effects", "journal", "orphans", "removed", "unpaid"),
    )

    def __init__(self, context: GateContext, journal: Journal, world: str) -> None:
        self.context = context
        self.journal = journal
        self._world = world
        self.effects: list[Effect] = []
        self.unpaid: list[Unpaid] = []
        self.agents: list[AgentChange] = []
        self.removed: list[str] = []
        self.orphans: dict[int | None, tuple[CheckedBatch, Verdict]] = {}

    def open_group(self) -> None:
        """Begin a group of batches that are decided together, at the present time."""
        context = self.context
        ledger = context.ledger
        context.group_seq, context.group = ledger.seq, ledger.group
        context.transaction.open_group(
            context.now_ns, ledger.policy.limits.batch_work_max, tick=ledger.tick
        )
        self.effects, self.unpaid, self.agents = [], [], []
        self.removed, self.orphans = [], {}

    def admit(self, batch: CheckedBatch, charges: Charges, work: int = 0) -> Verdict:
        """Commit a batch that passed every stage, and return its verdict.

        The changes of the batch are in the draft. A dry run is undone instead of committed.

        Args:
            batch: The batch.
            charges: Charges that the quota stage returned; for a scheduled batch that is due, only
                those of its work.
            work: Units charged to quotas of work; 0 if there are none.

        Raises:
            PluginError: A rule made a value that no record can hold; the draft was undone.
        """
        context, journal = self.context, self.journal
        ledger, draft = context.ledger, context.transaction
        first_seq = ledger.seq + 1
        changes = draft.changes()
        has_notices = batch.notices is not None or draft.notices is not None
        # Positional: keywords would cost 1 µs, a twentieth of a batch of one intent.
        record = Admitted(
            journal.prev,
            ledger.seq + len(batch.intents),
            context.now_ns,
            batch.batch_id,
            batch.submitter,
            batch.fingerprint,
            batch.encoded,
            batch.contexts,
            batch.valid_until_ns,
            batch.due_of,
            context.group_seq,
            ledger.tick,
            context.group,
            batch.order,
            changes,
            draft.effects,
            None if draft.normalized is None else [*draft.normalized.items()],
            _notices(batch, draft) if has_notices else None,
        )
        if draft.outputs is not None:
            record = AdmittedWithOutput(**asdict(record), answers=[*draft.outputs.items()])
        if work:
            record = AdmittedWithWork(**asdict(record), work=work)
        if draft.agents:
            record = AdmittedWithAgents(**asdict(record), agents=draft.agents)
        # Encoded before the ledger changes: a value that no record can hold must leave no trace.
        try:
            data = encode_record(record)
        except ENCODE_ERRORS as error:
            draft.undo()
            raise PluginError(RECORDING, error) from error
        made = draft.preview() if batch.shows_changes else None
        if batch.dry_run:
            verdict = self._verdict(batch, first_seq, draft, NOT_KEPT, made)
            self.note_unpaid(batch)
            draft.undo()
            return verdict
        if changes.collections:
            draft.trim(changes)
        apply_admitted(ledger, record, batch, charges)
        self.write(record, data, batch)
        if draft.agents:
            self.agents += draft.agents
            if ledger.scheduled:
                self.removed += [change.agent_id for change in draft.agents if change.is_removed]
        if draft.effects:
            for k, (seq, kind, payload, agent_id) in enumerate(draft.effects):
                key = EffectKey(self._world, seq, k)
                self.effects.append(Effect(key, kind, payload, agent_id, 1, k in draft.started))
        return self._verdict(batch, first_seq, draft, journal.durability, made)

    def refuse(self, batch: CheckedBatch, refusals: list[Refusal]) -> Verdict:
        """Return the verdict of a refused batch, and record it if the refusal is final.

        It is final if sending the same req_ids again gets the same refusal.

        Refusals are sorted by index and capped at `refusals_listed_max`.
        """
        ledger = self.context.ledger
        refusals = sorted(refusals, key=_index_of)[: ledger.policy.limits.refusals_listed_max]
        is_recorded = (is_final(refusals[0]) or batch.due_of is not None) and not batch.dry_run
        if is_recorded:
            listed = [(r.index, r.stage.value, r.code, r.message) for r in refusals]
            record = Refused(*[*self._proposal(batch, ledger.seq), listed])
            apply_refused(ledger, record, batch)
            data = encode_record(record)
            self.write(record, data, batch)
            self.note_unpaid(batch, len(data))
        else:
            self.note_unpaid(batch)
        sim_time = self.context.now_ns / SECOND_NS
        verdict = Verdict(batch.batch_id, False, None, ledger.seq, sim_time, tuple(refusals))
        verdict.dry_run = batch.dry_run
        if is_recorded:
            verdict.durability = self.journal.durability
        verdict.attach(batch.req_ids, b"", None)
        return verdict

    def schedule(self, batch: CheckedBatch, charges: Charges) -> Verdict:
        """Add a batch to the schedule and return its verdict; quotas are charged now.

        It is decided when its simulated time is reached. A dry run changes nothing.
        """
        context, ledger, registry = self.context, self.context.ledger, self.context.registry
        assert batch.sim_time_ns is not None, "only a batch with a time is scheduled"
        seq = ledger.seq + 1
        if not batch.dry_run:
            versions = {kind: registry.kinds[kind].version for _, kind, _ in batch.counts}
            number, due_ns = ledger.scheduled_seen + 1, batch.sim_time_ns
            record = Scheduled(*[*self._proposal(batch, seq), number, due_ns, versions])
            apply_scheduled(ledger, record, batch, charges)
            self.journal.append(encode_record(record))
        else:
            self.note_unpaid(batch)
        verdict = Verdict(batch.batch_id, True, seq, seq, context.now_ns / SECOND_NS)
        verdict.scheduled = True
        verdict.dry_run = batch.dry_run
        verdict.durability = NOT_KEPT if batch.dry_run else self.journal.durability
        verdict.attach(batch.req_ids, batch.encoded, None, batch.notices)
        return verdict

    def _proposal(self, batch: CheckedBatch, seq: int) -> list[Json]:
        """Return the common fields of the record of a batch: its place in the log, and its inputs.

        `admit` names them itself: each batch is admitted there, so it saves the call.
        """
        context = self.context
        return [
            self.journal.prev, seq, context.now_ns, batch.batch_id, batch.submitter,
            batch.fingerprint, batch.encoded, batch.contexts, batch.valid_until_ns, batch.due_of,
            context.group_seq, context.ledger.tick, context.group,
        ]  # fmt: skip

    def write(self, record: Admitted | Refused, data: bytes, batch: CheckedBatch) -> None:
        """Append the record of a batch, which is applied, to the log."""
        self.journal.append(data)

    def note_unpaid(self, batch: CheckedBatch, log_bytes: int = 0) -> None:
        """Note the work of a decision of a batch that no quota counts."""
        work = batch.base_work + self.context.transaction.work_of(batch)
        owner = batch.agents[0] if batch.submitter == OPERATOR else batch.submitter
        self.unpaid.append(Unpaid(owner, log_bytes, work))

    def repeat(self, batch: CheckedBatch, verdict: Verdict) -> Verdict:
        """Complete and return the stored verdict of a duplicate, which needs no new record."""
        self.note_unpaid(batch)
        verdict.dry_run = batch.dry_run
        verdict.durability = NOT_KEPT if batch.dry_run else self.journal.durability
        return verdict

    def _verdict(
        self,
        batch: CheckedBatch,
        first_seq: int,
        draft: Transaction,
        durability: str,
        made: Preview | None,
    ) -> Verdict:
        notices, count = batch.notices, len(batch.intents)
        last_seq = first_seq + count - 1
        seqs: Sequence[int] = (first_seq,)
        if count > 1:
            seqs = _seqs(batch.order, first_seq, last_seq)
        if draft.notices is not None:
            notices = dict(draft.notices)
            for index, known in (batch.notices or {}).items():
                notices[index] = (*known, *notices.get(index, ()))
        verdict = Verdict(  # positional, for the same microsecond as the record
            batch.batch_id,
            True,
            last_seq,
            last_seq,
            self.context.now_ns / SECOND_NS,
            (),
            False,
            batch.dry_run,
            False,
            durability,
            batch.req_ids,
            batch.encoded if batch.due_of is None else _encoded_again(batch),
            seqs,
            draft.normalized,
            notices,
            draft.outputs,
        )
        if made is not None:
            verdict.preview = made
        return verdict


def _index_of(refusal: Refusal) -> int:
    return -1 if refusal.index is None else refusal.index


def _encoded_again(batch: CheckedBatch) -> bytes:
    """Encode a scheduled batch again: its payloads may have been upcast.

    An upcaster or a rule may have left a value that cannot be encoded: then the submitted bytes.
    """
    try:
        return canonical(list(map(encoded_part_of, batch.intents)))
    except Exception:  # noqa: BLE001  # the rule boundary: the batch is committed already
        return batch.encoded


def _seqs(order: Sequence[int] | None, first_seq: int, last_seq: int) -> Sequence[int]:
    """Return the seq of each intent, in the submitted order."""
    if order is None:
        return range(first_seq, last_seq + 1)
    seqs = [0] * len(order)
    for rank, position in enumerate(order):
        seqs[position] = first_seq + rank
    return seqs


def _notices(
    batch: CheckedBatch, draft: Transaction
) -> list[tuple[int, list[tuple[str, str, str]]]]:
    merged: dict[int, list[tuple[str, str, str]]] = {}
    for source in (batch.notices or {}, draft.notices or {}):
        for index, notices in source.items():
            merged.setdefault(index, []).extend(_encoded_notices(notices))
    return [(index, notices) for index, notices in merged.items() if notices]


def _encoded_notices(notices: Sequence[Notice]) -> list[tuple[str, str, str]]:
    return [(notice.code, notice.message, notice.at) for notice in notices]
