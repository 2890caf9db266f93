"""Counter-based pseudo-random numbers: a draw is a pure function of its key.

Nothing is consumed and there is no generator state, so a draw can be repeated from the log, and
one rule's draws never shift another's. The key of a draw is six words: the seed, the tick, the
simulated time, the ordinal `n` of the agent's intent at that moment, the purpose and the agent.
None of them is a sequence number or a place in a list, so the same model draws the same numbers
in any order of registration.

Source: the SplitMix64 finalizer, Steele, Lea & Flood, OOPSLA 2014, applied word by word. Names are
hashed to 64 bits with blake2b. A round is plain arithmetic modulo 2**64, so arrays of unsigned
64-bit integers give the same numbers.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from struct import unpack
from typing import Final, NamedTuple

from placet.schemas.batch import sequence_form
from placet.schemas.codec import without_numpy

_MASK64: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FACTOR_1: Final = 0xBF58476D1CE4E5B9
_FACTOR_2: Final = 0x94D049BB133111EB

_PURPOSES_MAX: Final = 4_096
_AGENTS_MAX: Final = 131_072
"""Names whose keys are kept: about 150 bytes each."""

_STATES_MAX: Final = 1_024
"""States of draws that are kept."""

LANE_BYTES: Final = 16
"""Bytes of a key as `mix_lanes` takes it, little-endian: twice those of a word."""

_LANES_MAX: Final = 512
"""Keys mixed in one integer: 8 KiB, which stays in the processor's first cache."""


def mix64(*words: int) -> int:
    """Hash integers into one integer of 64 bits; of a larger integer its lowest 64 bits count."""
    state = _GOLDEN
    for word in words:
        state = mix_word(state, word)
    return state


def mix_word(state: int, word: int) -> int:
    """Return the state of `mix64` after one more word."""
    state = (state ^ word) + _GOLDEN & _MASK64
    state = (state ^ state >> 30) * _FACTOR_1 & _MASK64
    state = (state ^ state >> 27) * _FACTOR_2 & _MASK64
    return state ^ state >> 31


def mix_lanes(state: int, keys: Sequence[bytes]) -> list[int]:
    """Return `mix_word(state, key)` of many keys, at a third of the cost of one by one.

    Args:
        state: The state before the last word.
        keys: 64-bit words, each as `LANE_BYTES` bytes, little-endian.
    """
    # One integer holds all keys in lanes of 128 bits: a product of two 64-bit numbers fits into a
    # lane. A shift to the right pushes bits into the upper half of the lane below; the mask clears
    # them.
    mixed: list[int] = []
    for start in range(0, len(keys), _LANES_MAX):
        chunk = keys[start : start + _LANES_MAX]
        ones = _ones(len(chunk))
        mask = ones * _MASK64
        lanes = int.from_bytes(b"".join(chunk), "little")
        lanes = (lanes ^ ones * state) + ones * _GOLDEN & mask
        lanes = ((lanes ^ lanes >> 30) & mask) * _FACTOR_1 & mask
        lanes = ((lanes ^ lanes >> 27) & mask) * _FACTOR_2 & mask
        lanes = (lanes ^ lanes >> 31) & mask
        mixed += unpack(f"<{2 * len(chunk)}Q", lanes.to_bytes(LANE_BYTES * len(chunk), "little"))[
            ::2
        ]
    return mixed


@lru_cache(maxsize=64)
def _ones(count: int) -> int:
    """Return an integer with a 1 in each of `count` lanes."""
    return int.from_bytes((b"\1" + bytes(LANE_BYTES - 1)) * count, "little")


