"""The codes of rows: the refusal that a byte in the record of a column batch stands for."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from placet.schemas.log.column_records import ColumnReason
from placet.schemas.refusal import RefusalCode, Stage

OK: Final = 0
PAYLOAD, SUSPENDED, FUTURE, TOO_FAR, STALE, QUOTA, CONFLICT, BOUNDS, RULE_ERROR = range(1, 10)
OWNER, DENIED, REUSED, TOO_OLD, WORLD_QUOTA, LEASED = range(10, 16)
RULE: Final = 16
"""The first code of a refusal by the rule; the reasons of a record number them."""

RULE_CODES_MAX: Final = 256 - RULE
OUT_OF_BOUNDS: Final = "out_of_bounds"


class RowCode(NamedTuple):
    """The refusal that a code stands for."""

    stage: Stage
    code: str
    message: str


_C = RefusalCode

ROW_CODES: Final = {
    PAYLOAD: RowCode(
        Stage.STRUCTURE, _C.PAYLOAD_INVALID.value, "a number is not finite or out of bounds"
    ),
    OWNER: RowCode(
        Stage.AGENT, _C.AGENT_NOT_YOURS.value, "the submitter may not speak for this population"
    ),
    SUSPENDED: RowCode(Stage.AGENT, _C.AGENT_SUSPENDED.value, "the agent is suspended"),
    DENIED: RowCode(
        Stage.AGENT, _C.PERMISSION_DENIED.value, "the population may not propose this kind"
    ),
    REUSED: RowCode(Stage.DEDUP, _C.REQ_ID_REUSED.value, "the req_id was used for another batch"),
    TOO_OLD: RowCode(
        Stage.DEDUP, _C.REQ_ID_TOO_OLD.value, "the req_id is older than the kept verdicts"
    ),
    FUTURE: RowCode(
        Stage.STALENESS, _C.CONTEXT_FROM_FUTURE.value, "the world has not reached its context"
    ),
    TOO_FAR: RowCode(Stage.STALENESS, _C.STALE_CONTEXT.value, "its context is too far behind"),
    STALE: RowCode(Stage.STALENESS, _C.STALE_CONTEXT.value, "another agent changed the row since"),
    QUOTA: RowCode(Stage.QUOTA, _C.QUOTA_EXCEEDED.value, "the agent's quota is used up"),
    WORLD_QUOTA: RowCode(Stage.QUOTA, _C.QUOTA_EXCEEDED.value, "the world's quota is used up"),
    CONFLICT: RowCode(
        Stage.DOMAIN, _C.CONFLICT.value, "a claimed row was taken at the same moment"
    ),
    LEASED: RowCode(
        Stage.DOMAIN,
        _C.LEASED.value,
        "it would change a row that another agent has leased",
    ),
    RULE_ERROR: RowCode(Stage.DOMAIN, _C.RULE_ERROR.value, "the rule raised"),
}
"""The refusals of the kernel by code; those with a domain's name are in the record's reasons."""


def refusal_of(reasons: Iterable[ColumnReason], code: int) -> RowCode:
    """Return the refusal that a code other than 0 stands for in a record.

    Args:
        reasons: The reasons of the record.
        code: The code of a row; a damaged log may have one that no gate writes.
    """
    for known, name, message in reasons:
        if known == code:
            return RowCode(Stage.DOMAIN, name, message)
    unknown = RowCode(Stage.DOMAIN, f"code {code}", "no gate writes this code")
    return ROW_CODES.get(code, unknown)
