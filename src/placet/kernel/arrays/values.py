"""Arrays of a user checked against a `Field`, and values of one row as JSON."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.field import Field
from placet.kernel.arrays.words import Array
from placet.schemas.codec import Json

Mask = NDArray[np.bool_]

_EXACT: Final = "iub"
"""Kinds of dtype whose numbers are integers."""


def fitted(what: str, field: Field, values: object, count: int) -> Array:
    """Return values as a contiguous array of a field, of `count` rows.

    Args:
        what: Name of the values in messages, such as `position of population 'birds'`.
        field: The field.
        values: Array, or nested sequence, of shape `(count, *field.sizes)`; an array of another
            library by DLPack or by the array protocol.
        count: Number of rows.

    Raises:
        ValueError: Shape, dtype or a number does not fit. Bounds and finiteness are not checked
            here, see `misfits`.
    """
    given = _as_array(what, values)
    wanted = (count, *field.sizes)
    if given.shape != wanted:
        raise ValueError(f"{what} must be an array of shape {wanted}, got {given.shape}")
    dtype = np.dtype(field.dtype).newbyteorder("<")
    if given.dtype == dtype:
        return np.ascontiguousarray(given)
    if given.dtype.kind not in "iubf":
        raise ValueError(f"{what} must be numbers of {field.dtype}, got {given.dtype}")
    with np.errstate(all="ignore"):
        cast = given.astype(dtype)
    if not field.is_float and (given.dtype.kind == "f" or not np.can_cast(given.dtype, dtype)):
        _require_exact(what, field, given, cast)
    return np.ascontiguousarray(cast)


def _as_array(what: str, values: object) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    try:
        if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
            return np.from_dlpack(values)
        return np.asarray(values)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ValueError(
            f"{what} must be an array of numbers, got {type(values).__name__}: {error}"
        ) from None


def _require_exact(what: str, field: Field, given: NDArray[Any], cast: NDArray[Any]) -> None:
    """Check that a cast to integers changed no number."""
    same = cast == given
    if given.dtype.kind != cast.dtype.kind:  # a comparison of i8 with u8 goes through doubles
        same &= cast.astype(given.dtype) == given
        if given.dtype.kind in _EXACT:
            same &= (given < 0) == (cast < 0)
    if not same.all():
        at = tuple(int(place) for place in np.argwhere(~same)[0])
        raise ValueError(f"{what} must fit into {field.dtype}, got {given[at]!r} in row {at[0]}")


def misfits(field: Field, values: Array) -> Mask | None:
    """Return the rows with a number that is not finite, or out of the field's bounds; None if none.

    Args:
        field: The field.
        values: Array `(rows, *field.sizes)` of its dtype.
    """
    wrong: Any = None
    if field.is_float:
        fine = np.isfinite(values)
        if not fine.all():
            wrong = ~fine
    for bound, is_out in ((field.low, np.less), (field.high, np.greater)):
        if bound is not None:
            out = is_out(values, bound)
            if out.any():
                wrong = out if wrong is None else wrong | out
    if wrong is None:
        return None
    rows: Mask = wrong.reshape(len(wrong), -1).any(axis=1)
    return rows


def required(what: str, field: Field, values: object, count: int) -> Array:
    """Return values as `fitted` does, within the field's bounds and finite.

    Raises:
        ValueError: They do not fit; the message names the first row that does not.
    """
    array = fitted(what, field, values, count)
    wrong = misfits(field, array)
    if wrong is not None:
        row = int(wrong.argmax())
        low, high = field.limits
        raise ValueError(
            f"{what} must be finite and within {low} and {high}, "
            f"got {array[row].tolist()!r} in row {row}"
        )
    return array


def cell(field: Field, value: Json, what: str) -> Array:
    """Return the JSON value of one row as an array `(1, *field.sizes)`.

    Raises:
        ValueError: It does not fit.
    """
    return required(what, field, [value], 1)


def json_of(value: Any) -> Json:  # noqa: ANN401  # a scalar or an array of numpy
    """Return the value of one row as a frozen JSON value: a number, or tuples of numbers."""
    return _frozen(value.tolist())


def _frozen(value: Json) -> Json:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
