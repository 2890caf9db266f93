"""Effects: work outside the world, and its outcome.

An effect is `open` until it is settled. For an effect that runs at most once the log also has the
marks `started`, before its handler is called, and `in_doubt`, when its outcome is unknown. The mark
`started` may be in the commit of the batch. An effect that was given up is settled as failed: a
dead letter. A handler raises `DoNotRetry`, `RetryAfter` or `OutcomeUnknown` to control its
attempts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.schemas.json_value import format_value

_SECONDS_MAX: Final = 1e9

Delivery: TypeAlias = Literal["pure", "idempotent", "keyed", "at_most_once"]
"""The result of a second attempt in the outside world.

`pure`: nothing outside changes. `idempotent`: the same result again. `keyed`: none, because the
callee recognizes the key. Effects of these three are retried. `at_most_once`: harm, so there is no
second attempt.
"""
DELIVERIES: Final[tuple[Delivery, ...]] = get_args(Delivery)

EffectMark: TypeAlias = Literal["started", "in_doubt", "dead"]
EffectState: TypeAlias = Literal["open", "started", "in_doubt", "dead", "failed"]
EFFECT_STATES: Final[tuple[EffectState, ...]] = get_args(EffectState)


class EffectKey(msgspec.Struct, frozen=True, order=True):
    """Identity of one effect, the same in all attempts.

    Attributes:
        world: Name of the world.
        seq: Sequence number of the intent that declared it.
        effect_index: 0-based index among the effects of that intent's batch.
    """

    world: str
    seq: int
    effect_index: int

    def __str__(self) -> str:
        return f"{self.world}/{self.seq}/{self.effect_index}"

    @classmethod
    def parse(cls, text: str) -> "EffectKey":
        """Parse a key from its text form.

        Raises:
            ValueError: The text is not `WORLD/SEQ/INDEX`.
        """
        world, _, rest = text.partition("/") if text.count("/") == 2 else ("", "", "")  # noqa: PLR2004
        seq, _, index = rest.partition("/")
        if not (world and seq.isdecimal() and index.isdecimal()):
            raise ValueError(
                f"an effect's key is WORLD/SEQ/INDEX, such as world/17/0; got {text!r}"
            )
        return cls(world, int(seq), int(index))


class Effect(msgspec.Struct, frozen=True):
    """A request of a rule to the outside world, which an executor runs once its batch is durable.

    Attributes:
        key: Idempotency key; pass it on to the callee.
        kind: Kind of effect, which selects the executor.
        payload: Data for the executor; plain JSON.
        agent_id: Agent of the intent that emitted it.
        attempt: Number of the attempt, from 1; it restarts when the world is opened again.
        starts_with_batch: The rule emitted it with `started=True`.
    """

    key: EffectKey
    kind: str
    payload: dict[str, Json]
    agent_id: str
    attempt: int = 1
    starts_with_batch: bool = False


class Settlement(msgspec.Struct, frozen=True):
    """The final outcome of an effect, as reported to the kernel.

    Attributes:
        key: Key of the effect.
        succeeded: False if the executor gave up. True for a handler that returned: its work is
            done, also if its output cannot be recorded.
        output: Return value of the executor as plain JSON, or the reason of the failure. The
            output of `unrecordable` for a return value that has no JSON form.
    """

    key: EffectKey
    succeeded: bool
    output: Json = None


def call_key_of(payload: Mapping[str, Json]) -> str:
    """Return the key of the call of a tool whose effect has a payload; empty for another effect."""
    key = payload.get("key")
    return key if payload.keys() == {"key", "args"} and isinstance(key, str) else ""


def unrecordable(output: object, why: str) -> dict[str, Json]:
    """Return the recorded form of a handler's output that no record can hold.

    Args:
        output: The return value of the handler.
        why: The reason, such as `JSON has no object`.

    Returns:
        `{"not_recorded": why, "text": short text of the output}`.
    """
    return {"not_recorded": why, "text": format_value(output)}


class EffectStatus(msgspec.Struct, frozen=True):
    """The state of one effect.

    Attributes:
        key: Key of the effect.
        kind: Kind of effect; empty if its record was compacted away.
        state: `open`, `started` and `in_doubt` are not settled; `dead` was given up, or its outcome
            was refused by a domain's `on_settle`; `failed` was reported as not done by its handler,
            or by a person.
        agent_id: Agent of the intent that emitted it.
        payload: Data for the executor.
        why: Failure of the last attempt, the reason of the doubt, or what `on_settle` raised;
            empty before that.
        outcome: `{succeeded, output}` of an effect whose `on_settle` raised; it can be settled
            again. Else None.
    """

    key: EffectKey
    kind: str
    state: EffectState
    agent_id: str
    payload: dict[str, Json]
    why: Json = ""
    outcome: Json = None

    def as_dict(self) -> dict[str, Json]:
        """Return plain JSON, with the key as text."""
        return {**msgspec.to_builtins(self), "key": str(self.key)}


class DoNotRetry(PlacetError):  # noqa: N818  # an instruction, as `StopIteration` is
    """Raised by a handler if another attempt would fail too; the effect is given up."""


class RetryAfter(PlacetError):  # noqa: N818  # an instruction, as `StopIteration` is
    """Raised by a handler to set the pause before the next attempt.

    Attributes:
        seconds: The pause, which replaces the back-off; 0 to 1e9.
    """

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"asked to come again in {seconds:g} s")
        if not 0 <= seconds <= _SECONDS_MAX:
            raise ValueError(f"seconds must be in 0..{_SECONDS_MAX:g}, got {seconds!r}")
        self.seconds = seconds


class OutcomeUnknown(PlacetError):  # noqa: N818  # names the state of the effect
    """Raised by a handler if it is unknown whether the work was done, as after a lost connection.

    An `at_most_once` effect is then in doubt; any other is retried.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between the attempts at an effect: `first_s`, times `factor` each, up to `max_s`.

    Attributes:
        first_s: Before the second attempt, seconds.
        factor: Factor between one pause and the next.
        max_s: Longest pause, seconds.
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
            attempt: Number of the failed attempt, from 1.
            chance: Uniform in [0, 1).
        """
        longest = self.first_s
        for _ in range(attempt - 1):
            if longest >= self.max_s:
                break
            longest *= self.factor
        return min(longest, self.max_s) * (1 - self.jitter * chance)
