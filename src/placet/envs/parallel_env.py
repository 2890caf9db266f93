"""PettingZoo's `ParallelEnv` over any world: a step is a tick with one batch of every agent.

Needs the extra `gym`. The kernel is called synchronously, in simulated time: no event loop, no
store. The gate decides about every action: a refused one changes nothing and is reported in
`infos`. Effects that rules emit stay open in the kernel; nothing is executed or settled here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from pettingzoo.utils.env import ParallelEnv

from placet.actors.observation.viewer import Viewer
from placet.envs.adapter_checks import (
    fitting,
    given_for,
    mask_of,
    require_adapter,
    require_function,
    require_started,
    required_actions,
    required_bool,
    required_number,
    required_proposal,
    required_space,
    required_state,
)
from placet.envs.episode_log import StoreOf, keeps_no_log
from placet.envs.episodes import Episodes
from placet.envs.intent_warnings import IntentWarnings
from placet.envs.rendering import (
    RENDER_FPS,
    RENDER_MODES,
    MapGround,
    captions_of,
    rendering_of,
    require_render_mode,
)
from placet.history.timeline.moments import NO_PORTRAYALS
from placet.kernel import Domain, KernelConfig, WorldState
from placet.runtime.kernel_world import whole_step
from placet.schemas.codec import Json
from placet.schemas.config import OnRuleError
from placet.schemas.intent import SCHEMA_VERSION
from placet.schemas.keywords import explain_keywords
from placet.schemas.portrayal import Portrayals
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
_REQUIRED: Final = ("observation_space", "action_space", "to_intent", "observe", "reward")
"""Methods of an adapter that have no default."""

_OF_WORLD: Final = frozenset({"kernel", "collector", "_viewer", "_views"})
"""Attributes of an environment that a copy makes anew."""


class EnvAdapter(MapGround, Protocol):
    """Maps a world to an environment: spaces, actions, observations and rewards.

    Subclass it; `is_done`, `action_mask`, `state_space` and `state` have a default. Every method is
    a function of its arguments, and may use only the agent's view, save `state`.

    Its attributes `map_frame`, `map_cell`, `map_goals` and `map_blocked` are the ground of a drawn
    map: those of `MapGround`.
    """

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
        config: Quotas, limits and so on. Its seed has no effect: episodes are seeded by `reset`.
        render_mode: `human`: `reset` and `step` show the map of the world in a window, at most 10
            steps a second. `rgb_array`: `render` returns the map. None draws nothing. Needs pygame,
            the extra `render`.
        portrayal: How the map draws collections and tables, by name, as in a scenario; without one
            each agent has a different color, and its name.
        collector: Creates the collector of an episode from the number of episodes before it; None
            collects nothing. It is closed when the next episode begins, and by `close`.
        store: Returns the URL or path of the store that keeps the log of an episode, such as
            `sqlite:///episode-0.db`, from the number of episodes before it; None keeps no log.
            Each step is written before it returns. Copies of an environment need other stores.
        on_rule_error: `raise` the exception of a rule or a hook, whose step is undone as a whole;
            or `refuse` its batch as `rule_error`. That of `config` has no effect.

    A copy (`copy.deepcopy`, or a pickle in another process) continues the episode apart from the
    original, and neither collects nor logs it. A pickle needs arguments that can be pickled, so no
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
        portrayal: Portrayals = NO_PORTRAYALS,
        collector: "Callable[[int], Collector | None]" = collects_nothing,
        store: StoreOf = keeps_no_log,
        on_rule_error: OnRuleError = "raise",
    ) -> None:
        self._episodes = Episodes(
            domain_factory, config, on_rule_error, steps_max=max_steps, tick_s=tick_s, store=store
        )
        require_adapter(adapter, EnvAdapter, _REQUIRED)
        require_render_mode(render_mode)
        self.metadata = {
            "name": "placet_v0",
            "render_modes": list(RENDER_MODES),
            "render_fps": RENDER_FPS,
        }
        self.render_mode = render_mode
        self._adapter = adapter
        self._registrations = agents
        self._populations = {} if populations is None else populations
        self._steps = 0
        require_function("collector", collector, "lambda episode: Collector(to=f'rows-{episode}')")
        self._make_collector = collector
        self._is_started = False
        self.collector: Collector | None = None
        seed = self._episodes.world_seed
        self.possible_agents = _names_of(
            given_for(agents, seed, "agents"), given_for(self._populations, seed, "populations")
        )
        if not self.possible_agents:
            raise ValueError("an environment needs an agent: pass agents, populations, or both")
        self.agents: list[str] = []
        self.observation_spaces = self._spaces("observation_space", adapter.observation_space)
        self.action_spaces = self._spaces("action_space", adapter.action_space)
        if (state_space := adapter.state_space()) is not None:
            self.state_space = state_space
        self._views: dict[str, View] = {}
        self._warnings = IntentWarnings(f"{type(adapter).__name__}.to_intent()")
        self.kernel = self._episodes.present()
        self._caption: Sequence[str] = ()
        self._rendering = rendering_of(
            render_mode, adapter, self.possible_agents, portrayal, self.kernel
        )

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

    @property
    def np_random_seed(self) -> int | None:
        """The latest seed, given or drawn; None before the first episode.

        `reset(seed=env.np_random_seed)` begins its first episode again. The name is gymnasium's.
        """
        return self._episodes.seed

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
                of the episodes that follow from the latest seed; the first is drawn by the system,
                so that copies of an environment play other episodes.
            options: `world_seed` begins the episode of a log again, by the seed in its header,
                which is that of `env.kernel.config`. Others have no effect.

        Returns:
            The first observation of each agent by its name, and an info for each, which is empty
            or has its `action_mask`.

        Raises:
            PlacetError: An agent cannot be registered.
            CollectError: The rows of the last episode cannot be written.
            StoreError: The store of the episode cannot be written, or has a log.
            ValueError: The first observation of an agent is not in its space, the agents have
                other names than for the first seed, or the world is to be drawn and has no places.
        """
        self._close_episode()
        number = self._episodes.count
        self._is_started = False
        self.kernel = self._episodes.begin(seed, options)
        self._steps = 0
        self.agents = list(self.possible_agents)
        world_seed = self.kernel.config.seed
        populations = given_for(self._populations, world_seed, "populations")
        registrations = given_for(self._registrations, world_seed, "agents")
        if (names := _names_of(registrations, populations)) != self.possible_agents:
            raise ValueError(
                "agents and populations must have one list of names for every seed, "
                f"{self.possible_agents!r:.80}, got {names!r:.80}"
            )
        for name, keywords in populations.items():
            self.kernel.register_population(name, **keywords)
        for agent, keywords in registrations.items():
            self.kernel.register_agent(agent, **keywords)
        self._episodes.flush(self.kernel)
        self.collector = self._make_collector(number)
        self._is_started = True
        if self.collector is not None:
            self.collector.attach(self.kernel)
        self._viewer = Viewer(self.kernel)
        self._views = self._read_views()
        observations = self._observations(is_first=True)
        if self._rendering is not None:
            self._caption = ()
            self._rendering.begin(self.kernel)
            self._show()
        return observations, {agent: self._info(agent, None) for agent in self.agents}

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
            StoreError: The log of the episode cannot be written.
        """
        self._check_actions(actions)
        before, adapter = self._views, self._adapter
        acting = [agent for agent in self.agents if agent in actions]
        proposals = {agent: self._batch(agent, actions[agent]) for agent in acting}
        batches = {agent: batch for agent, batch in proposals.items() if batch}
        decided = whole_step(self.kernel, self._episodes.tick_s, [*batches.values()])
        self._episodes.flush(self.kernel)
        verdicts = dict(zip(batches, decided, strict=True))
        self._warnings.check(self.kernel.registry, batches, verdicts)
        self._collect_refusals(batches, verdicts)
        self._steps += 1
        after = self._views = self._read_views()
        active = self.agents
        observations = self._observations(is_first=False)
        rewards = {
            a: required_number("reward", a, adapter.reward(before[a], after[a], a)) for a in active
        }
        alive = self.kernel.ledger.agents
        terminations = {
            a: a not in alive or required_bool("is_done", a, adapter.is_done(after[a], a))
            for a in active
        }
        truncations = dict.fromkeys(active, self._steps >= self._episodes.steps_max)
        infos = {agent: self._info(agent, verdicts.get(agent)) for agent in active}
        self.agents = [a for a in active if not (terminations[a] or truncations[a])]
        if self._rendering is not None:
            self._caption = captions_of(rewards, infos)
            self._show()
        return observations, rewards, terminations, truncations, infos

    def state(self) -> Array:
        """Return the state of the whole world, which the adapter makes.

        Raises:
            NotImplementedError: The adapter has no state.
            ValueError: It has another shape than `state_space`, or there is no episode.
        """
        require_started(is_started=self._is_started)
        space = getattr(self, "state_space", None)
        return required_state(self._adapter, space, self.kernel.state)

    def close(self) -> None:
        """Close the window, and the log and the collector of the present episode.

        The tables of the collector are whole then. A later step of the episode is not logged.

        Raises:
            CollectError: They cannot be written, or the collecting has failed.
        """
        if self._rendering is not None:
            self._rendering.close()
        self._close_episode()

    def render(self) -> Array | None:
        """Return the picture of the world: an array of 480 x 640 x 3, uint8, with `rgb_array`.

        With `human` the window shows it, as it does by itself after each step, and None is
        returned, as where `render_mode` is None. The map shows entities and rows with a place, as
        the player does, and the cells of the adapter; it widens to all places that it has shown.
        The caption has the step, and the latest reward of each agent or the refusal of its action.

        Raises:
            RuntimeError: No window can be opened.
        """
        if self._rendering is None:
            return None
        caption = "   ".join((f"step {self._steps}", *self._caption))
        return self._rendering.render(self.kernel, caption)

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _close_episode(self) -> None:
        self._episodes.close()
        if self.collector is not None:
            self.collector.close()

    def _collect_refusals(
        self, batches: Mapping[str, Sequence[Mapping[str, Json]]], verdicts: Mapping[str, Verdict]
    ) -> None:
        if self.collector is None:
            return
        for agent, verdict in verdicts.items():
            self.collector.note(batches[agent], verdict, self._steps)
        self.collector.check()

    def _spaces(self, method: str, space_of: Callable[[str], Space[Any]]) -> dict[str, Space[Any]]:
        return {a: required_space(method, a, space_of(a)) for a in self.possible_agents}

    def _check_actions(self, actions: Mapping[str, Any]) -> None:
        required_actions(actions, self.agents, is_started=self._is_started)
        for agent, action in actions.items():
            space = self.action_space(agent)
            if not space.contains(action):
                raise ValueError(f"{agent!r} must act within {space}, got {action!r:.80}")

    def _read_views(self) -> dict[str, View]:
        return {agent: self._viewer.view(self.kernel, agent) for agent in self.agents}

    def _observations(self, *, is_first: bool) -> dict[str, Array]:
        observe, spaces, views = self._adapter.observe, self.observation_spaces, self._views
        return {
            agent: fitting(
                "observe", observe(views[agent], agent), spaces[agent], is_first=is_first
            )
            for agent in self.agents
        }

    def _info(self, agent: str, verdict: Verdict | None) -> dict[str, Any]:
        info: dict[str, Any] = _info_of(verdict)
        mask = self._adapter.action_mask(self._views[agent], agent)
        if mask is None:
            return info
        return info | {"action_mask": mask_of(mask, self.action_spaces[agent])}

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
        required_proposal(proposal, self.kernel.registry.kinds)
        return {
            "priority": _PRIORITY,
            "schema_version": SCHEMA_VERSION,
            "req_id": req_id,
            "context_seq": view.view_seq,
            **proposal,
            "agent_id": agent,
        }


def _names_of(registrations: Registrations, populations: Populations) -> list[str]:
    """Return the names of the agents, those registered by themselves first."""
    members = (
        f"{name}:{number}"
        for name, keywords in populations.items()
        for number in range(keywords["count"])
    )
    return [*registrations, *members]


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _info_of(verdict: Verdict | None) -> dict[str, Json]:
    if verdict is None:
        return {}
    if verdict.admitted:
        return {"admitted": True, "seq": verdict.seq}
    first = verdict.refusals[0]
    refusals: Sequence[Json] = [refusal.as_dict() for refusal in verdict.refusals]
    return {"admitted": False, "code": first.code, "message": first.message, "refusals": refusals}
