"""The numbers of `kernel/prng.py` on arrays, and the sums that digests are made of.

All arrays are of unsigned 64-bit integers, whose arithmetic is modulo 2**64 as that of `prng.py`.
"""

from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placet.kernel.prng import mix64, name_hash

U64: Final = np.uint64
Words: TypeAlias = NDArray[np.uint64]
Array: TypeAlias = NDArray[Any]
"""An array of numbers, of any dtype of a field."""

SEGMENT: Final = 8_192
"""Rows that are hashed at once: their words stay in the processor's second cache."""

_GOLDEN, _FACTOR_1, _FACTOR_2 = (
    U64(0x9E3779B97F4A7C15),
    U64(0xBF58476D1CE4E5B9),
    U64(0x94D049BB133111EB),
)
_11, _27, _29, _30, _31, _32 = map(U64, (11, 27, 29, 30, 31, 32))
_LOW_HALF: Final = U64(0xFFFFFFFF)
_MASK64: Final = (1 << 64) - 1


def mix_array(state: int | Words, words: Words) -> Words:
    """Return `prng.mix_word(state, word)` of each word."""
    mixed: Words = words ^ (U64(state) if isinstance(state, int) else state)
    _mix_in_place(mixed, np.empty_like(mixed))
    return mixed


def _mix_in_place(mixed: Words, shifted: Words) -> None:
    """Finish a round of SplitMix on words that have their state; `shifted` is a buffer."""
    mixed += _GOLDEN
    np.right_shift(mixed, _30, out=shifted)
    mixed ^= shifted
    mixed *= _FACTOR_1
    np.right_shift(mixed, _27, out=shifted)
    mixed ^= shifted
    mixed *= _FACTOR_2
    np.right_shift(mixed, _31, out=shifted)
    mixed ^= shifted


# Factors without a pattern: by 1, 3, 5, ... the contents [2, 0, 3, 5] and [0, 8, 0, 4] were alike.
_FACTORS: Final = mix_array(0, np.arange(SEGMENT, dtype=U64)) | U64(1)


def row_keys(stem: str, count: int) -> Words:
    """Return `prng.agent_key` of `stem:0` to `stem:<count - 1>`."""
    return mix_array(mix64(name_hash(stem)), np.arange(count, dtype=U64))


def unit_array(bits: Words) -> NDArray[np.float64]:
    """Return `prng.unit_of` of each word."""
    return (bits >> _11).astype(np.float64) * 2.0**-53


def below_array(bound: int, bits: Words) -> NDArray[np.int64]:
    """Return `prng.below` of each word, for a bound up to 2**32."""
    # The product needs 96 bits: it is made of two products of halves, whose carry is kept.
    wide = U64(bound)
    low = (bits & _LOW_HALF) * wide >> _32
    return ((bits >> _32) * wide + low >> _32).astype(np.int64)


def put_rows(column: Array, rows: NDArray[np.int64], values: Array) -> None:
    """Set rows of a column, each to its own value of the same dtype.

    A row of several numbers is copied as one item: numpy's assignment to rows of an array of two
    dimensions takes four times as long.
    """
    if column.ndim > 1 and column.flags.c_contiguous:
        column, values = _items(column), _items(np.ascontiguousarray(values, column.dtype))
    column[rows] = values


def _items(column: Array) -> Array:
    """View each row of a contiguous column as one item."""
    components = prod(column.shape[1:])
    flat = column.reshape(len(column), components)
    return flat.view(f"V{components * column.itemsize}").reshape(len(column))


def words_of(column: Array) -> Words:
    """Return the numbers of a column as `(rows, components)` words, whatever their dtype.

    A float is the bits of its double, an integer those of its 64-bit value. So a field keeps its
    digest when its dtype becomes wider.
    """
    flat = column.reshape(len(column), -1)
    wide = (
        np.float64 if flat.dtype.kind == "f" else np.uint64 if flat.dtype.kind == "u" else np.int64
    )
    return np.ascontiguousarray(flat, dtype=wide).view(U64)


def buffers() -> tuple[Words, Words]:
    """Return buffers for `summed_hash`; each digest has its own, because threads make others."""
    return np.empty(SEGMENT, U64), np.empty(SEGMENT, U64)


def summed_hash(keys: Words, words: Words, salt: int, used: tuple[Words, Words]) -> int:
    """Return the sum over rows of 128 bits that depend on the row's key, a salt and the row's word.

    At most `SEGMENT` rows. The first 64 bits are a round of SplitMix, the last another finalizer
    over them. The sums are exact, because a sum that lost its carries would depend on the split.
    """
    mixed, shifted = used[0][: len(keys)], used[1][: len(keys)]
    np.bitwise_xor(keys, U64(salt), out=mixed)
    mixed += words
    _mix_in_place(mixed, shifted)
    first = _exact_sum(mixed, shifted)
    mixed ^= keys
    mixed *= _FACTOR_1
    np.right_shift(mixed, _29, out=shifted)
    mixed ^= shifted
    mixed *= _FACTOR_2
    np.right_shift(mixed, _32, out=shifted)
    mixed ^= shifted
    return (first << 64) + _exact_sum(mixed, shifted)


def _exact_sum(words: Words, buffer: Words) -> int:
    """Return the sum of words as an int; the buffer has their length, and is overwritten."""
    np.right_shift(words, _32, out=buffer)
    high = int(buffer.sum())
    np.bitwise_and(words, _LOW_HALF, out=buffer)
    return (high << 32) + int(buffer.sum())


def content_hash(array: Array) -> int:
    """Return 64 bits of an array's bytes: enough to know a retry by, and no protection."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    tail = len(data) % 8
    total = int.from_bytes(data[len(data) - tail :].tobytes(), "little")
    words = data[: len(data) - tail].view(U64)
    for start in range(0, len(words), SEGMENT):
        part = words[start : start + SEGMENT]
        total = total * int(_GOLDEN) + int(part.dot(_FACTORS[: len(part)])) & _MASK64
    return total
