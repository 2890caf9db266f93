"""The verdict on a column batch."""

from typing import TYPE_CHECKING

import numpy as np

from placet.kernel.arrays.row_codes import CONFLICT, OK, ROW_CODES
from placet.kernel.arrays.values import Mask
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.column_records import ColumnReason
from placet.schemas.printable import printable
from placet.schemas.refusal import Refusal, Stage
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from placet.kernel.columns.form import CheckedColumns
    from placet.schemas.codec import Json


class ColumnVerdict:
    """The answer to a column batch: one seq, and a code for each row.

    Attributes:
        batch_id: Name of the batch.
        req_id: Its request.
        codes: Code of each row, u1; 0 is admitted. `code_of` names a code.
        seq: Seq of the batch; None if no row was admitted.
        current_seq: Seq of the world after it.
        sim_time: Simulated time of the decision, seconds.
        replayed: The batch was sent before: this is its first verdict.
        winners: Number of the member that won, for each row; -1 of a row that lost no claim.
        durability: How the log keeps the record.
    """

    __slots__ = (
        *("_names", "_population", "_reasons", "_rows", "batch_id", "codes", "current_seq"),
        *("durability", "replayed", "req_id", "seq", "sim_time", "winners"),
    )

    def __init__(  # noqa: PLR0917  # the fields of a verdict
        self,
        batch: "CheckedColumns",
        batch_id: str,
        codes: "NDArray[np.uint8] | None",
        reasons: list[ColumnReason],
        winners: "NDArray[np.int32]",
        seq: int | None,
        current_seq: int,
        now_ns: int,
        durability: str,
        *,
        replayed: bool = False,
    ) -> None:
        self._population, self._rows = batch.members.name, batch.numbers
        self.batch_id, self.req_id = batch_id, batch.req_id
        self.codes = np.zeros(len(batch), np.uint8) if codes is None else codes
        self.codes.flags.writeable = False
        self._reasons = {code: (name, message) for code, name, message in reasons}
        self.seq, self.current_seq, self.sim_time = seq, current_seq, now_ns / SECOND_NS
        self.replayed, self.durability = replayed, durability
        self.winners = np.full(len(batch), -1, np.int32)
        if len(winners):
            self.winners[self.codes == CONFLICT] = winners

    def __repr__(self) -> str:
        return printable(f"<ColumnVerdict {self.batch_id} of {self._population}: {self.counts()}>")

    def __len__(self) -> int:
        return len(self.codes)

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
        counts = np.bincount(self.codes, minlength=1)
        return {self.code_of(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}

    def __getitem__(self, row: int) -> Verdict:
        """Return the verdict on one row, as an ordinary intent of its agent has one."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"the batch has {len(self)} rows, and no row {row}")
        code = int(self.codes[row])
        if code == OK:
            return Verdict(
                self.batch_id, True, self.seq, self.current_seq, self.sim_time, (), self.replayed
            )
        stage, name, message = self._refusal_of(code)
        details: dict[str, Json] = {"agent_id": f"{self._population}:{int(self._rows[row])}"}
        winner = int(self.winners[row])
        if winner >= 0:
            details["winner"] = f"{self._population}:{winner}"
            message += f", by {details['winner']}"
        refusal = Refusal(name, message, stage, 0, self.req_id, details=details)
        return Verdict(
            self.batch_id, False, None, self.current_seq, self.sim_time, (refusal,), self.replayed
        )

    def _refusal_of(self, code: int) -> tuple[Stage, str, str]:
        if code in self._reasons:
            return (Stage.DOMAIN, *self._reasons[code])
        return ROW_CODES[code]
