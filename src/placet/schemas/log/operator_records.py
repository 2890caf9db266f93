"""The records of operator actions: a fork adopted, values patched."""

from msgspec import field

from placet.schemas.codec import Json
from placet.schemas.log.changes import Changes, RecordHead

Given = list[tuple[str, str, dict[str, Json] | None, bool]]
"""`(collection, entity, fields, is_whole)` of each patched entity. Fields None delete the entity.
If `is_whole`, `fields` replace all fields, and the entity need not exist before."""


class ForkAdopted(RecordHead, array_like=True, frozen=True, tag=21):
    """The first record of a fork after the copied records of its parent.

    `prev` is the hash of the parent's last copied record, and `seq` its seq. Like a header, the
    record takes no seq, so the fork counts and draws as its parent did.

    Attributes:
        world: Name of the fork, part of the key of each effect that it emits.
        parent: Name of the parent world.
        effects: `refuse`: no kind of effect has an executor. `simulate`: the gate behaves as if the
            executors of the parent were registered.
        given: Values patched at the start of the fork.
        dropped: Agents removed at the start of the fork.
        changes: State changes of the patch and of the removals.
        seed: Seed of the fork; None is the parent's.
    """

    world: str
    parent: str
    effects: str
    given: Given
    dropped: list[str]
    changes: Changes
    seed: int | None = None

    @property
    def new_origin(self) -> dict[str, Json] | None:
        """The origin of the header from here on; None is the parent's."""
        return None


class ForkWithOrigin(ForkAdopted, array_like=True, frozen=True, tag=36):
    """A `ForkAdopted` record of a fork that its program continues with another origin.

    Attributes:
        origin: As in the header, in whose place it stands from here on.
    """

    origin: dict[str, Json] = field(default_factory=dict)

    @property
    def new_origin(self) -> dict[str, Json]:
        """The origin of the header from here on."""
        return self.origin


class Patched(RecordHead, array_like=True, frozen=True, tag=22):
    """Log record: the operator changed values directly, without intents; all invariants held.

    Attributes:
        cause: The reason, in a form that a program can search: `restore world.agents to 41`.
        given: Patched values.
        changes: State changes of the patch.
    """

    cause: str
    given: Given
    changes: Changes
