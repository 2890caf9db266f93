"""PettingZoo's `ParallelEnv` over any world: a step is a tick with one batch of every agent.

Needs the extra `gym`. The kernel is called synchronously, in simulated time: no event loop, no
store. The gate decides about every action: a refused one changes nothing and is reported in
`infos`. Effects that rules emit stay open in the kernel; nothing is executed or settled here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

try:
    from gymnasium.spaces import Space
    from pettingzoo.utils.env import ParallelEnv
except ModuleNotFoundError as error:
    raise ImportError(
        "placet.envs.parallel_env needs the extra 'gym': pip install 'placet[gym]'"
    ) from error

from placet.actors.observation.viewer import Viewer
from placet.kernel import Domain, Kernel, KernelConfig
from placet.kernel.prng import mix64
from placet.runtime.kernel_world import whole_step
from placet.scenarios.ticks import require_time_for
from placet.schemas.codec import Json
from placet.schemas.config import OnRuleError
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.keywords import explain_keywords
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    import numpy as np

    from placet.tables.collector import Collector

Array: TypeAlias = "np.ndarray[Any, Any]"
Registrations: TypeAlias = Mapping[str, Mapping[str, Json]]
"""Agent -> the keywords of its registration."""

MAX_STEPS: Final = 1_000
_PRIORITY: Final = 10
_OF_WORLD: Final = frozenset({"kernel", "collector", "_viewer", "_views"})
"""Attributes of an environment that a copy makes anew."""


class EnvAdapter(Protocol):
    """Maps a world to an environment: spaces, actions, observations and rewards.

    Subclass it; `is_done` has a default. Every method is a function of its arguments, and may use
    only the agent's view.

    Attributes:
        map_frame: `(left, bottom, right, top)` that a drawn map shows at least; None shows the
            entities that exist.
    """

    map_frame: tuple[float, float, float, float] | None = None

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations; called once."""

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions; called once."""

    def to_intent(self, agent: str, action: Any, view: View) -> Mapping[str, Json] | None:  # noqa: ANN401
        """Return the intent of an action, `kind` and `payload`; None proposes nothing.

        Other fields of an intent, such as `priority`, are optional; missing ones are filled in.
        """

    def observe(self, view: View, agent: str) -> Array:
        """Return the observation of an agent's view."""

    def reward(self, before: View, after: View, agent: str) -> float:
        """Return the reward of a step, from the agent's views before and after it."""

    def is_done(self, view: View, agent: str) -> bool:
        """Return whether an agent is terminated: it takes no further step in the episode."""
        return False


def collects_nothing(_episode: int) -> None:
    """Return no collector of an episode."""


RENDER_MODES: Final = ("rgb_array",)


