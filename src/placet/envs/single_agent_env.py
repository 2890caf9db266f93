"""A world with one agent as an environment of gymnasium, the interface of single-agent learning."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from pettingzoo.utils.env import ParallelEnv

from placet.envs.parallel_env import Array, WorldEnv


class SingleAgentEnv(gymnasium.Env[Array, Any]):
    """A `WorldEnv` of one agent as a `gymnasium.Env`.

    Args:
        env: The environment; it has one agent.

    Attributes:
        env: As passed.

    Raises:
        ValueError: It is no environment of PettingZoo, or has none or several agents.
    """

    def __init__(self, env: WorldEnv) -> None:
        if not isinstance(env, ParallelEnv):
            raise ValueError(f"a SingleAgentEnv is made of a WorldEnv, got {env!r:.80}")
        if len(env.possible_agents) != 1:
            raise ValueError(
                f"a SingleAgentEnv has one agent, got {len(env.possible_agents)}: "
                f"{env.possible_agents!r:.80}; use WorldEnv"
            )
        (self._agent,) = env.possible_agents
        self.env, self.render_mode = env, env.render_mode
        self.metadata = env.metadata
        self.observation_space = env.observation_space(self._agent)
        self.action_space = env.action_space(self._agent)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode in a new world; as `WorldEnv.reset`."""
        before = self._seed_of_env()
        observations, infos = self.env.reset(seed, options)
        if seed is None and (drawn := self._seed_of_env()) != before:
            seed = drawn
        super().reset(seed=seed)
        return observations[self._agent], infos[self._agent]

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # noqa: ANN401
        """Submit the action, and advance one tick; as `WorldEnv.step`."""
        agent = self._agent
        observations, rewards, terminations, truncations, infos = self.env.step({agent: action})
        ends = terminations[agent], truncations[agent]
        return observations[agent], rewards[agent], *ends, infos[agent]

    def render(self) -> Any:  # noqa: ANN401  # as gymnasium's
        """Return the picture of the world; as `WorldEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Close the collector of the present episode, and the window."""
        self.env.close()

    def _seed_of_env(self) -> int | None:
        """Return the latest seed of the environment; one of another package has none."""
        return getattr(self.env, "np_random_seed", None)
