"""Checks of the arrays that enter an `ArrayEnv`: actions of a learner, answers of an adapter."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from placet.envs.parallel_env import Array
from placet.kernel.arrays.values import as_array
from placet.schemas.name_suggestions import did_you_mean


def require_spaces(observation: object, action: object) -> None:
    """Check that the spaces of an adapter can be kept as arrays.

    Raises:
        ValueError: One cannot.
    """
    if not isinstance(observation, Box):
        raise ValueError(f"observation_space() must return a Box, got {observation!r:.80}")
    if not isinstance(action, Discrete | Box) and not _is_flat(action):
        raise ValueError(
            "action_space() must return a Discrete, a MultiDiscrete of one axis or a Box, "
            f"got {action!r:.80}"
        )


def _is_flat(space: object) -> bool:
    return isinstance(space, MultiDiscrete) and space.nvec.ndim == 1


def new_arrays(
    observation: Space[Any], action: Space[Any], count: int, given: Mapping[str, Array] | None
) -> dict[str, Array]:
    """Return the arrays of an environment: the given ones, or new ones of zeros.

    Raises:
        ValueError: A given array is missing, or its shape or dtype does not fit.
    """
    # As PufferLib: discrete actions are i4 whatever the space says.
    acted = action.dtype if isinstance(action, Box) else np.dtype(np.int32)
    wanted = {
        "observations": (observation.shape, observation.dtype),
        "rewards": ((), np.dtype(np.float32)),
        **dict.fromkeys(("terminals", "truncations", "masks"), ((), np.dtype(np.bool_))),
        "actions": (action.shape, acted),
    }
    if given is None:
        return {n: np.zeros((count, *(shape or ())), dtype) for n, (shape, dtype) in wanted.items()}
    for name, (shape, dtype) in wanted.items():
        if name not in given:
            raise ValueError(f"buf lacks the array {name!r}; {did_you_mean(name, given)}")
        array: Any = given[name]
        whole = count, *(shape or ())
        if not isinstance(array, np.ndarray) or (array.shape, array.dtype) != (whole, dtype):
            got = f"{getattr(array, 'dtype', type(array).__name__)} of shape {np.shape(array)}"
            raise ValueError(f"{name} of buf must be {dtype} of shape {whole}, got {got}")
    return {name: given[name] for name in wanted}


def checked_actions(space: Space[Any], actions: object, count: int) -> Array:
    """Return the actions of all members as an array, each within the space.

    Raises:
        ValueError: Shape or dtype does not fit, or an action is outside of the space.
    """
    given = as_array("actions", actions)
    wanted = (count, *(space.shape or ()))
    if given.shape != wanted:
        raise ValueError(
            f"actions must be an array of shape {wanted}, one for each of {count} members, "
            f"got {given.shape}"
        )
    is_box = isinstance(space, Box)
    if given.dtype.kind not in ("iuf" if is_box else "iu"):
        numbers = "numbers" if is_box else "integers"
        raise ValueError(f"actions must be {numbers} within {space}, got {given.dtype}")
    low, high = _bounds_of(space)
    fits = (given >= low) & (given <= high)  # false where an action is NaN
    if not fits.all():
        row = int(np.argwhere(~fits)[0][0])
        raise ValueError(
            f"actions must be within {space}, got {given[row].tolist()!r:.80} of member {row}"
        )
    return given


def _bounds_of(space: Any) -> tuple[Any, Any]:  # noqa: ANN401  # spaces without a common base
    if isinstance(space, Discrete):
        return space.start, space.start + space.n - 1
    if isinstance(space, MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return space.low, space.high


def checked_answer(method: str, given: object, shape: tuple[int, ...], dtype: Any) -> Array:  # noqa: ANN401
    """Return an array that a method of an adapter returned.

    Raises:
        ValueError: Its shape or dtype does not fit, or a number of it is NaN.
    """
    array = as_array(f"{method}()", given)
    if array.shape != shape:
        raise ValueError(f"{method}() must return an array of shape {shape}, got {array.shape}")
    is_fitting = array.dtype.kind in "biuf" and np.can_cast(array.dtype, dtype, "same_kind")
    if not is_fitting:
        raise ValueError(f"{method}() must return {np.dtype(dtype)}, got {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        row = int(np.argwhere(np.isnan(array))[0][0])
        raise ValueError(f"{method}() must return numbers, got NaN for member {row}")
    return array


def mask_width(space: Any) -> int:  # noqa: ANN401  # spaces without a common base
    """Return the number of columns of action masks.

    Raises:
        ValueError: Actions of the space have no masks.
    """
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, MultiDiscrete):
        return int(space.nvec.sum())
    raise ValueError(f"action_masks() must return None for actions of {space}")
