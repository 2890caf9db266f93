"""Arrays of a user checked against a `Field`, and values of one row as JSON."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placet.kernel.arrays.field import Field, dtype_limits
from placet.kernel.arrays.words import Array
from placet.schemas.codec import Json

Mask = NDArray[np.bool_]


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
    given = as_array(what, values)
    wanted = (count, *field.sizes)
    if given.shape != wanted:
        raise ValueError(f"{what} must be an array of shape {wanted}, got {given.shape}")
    dtype = np.dtype(field.dtype).newbyteorder("<")
    if given.dtype == dtype:
        return np.ascontiguousarray(given)
    if given.dtype.kind not in "iubf":
        raise ValueError(f"{what} must be numbers of {field.dtype}, got {given.dtype}")
    if not field.is_float and not np.can_cast(given.dtype, dtype):
        _require_exact(what, field, given)
    with np.errstate(all="ignore"):  # of a float beyond f4 comes an infinity, which is no value
        return np.ascontiguousarray(given.astype(dtype))


def as_array(what: str, values: object) -> NDArray[Any]:
    """Return values as an array of numpy: the same one, or made by DLPack or the array protocol.

    Args:
        what: Name of the values in messages.
        values: An array of any library, or a nested sequence.

    Raises:
        ValueError: They are no array, or some of them are masked.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{what} has masked items; fill them, such as by values.filled(0)")
    try:
        if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
            return np.from_dlpack(values)
        return np.asarray(values)
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ValueError(
            f"{what} must be an array of numbers, got {type(values).__name__}: {error}"
        ) from None


def _require_exact(what: str, field: Field, given: NDArray[Any]) -> None:
    """Check that each number is one of the field's integers, before it is cast.

    A cast itself shows less: beyond the dtype, processors return different integers.
    """
    least, most = dtype_limits(field.dtype)
    if given.dtype.kind == "f":
        wide = given.astype(np.result_type(given.dtype, np.float64))
        fits = (wide >= float(least)) & (wide < float(most + 1)) & (np.trunc(wide) == wide)
    else:
        fits = (given >= least) & (given <= most)
    if not fits.all():
        at = tuple(int(place) for place in np.argwhere(~fits)[0])
        raise ValueError(
            f"{what} must be integers that fit into {field.dtype}, "
            f"got {given[at].item()!r} in row {at[0]}"
        )


def misfits(field: Field, values: Array) -> Mask | None:
    """Return the rows with a number that is not finite, or out of the field's bounds; None if none.

    Args:
        field: The field.
        values: Array `(rows, *field.sizes)` of its dtype.
    """
    if field.low is None and field.high is None and not field.is_float:
        return None
    low, high = field.limits
    # Two reductions find that all fit; they are false where a number is NaN.
    if not values.size or (values.min() >= low and values.max() <= high):
        return None
    fits: Any = (values >= low) & (values <= high)
    rows: Mask = ~fits.reshape(len(fits), -1).all(axis=1)
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
