"""The entities of one collection at a cut of the state.

The entities are in chunks of 128. The next cut copies the chunks in which an entity changed, and
shares the others. So a cut costs what changed since the cut before: 5 us at 10 000 entities,
instead of 80 us for a copy of their dict (CPython 3.11, 2 busy cores, 2026-11-24).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

Row = TypeVar("Row")
"""An entity with its fields."""

_BITS: Final = 7
_CHUNK: Final = 1 << _BITS
_UNUSED_MIN: Final = 1_024


class EntityCut(Mapping[str, Row], Generic[Row]):
    """An immutable mapping of ids to entities; iteration is sorted by id.

    A cut and its successors share `_places`, the place of each id in the chunks. It only grows, so
    an id that was created after a cut has a place that the cut does not have, or that is empty in
    it. When most places are empty, a successor gets new places.

    Another thread may read a cut at any time; one thread makes the successors.
    """

    __slots__ = ("_chunks", "_count", "_ids", "_places")

    def __init__(
        self,
        places: dict[str, int],
        chunks: list[list[Row | None]],
        count: int,
        ids: tuple[str, ...] | None = None,
    ) -> None:
        self._places = places
        self._chunks = chunks
        self._count = count
        self._ids = ids

    @classmethod
    def of(cls, entities: Mapping[str, Row]) -> "EntityCut[Row]":
        """Copy a mapping. O(entities)."""
        rows: list[Row | None] = [*entities.values()]
        places = {entity: place for place, entity in enumerate(entities)}
        chunks = [rows[first : first + _CHUNK] for first in range(0, len(rows), _CHUNK)]
        return cls(places, chunks, len(rows))

    def successor(self, entities: Mapping[str, Row], changed: Iterable[str]) -> "EntityCut[Row]":
        """Return the cut of a later mapping that differs in the changed ids only.

        O(changed, and entities / 128).
        """
        places = self._places
        if len(places) > 2 * len(entities) + _UNUSED_MIN:
            return EntityCut.of(entities)
        chunks = self._chunks.copy()
        owned: set[int] = set()
        is_same_ids = True
        for entity in changed:
            row = entities.get(entity)
            place = places.get(entity)
            if place is None:
                if row is None:  # created and deleted since the last cut
                    continue
                place = places[entity] = len(places)
            number, offset = place >> _BITS, place & (_CHUNK - 1)
            while number >= len(chunks):
                owned.add(len(chunks))
                chunks.append([])
            chunk = chunks[number]
            if number not in owned:
                owned.add(number)
                chunk = chunks[number] = chunk.copy()
            chunk.extend([None] * (offset + 1 - len(chunk)))
            if (chunk[offset] is None) is not (row is None):
                is_same_ids = False
            chunk[offset] = row
        return EntityCut(places, chunks, len(entities), self._ids if is_same_ids else None)

    def get(self, entity: str, default: Row | None = None) -> Row | None:  # type: ignore[override]  # no other default is used
        """Return an entity, or the default if there is none of this id."""
        place = self._places.get(entity)
        if place is None:
            return default
        try:
            row = self._chunks[place >> _BITS][place & (_CHUNK - 1)]
        except IndexError:  # created after this cut
            return default
        return default if row is None else row

    def __getitem__(self, entity: str) -> Row:
        row = self.get(entity)
        if row is None:
            raise KeyError(entity)
        return row

    def __contains__(self, entity: object) -> bool:
        return self.get(entity) is not None  # type: ignore[arg-type]  # a mapping takes any key

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def __len__(self) -> int:
        return self._count

    def ids(self) -> tuple[str, ...]:
        """Return the ids, sorted. O(n log n) at first; successors with the same ids share them."""
        ids = self._ids
        if ids is None:
            get = self.get
            # A copy first: the thread that makes successors may add places meanwhile.
            ids = tuple(sorted(entity for entity in [*self._places] if get(entity) is not None))
            self._ids = ids
        return ids
