"""PettingZoo's `ParallelEnv` over any world: a step is a tick with one batch of every agent.

Needs the extra `gym`. The kernel is called synchronously, in simulated time: no event loop, no
store. The gate decides about every action: a refused one changes nothing and is reported in
`infos`. Effects that rules emit stay open in the kernel; nothing is executed or settled here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from gymnasium.spaces import Discrete, Space
from pettingzoo.utils.env import ParallelEnv

from placet.actors.observation.viewer import Viewer
from placet.envs.episodes import Episodes
from placet.kernel import Domain, KernelConfig, WorldState
from placet.runtime.kernel_world import whole_step
from placet.schemas.codec import Json
from placet.schemas.config import OnRuleError
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.keywords import explain_keywords
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

if TYPE_CHECKING:
    from placet.tables.collector import Collector

Array: TypeAlias = np.ndarray[Any, Any]
Registrations: TypeAlias = Mapping[str, Mapping[str, Json]]
"""Agent -> the keywords of its registration."""

Populations: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Population -> the keywords of its registration, `count`, `table` and its initial columns."""

MAX_STEPS: Final = 1_000
_PRIORITY: Final = 10
_OF_WORLD: Final = frozenset({"kernel", "collector", "_viewer", "_views"})
"""Attributes of an environment that a copy makes anew."""


class EnvAdapter(Protocol):
    """Maps a world to an environment: spaces, actions, observations and rewards.

    Subclass it; `is_done`, `action_mask`, `state_space` and `state` have a default. Every method is
    a function of its arguments, and may use only the agent's view, save `state`.

    Attributes:
        map_frame: `(left, bottom, right, top)` that a drawn map shows at least; None shows the
            entities that exist.
    """

    map_frame: tuple[float, float, float, float] | None = None

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's observations; called once."""

    def action_space(self, agent: str) -> Space[Any]:
        """Return the space of an agent's actions; called once."""

    def to_intent(
        self,
        agent: str,
        action: Any,  # noqa: ANN401  # of the action space
        view: View,
    ) -> Mapping[str, Json] | Sequence[Mapping[str, Json]] | None:
        """Return the intent of an action, `kind` and `payload`; None proposes nothing.

        Other fields of an intent, such as `priority`, are optional; missing ones are filled in. A
        list of intents is one batch, which is admitted or refused as a whole.
        """

    def observe(self, view: View, agent: str) -> Array:
        """Return the observation of an agent's view, an element of its `observation_space`."""

    def reward(self, before: View, after: View, agent: str) -> float:
        """Return the reward of a step, from the agent's views before and after it."""

    def is_done(self, view: View, agent: str) -> bool:
        """Return whether an agent is terminated: it takes no further step in the episode."""
        return False

    def action_mask(self, view: View, agent: str) -> Array | None:
        """Return which actions an agent may choose: for `Discrete`, one item for each action.

        It is in `infos[agent]["action_mask"]`, as int8, for `action_space(agent).sample(mask)`.
        None is no mask.
        """
        return None

    def state_space(self) -> Space[Any] | None:
        """Return the space of `state`; None if there is no state. It is called once."""
        return None

    def state(self, world: WorldState) -> Array | None:
        """Return the state of the whole world, for a critic that sees more than the agents."""
        return None


def collects_nothing(_episode: int) -> None:
    """Return no collector of an episode."""


RENDER_MODES: Final = ("rgb_array",)


