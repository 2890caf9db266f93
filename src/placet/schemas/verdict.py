"""The verdict: the answer to a batch.

Thousands of verdicts are made per second, and usually only `admitted` is read, so the results of
the single intents are built on request.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from placet.schemas.codec import Json, from_canonical, thaw
from placet.schemas.foreseen import UNDECIDED, FieldChange, Foreseen, Preview, foresee
from placet.schemas.html_table import html_table
from placet.schemas.printable import printable
from placet.schemas.refusal import Notice, Refusal


class Result(NamedTuple):
    """The result of one intent of an admitted batch.

    Attributes:
        req_id: The submitter's key.
        admitted: Always true; present so that a result can be read without its verdict.
        seq: Sequence number at which the intent took effect; None while it is scheduled.
        normalized: The payload as applied; submitting it again has the same meaning.
        warnings: Changes made to the intent by the gate.
        output: Output of the rule; None without one, and in the verdict of a duplicate.
    """

    req_id: str
    admitted: bool
    seq: int | None
    normalized: Mapping[str, Json]
    warnings: tuple[Notice, ...]
    output: Json = None

    def as_dict(self) -> dict[str, Json]:
        """Return the result in the form of a verdict on the wire; `output` only if there is one."""
        output = {} if self.output is None else {"output": thaw(self.output)}
        return {
            "req_id": self.req_id,
            "admitted": self.admitted,
            "seq": self.seq,
            "normalized": thaw(self.normalized),
            "warnings": [warning.as_dict() for warning in self.warnings],
            **output,
        }


NOT_KEPT: Final = "none"
"""Durability of a verdict that is in no log."""

_NO_PREVIEW: Final = Preview(())

OUTPUT_UNDECIDED: Final = Notice("undecided", f"the output is {UNDECIDED}", "")
"""Warning of a dry run in place of an output."""

_NOT_JSON: Final = object()
"""A value that no encoder accepts, so that a verdict is only sent by `as_dict`."""


class Verdict(msgspec.Struct, eq=False, gc=False):
    """The answer to one batch: admitted with results, or refused with refusals.

        verdict = await ann.submit([ann.intent("Move", to=[900, 0])])
        if not verdict.admitted:
            first = verdict.refusals[0]
            print(first.stage, first.code, first.index)

    Attributes:
        batch_id: Name of the batch, for the log and for people.
        admitted: True if all intents passed.
        seq: Sequence number of the last intent of the batch; None if the batch changed nothing.
        current_seq: Sequence number of the world when the batch was decided.
        sim_time: Simulated time of the decision, seconds.
        refusals: Refusals in order of index, at most `refusals_listed_max`; empty if admitted.
        replayed: The answer to an earlier submission of the same batch; nothing ran again.
        dry_run: The batch was decided and changed nothing.
        scheduled: The batch was accepted for later; `verdict_of` returns the final verdict.
        durability: Durability of the verdict: `none memory off normal local full`.
        req_ids: The submitter's keys, in the submitter's order.
        preview: Changes and effects of one decision of the batch, if they were asked for. `diff`
            has the changes as a person is shown them.
    """

    batch_id: str
    admitted: bool
    seq: int | None
    current_seq: int
    sim_time: float
    refusals: tuple[Refusal, ...] = ()
    replayed: bool = False
    dry_run: bool = False
    scheduled: bool = False
    durability: str = NOT_KEPT
    req_ids: list[str] = []
    # Input of `results`, kept as bytes: verdicts are stored, and ten intents are 6 kB of objects.
    _encoded: bytes = b""
    _seqs: Sequence[int] | None = None
    _normalized: Mapping[int, Mapping[str, Json]] | None = None
    _notices: Mapping[int, tuple[Notice, ...]] | None = None
    _outputs: Mapping[int, Json] | None = None
    preview: Preview = _NO_PREVIEW
    _foreseen: Foreseen | None = None
    _no_wire: object = _NOT_JSON

    def attach(
        self,
        req_ids: list[str],
        encoded: bytes,
        seqs: Sequence[int] | None,
        notices: Mapping[int, tuple[Notice, ...]] | None = None,
    ) -> None:
        """Store the input of `results` if no rule ran: a scheduled, duplicate or refused batch.

        Args:
            req_ids: The submitter's keys.
            encoded: The intents as in `CheckedBatch`; empty if their payloads are unknown.
            seqs: Sequence number of each intent; None if they have none.
            notices: Warnings by position.
        """
        self.req_ids = req_ids
        self._encoded = encoded
        self._seqs = seqs
        self._notices = notices

    @property
    def results(self) -> tuple[Result, ...]:
        """Result of each intent, in the submitter's order; empty for a refusal. O(batch)."""
        if not self.admitted:
            return ()
        payloads: Sequence[Json] = [{}] * len(self.req_ids)
        if self._encoded:
            payloads = [payload for _, _, _, payload, *_ in from_canonical(self._encoded)]
        normalized = self._normalized or {}
        notices = self._notices or {}
        outputs = self._outputs or {}
        return tuple(
            Result(
                req_id,
                True,
                None if self._seqs is None else self._seqs[index],
                normalized.get(index, payloads[index]),
                notices.get(index, ()),
                outputs.get(index),
            )
            for index, req_id in enumerate(self.req_ids)
        )

    @property
    def diff(self) -> tuple[FieldChange, ...]:
        """Changes that a dry run previewed, or that an admitted batch made, if that was asked for.

        An undecided change of a dry run has no values. The changes are not restricted to the
        visibility of an agent, so they are never sent as they are: a caller that shows them to an
        agent must remove what that agent may not see.
        """
        return self.foreseen.changes

    @property
    def foreseen(self) -> Foreseen:
        """The changes and effects of `diff`; those of a dry run are definite or undecided."""
        return foresee(self.preview) if self._foreseen is None else self._foreseen

    def foresee(self, others: Sequence[Preview], undecided_outputs: Collection[int]) -> None:
        """Mark the values of a dry run that are undecided until its batch is applied.

        Args:
            others: Previews of the batch at other moments.
            undecided_outputs: Positions of the intents whose output is undecided; their results
                have a warning instead.
        """
        self._foreseen = foresee(self.preview, others)
        if undecided_outputs:
            outputs, notices = dict(self._outputs or {}), dict(self._notices or {})
            for index in undecided_outputs:
                outputs.pop(index, None)
                notices[index] = (*notices.get(index, ()), OUTPUT_UNDECIDED)
            self._outputs, self._notices = outputs, notices

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the refusals, in order."""
        return tuple(refusal.code for refusal in self.refusals)

    def as_dict(self) -> dict[str, Json]:
        """Return the verdict in its wire form."""
        return {
            "batch_id": self.batch_id,
            "admitted": self.admitted,
            "seq": self.seq,
            "replayed": self.replayed,
            "dry_run": self.dry_run,
            "scheduled": self.scheduled,
            "results": [result.as_dict() for result in self.results],
            "refusals": [refusal.as_dict() for refusal in self.refusals],
            "current_seq": self.current_seq,
            "sim_time": self.sim_time,
            "durability": self.durability,
        }

    def __repr__(self) -> str:
        counts = Counter(self.codes)
        codes = ", ".join(code if n == 1 else f"{code} x{n}" for code, n in counts.items())
        outcome = f"admitted at seq {self.seq}" if self.admitted else f"refused: {codes}"
        marks = [m for m in ("replayed", "dry_run", "scheduled") if getattr(self, m)]
        name = f"{self.batch_id} " if self.batch_id else ""
        return printable(f"<Verdict {', '.join([f'{name}{outcome}', *marks])}>")

    def _repr_html_(self) -> str:
        caption = repr(self)[1:-1]
        if self.admitted:
            rows = ((result.req_id, result.seq) for result in self.results)
            return html_table(caption, ("req_id", "seq"), rows)
        codes = ((refusal.stage, refusal.code, refusal.message) for refusal in self.refusals)
        return html_table(caption, ("stage", "code", "message"), codes)
