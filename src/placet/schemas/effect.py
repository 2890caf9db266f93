"""Work for the outside world, and what came of it."""

import msgspec

from placet.schemas.codec import Json


class EffectKey(msgspec.Struct, frozen=True, order=True):
    """Name of one effect, the same on all attempts: the world, the seq, and its place there.

    Attributes:
        world: Name of the world.
        seq: Sequence number of the intent that declared it.
        k: 0-based place among the effects of that intent's batch.
    """

    world: str
    seq: int
    k: int

    def __str__(self) -> str:
        return f"{self.world}/{self.seq}/{self.k}"


class Effect(msgspec.Struct, frozen=True):
    """One piece of work, run after its batch is durable.

    Attributes:
        key: Idempotency key; pass it on to the callee.
        kind: Which executor runs it.
        payload: Data for the executor; plain JSON.
        agent_id: Whose intent asked for it.
    """

    key: EffectKey
    kind: str
    payload: dict[str, Json]
    agent_id: str


class Settlement(msgspec.Struct, frozen=True):
    """The outcome of an effect.

    Attributes:
        key: The effect.
        succeeded: False when the executor gave up.
        output: What the executor returned, plain JSON; or the reason why it gave up.
    """

    key: EffectKey
    succeeded: bool
    output: Json = None