@explain_keywords
class WorldEnv(ParallelEnv[str, Array, Any]):
    """A world as a PettingZoo parallel environment for multi-agent learning.

        env = WorldEnv(
            partial(World, bounds=[[0, 0], [5, 5]]),
            MoveOnGrid(width=6, height=6, goal=(5, 5), others=1),
            {"ann": {"position": [0, 0]}, "bob": {"position": [2, 3]}},
            max_steps=50,
        )
        observations, infos = env.reset(seed=3)
        while env.agents:
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            observations, rewards, terminations, truncations, infos = env.step(actions)

    Args:
        domain_factory: Creates the domain; called at every reset.
        adapter: The spaces, and the meaning of actions, observations and rewards.
        agents: Agents with the keywords of their registration, or a function of the seed that
            returns them.
        populations: Populations whose members are agents too, with the keywords of their
            registration: `{"birds": {"count": 9, "table": "flock.birds"}}`; or a function of the
            seed. A member acts by ordinary intents, of kinds with a rule of rows too.
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
        state_space: Space of `state`; only where the adapter has one.
        collector: The collector of the present episode; None collects nothing.
    """

    def __init__(
        self,
        domain_factory: Callable[[], Domain],
        adapter: EnvAdapter,
        agents: Registrations | Callable[[int], Registrations],
        *,
        populations: Populations | Callable[[int], Populations] | None = None,
        max_steps: int = MAX_STEPS,
        tick_s: float = 1.0,
        config: KernelConfig | None = None,
        render_mode: str | None = None,
        collector: "Callable[[int], Collector | None]" = collects_nothing,
        on_rule_error: OnRuleError = "raise",
    ) -> None:
        self._episodes = Episodes(
            domain_factory, config, on_rule_error, steps_max=max_steps, tick_s=tick_s
        )
        if render_mode not in {None, *RENDER_MODES}:
            raise ValueError(f"render_mode must be 'rgb_array' or None, got {render_mode!r}")
        self.metadata = {"name": "placet_v0", "render_modes": list(RENDER_MODES)}
        self.render_mode = render_mode
        self._frame = adapter.map_frame
        self._adapter = adapter
        self._registrations = agents
        self._populations = {} if populations is None else populations
        self._steps = 0
        self._make_collector = collector
        self._episodes_started = 0
        self.collector: Collector | None = None
        self.possible_agents = list(self._names_for(self._episodes.seed))
        self.agents: list[str] = []
        self.observation_spaces = {a: adapter.observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: adapter.action_space(a) for a in self.possible_agents}
        if (state_space := adapter.state_space()) is not None:
            self.state_space = state_space
        self._views: dict[str, View] = {}
        self.kernel = self._episodes.present()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in _OF_WORLD}
        return kept | {"world": (self.kernel.config, self.kernel.snapshot())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, world = state.pop("world")
        vars(self).update(state)
        self.collector = None
        self.kernel = self._episodes.restored(config, world)
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
            The first observation of each agent by its name, and an info for each, which is empty
            or has its `action_mask`.

        Raises:
            PlacetError: An agent cannot be registered.
            CollectError: The rows of the last episode cannot be written.
        """
        self.close()
        self.kernel = self._episodes.begin(seed)
        self._steps = 0
        self.agents = list(self.possible_agents)
        world_seed = self.kernel.config.seed
        for name, keywords in _given(self._populations, world_seed, "populations").items():
            self.kernel.register_population(name, **keywords)
        registrations = _given(self._registrations, world_seed, "agents")
        for agent in self.agents:
            if agent in registrations:
                self.kernel.register_agent(agent, **registrations[agent])
        self.collector = self._make_collector(self._episodes_started)
        self._episodes_started += 1
        if self.collector is not None:
            self.collector.attach(self.kernel)
        self._viewer = Viewer(self.kernel)
        self._views = self._read_views()
        return self._observations(), {agent: self._info(agent, None) for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, Array],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Json]],
    ]:
        """Submit a batch per action, all at the same simulated time, and advance one tick.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were
            active before the step. An agent that a rule has removed is terminated.
            `infos[agent]` is empty where nothing was proposed; else it has `admitted`, with `seq`,
            or with `code`, `message` and all `refusals`. It has `action_mask` if the adapter has.

        Raises:
            Exception: A rule or a hook raised it; the step is undone.
            ValueError: An action is outside its space, or of an agent that is not active, or the
                episode has ended.
            CollectError: A function of the collector raised, or its rows cannot be written.
        """
        self._check_actions(actions)
        before, adapter = self._views, self._adapter
        acting = [agent for agent in self.agents if agent in actions]
        proposals = {agent: self._batch(agent, actions[agent]) for agent in acting}
        batches = {agent: batch for agent, batch in proposals.items() if batch}
        decided = whole_step(self.kernel, self._episodes.tick_s, [*batches.values()])
        verdicts = dict(zip(batches, decided, strict=True))
        self._collect_refusals(batches, verdicts)
        self._steps += 1
        after = self._views = self._read_views()
        active = self.agents
        observations = self._observations()
        rewards = {a: float(adapter.reward(before[a], after[a], a)) for a in active}
        alive = self.kernel.ledger.agents
        terminations = {a: a not in alive or bool(adapter.is_done(after[a], a)) for a in active}
        truncations = dict.fromkeys(active, self._steps >= self._episodes.steps_max)
        infos = {agent: self._info(agent, verdicts.get(agent)) for agent in active}
        self.agents = [a for a in active if not (terminations[a] or truncations[a])]
        return observations, rewards, terminations, truncations, infos

    def state(self) -> Array:
        """Return the state of the whole world, which the adapter makes.

        Raises:
            NotImplementedError: The adapter has no state.
            ValueError: It has another shape than `state_space`.
        """
        space = getattr(self, "state_space", None)
        if space is None:
            raise NotImplementedError(
                f"{type(self._adapter).__name__} has no state; define state_space() and "
                "state(world) in the adapter"
            )
        return _fitting("state", self._adapter.state(self.kernel.state), space)

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

    def _names_for(self, seed: int) -> Iterator[str]:
        yield from _given(self._registrations, seed, "agents")
        for name, keywords in _given(self._populations, seed, "populations").items():
            yield from (f"{name}:{number}" for number in range(keywords["count"]))

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
        observe, spaces = self._adapter.observe, self.observation_spaces
        return {
            agent: _fitting("observe", observe(self._views[agent], agent), spaces[agent])
            for agent in self.agents
        }

    def _info(self, agent: str, verdict: Verdict | None) -> dict[str, Any]:
        info: dict[str, Any] = _info_of(verdict)
        mask = self._adapter.action_mask(self._views[agent], agent)
        if mask is None:
            return info
        space, given = self.action_spaces[agent], np.asarray(mask)
        if isinstance(space, Discrete) and given.shape != (space.n,):
            raise ValueError(
                f"action_mask() must return one item for each of {space.n} actions, "
                f"got an array of shape {given.shape}"
            )
        return info | {"action_mask": given.astype(np.int8)}

    def _batch(self, agent: str, action: Any) -> list[dict[str, Json]]:  # noqa: ANN401
        """Return the intents of an action; empty if it proposes nothing."""
        view = self._views[agent]
        proposal: Any = self._adapter.to_intent(agent, action, view)
        if proposal is None:
            return []
        req_id = f"step:{self._steps}"
        if isinstance(proposal, Mapping):
            return [self._intent(agent, proposal, req_id, view)]
        if not isinstance(proposal, list | tuple) or not all(map(_is_mapping, proposal)):
            raise ValueError(
                'to_intent() must return {"kind": ..., "payload": ...}, a list of such, or None, '
                f"got {proposal!r:.80}"
            )
        numbered = enumerate(proposal)
        return [self._intent(agent, one, f"{req_id}:{number}", view) for number, one in numbered]

    def _intent(
        self, agent: str, proposal: Mapping[str, Json], req_id: str, view: View
    ) -> dict[str, Json]:
        return {
            "priority": _PRIORITY,
            "schema_version": SCHEMA_VERSION,
            "req_id": req_id,
            "context_seq": view.view_seq,
            **proposal,
            "agent_id": agent,
        }


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _given(value: Any, seed: int, what: str) -> Mapping[str, Any]:  # noqa: ANN401
    """Return a mapping, or the one that a function of the seed returns."""
    given: Any = value(seed) if callable(value) else value
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{what} must map names to the keywords of their registration, such as "
            f'{{"ann": {{}}}}, got {given!r:.80}'
        )
    return given


def _fitting(method: str, array: Any, space: Space[Any]) -> Array:  # noqa: ANN401
    """Return an array of the adapter. Gymnasium's spaces of dicts and the like have no shape."""
    if space.shape is not None and np.shape(array) != space.shape:
        raise ValueError(
            f"{method}() must return an array of shape {space.shape}, as its space has, "
            f"got {np.shape(array)}"
        )
    fitting: Array = array
    return fitting


def _info_of(verdict: Verdict | None) -> dict[str, Json]:
    if verdict is None:
        return {}
    if verdict.admitted:
        return {"admitted": True, "seq": verdict.seq}
    first = verdict.refusals[0]
    refusals: Sequence[Json] = [refusal.as_dict() for refusal in verdict.refusals]
    return {"admitted": False, "code": first.code, "message": first.message, "refusals": refusals}
