"""Stage 1 over a group: the form of many batches of one intent, checked column by column.

A batch that is not plainly one valid intent is left to the ordinary structure stage, which
describes each fault; so both answer alike.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import repeat
from operator import itemgetter
from struct import unpack
from typing import Any, Final

from pydantic import ValidationError

from placet.kernel.decide.single.batch import SingleBatch
from placet.kernel.gate.shape import Validate, column_validators
from placet.kernel.gate.structure import seems_huge
from placet.kernel.plugin.registry import Registry
from placet.schemas.batch import part_of
from placet.schemas.codec import Json, canonical
from placet.schemas.errors import INTERRUPTS
from placet.schemas.intent import REQUIRED_FIELDS, Intent
from placet.schemas.json_value import ValueBudget
from placet.schemas.limits import Limits

_KIND, _CONTEXT = itemgetter("kind"), itemgetter("context_seq")
_HASH64: Final = blake2b(digest_size=8)


class SingleStructure:
    """The structure stage of one world for groups of batches of one intent."""

    __slots__ = ("_chunk", "_frames", "_payloads", "_small_bytes_max", "_values_max")

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._frames, self._payloads = column_validators(registry, limits)
        self._values_max = limits.batch_values_max
        self._chunk = limits.batch_intents_max  # a chunk is bounded as one batch is
        self._small_bytes_max = min(
            limits.payload_bytes_max, limits.batch_bytes_max, limits.batch_values_max
        )

    def singles(
        self, batches: Sequence[object], first: int, submitter: str
    ) -> list[SingleBatch | None]:
        """Return the single batch of each plain batch of one valid intent; None for the others.

        Args:
            batches: Submitted batches.
            first: Number of the first batch; the others follow.
            submitter: Their submitter.
        """
        singles: list[SingleBatch | None] = [None] * len(batches)
        for start in range(0, len(batches), self._chunk):
            try:
                places, intents = self._valid(*_plain(batches[start : start + self._chunk]))
                if intents:
                    numbers = [first + start + place for place in places]
                    found = self._singles(intents, numbers, submitter)
                    for place, single in zip(places, found, strict=True):
                        singles[start + place] = single
            except INTERRUPTS:
                raise
            except BaseException:  # noqa: BLE001  # decided one by one, which names the fault
                continue
        return singles

    def _valid(
        self, places: Sequence[int], intents: Sequence[Json]
    ) -> tuple[Sequence[int], list[Intent]]:
        """Validate intents; return the valid ones, and their places."""
        budget = ValueBudget(self._values_max)
        places, frames = _validated(self._frames, places, intents, None)
        kinds = list(map(_KIND, frames))
        if len(set(kinds)) == 1:
            positions: dict[str, Sequence[int]] = {kinds[0]: range(len(frames))}
        else:
            positions = {}
            for position, kind in enumerate(kinds):
                positions.setdefault(kind, []).append(position)  # type: ignore[attr-defined]
        kept: list[int] = []
        for kind, own in positions.items():
            validate = self._payloads.get(kind)
            if validate is not None:
                submitted = [frames[position]["payload"] for position in own]
                valid, payloads = _validated(validate, own, submitted, budget)
                for position, payload in zip(valid, payloads, strict=True):
                    frames[position]["payload"] = payload
                kept += valid
        if len(kept) == len(frames):
            return places, frames
        return [places[position] for position in kept], [frames[position] for position in kept]

    def _singles(
        self, intents: list[Intent], numbers: list[int], submitter: str
    ) -> list[SingleBatch | None]:
        """Encode and hash valid intents; None where that needs a closer look."""
        parts = list(map(part_of, intents))
        encoded = list(map(canonical, parts))
        copy = _HASH64.copy
        digests = []
        for part in encoded:
            hashed = copy()
            hashed.update(part)
            digests.append(hashed.digest())
        fingerprints = unpack(f">{len(digests)}Q", b"".join(digests))
        agent_ids, req_ids, kinds, _, priorities = zip(*parts, strict=True)
        singles: list[SingleBatch | None] = list(
            zip(
                *(intents, agent_ids, req_ids, kinds, priorities, map(_CONTEXT, intents), encoded),
                *(fingerprints, numbers, repeat(submitter)),
                strict=False,  # the last column has no end
            )
        )
        if max(map(len, encoded)) >= self._small_bytes_max or seems_huge(b"".join(encoded)):
            for place, part in enumerate(encoded):
                if len(part) >= self._small_bytes_max or seems_huge(part):
                    singles[place] = None
        return singles


def _plain(batches: Sequence[object]) -> tuple[Sequence[int], list[Any]]:
    """Return the places of the batches that may be one plain intent, and these intents."""
    firsts = [batch[0] if type(batch) is list and len(batch) == 1 else batch for batch in batches]
    if (
        set(map(type, firsts)) == {dict}
        and set(map(len, firsts)) == {REQUIRED_FIELDS}  # type: ignore[arg-type]  # dicts
        and set(map(type, map(_kind_of, firsts))) == {str}
    ):
        return range(len(firsts)), firsts
    places = [
        place
        for place, intent in enumerate(firsts)
        if type(intent) is dict
        and len(intent) == REQUIRED_FIELDS
        and type(intent.get("kind")) is str
    ]
    return places, [firsts[place] for place in places]


def _kind_of(intent: Json) -> Json:
    return intent.get("kind")


def _validated(
    validate: Validate, places: Sequence[int], values: Sequence[Json], budget: ValueBudget | None
) -> tuple[Sequence[int], list[Any]]:
    """Validate values; return the valid ones, and their places."""
    if not values:
        return places, []
    try:
        return places, validate(values, strict=True, context=budget)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    # One invalid value ends the whole call, so the others are validated again without it.
    bad = {fault["loc"][0] for fault in faults}
    kept = [position for position in range(len(values)) if position not in bad]
    valid = validate([values[position] for position in kept], strict=True, context=budget)
    return [places[position] for position in kept], valid
