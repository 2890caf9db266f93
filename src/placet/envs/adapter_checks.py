"""Checks of the arguments of a `WorldEnv`, and of the answers of its adapter.

A wrong argument is refused when the environment is made, a wrong answer where it is returned. A
first observation is compared with its whole space, later ones with its shape and dtype.
"""

from collections.abc import Collection, Mapping, Sequence
from math import isnan, nan
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

from placet.schemas.codec import Json
from placet.schemas.name_suggestions import did_you_mean

Array: TypeAlias = np.ndarray[Any, Any]


def require_adapter(adapter: object, port: type, methods: Sequence[str]) -> None:
    """Check that an adapter is an object of a subclass of a port, with the port's methods.

    Raises:
        ValueError: It is a class, or of another port, or lacks a method.
    """
    if isinstance(adapter, type) or port not in type(adapter).__mro__:
        hint = f"; call it: {adapter.__name__}(...)" if isinstance(adapter, type) else ""
        raise ValueError(
            f"adapter must be an object of a subclass of placet.envs.{port.__name__}, "
            f"got {adapter!r:.80}{hint}"
        )
    own = getattr(adapter, "__dict__", {})
    for method in methods:
        if method not in own and getattr(type(adapter), method) is getattr(port, method):
            raise ValueError(f"{type(adapter).__name__} must define {method}()")


def require_function(name: str, value: object, example: str) -> None:
    """Check that an argument is a function of the number of an episode.

    Raises:
        ValueError: It is none.
    """
    if not callable(value):
        raise ValueError(
            f"{name} must be a function of the number of episodes before, because each episode "
            f"has its own, such as {example}, got {value!r:.80}"
        )


def required_space(method: str, agent: str, space: object) -> Space[Any]:
    """Return a space of an adapter.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(space, Space):
        raise ValueError(
            f"{method}({agent!r}) must return a space of gymnasium.spaces, got {space!r:.80}"
        )
    return space


def given_for(value: Any, seed: int, what: str) -> Mapping[str, Any]:  # noqa: ANN401
    """Return registrations by name, or the result of a function of the seed.

    Raises:
        ValueError: They have another form.
    """
    given: Any = value(seed) if callable(value) else value
    example = (
        '{"ann": {}}' if what == "agents" else '{"birds": {"count": 9, "table": "flock.birds"}}'
    )
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{what} must map names to the keywords of their registration, such as {example}, "
            f"got {given!r:.80}"
        )
    for name, keywords in given.items():
        if not isinstance(keywords, Mapping):
            raise ValueError(
                f"{what} must map names to the keywords of their registration, such as {example}, "
                f"got {keywords!r:.80} for {name!r}"
            )
        if what == "populations" and type(keywords.get("count")) is not int:
            raise ValueError(
                f"the population {name!r} needs an int 'count', such as {example}, "
                f"got {dict(keywords)!r:.80}"
            )
    return given


def require_started(*, is_started: bool) -> None:
    """Check that there was a reset.

    Raises:
        ValueError: There was none, or the last one failed.
    """
    if not is_started:
        raise ValueError("there is no episode; call reset to start one")


def required_actions(actions: object, active: Collection[str], *, is_started: bool) -> None:
    """Check that actions are by the name of an active agent.

    Raises:
        ValueError: They are not, or there is no episode.
    """
    require_started(is_started=is_started)
    if not active:
        raise ValueError("the episode has ended; call reset to start the next")
    if not isinstance(actions, Mapping):
        raise ValueError(
            f'actions must map agents to their actions, such as {{"ann": 0}}, got {actions!r:.80}'
        )
    unknown = [agent for agent in actions if agent not in active]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not an active agent; active are {[*active]}")


def required_proposal(proposal: Mapping[str, Json], kinds: Collection[str]) -> None:
    """Check that an intent of an adapter has a kind that exists, and a payload.

    A payload that does not fit its kind is refused by the gate, as the action of an agent.

    Raises:
        ValueError: A field is missing, or the kind is unknown.
    """
    missing = [field for field in ("kind", "payload") if field not in proposal]
    if missing:
        raise ValueError(
            f'to_intent() must return {{"kind": ..., "payload": ...}}, got {proposal!r:.80} '
            f"without {missing[0]!r}"
        )
    kind = proposal["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(
            f"to_intent() returned the kind {kind!r:.80}, which the domain does not have; "
            f"{did_you_mean(kind, sorted(kinds))}"
        )


def fitting(method: str, array: Any, space: Space[Any], *, is_first: bool = True) -> Any:  # noqa: ANN401
    """Return an answer of the adapter that is to be in a space.

    Args:
        method: Name of the method that returned it.
        array: The answer.
        space: The space.
        is_first: Also check that the values are in the space; else shape and dtype alone.

    Raises:
        ValueError: It is not in the space.
    """
    if isinstance(space, Box | MultiBinary | MultiDiscrete):
        if np.shape(array) != space.shape:
            raise ValueError(
                f"{method}() must return an array of shape {space.shape}, as its space has, "
                f"got {np.shape(array)}"
            )
        if not isinstance(array, np.ndarray) or array.dtype != space.dtype:
            got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ValueError(
                f"{method}() must return an array of {space.dtype}, as its space has, got {got}; "
                f"convert it: np.asarray(..., np.{space.dtype})"
            )
        is_in = not is_first or space.contains(array)
    else:
        is_in = space.contains(array)
    if not is_in:
        raise ValueError(f"{method}() must return an element of {_line(space)}, got {_line(array)}")
    return array


def required_state(adapter: Any, space: Space[Any] | None, world: object) -> Array:  # noqa: ANN401
    """Return the state that an adapter makes of a world.

    Args:
        adapter: The adapter, of either form.
        space: Its `state_space()`; None if it has no state.
        world: The argument of its `state`.

    Raises:
        NotImplementedError: It has no state.
        ValueError: The state has another shape than the space.
    """
    if space is None:
        raise NotImplementedError(
            f"{type(adapter).__name__} has no state; define state_space() and state(...) in the "
            "adapter"
        )
    state: Array = fitting("state", adapter.state(world), space)
    return state


def _line(value: object) -> str:
    return " ".join(repr(value).split())[:200]


def required_number(method: str, agent: str, value: object) -> float:
    """Return a number of the adapter as a float.

    Raises:
        ValueError: It is no number, or NaN.
    """
    given: Any = value
    try:
        number = nan if isinstance(value, str) else float(given)
    except (TypeError, ValueError):
        number = nan
    if isnan(number):
        raise ValueError(f"{method}() must return a number for {agent!r}, got {value!r:.80}")
    return number


def required_bool(method: str, agent: str, value: object) -> bool:
    """Return whether the adapter answered True.

    Raises:
        ValueError: The answer is no truth value.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{method}() must return True or False for {agent!r}, got {value!r:.80}")
    return bool(value)


def mask_of(mask: object, space: Space[Any]) -> Array:
    """Return an action mask as int8.

    Raises:
        ValueError: It has another number of items than actions, or other items than truth values.
    """
    given = np.asarray(mask)
    if isinstance(space, Discrete) and given.shape != (space.n,):
        raise ValueError(
            f"action_mask() must return one item for each of {space.n} actions, "
            f"got an array of shape {given.shape}"
        )
    if given.dtype.kind not in "biu" or not ((given == 0) | (given == 1)).all():
        raise ValueError(f"action_mask() must return booleans, or 0 and 1, got {mask!r:.80}")
    return given.astype(np.int8)
