"""A verdict as JSON, the same bytes wherever it leaves: `placet gate`, HTTP."""

from collections.abc import Sequence

import msgspec

from placet.schemas.codec import Json, to_json
from placet.schemas.verdict import Verdict


def verdict_line(verdict: Verdict, diff: Sequence[Json] | None = None) -> bytes:
    """Encode a verdict as JSON bytes, equal to `verdict.as_dict()`.

    Faster than a general encoder.

    Args:
        verdict: The verdict.
        diff: The previewed changes of a dry run that the reader may see; None leaves out the field.
    """
    results = [
        _ResultLine(
            req_id,
            admitted,
            seq,
            payload,
            [w.as_dict() for w in warnings] or (),
            msgspec.UNSET if output is None else output,
        )
        for req_id, admitted, seq, payload, warnings, output in verdict.results
    ]
    return to_json(
        _VerdictLine(
            verdict.batch_id,
            verdict.admitted,
            verdict.seq,
            verdict.replayed,
            verdict.dry_run,
            verdict.scheduled,
            results,
            [refusal.as_dict() for refusal in verdict.refusals],
            verdict.current_seq,
            verdict.sim_time,
            verdict.durability,
            msgspec.UNSET if diff is None else diff,
        )
    )


class _ResultLine(msgspec.Struct, gc=False):
    """`Result.as_dict()`, as the encoder likes it best: a third of the time."""

    req_id: str
    admitted: bool
    seq: int | None
    normalized: Json
    warnings: Sequence[Json]
    output: Json


class _VerdictLine(msgspec.Struct, gc=False):
    """`Verdict.as_dict()`, likewise."""

    batch_id: str
    admitted: bool
    seq: int | None
    replayed: bool
    dry_run: bool
    scheduled: bool
    results: list[_ResultLine]
    refusals: list[Json]
    current_seq: int
    sim_time: float
    durability: str
    diff: Json = msgspec.UNSET
