"""Effects: work outside the world, and its outcome.

An effect is `open` until it is settled. For an effect that runs at most once the log also has the
marks `started`, before its handler is called, and `in_doubt`, when its outcome is unknown. An
effect that was given up is settled as failed: a dead letter.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError

_SECONDS_MAX: Final = 1e9

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


class DoNotRetry(PlacetError):  # noqa: N818  # an instruction, as `StopIteration` is
    """Raised by a handler: it knows that another attempt would fail too; the effect is given up."""


class RetryAfter(PlacetError):  # noqa: N818  # likewise
    """Raised by a handler that was told when to come again.

    Attributes:
        seconds: The pause, in place of the back-off; 0 to 1e9.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"asked to come again in {seconds:g} s")
        if not 0 <= seconds <= _SECONDS_MAX:
            raise ValueError(f"seconds must be in 0..{_SECONDS_MAX:g}, got {seconds!r}")
        self.seconds = seconds

    def __reduce__(self) -> tuple[type["RetryAfter"], tuple[float, str]]:
        """Return what makes it again, in the process of the executor."""
        return type(self), (self.seconds, str(self))


class OutcomeUnknown(PlacetError):  # noqa: N818  # what is known, which is nothing
    """Raised by a handler that cannot tell whether it did the work, as after a lost connection.

    An effect that is done at most once is in doubt then; any other is tried again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between the attempts at an effect: `first_s`, times `factor` each, up to `max_s`.

    Attributes:
        first_s: Before the second attempt, seconds.
        factor: By which each pause is longer than the one before.
        max_s: No pause is longer, seconds.
        jitter: Random share of a pause, 0 to 1: attempts that failed together do not retry
            together.
    """

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.first_s <= self.max_s < float("inf"):
            raise ValueError(
                f"a back-off has 0 <= first_s <= max_s, got {self.first_s!r} and {self.max_s!r}"
            )
        if not 1 <= self.factor < float("inf"):
            raise ValueError(f"factor must be 1 or more, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be 0 to 1, got {self.jitter!r}")

    def pause_s(self, attempt: int, chance: float) -> float:
        """Return the pause after an attempt, seconds.

        Args:
            attempt: Which failed, from 1.
            chance: Uniform in [0, 1).
        """
        longest = self.first_s
        for _ in range(attempt - 1):
            if longest >= self.max_s:
                break
            longest *= self.factor
        return min(longest, self.max_s) * (1 - self.jitter * chance)