@explain_keywords
class WorldEnv(ParallelEnv[str, Array, Any]):
    """A world as a PettingZoo parallel environment for multi-agent learning.

    Args:
        domain_factory: Creates the domain; called at every reset.
        adapter: The spaces, and the meaning of actions, observations and rewards.
        agents: Agents with the keywords of their registration, or a function of the seed that
            returns them.
        max_steps: Steps after which the episode is truncated.
        tick_s: Simulated seconds of a step.
        config: Quotas, limits and so on; its seed is used until `reset` gets one.
        render_mode: `rgb_array`: `render` draws the map of the world; None draws nothing.
        collector: Creates the collector of an episode from the number of episodes before it; None
            collects nothing. It is closed when the next episode begins, and by `close`.
        on_rule_error: `raise` the exception of a rule or a hook, whose step is undone as a whole;
            or `refuse` its batch as `rule_error`. That of `config` has no effect.

    A copy (`copy.deepcopy`, or a pickle in another process) continues the episode apart from the
    original, and collects nothing in it. A pickle needs arguments that can be pickled, so no
    lambdas.

    Attributes:
        kernel: The world of the present episode.
        render_mode: As passed.
        collector: The collector of the present episode; None collects nothing.
    """

    def __init__(
        self,
        domain_factory: Callable[[], Domain],
        adapter: EnvAdapter,
        agents: Registrations | Callable[[int], Registrations],
        *,
        max_steps: int = MAX_STEPS,
        tick_s: float = 1.0,
        config: KernelConfig | None = None,
        render_mode: str | None = None,
        collector: "Callable[[int], Collector | None]" = collects_nothing,
        on_rule_error: OnRuleError = "raise",
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps!r}")
        require_time_for(max_steps, tick_s)
        if render_mode not in {None, *RENDER_MODES}:
            raise ValueError(f"render_mode must be 'rgb_array' or None, got {render_mode!r}")
        self.metadata = {"name": "placet_v0", "render_modes": list(RENDER_MODES)}
        self.render_mode = render_mode
        self._frame = adapter.map_frame
        self._domain_factory = domain_factory
        self._adapter = adapter
        self._registrations = agents
        self._max_steps = max_steps
        self._tick_s = tick_s
        self._config = replace(config or KernelConfig(), on_rule_error=on_rule_error)
        self._seed = self._config.seed
        self._episode = -1
        self._steps = 0
        self._make_collector = collector
        self._episodes_started = 0
        self.collector: Collector | None = None
        self.possible_agents = list(self._registrations_for(self._seed))
        self.agents: list[str] = []
        self.observation_spaces = {a: adapter.observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: adapter.action_space(a) for a in self.possible_agents}
        self._views: dict[str, View] = {}
        self.kernel = self._new_kernel()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in _OF_WORLD}
        return kept | {"world": (self.kernel.config, self.kernel.snapshot())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, world = state.pop("world")
        vars(self).update(state)
        self.collector = None
        self.kernel = Kernel(self._domain_factory(), config)
        self.kernel.restore(world)
        self._viewer = Viewer(self.kernel)
        self._views = self._read_views()

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations, the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions, the same object each time."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Json]]]:
        """Start an episode in a new world.

        Args:
            seed: The same seed and the same actions give the same episode. None starts the next
                of the episodes that follow from the latest seed.
            options: Not used.

        Returns:
            The first observation of each agent by its name, and an empty info for each.

        Raises:
            PlacetError: An agent cannot be registered.
            CollectError: The rows of the last episode cannot be written.
        """
        self.close()
        self._episode += 1
        if seed is not None:
            self._seed, self._episode = int(seed), 0
        self._steps = 0
        self.agents = list(self.possible_agents)
        self.kernel = self._new_kernel()
        registrations = self._registrations_for(self.kernel.config.seed)
        for agent in self.agents:
            self.kernel.register_agent(agent, **registrations[agent])
        self.collector = self._make_collector(self._episodes_started)
        self._episodes_started += 1
        if self.collector is not None:
            self.collector.attach(self.kernel)
        self._viewer = Viewer(self.kernel)
        self._views = self._read_views()
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, Array],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Json]],
    ]:
        """Submit one intent per action, all at the same simulated time, and advance one tick.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were
            active before the step. An agent that a rule has removed is terminated.
            `infos[agent]` is empty where nothing was proposed; else it has `admitted`, with `seq`,
            or with `code`, `message` and all `refusals`.

        Raises:
            Exception: A rule or a hook raised it; the step is undone.
            ValueError: An action is outside its space, or of an agent that is not active, or the
                episode has ended.
            CollectError: A function of the collector raised, or its rows cannot be written.
        """
        self._check_actions(actions)
        before, adapter = self._views, self._adapter
        acting = [agent for agent in self.agents if agent in actions]
        intents = [self._intent(agent, actions[agent]) for agent in acting]
        batches = {a: [i] for a, i in zip(acting, intents, strict=True) if i is not None}
        decided = whole_step(self.kernel, self._tick_s, [*batches.values()])
        verdicts = dict(zip(batches, decided, strict=True))
        self._collect_refusals(batches, verdicts)
        self._steps += 1
        after = self._views = self._read_views()
        active = self.agents
        observations = self._observations()
        rewards = {a: float(adapter.reward(before[a], after[a], a)) for a in active}
        alive = self.kernel.ledger.agents
        terminations = {a: a not in alive or bool(adapter.is_done(after[a], a)) for a in active}
        truncations = dict.fromkeys(active, self._steps >= self._max_steps)
        infos = {agent: _info(verdicts.get(agent)) for agent in active}
        self.agents = [a for a in active if not (terminations[a] or truncations[a])]
        return observations, rewards, terminations, truncations, infos

    def close(self) -> None:
        """Close the collector of the present episode, so that its tables are whole.

        Raises:
            CollectError: They cannot be written, or the collecting has failed.
        """
        if self.collector is not None:
            self.collector.close()

    def render(self) -> "Array | None":
        """Return the map of the world, from above: height x width x 3, uint8.

        None if `render_mode` is None. Entities with a `position` of two or three numbers are drawn
        as the player draws them; the map widens to all positions that it has shown.
        """
        if self.render_mode is None:
            return None
        from placet.envs.map_image import draw_map  # noqa: PLC0415  # few environments are drawn

        image, self._frame = draw_map(self.kernel.state, self._frame)
        return image

    def _collect_refusals(
        self, batches: Mapping[str, Sequence[Mapping[str, Json]]], verdicts: Mapping[str, Verdict]
    ) -> None:
        if self.collector is None:
            return
        for agent, verdict in verdicts.items():
            self.collector.note(batches[agent], verdict, self._steps)
        self.collector.check()

    def _new_kernel(self) -> Kernel:
        """Create the world of an episode, seeded by the latest seed and the episode's number."""
        seed = mix64(self._seed, max(self._episode, 0))
        return Kernel(self._domain_factory(), replace(self._config, seed=seed))

    def _registrations_for(self, seed: int) -> Registrations:
        registrations = self._registrations
        return registrations(seed) if callable(registrations) else registrations

    def _check_actions(self, actions: Mapping[str, Any]) -> None:
        if not self.agents:
            raise ValueError("the episode has ended; call reset to start the next")
        unknown = sorted(set(actions) - set(self.agents))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not an active agent; active are {self.agents}")
        for agent, action in actions.items():
            space = self.action_space(agent)
            if not space.contains(action):
                raise ValueError(f"{agent!r} must act within {space}, got {action!r:.80}")

    def _read_views(self) -> dict[str, View]:
        return {agent: self._viewer.view(self.kernel, agent) for agent in self.agents}

    def _observations(self) -> dict[str, Array]:
        return {agent: self._adapter.observe(self._views[agent], agent) for agent in self.agents}

    def _intent(self, agent: str, action: Any) -> dict[str, Json] | None:  # noqa: ANN401
        view = self._views[agent]
        proposal = self._adapter.to_intent(agent, action, view)
        if proposal is None:
            return None
        return {
            "priority": _PRIORITY,
            "schema_version": SCHEMA_VERSION,
            "req_id": f"step:{self._steps}",
            "context_seq": view.view_seq,
            **proposal,
            "agent_id": agent,
        }


def _info(verdict: Verdict | None) -> dict[str, Json]:
    if verdict is None:
        return {}
    if verdict.admitted:
        return {"admitted": True, "seq": verdict.seq}
    first = verdict.refusals[0]
    refusals: Sequence[Json] = [refusal.as_dict() for refusal in verdict.refusals]
    return {"admitted": False, "code": first.code, "message": first.message, "refusals": refusals}
