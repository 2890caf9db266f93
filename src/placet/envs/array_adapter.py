"""The port between a population and an `ArrayEnv`: spaces, actions, observations and rewards."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box, Space

from placet.envs.parallel_env import Array
from placet.envs.rendering import MapGround
from placet.scenarios.population_view import PopulationView, Some


class ArrayAdapter(MapGround, Protocol):
    """Maps a population to an environment of arrays with an item for each member.

    Subclass it; `is_done`, `action_masks`, `state_space` and `state` have a default. Every method
    is a function of its arguments. The arrays of a view are read-only and are the present ones of
    the world. Its attributes `map_frame`, `map_cell`, `map_goals` and `map_blocked` are the ground
    of a drawn map: those of `MapGround`.
    """

    def observation_space(self) -> Box:
        """Return the space of one member's observations; called once."""

    def action_space(self) -> Space[Any]:
        """Return the space of one member's actions: `Discrete`, `MultiDiscrete` or `Box`.

        It is called once.
        """

    def to_payload(
        self, actions: Array, view: PopulationView
    ) -> Mapping[str, Mapping[str, object] | Some]:
        """Return by kind the payload arrays of all members, or `view.only(...)` of some.

        A policy of the population in a `Simulation` returns the same. A member without a row in any
        part proposes nothing. The environment leaves out the rows of members that are terminated
        or suspended.

        Args:
            actions: Action of each member, `(members, *action_space.shape)`.
            view: The population before the step.
        """

    def observe(self, view: PopulationView) -> Array:
        """Return the observation of each member, `(members, *observation_space.shape)`."""

    def reward(self, before: Mapping[str, Array], after: PopulationView) -> Array:
        """Return the reward of each member for a step, `(members,)`.

        Args:
            before: The columns of the population before the step.
            after: The population after it.
        """

    def is_done(self, view: PopulationView) -> Array:
        """Return whether each member is terminated, `(members,)` of booleans."""
        return np.zeros(view.count, np.bool_)

    def action_masks(self, view: PopulationView) -> Array | None:
        """Return which actions each member may choose, `(members, actions)` of booleans.

        For `MultiDiscrete` the columns are those of its parts, one after another. None stands
        for no masks; an adapter returns None always or never.
        """
        return None

    def state_space(self) -> Space[Any] | None:
        """Return the space of `state`; None if there is no state. It is called once."""
        return None

    def state(self, view: PopulationView) -> Array | None:
        """Return the state of the whole world, for a critic that sees more than the members."""
        return None
