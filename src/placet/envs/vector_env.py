"""Several worlds of one population each, as one vector environment of gymnasium.

A slot of the vector is a member: world 0 has the slots `0..n-1`, world 1 the next n, and so on, as
PufferLib lays out environments of several agents. It suits a learner with one policy for all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import vector
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from placet.envs.array_checks import checked_actions
from placet.envs.array_env import ArrayEnv
from placet.envs.episodes import drawn_seed
from placet.envs.parallel_env import Array
from placet.envs.rendering import RENDER_FPS, RENDER_MODES
from placet.kernel.prng import mix64
from placet.schemas.keywords import explain_keywords


@explain_keywords
class VectorEnv(vector.VectorEnv[Array, Array, Array]):
    """N independent worlds of n members each: a vector environment of N * n slots.

        def one_world() -> ArrayEnv:
            return ArrayEnv(Line, Walk(), "walkers", 10, table="line.walkers", max_steps=20)

        env = VectorEnv(one_world, worlds=4)
        observations, infos = env.reset(seed=1)
        actions = env.action_space.sample()
        observations, rewards, terminations, truncations, infos = env.step(actions)

    World i has the episodes of an `ArrayEnv` that is reset with the seed `mix64(seed, i)`.

    The members of one world begin and end an episode together: a world is reset when all of its
    members are terminated or truncated. A member that is terminated before waits: its slot stays
    terminated, with reward 0, and `infos["mask"]` is False. A learner leaves such slots out.

    Args:
        make_env: Creates the environment of one world; called once for each.
        worlds: Number of worlds.
        autoreset_mode: As of `ArrayEnv`; gymnasium's default is `NEXT_STEP`.

    `infos` has arrays with an item for each slot: `mask` and `code` (the `masks` and `codes` of
    `ArrayEnv`), `action_mask` where the adapter has masks, and with `SAME_STEP`, in a step in which
    a world began its next episode, `final_obs` and `_final_obs` (whether the slot has one). In a
    step in which the episode of a slot ended, `episode` has its return `r` and its length `l`, and
    `_episode` is True for such slots: gymnasium's RecordEpisodeStatistics, which counts the steps
    of waiting slots as episodes, refuses an environment that has these.

    Attributes:
        worlds: The environment of each world.
        code_names: Name of each code.

    Raises:
        ValueError: The worlds differ in size or spaces, or an argument does not fit.
    """

    def __init__(
        self,
        make_env: Callable[[], ArrayEnv],
        worlds: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        if not callable(make_env):
            raise ValueError(
                "make_env must be a function without arguments that returns an ArrayEnv, "
                f"got {make_env!r:.80}"
            )
        if type(worlds) is not int or worlds < 1:
            raise ValueError(f"worlds must be an int of at least 1, got {worlds!r}")
        mode = AutoresetMode(autoreset_mode)
        self.metadata = {
            "autoreset_mode": mode,
            "render_modes": list(RENDER_MODES),
            "render_fps": RENDER_FPS,
        }
        self.worlds: Sequence[ArrayEnv] = [make_env() for _ in range(worlds)]
        first = self.worlds[0]
        for env in self.worlds:
            _require_same(env, first)
            env.autoreset_mode = mode
            env.code_names = first.code_names  # one numbering for all
        self.render_mode = first.render_mode
        self.num_envs = worlds * first.num_agents
        self.single_observation_space = first.single_observation_space
        self.single_action_space = first.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._has_ended = np.zeros(self.num_envs, np.bool_)

    @property
    def code_names(self) -> list[str]:
        """Name of each code of `infos["code"]`."""
        return self.worlds[0].code_names

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode in each world.

        Args:
            seed: The same seed and the same actions give the same episodes. None starts the next
                ones in each world; the first seed is drawn by the system.
            options: `reset_mask`, booleans of all slots: the worlds to reset; the others continue.

        Raises:
            ValueError: The mask has a part of a world, or another shape.
        """
        if seed is None and self.worlds[0].np_random_seed is None:
            seed = drawn_seed()
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask")
        chosen = self._worlds_of(mask) if mask is not None else range(len(self.worlds))
        for number in chosen:
            self.worlds[number].reset(None if seed is None else mix64(seed, number))
        self._begin_episodes(np.isin(np.arange(len(self.worlds)), chosen))
        return self._joined("observations"), self._infos()

    def step(self, actions: object) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Step every world; as `ArrayEnv.step`.

        Returns:
            Observations, rewards, terminations, truncations and infos of all slots; new arrays.

        Raises:
            Exception: A rule or a hook raised it; the step of its world is undone, and the worlds
                before it have done theirs.
            ValueError: The actions are not within their space, or a world's episode has ended.
        """
        given = checked_actions(self.single_action_space, actions, self.num_envs)
        ended = []
        waits = self._has_ended.reshape(len(self.worlds), -1)
        is_between = np.logical_and.reduce(waits, axis=1)
        if is_between.any() and self.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            raise ValueError(_unreset(np.flatnonzero(is_between).tolist()))
        for env, part in zip(self.worlds, np.split(given, len(self.worlds)), strict=True):
            last = env.final_observations
            env.step(part)
            ended.append(env.final_observations is not last)
        infos = self._infos()
        if any(ended) and self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            infos |= self._finals(ended)
        results = map(self._joined, ("observations", "rewards", "terminals", "truncations"))
        observations, rewards, terminations, truncations = results
        self._begin_episodes(is_between)  # this step began their next episodes
        is_step = ~self._has_ended & ~np.repeat(is_between, self.worlds[0].num_agents)
        self._returns += np.where(is_step, rewards, 0)
        self._lengths += is_step
        ends = is_step & (terminations | truncations)
        if ends.any():
            statistics = (self._returns, self._lengths)
            infos["episode"] = {
                name: np.where(ends, values, 0)
                for name, values in zip("rl", statistics, strict=True)
            }
            infos["_episode"] = ends
        self._has_ended |= ends
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            self._begin_episodes(np.array(ended))
        return observations, rewards, terminations, truncations, infos

    def render(self) -> tuple[Array, ...] | None:
        """Return the picture of each world, with `rgb_array`; None where nothing is drawn."""
        pictures = [world.render() for world in self.worlds]
        drawn = tuple(one for one in pictures if one is not None)
        return drawn or None

    def close(self, **options: Any) -> None:  # noqa: ANN401  # as gymnasium's
        """Close the windows and the logs of the worlds."""
        for world in self.worlds:
            world.close()
        super().close(**options)

    def _begin_episodes(self, worlds: Array) -> None:
        """Count from 0 in the slots of worlds, booleans of all."""
        slots = np.repeat(worlds, self.worlds[0].num_agents)
        self._returns[slots] = self._lengths[slots] = 0
        self._has_ended[slots] = False

    def _joined(self, name: str) -> Array:
        return np.concatenate([getattr(env, name) for env in self.worlds])

    def _infos(self) -> dict[str, Any]:
        infos = {"mask": self._joined("masks"), "code": self._joined("codes")}
        if self.worlds[0].action_masks is not None:
            infos["action_mask"] = self._joined("action_masks")
        return infos

    def _finals(self, ended: Sequence[bool]) -> dict[str, Any]:
        """Return the last observations of the worlds that ended, 0 for the other slots."""
        parts = [
            np.zeros_like(env.observations)
            if env.final_observations is None or not is_over
            else env.final_observations
            for env, is_over in zip(self.worlds, ended, strict=True)
        ]
        has_one = np.repeat(np.array(ended), self.worlds[0].num_agents)
        return {"final_obs": np.concatenate(parts), "_final_obs": has_one}

    def _worlds_of(self, mask: object) -> Sequence[int]:
        given = np.asarray(mask)
        if given.shape != (self.num_envs,) or given.dtype != np.bool_:
            raise ValueError(
                f"reset_mask must be booleans of shape ({self.num_envs},), "
                f"got {given.dtype} of shape {given.shape}"
            )
        by_world = given.reshape(len(self.worlds), -1)
        in_part = by_world.any(axis=1) & ~by_world.all(axis=1)
        if in_part.any():
            raise ValueError(
                f"reset_mask has a part of the members of world {int(in_part.argmax())}; members "
                "of one world begin an episode together"
            )
        numbers: list[int] = np.flatnonzero(by_world.all(axis=1)).tolist()
        return numbers


def _unreset(worlds: Sequence[int]) -> str:
    return (
        f"the episode of the worlds {worlds} has ended; call reset, or reset with options="
        '{"reset_mask": mask}, a mask of slots that has all members of these worlds'
    )


def _require_same(env: object, first: ArrayEnv) -> None:
    if not isinstance(env, ArrayEnv):
        raise ValueError(f"make_env() must return an ArrayEnv, got {env!r:.80}")
    own, its = (
        (e.num_agents, e.single_observation_space, e.single_action_space) for e in (env, first)
    )
    if own != its:
        raise ValueError(f"all worlds need one size and one pair of spaces, got {own} and {its}")
