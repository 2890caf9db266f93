"""The answer to a batch.

A verdict is made for every batch, thousands per second, and mostly only `admitted` is read; so its
per-intent results are built on request.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from placet.schemas.codec import Json, from_canonical, thaw
from placet.schemas.refusal import Notice, Refusal


class Result(NamedTuple):
    """The result of one intent of an admitted batch.

    Attributes:
        req_id: The submitter's key.
        admitted: Always true; kept so that a result reads by itself.
        seq: Sequence number at which the intent took effect; None while it is scheduled.
        normalized: The payload as it was applied. Submitting it again means the same.
        warnings: Changes made on the way in.
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
        told = {} if self.output is None else {"output": thaw(self.output)}
        return {
            "req_id": self.req_id,
            "admitted": self.admitted,
            "seq": self.seq,
            "normalized": thaw(self.normalized),
            "warnings": [warning.as_dict() for warning in self.warnings],
            **told,
        }


class FieldChange(NamedTuple):
    """A previewed change of one field.

    Attributes:
        collection: The collection's name.
        entity: The entity's id.
        field: The field; None where an entity without fields comes or goes.
        op: `add`, `replace` or `remove`.
        old: Value before; None where there was none.
        new: Value after; None where there is none.
    """

    collection: str
    entity: str
    field: str | None
    op: Literal["add", "replace", "remove"]
    old: Json
    new: Json

    @property
    def path(self) -> str:
        """The place in the state: `collection/entity/field`."""
        return "/".join(filter(None, (self.collection, self.entity, self.field)))


NOT_KEPT: Final = "none"
"""How durable an answer is that is in no log."""

_NOT_JSON: Final = object()
"""No encoder takes it: a verdict goes over the wire by `as_dict`, without what is inside."""


class Verdict(msgspec.Struct, eq=False, gc=False):
    """The answer to one batch: admitted with results, or refused with refusals.

    Attributes:
        batch_id: Name of the batch, for the log and for people.
        admitted: True if all of it passed.
        seq: Sequence number of the last entry the batch made; None where it made none.
        current_seq: Sequence number of the world when the batch was decided.
        sim_time: Simulated time of the decision, seconds.
        refusals: Why not; empty if admitted. In order of index, at most `refusals_listed_max`.
        replayed: This answers a batch that was answered before; nothing was done again.
        dry_run: Nothing was done.
        scheduled: Accepted for later; the final answer will be had by `verdict_of`.
        durability: How the answer is kept: `none memory off normal local full`.
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
    # What `results` is made of: bytes, as verdicts are kept, and ten intents are 6 kB of objects.
    _req_ids: Sequence[str] = ()
    _encoded: bytes = b""
    _seqs: Sequence[int] | None = None
    _normalized: Mapping[int, Mapping[str, Json]] | None = None
    _notices: Mapping[int, tuple[Notice, ...]] | None = None
    _answers: Mapping[int, Json] | None = None
    _diff: tuple[FieldChange, ...] = ()
    _effects: Sequence[tuple[str, Mapping[str, Json]]] = ()
    _no_wire: object = _NOT_JSON

    def attach(
        self,
        req_ids: Sequence[str],
        encoded: bytes,
        seqs: Sequence[int] | None,
        notices: Mapping[int, tuple[Notice, ...]] | None = None,
    ) -> None:
        """Keep what `results` is made of, where no rule has run: for later, or not again.

        Args:
            req_ids: The submitter's keys.
            encoded: The intents as in `CheckedBatch`; empty where their payloads are not at hand.
            seqs: Of each intent; None where it has none.
            notices: Warnings by position.
        """
        self._req_ids = req_ids
        self._encoded = encoded
        self._seqs = seqs
        self._notices = notices

    @property
    def results(self) -> tuple[Result, ...]:
        """Result of each intent, in the submitter's order; empty for a refusal. O(batch)."""
        if not self.admitted:
            return ()
        payloads: Sequence[Json] = [{}] * len(self._req_ids)
        if self._encoded:
            payloads = [payload for _, _, _, payload, _ in from_canonical(self._encoded)]
        normalized = self._normalized or {}
        notices = self._notices or {}
        answers = self._answers or {}
        return tuple(
            Result(
                req_id,
                True,
                None if self._seqs is None else self._seqs[index],
                normalized.get(index, payloads[index]),
                notices.get(index, ()),
                answers.get(index),
            )
            for index, req_id in enumerate(self._req_ids)
        )

    @property
    def diff(self) -> tuple[FieldChange, ...]:
        """Previewed changes of a dry run; empty for any other verdict.

        It is the whole truth, so it never goes over the wire as it is: who shows it to an agent
        leaves out what that agent may not see.
        """
        return self._diff

    @property
    def preview_effects(self) -> Sequence[tuple[str, Mapping[str, Json]]]:
        """Kind and payload of each effect that a dry run would have asked for; else empty."""
        return self._effects

    def preview(
        self,
        diff: tuple[FieldChange, ...],
        effects: Sequence[tuple[str, Mapping[str, Json]]] = (),
    ) -> None:
        """Store the changes and effects that a dry run previewed."""
        self._diff = diff
        self._effects = effects

    @property
    def req_ids(self) -> list[str]:
        """The submitter's keys, in the submitter's order."""
        return list(self._req_ids)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the refusals, in order."""
        return tuple(refusal.code for refusal in self.refusals)

    def as_dict(self) -> dict[str, Json]:
        """Return the verdict as it goes over the wire."""
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
        what = f"admitted at seq {self.seq}" if self.admitted else f"refused: {list(self.codes)}"
        marks = [m for m in ("replayed", "dry_run", "scheduled") if getattr(self, m)]
        return f"<Verdict {self.batch_id} {what}{' ' if marks else ''}{' '.join(marks)}>"
