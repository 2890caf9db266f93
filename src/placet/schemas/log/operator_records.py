"""The records of an operator's own hand: a world forked, values put otherwise."""

from placet.schemas.codec import Json
from placet.schemas.log.changes import Changes, Entry

Given = list[tuple[str, str, dict[str, Json] | None, bool]]
"""`(collection, entity, fields, is_whole)`: what an operator puts. Fields None delete the entity;
whole, they are all that it has after, and it need not be there before."""


class ForkAdopted(Entry, array_like=True, frozen=True, tag=21):
    """From here on it is another world, which begins where the one before it stood.

    `prev` is the parent's hash at this place, and `seq` its seq: earlier records are the parent's.
    Like a header, it stands at the seq at which the world begins and takes none, so that the fork
    counts and draws as its parent did.

    Attributes:
        world: Name of the new world, part of every key of an effect that it declares.
        parent: Name of the world it was.
        effects: `refuse`: no kind of effect has an executor any more. `simulate`: the gate behaves
            as if they had.
        given: Initial changes of the fork.
        dropped: Agents that are not there from the start.
        changes: What that did.
    """

    world: str
    parent: str
    effects: str
    given: Given
    dropped: list[str]
    changes: Changes


class Patched(Entry, array_like=True, frozen=True, tag=22):
    """The operator put values otherwise, past all kinds and within all invariants.

    Attributes:
        cause: Why, in words that a program can find again: `restore world.agents to 41`.
        given: Patched values.
        changes: What that did.
    """

    cause: str
    given: Given
    changes: Changes
