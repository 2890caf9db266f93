"""The rows of the record of a column batch, as readers of a log select and count them.

No row is looked at in Python: codes are counted as bytes, and one member is found by its number.
"""

from typing import Final

from placet.kernel.arrays.row_codes import OK, refusal_of
from placet.schemas.batch import sequence_form
from placet.schemas.log.column_records import Columns
from placet.schemas.log.column_summary import rows_of

_NUMBER_BYTES: Final = 4


def row_of(record: Columns, agent_id: str) -> int | None:
    """Return the row of an agent in a column batch; None if the agent has none."""
    form = sequence_form(agent_id)
    if form is None or form[0] != record.population:
        return None
    number = form[1]
    if not record.agents:
        count = rows_of(record)
        return number if count is None or number < count else None
    if number >> 8 * _NUMBER_BYTES:
        return None
    wanted = number.to_bytes(_NUMBER_BYTES, "little")
    at = record.agents.find(wanted)
    while at % _NUMBER_BYTES and at >= 0:  # the bytes of two numbers
        at = record.agents.find(wanted, at + 1)
    return None if at < 0 else at // _NUMBER_BYTES


def code_of(record: Columns, row: int) -> int:
    """Return the code of a row; 0 is admitted."""
    return record.codes[row] if record.codes else OK


def refusal_counts(record: Columns) -> dict[tuple[str, str], int]:
    """Return the number of refused rows by stage and code."""
    counts: dict[tuple[str, str], int] = {}
    for code in sorted(set(record.codes) - {OK}):
        stage, name, _ = refusal_of(record.reasons, code)
        reason = (stage.value, name)
        counts[reason] = counts.get(reason, 0) + record.codes.count(code)
    return counts


def refused_count(record: Columns) -> int:
    """Return the number of refused rows."""
    return len(record.codes) - record.codes.count(OK)
