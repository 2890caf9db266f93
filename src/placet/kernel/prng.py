"""Counter-based pseudo-random numbers: a draw is a pure function of its key.

Nothing is consumed and there is no generator state, so a draw can be repeated from the log, and
one rule's draws never shift another's.
"""

from hashlib import blake2b
from typing import Final

_MASK64: Final = (1 << 64) - 1


def mix64(*words: int) -> int:
    """Hash integers into one integer of 64 bits.

    Source: the SplitMix64 finalizer, Steele, Lea & Flood, OOPSLA 2014, applied word by word.
    """
    state = 0x9E3779B97F4A7C15
    for word in words:
        state = (state ^ word) + 0x9E3779B97F4A7C15 & _MASK64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK64
        state ^= state >> 31
    return state


def random_u64(seed: int, seq: int, agent_id: str, purpose: str) -> int:
    """Draw 64 uniform bits from a seed, a seq, an agent and a purpose."""
    key = f"{seed}\x00{seq}\x00{agent_id}\x00{purpose}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


def random_unit(seed: int, seq: int, agent_id: str, purpose: str) -> float:
    """Draw a float in [0, 1), a multiple of 2**-53."""
    return (random_u64(seed, seq, agent_id, purpose) >> 11) * 2.0**-53


def randint_below(bound: int, seed: int, seq: int, agent_id: str, purpose: str) -> int:
    """Draw an int in 0..bound-1; the bias is at most bound / 2**64.

    Source: multiply-shift, Lemire, ACM TOMACS 29 (2019).
    """
    if bound < 1:
        raise ValueError(f"a draw needs a bound >= 1, got {bound}")
    return random_u64(seed, seq, agent_id, purpose) * bound >> 64
