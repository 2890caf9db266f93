"""A column batch: one intent of one kind for many members of a population."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from placet.schemas.identity import OPERATOR
from placet.schemas.keywords import explain_array_keywords
from placet.schemas.printable import printable

if TYPE_CHECKING:
    from placet.kernel.columns.population import PopulationHandle


@explain_array_keywords
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnBatch:
    """Intents of many members of a population, one each, decided as one batch at one moment.

    The kernel reads the arrays while it decides, and keeps none of them.

    Attributes:
        kind: Name of a kind with a rule of rows.
        population: The population, or its name.
        payload: Array of each field of the kind's payload, of shape `(rows, *field.shape)`; of
            numpy, or of any library whose arrays have `__dlpack__` or `__array__`.
        req_id: Identity of the batch among those of its population, such as `walk:17`. The same
            batch sent again is answered by the same verdict.
        agents: Number of the member of each row, each once; None is all members, in order. An
            empty array is a batch without rows: it leaves its record, and changes nothing.
        context_seq: Seq of the state on which the intents are based: one of all rows, or an array
            of one each. None is the present one.
        submitter: The submitting agent, or the operator.
    """

    kind: str
    population: Union["PopulationHandle", str]
    payload: Mapping[str, object]
    req_id: str
    agents: Sequence[int] | object | None = None
    context_seq: int | object | None = None
    submitter: str = OPERATOR

    def __repr__(self) -> str:
        # Without its arrays, which may have 10**6 rows.
        name = getattr(self.population, "name", self.population)
        return printable(f"<ColumnBatch {self.req_id!r} of {self.kind} by {name}>")
