"""A column batch in the orchestrator's queue: a copy of its arrays, counted as any batch.

The queue reads of a message the owner, the number of intents and the length in bytes. So the arrays
are copied into one buffer, which has the place of an ordinary batch's encoding, and each row is one
intent. A retry is known by the kernel, at the decision.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from placet.kernel.columns.batch import ColumnBatch
from placet.schemas.batch import CheckedBatch
from placet.schemas.intent import DEFAULT_PRIORITY, Intent
from placet.schemas.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from placet.kernel.arrays.words import Array
    from placet.kernel.columns.form import CheckedColumns
    from placet.kernel.columns.verdict import ColumnVerdict
    from placet.kernel.kernel import Kernel


class QueuedColumns(CheckedBatch):
    """A column batch in the queue, with copies of its arrays.

    Attributes:
        columns: The batch, whose arrays are views of `encoded`.
        encoded: The bytes of the arrays.
        intents: One number a row: the intents themselves are made nowhere.
    """

    __slots__ = ("columns",)

    def __init__(self, columns: ColumnBatch, population: str, rows: int, encoded: bytes) -> None:
        self.columns, self.encoded = columns, encoded
        self.intents = cast("list[Intent]", range(rows))
        self.agents = (population,)
        self.counts = ((population, columns.kind, rows),)
        self.submitter, self.priority = columns.submitter, DEFAULT_PRIORITY
        self.dry_run = self.shows_changes = False
        self.notices = self.sim_time_ns = self.valid_for_ns = None

    @property
    def base_work(self) -> int:
        """Units of work: none, because the limits of column batches bound it."""
        return 0


def copied(batch: ColumnBatch, kernel: "Kernel") -> QueuedColumns:
    """Return a column batch with copies of its arrays, once its form is checked.

    Raises:
        ValueError: The form is wrong, or no domain of the world has a table.
    """
    if not kernel.registry.tables:
        raise ValueError(
            f"a column batch is of a population, and no domain of this world has a table of "
            f"agents; got a batch of {batch.kind!r}"
        )
    from placet.kernel.columns.form import checked  # noqa: PLC0415  # numpy is an extra

    given = checked(batch, kernel.ledger, kernel.registry)
    encoded, arrays = _joined(_arrays_of(batch, given))
    own = replace(
        batch,
        population=given.members.name,
        payload={name: arrays[name] for name in given.payload},
        agents=arrays.get("agents of the batch"),
        context_seq=arrays.get("contexts of the batch", batch.context_seq),
    )
    return QueuedColumns(own, given.members.name, len(given), encoded)


def load_form(batch: ColumnBatch) -> list[dict[str, object]]:
    """Return an intent with the owner and the priority of a batch that is not checked."""
    population = batch.population
    name = population if isinstance(population, str) else population.name
    return [{"agent_id": name, "priority": DEFAULT_PRIORITY}]


def _arrays_of(batch: ColumnBatch, given: "CheckedColumns") -> "dict[str, Array]":
    """Return the arrays of a batch by name; a name with spaces is that of no payload field."""
    arrays = dict(given.payload)
    if batch.agents is not None:
        arrays["agents of the batch"] = given.numbers
    if batch.context_seq is not None and not isinstance(given.contexts, int):
        arrays["contexts of the batch"] = given.contexts
    return arrays


def _joined(arrays: "Mapping[str, Array]") -> "tuple[bytes, dict[str, Array]]":
    """Copy arrays into one buffer; return it with the arrays as read-only views of it.

    Arrays of wider numbers come first, so that each begins at a multiple of its item's size.
    """
    import numpy as np  # noqa: PLC0415  # an extra

    by_width = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    buffer = b"".join([np.ascontiguousarray(array).reshape(-1).data for _, array in by_width])
    views: dict[str, Array] = {}
    begin = 0
    for name, array in by_width:
        flat = np.frombuffer(buffer, array.dtype, array.size, begin)
        views[name] = flat.reshape(array.shape)
        begin += array.nbytes
    return buffer, views


def refusals_of(verdict: "ColumnVerdict") -> list[tuple[int, Refusal]]:
    """Return the number of rows of each refusal of a verdict, and that of its first row.

    One pass over the codes; a refusal is made for each code, not for each row.
    """
    import numpy as np  # noqa: PLC0415  # an extra

    _, first, counts = np.unique(verdict.codes, return_index=True, return_counts=True)
    rows = zip(counts.tolist(), map(verdict.__getitem__, first.tolist()), strict=True)
    return [(count, row.refusals[0]) for count, row in rows if row.refusals]
