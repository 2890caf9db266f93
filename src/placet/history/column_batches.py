"""A recorded column batch as it is submitted again in a fork."""

from collections.abc import Callable, Set

import msgspec
import numpy as np

from placet.kernel.columns.recorded import RecordedColumns
from placet.schemas.batch import sequence_form
from placet.schemas.log.record import Columns


def proposed_again(
    record: Columns, count: int, dropped: Set[str], seq_here: Callable[[int], int]
) -> Columns | None:
    """Return the inputs of a column batch as another world gets them; None without a row.

    Args:
        record: The record; its decision is not read.
        count: Number of members of the population.
        dropped: Agents whose rows are left out.
        seq_here: Returns the seq of the other world that is the same moment.
    """
    contexts = record.contexts
    if isinstance(contexts, int):
        moved: int | bytes = seq_here(contexts)
    else:
        seqs, places = np.unique(np.frombuffer(contexts, "<i8"), return_inverse=True)
        here = np.array([seq_here(seq) for seq in seqs.tolist()], "<i8")
        moved = here[places].tobytes()
    columns = RecordedColumns(msgspec.structs.replace(record, contexts=moved), count)
    is_kept = ~np.isin(columns.numbers, _numbers_of(record.population, dropped))
    if is_kept.all():
        return columns.record
    return _of_rows(columns, is_kept) if is_kept.any() else None


def _numbers_of(population: str, names: Set[str]) -> list[int]:
    """Return the numbers of the members of a population among names."""
    forms = map(sequence_form, names)
    return [form[1] for form in forms if form is not None and form[0] == population]


def _of_rows(columns: RecordedColumns, is_kept: "np.ndarray") -> Columns:
    """Return the record of some of the rows of a column batch."""
    contexts = columns.contexts
    payload = [
        (name, dtype, shape, columns.payload[name][is_kept].tobytes())
        for name, dtype, shape, _ in columns.record.payload
    ]
    return msgspec.structs.replace(
        columns.record,
        agents=columns.numbers[is_kept].astype("<u4").tobytes(),
        contexts=contexts if isinstance(contexts, int) else contexts[is_kept].tobytes(),
        payload=payload,
    )
