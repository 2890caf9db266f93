"""Effects: work outside the world, and its outcome.

An effect is `open` until it is settled. For an effect that runs at most once the log also has the
marks `started`, before its handler is called, and `in_doubt`, when its outcome is unknown. An
effect that was given up is settled as failed: a dead letter.
"""

from typing import Final, Literal, TypeAlias, get_args

import msgspec

from placet.schemas.codec import Json

Delivery: TypeAlias = Literal["pure", "idempotent", "keyed", "at_most_once"]
"""What a second attempt would do to the outside world.

`pure`: there is nothing outside that changes. `idempotent`: the same again. `keyed`: nothing, for
the callee knows the key. These three are tried again. `at_most_once`: harm, so there is none.
"""
DELIVERIES: Final[tuple[Delivery, ...]] = get_args(Delivery)

EffectMark: TypeAlias = Literal["started", "in_doubt"]
EffectState: TypeAlias = Literal["open", "started", "in_doubt", "dead"]
EFFECT_STATES: Final[tuple[EffectState, ...]] = get_args(EffectState)


class EffectKey(msgspec.Struct, frozen=True, order=True):
    """Name of one effect, the same on all attempts: the world, the seq, and its place there.

    Attributes:
        world: Name of the world.
        seq: Sequence number of the intent that declared it.
        effect_index: 0-based place among the effects of that intent's batch.
    """

    world: str
    seq: int
    effect_index: int

    def __str__(self) -> str:
        return f"{self.world}/{self.seq}/{self.effect_index}"

    @classmethod
    def parse(cls, text: str) -> "EffectKey":
        """Read a key as it is printed.

        Raises:
            ValueError: It is none.
        """
        world, _, rest = text.partition("/") if text.count("/") == 2 else ("", "", "")  # noqa: PLR2004
        seq, _, index = rest.partition("/")
        if not (world and seq.isdecimal() and index.isdecimal()):
            raise ValueError(f"an effect's key is WORLD/SEQ/K, such as world/17/0; got {text!r}")
        return cls(world, int(seq), int(index))


class Effect(msgspec.Struct, frozen=True):
    """One piece of work, run after its batch is durable.

    Attributes:
        key: Idempotency key; pass it on to the callee.
        kind: Which executor runs it.
        payload: Data for the executor; plain JSON.
        agent_id: Whose intent asked for it.
        attempt: Which attempt this is, from 1; counted anew when a world is opened again.
    """

    key: EffectKey
    kind: str
    payload: dict[str, Json]
    agent_id: str
    attempt: int = 1


class Settlement(msgspec.Struct, frozen=True):
    """The outcome of an effect.

    Attributes:
        key: The effect.
        succeeded: False when the executor gave up.
        output: The executor's return value as plain JSON; or the reason why it gave up.
    """

    key: EffectKey
    succeeded: bool
    output: Json = None


class EffectStatus(msgspec.Struct, frozen=True):
    """Where an effect stands.

    Attributes:
        key: Its name.
        kind: Which executor runs it; empty where what declared it was compacted away.
        state: `open`, `started` and `in_doubt` are not settled; `dead` was given up.
        agent_id: Whose intent asked for it.
        payload: Its data.
        why: Failure of the last attempt, or the reason of the doubt; empty before that.
    """

    key: EffectKey
    kind: str
    state: EffectState
    agent_id: str
    payload: dict[str, Json]
    why: Json = ""

    def as_dict(self) -> dict[str, Json]:
        """Return it as plain JSON, its key in one string."""
        return {
            "key": str(self.key),
            "kind": self.kind,
            "state": self.state,
            "agent_id": self.agent_id,
            "payload": msgspec.to_builtins(self.payload),
            "why": msgspec.to_builtins(self.why),
        }