def name_hash(text: str) -> int:
    """Return the 64-bit hash of a name, by which purposes, agents and fields enter a mix."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


_purpose_key: Final = lru_cache(maxsize=_PURPOSES_MAX)(name_hash)


def agent_key(agent_id: str) -> int:
    """Return the 64-bit key of an agent's name.

    Names of the form `stem:number` are the hash of the stem mixed with the number, so the keys of
    a population are computed by arithmetic; every other name is hashed whole.
    """
    sequence = sequence_form(agent_id)
    if sequence is None:
        return name_hash(agent_id)
    return mix64(name_hash(sequence[0]), sequence[1])


cached_agent_key: Final = lru_cache(maxsize=_AGENTS_MAX)(agent_key)
"""`agent_key`, kept for agents that draw again."""


def draw_state(seed: int, tick: int, now_ns: int, n: int, purpose: str) -> int:
    """Return the state of a draw before its last word, the agent's key.

    Raises:
        TypeError: The purpose is no text.
    """
    if not isinstance(purpose, str):
        raise TypeError(f"the purpose of a draw is its name, such as 'way', got {purpose!r:.80}")
    return mix64(seed, tick, now_ns, n, _purpose_key(purpose))


_cached_draw_state: Final = lru_cache(maxsize=_STATES_MAX)(draw_state)
"""Agents draw for the same purpose at the same time: one mixes the state, the others look it up."""


def random_u64(seed: int, tick: int, now_ns: int, n: int, purpose: str, agent_id: str) -> int:
    """Draw 64 uniform bits.

    Args:
        seed: The world's seed.
        tick: Number of ticks before; 0 in a world that has no ticks.
        now_ns: Simulated time, nanoseconds.
        n: Number of the agent's intents admitted earlier at this tick and time.
        purpose: Name of the draw: draws of one intent with different purposes are independent.
        agent_id: Name of the agent.
    """
    state = _cached_draw_state(seed, tick, now_ns, n, purpose)
    return mix_word(state, cached_agent_key(agent_id))


def random_unit(seed: int, tick: int, now_ns: int, n: int, purpose: str, agent_id: str) -> float:
    """Draw a float in [0, 1), a multiple of 2**-53; the arguments are those of `random_u64`."""
    return unit_of(random_u64(seed, tick, now_ns, n, purpose, agent_id))


def draw_bound(bound: object, purpose: object) -> int:
    """Return the bound of a draw as an int, which may be one of numpy.

    Raises:
        TypeError: The bound is a text: bound and purpose are swapped.
    """
    if isinstance(bound, str):
        raise TypeError(
            "expected randint_below(bound, purpose), such as randint_below(4, 'way'), got "
            f"randint_below({bound!r:.80}, {purpose!r:.80})"
        )
    plain: int = bound if type(bound) is int else without_numpy(bound)
    return plain


def randint_below(  # noqa: PLR0917  # the six words of every draw, and the bound
    bound: int, seed: int, tick: int, now_ns: int, n: int, purpose: str, agent_id: str
) -> int:
    """Draw an int in 0..bound-1; the other arguments are those of `random_u64`.

    The bias is at most bound / 2**64.

    Raises:
        ValueError: The bound is below 1.
    """
    return below(bound, random_u64(seed, tick, now_ns, n, purpose, agent_id))


class MomentDraws(NamedTuple):
    """The draws for decisions of agents at a moment, before any intent: those with `n` = 0.

    Attributes:
        seed: The world's seed.
        tick: Number of completed ticks.
        now_ns: Simulated time, nanoseconds.
    """

    seed: int
    tick: int
    now_ns: int

    def random(self, purpose: str, agent_id: str) -> float:
        """Draw a float in [0, 1)."""
        return random_unit(*self, 0, purpose, agent_id)

    def randint_below(self, bound: int, purpose: str, agent_id: str) -> int:
        """Draw an int in 0..bound-1.

        Raises:
            TypeError: Bound and purpose are swapped.
            ValueError: The bound is no int of at least 1.
        """
        return randint_below(draw_bound(bound, purpose), *self, 0, purpose, agent_id)


def unit_of(bits: int) -> float:
    """Return 64 uniform bits as a float in [0, 1), a multiple of 2**-53."""
    return (bits >> 11) * 2.0**-53


def below(bound: int, bits: int) -> int:
    """Return 64 uniform bits as an int in 0..bound-1.

    Source: multiply-shift, Lemire, ACM TOMACS 29 (2019).

    Raises:
        ValueError: The bound is no int of at least 1.
    """
    if type(bound) is not int or bound < 1:
        raise ValueError(f"a draw needs a bound of at least 1, an int, got {bound!r}")
    return bits * bound >> 64
