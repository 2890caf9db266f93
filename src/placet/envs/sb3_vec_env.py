"""Worlds of populations as a `VecEnv` of stable-baselines3: one policy for all members.

The package is no dependency of placet: the class can be imported without it, and not created.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode

from placet.envs.array_env import ArrayEnv
from placet.envs.parallel_env import Array
from placet.envs.vector_env import VectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError:
    VecEnv = object

_Slots: TypeAlias = int | Iterable[int] | None


class Sb3VecEnv(VecEnv):  # type: ignore[misc]  # of a package without annotations here
    """The slots of a `VectorEnv` as the copies of a `VecEnv`, for stable-baselines3.

    All members of a world end an episode together, when the last of them is done or the steps are
    over. A member that is done before waits with a reward of 0, because a `VecEnv` has no masks.
    `env_method("action_masks")` returns the masks of the adapter, which MaskablePPO asks for.

    Args:
        vector: The worlds, with `autoreset_mode="SameStep"`; the environment steps and closes them.

    Raises:
        ImportError: stable-baselines3 is not installed.
        ValueError: The worlds have another mode of reset.
    """

    def __init__(self, vector: VectorEnv) -> None:
        if VecEnv is object:
            raise ImportError("Sb3VecEnv needs stable-baselines3: pip install stable-baselines3")
        mode = vector.metadata["autoreset_mode"]
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"a VecEnv resets in the step that ends an episode, and the worlds have {mode}: "
                'create them with VectorEnv(..., autoreset_mode="SameStep")'
            )
        self.vector = vector
        self._infos: dict[str, Any] = {}
        self._actions: Array = np.zeros(0)
        space, actions = vector.single_observation_space, vector.single_action_space
        super().__init__(vector.num_envs, space, actions)

    def reset(self) -> Array:
        """Start an episode in each world; without `seed` see `vector.np_random_seed`."""
        observations, self._infos = self.vector.reset(seed=self._seeds[0])
        self._reset_seeds()
        return observations

    def step_async(self, actions: Array) -> None:
        """Keep the actions of the next step."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Step every world, and return observations, rewards, ends and infos of all slots."""
        observations, rewards, _, truncations, found = self.vector.step(self._actions)
        self._infos = found
        ends = found.get("_final_obs", np.zeros(self.num_envs, np.bool_))
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for slot in np.flatnonzero(ends).tolist():
            infos[slot]["terminal_observation"] = found["final_obs"][slot]
            infos[slot]["TimeLimit.truncated"] = bool(truncations[slot])
        return observations, rewards, ends, infos

    def close(self) -> None:
        """Close the worlds."""
        self.vector.close()

    def env_method(
        self, method_name: str, *args: object, indices: _Slots = None, **options: object
    ) -> list[Any]:
        """Return the mask of actions of each slot, or draw the worlds; there are no other methods.

        Raises:
            AttributeError: The method is another, or the adapter has no masks.
        """
        if method_name == "render":  # called by VecEnv.render with the mode `human`
            pictures = [world.render() for world in self.vector.worlds]
            return [pictures[self._world_of(slot)] for slot in self._get_indices(indices)]
        if method_name != "action_masks" or "action_mask" not in self._infos:
            raise AttributeError(
                f"the slots have no method {method_name!r}: they are members of "
                "`env.vector.worlds`, and have `render`, and `action_masks` if it has masks"
            )
        return [self._infos["action_mask"][slot] for slot in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: _Slots = None) -> list[Any]:
        """Return an attribute of the world of each slot, or the masks of the slots."""
        if attr_name == "action_masks":
            return self.env_method(attr_name, indices=indices)
        return [getattr(world, attr_name) for world in self._worlds(indices)]

    def get_images(self) -> Sequence[Array | None]:
        """Return the picture of each world; `render` returns them as one, in rows."""
        return [world.render() for world in self.vector.worlds]

    def set_attr(self, attr_name: str, value: object, indices: _Slots = None) -> None:
        """Set an attribute of the worlds of some slots."""
        for world in self._worlds(indices):
            setattr(world, attr_name, value)

    def env_is_wrapped(self, wrapper_class: type, indices: _Slots = None) -> list[bool]:
        """Return False for each slot: members have no wrappers."""
        return [False for _ in self._get_indices(indices)]

    def _worlds(self, indices: _Slots) -> Iterator[ArrayEnv]:
        worlds = self.vector.worlds
        return (worlds[self._world_of(slot)] for slot in self._get_indices(indices))

    def _world_of(self, slot: int) -> int:
        return slot // self.vector.worlds[0].num_agents
