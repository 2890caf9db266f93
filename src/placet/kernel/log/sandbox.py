"""Re-execute one recorded decision in a sandbox.

The sandbox is a gate over the state and the ledger of a replay. It writes to nothing else: its
journal keeps the one record that was made, for comparison with the log.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from placet.kernel.commit.commit import DecisionRecorder, Journal
from placet.kernel.context import GateContext
from placet.kernel.control.control import Control
from placet.kernel.control.operator_patch import OperatorPatch
from placet.kernel.control.outbox import Outbox
from placet.kernel.decide.batches import decide_batch
from placet.kernel.gate.domain_rules import DomainRules, EffectValidator
from placet.kernel.gate.structure import Structure
from placet.kernel.ledger.ledger import Ledger
from placet.kernel.log.divergence import Draw, HookRecord
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.draft_interfaces import Sized
from placet.kernel.state.transaction import Transaction
from placet.kernel.state.tree import State
from placet.schemas.batch import CheckedBatch
from placet.schemas.config import Quota
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.log.record import (
    AgentChanged,
    Columns,
    ForkAdopted,
    Header,
    Patched,
    Registered,
    Settled,
    TableMade,
)
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.kernel.columns.verdict import ColumnVerdict


class RecordingDraft(Transaction):
    """The draft of a re-execution; it keeps the random draws of the batch for a report.

    Attributes:
        drawn: The draws of the batch since `open_batch`, in order; a divergence reports them.
    """

    __slots__ = ("drawn",)

    def __init__(self, state: State, seed: int, ledger: Ledger) -> None:
        super().__init__(state, seed, ledger.executors, ledger.ordinals)
        self.drawn: list[Draw] = []

    def open_batch(self, batch: Sized | None = None) -> None:
        """Start a batch and clear the recorded draws."""
        self.drawn.clear()
        super().open_batch(batch)

    def draw(self, purpose: str) -> float:
        """Return a random number and record the draw."""
        value = super().draw(purpose)
        self._note(purpose, value)
        return value

    def randint_below(self, bound: int, purpose: str) -> int:
        """Return a random number and record the draw."""
        value = super().randint_below(bound, purpose)
        self._note(purpose, value)
        return value

    def _note(self, purpose: str, value: float) -> None:
        self.drawn.append(Draw(purpose, self.tick, self.now_ns, self.ordinal, self.agent_id, value))


class Sandbox:
    """A gate that re-executes records over a replay's state and ledger; it stores no log."""

    def __init__(
        self,
        registry: Registry,
        structure: Structure,
        state: State,
        ledger: Ledger,
        header: Header,
        validator: EffectValidator | None = None,
    ) -> None:
        self._records: list[bytes] = []
        self._journal = Journal(self._records.append)
        self.registry, self.world, self.seed = registry, header.world, header.seed
        self.draft = RecordingDraft(state, header.seed, ledger)
        self.context = GateContext(registry, structure.check_recorded, ledger, state, self.draft)
        self.context.checks_shares = False
        self.rules = DomainRules(validator)
        self.recorder = DecisionRecorder(self.context, self._journal, header.world)
        self.control = Control(self.context, self._journal, self.rules)
        self._operator_patch = OperatorPatch(self.context, self.control)
        self.outbox = Outbox(self.context, self.control)

    def start(self, prev: bytes, now_ns: int) -> None:
        """Prepare the re-execution of the record that follows the record with hash `prev`."""
        self._journal.prev = prev
        self._records.clear()
        self.recorder.effects.clear()
        self.recorder.unpaid.clear()
        self.recorder.agents.clear()
        self.recorder.removed.clear()
        self.context.now_ns = now_ns

    def produced_record(self) -> bytes | None:
        """Return the encoded record that the re-execution made since `start`; None if none."""
        return self._records[0] if self._records else None

    def execute(self, record: HookRecord) -> None:
        """Re-execute a record that is not a batch."""
        control = self.control
        match record:
            case Registered():
                control.register_agent(
                    record.agent_id,
                    record.permissions,
                    record.owner,
                    record.priority_max,
                    {kind: Quota(*pair).spec() for kind, pair in record.quotas.items()},
                    record.attributes,
                )
            case AgentChanged():
                control.change_agent(record.agent_id, record.what, record.permissions)
            case Settled():
                key = EffectKey(self.world, record.effect_seq, record.effect_index)
                outcome = Settlement(key, record.succeeded, record.output)
                self.outbox.settle(outcome, again=True, author=_author_of(record))
            case ForkAdopted():
                self._operator_patch.fork(
                    record.world,
                    record.parent,
                    record.effects,
                    record.given,
                    record.dropped,
                    record.seed,
                    record.new_origin,
                )
            case Patched():
                self._operator_patch.patch(record.given, record.cause)
            case TableMade():
                self._make_table(record)
            case _:
                control.tick()

    def decide(self, batch: CheckedBatch, kinds: Mapping[str, str]) -> Verdict:
        """Decide the batch of a record again; a due one passes the structure stage at the gate.

        Args:
            batch: The batch.
            kinds: Versions of the kinds, by name, for which it was recorded.

        Raises:
            PluginError: An upcaster of a kind raised.
        """
        if batch.due_of is None:
            unsound = self.context.check_recorded(batch, kinds)
            if unsound is not None:
                return self.recorder.refuse(batch, unsound)
        return decide_batch(batch, self.context, self.rules, self.recorder)

    def decide_columns(self, record: Columns, *, uses_arrays: bool = True) -> "ColumnVerdict":
        """Decide the column batch of a record again, as a separate group.

        Args:
            record: The record; its inputs alone are read.
            uses_arrays: Decide by arrays; else row by row, with the same result.

        Returns:
            The verdict; no record is made if the population remembers the request.

        Raises:
            ValueError: The batch has another form than its kind requires.
        """
        from placet.kernel.columns import group  # noqa: PLC0415  # numpy is an extra
        from placet.kernel.columns.form import checked  # noqa: PLC0415
        from placet.kernel.columns.record import batch_of  # noqa: PLC0415

        ledger = self.context.ledger
        self.draft.drawn.clear()
        batch = checked(batch_of(record, ledger), ledger, self.registry)
        return group.decide(
            batch,
            self.recorder,
            self.seed,
            record.number,
            self.rules.report_fault,
            uses_arrays=uses_arrays,
        )

    def _make_table(self, record: TableMade) -> None:
        """Make a table again, or register its population again.

        Raises:
            ValueError: The domains have no such table, or its values do not fit any more.
        """
        import numpy as np  # noqa: PLC0415  # an extra

        declared = self.registry.tables.get(record.table)
        if declared is None:
            raise ValueError(f"the domains have no table {record.table!r}")
        if record.members is None:
            self.control.make_table(declared)
            return
        owner, permissions, quotas, priority_max = record.members
        shapes = {name: (dtype, shape) for name, dtype, shape, *_ in record.fields}
        columns: dict[str, object] = {}
        for name, data in record.columns:
            dtype, shape = shapes[name]
            columns[name] = np.frombuffer(data, dtype).reshape(record.count, *shape)
        own = {kind: Quota(*pair).spec() for kind, pair in quotas.items()}
        self.control.register_population(
            record.stem, record.count, record.table, permissions, owner, priority_max, own, columns
        )


def _author_of(record: Settled) -> str | None:
    """Return the author of the changes of a settlement, `system` in a log of earlier code."""
    return next((change.by for change in record.changes.entities), None)
