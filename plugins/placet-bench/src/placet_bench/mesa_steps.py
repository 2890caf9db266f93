"""The step in Mesa, without placet: it checks nothing and keeps no log.

Source: the introductory tutorial of Mesa 3 (`Agent`, `shuffle_do`, `DataCollector`).
"""

from typing import Final

try:
    import mesa
    from mesa.datacollection import DataCollector
except ModuleNotFoundError as error:
    raise ImportError(
        "Mesa is not installed, so it is not in the comparison: pip install 'mesa==3.3.1', "
        "or the dependency group `peers` of the repository"
    ) from error

from placet_bench.stepping import DEPTH, DIRECTIONS, WIDTH, Stepper

STEPS_COLLECTED: Final = 100
"""A collected model is made anew after so many steps, because its tables grow."""


class _Setter(mesa.Agent):
    """An agent with a position, which is one attribute."""

    position = (0, 0)

    def step(self) -> None:
        self.position = (self.model.steps % WIDTH, self.unique_id % DEPTH)


class _Walker(_Setter):
    """An agent that draws the direction of a step from its cell to the next, and moves there."""

    def step(self) -> None:
        x, y = self.position
        dx, dy = self.random.choice(DIRECTIONS)
        self.position = ((x + dx) % WIDTH, (y + dy) % DEPTH)


class _Model(mesa.Model):
    """Activates all agents in random order; collects every position after a step, if asked to."""

    def __init__(self, agents: int, agent: type[mesa.Agent], *, is_collected: bool) -> None:
        super().__init__(seed=1)
        agent.create_agents(self, agents)
        reporters = {"position": "position"}
        self._collector = (
            DataCollector(agent_reporters=reporters)  # type: ignore[no-untyped-call]  # Mesa's
            if is_collected
            else None
        )

    def step(self) -> None:
        self.agents.shuffle_do("step")
        if self._collector is not None:
            self._collector.collect(self)  # type: ignore[no-untyped-call]  # Mesa's


class MesaStep(Stepper):
    """A Mesa model in which every agent moves once in each step.

    Args:
        name: Name of the row in the table.
        agents: Number of agents.
        draws: Each agent draws its direction; else it sets its position without looking.
        is_collected: A `DataCollector` takes every position after each step.
    """

    def __init__(
        self, name: str, agents: int, *, draws: bool = True, is_collected: bool = False
    ) -> None:
        super().__init__(name, agents)
        self._agent = _Walker if draws else _Setter
        self._is_collected = is_collected
        self._model = self._make()

    def _make(self) -> _Model:
        return _Model(self.agents, self._agent, is_collected=self._is_collected)

    async def prepare(self) -> None:
        """Make the model anew before its tables take much memory."""
        if self._model.steps >= STEPS_COLLECTED:
            self._model = self._make()

    async def step(self, inputs: None) -> None:
        """Run one step of the model."""
        self._model.step()
