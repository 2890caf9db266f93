"""The verdict on a column batch: arrays of all rows, and the ordinary verdict of one row."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from placet.kernel.arrays.row_codes import CONFLICT, OK, ROW_CODES
from placet.kernel.arrays.values import Mask
from placet.kernel.columns.row_refusal import Submitted, changed_of, details_of, message_of, waits
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.column_records import ColumnReason
from placet.schemas.printable import printable
from placet.schemas.refusal import Refusal, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from placet.kernel.columns.form import CheckedColumns
    from placet.kernel.context import GateContext


class ColumnVerdict:
    """The answer to a column batch: one seq, and a code for each row.

    `verdict[17]` is the verdict on row 17, as an ordinary intent of its agent has it. It is built
    on access: its `changed` are the changes that the agent may see at that moment.

    Attributes:
        batch_id: Name of the batch.
        req_id: Its request.
        codes: Code of each row, u1; 0 is admitted. `code_of` names a code.
        seq: Seq of the batch; None if no row was admitted.
        current_seq: Seq of the world after it.
        sim_time: Simulated time of the decision, seconds.
        replayed: The batch was sent before: this is its first verdict.
        winners: Number of the member that won, for each row; -1 of a row that lost no claim.
        retry_after: Simulated seconds after which each row passes its quotas, or the leases of
            others; NaN for a row that no quota and no lease refused, infinite if waiting does not
            help. None if no row was refused because of a quota or a lease.
        durability: How the log keeps the record.
    """

    __slots__ = (
        *("_submitted", "_reasons", "batch_id", "codes", "current_seq", "durability", "replayed"),
        *("req_id", "retry_after", "seq", "sim_time", "winners"),
    )

    def __init__(  # noqa: PLR0917  # the fields of a verdict
        self,
        batch: "CheckedColumns",
        context: "GateContext",
        batch_id: str,
        codes: "NDArray[np.uint8] | None",
        reasons: list[ColumnReason],
        winners: "NDArray[np.int32]",
        seq: int | None,
        durability: str,
        *,
        replayed: bool = False,
    ) -> None:
        current = context.ledger.seq
        opened_at = None if replayed else current - (seq is not None)
        self._submitted = Submitted.of(batch, context, opened_at)
        self.batch_id, self.req_id = batch_id, batch.req_id
        self.codes = np.zeros(len(batch), np.uint8) if codes is None else codes
        self.codes.flags.writeable = False
        self._reasons = {code: (name, message) for code, name, message in reasons}
        self.seq, self.current_seq, self.sim_time = seq, current, context.now_ns / SECOND_NS
        self.replayed, self.durability = replayed, durability
        self.winners = np.full(len(batch), -1, np.int32)
        if len(winners):
            self.winners[self.codes == CONFLICT] = winners
        self.retry_after = waits(batch, context, codes)

    def __repr__(self) -> str:
        name = self._submitted.members.name
        return printable(f"<ColumnVerdict {self.batch_id} of {name}: {self.counts()}>")

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Verdict]:
        return (self[row] for row in range(len(self)))

    @property
    def population(self) -> str:
        """Name of the population."""
        return self._submitted.members.name

    @property
    def numbers(self) -> "NDArray[np.int64]":
        """Number of the member of each row."""
        return self._submitted.numbers

    @property
    def admitted(self) -> Mask:
        """Whether each row is admitted."""
        mask: Mask = self.codes == OK
        return mask

    def code_of(self, code: int) -> str:
        """Return the name of a row's code: `admitted`, or the code of its refusal."""
        return "admitted" if code == OK else self._refusal_of(code)[1]

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each code, `admitted` first."""
        found: dict[str, int] = {}
        numbers = np.bincount(self.codes)
        for code in np.flatnonzero(numbers).tolist():
            name = self.code_of(code)  # the kernel has two causes of some codes
            found[name] = found.get(name, 0) + int(numbers[code])
        return found

    def __getitem__(self, row: int) -> Verdict:
        """Return the verdict on one row, as an ordinary intent of its agent has it.

        Raises:
            IndexError: The batch has no such row.
        """
        count = len(self)
        if not -count <= row < count:
            raise IndexError(f"the batch has the rows 0..{count - 1}, and no row {row}")
        row %= count
        refusals = () if self.codes[row] == OK else (self._refusal(row),)
        return Verdict(
            self.batch_id,
            not refusals,
            None if refusals else self.seq,
            self.current_seq,
            self.sim_time,
            refusals,
            self.replayed,
            durability=self.durability,
            req_ids=[self.req_id],
        )

    def _refusal(self, row: int) -> Refusal:
        code, submitted, winner = int(self.codes[row]), self._submitted, int(self.winners[row])
        stage, name, message = self._refusal_of(code)
        seconds = None if self.retry_after is None else float(self.retry_after[row])
        retry_after = None if seconds is None or not np.isfinite(seconds) else seconds
        if code in ROW_CODES:
            message = message_of(submitted, code, row, retry_after)
        details = details_of(submitted, code, row, winner)
        if code == CONFLICT:
            by = f" by {details['winner']!r}" if "winner" in details else ""
            message += f"{by}; look again and choose another"
        changed = changed_of(submitted, code, row, winner)
        return Refusal(
            name, message, stage, row, self.req_id, "", retry_after, (), changed, details
        )

    def _refusal_of(self, code: int) -> tuple[Stage, str, str]:
        if code in self._reasons:
            return (Stage.DOMAIN, *self._reasons[code])
        return ROW_CODES[code]
