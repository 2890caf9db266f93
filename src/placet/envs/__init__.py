"""Worlds as environments for reinforcement learning (extra `gym`).

`WorldEnv` is PettingZoo's `ParallelEnv` over any world, `ArrayEnv` a population that acts by
arrays, and `VectorEnv` several such worlds as one vector environment of gymnasium. The import
registers `placet/Grid-v0` with gymnasium.
"""

try:
    import gymnasium
    import numpy as np  # noqa: F401  # without it the modules below fail one by one
    import pettingzoo  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        "placet.envs needs the extra 'gym': pip install '.[gym]' in a clone of placet"
    ) from error

from placet.envs.array_adapter import ArrayAdapter
from placet.envs.array_env import ArrayEnv
from placet.envs.intent_warnings import IntentWarning
from placet.envs.parallel_env import EnvAdapter, WorldEnv
from placet.envs.single_agent_env import SingleAgentEnv
from placet.envs.vector_env import VectorEnv

gymnasium.register("placet/Grid-v0", entry_point="placet.envs.grid:single_grid_env")

__all__ = [
    "ArrayAdapter",
    "ArrayEnv",
    "EnvAdapter",
    "IntentWarning",
    "SingleAgentEnv",
    "VectorEnv",
    "WorldEnv",
]
