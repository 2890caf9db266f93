"""An entity and a collection of the state tree, with the stamps that answer for staleness."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from placet.schemas.codec import Json

if TYPE_CHECKING:
    from placet.kernel.state.entity_cut import EntityCut

_CHANGED_MIN: Final = 1_024
OF_TABLE: Final = -1
"""`epoch` of the entities of a table, which no state has: they are made when they are asked for."""


class Stamp:
    """The latest change of an entity, and the latest change by another agent.

    Attributes:
        seq: Sequence number of the latest change.
        by: Agent that made it.
        foreign_seq: Sequence number of the latest change by any agent but `by`; 0 if none.
    """

    __slots__ = ("by", "foreign_seq", "seq")

    def __init__(self, seq: int = 0, by: str = "", foreign_seq: int = 0) -> None:
        self.seq = seq
        self.by = by
        self.foreign_seq = foreign_seq

    def touch(self, seq: int, by: str) -> None:
        """Record a change of the entity by an agent at a seq."""
        if by != self.by:
            self.foreign_seq = self.seq
            self.by = by
        self.seq = seq

    def changed_for(self, agent_id: str) -> int:
        """Return the seq of the latest change that `agent_id` did not make itself."""
        return self.foreign_seq if self.by == agent_id else self.seq


class Entity(Stamp):
    """One entity.

    Attributes:
        fields: Field -> value.
        digest: Its share of the state digest; None while it is dirty.
        epoch: The `State.epoch` in which it was made; an entity of an earlier epoch is shared with
            a cut, and `State.own` replaces it before it is changed.
    """

    __slots__ = ("digest", "epoch", "fields")

    def __init__(
        self,
        fields: dict[str, Json],
        seq: int = 0,
        by: str = "",
        foreign_seq: int = 0,
        epoch: int = 0,
    ) -> None:
        self.fields = fields
        self.seq = seq
        self.by = by
        self.foreign_seq = foreign_seq
        self.digest: int | None = None
        self.epoch = epoch


class Collection(Stamp):
    """The entities of one type; its stamp changes when one is created or deleted (phantoms).

    Attributes:
        entities: Entities by id.
        tombstones: Stamps of deleted entities by id.
        cut: The entities at the latest cut; None before the first.
        changed: Ids of the entities that may have changed since the latest cut; in a cut, since
            the cut before. None before the first cut, and where too many have changed: any may
            have.
    """

    __slots__ = ("changed", "cut", "entities", "tombstones")

    is_table = False
    """Its entities are rows of arrays (`kernel/state/table.py`)."""

    def __init__(self) -> None:
        super().__init__()
        self.entities: dict[str, Entity] = {}
        self.tombstones: dict[str, Stamp] = {}
        self.cut: EntityCut[Entity] | None = None
        self.changed: dict[str, None] | None = None

    @property
    def has_been(self) -> bool:
        """An admitted change created an entity of it; else only an undone batch touched it."""
        return bool(self.entities or self.tombstones or self.seq)

    def mark_changed(self, entity: str) -> None:
        """Note that an entity differs from the latest cut."""
        changed = self.changed
        if changed is not None:
            changed[entity] = None
            if len(changed) > len(self.entities) + _CHANGED_MIN:  # no later cut bounds it
                self.changed = None


def ordered_ids(entities: Mapping[str, Entity]) -> Iterable[str]:
    """Return the ids of the entities of a collection in an order that depends on them alone.

    The ids of a dict are sorted, because its order depends on batches that were undone. The rows of
    a table are in the order of their numbers, and those of a cut are sorted already.
    """
    return sorted(entities) if type(entities) is dict else entities
