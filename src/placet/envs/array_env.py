"""A population as an environment of arrays: a step is a tick with a column batch of its members.

The convention is that of PufferLib's `PufferEnv` (version 3): the environment owns its arrays,
whose first axis is `num_agents`, and writes them in place. The gate decides about every action. A
refused action changes nothing, and its code is in `codes`.

Source: https://github.com/PufferAI/PufferLib, `pufferlib.PufferEnv`; gymnasium's `AutoresetMode`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from placet.envs.adapter_checks import require_adapter, require_started, required_state
from placet.envs.array_adapter import ArrayAdapter
from placet.envs.array_checks import (
    checked_actions,
    checked_answer,
    mask_width,
    new_arrays,
    require_spaces,
)
from placet.envs.episode_log import StoreOf, keeps_no_log
from placet.envs.episodes import Episodes
from placet.envs.intent_warnings import IntentWarnings
from placet.envs.parallel_env import MAX_STEPS, Array
from placet.envs.rendering import rendering_of
from placet.history.timeline.moments import NO_PORTRAYALS
from placet.kernel import ColumnBatch, Domain, KernelConfig
from placet.runtime.kernel_world import whole_step
from placet.scenarios.population_view import PopulationView, Some
from placet.scenarios.populations import own_values
from placet.scenarios.ticks import REQ_IDS, req_id_of
from placet.schemas.codec import without_numpy
from placet.schemas.config import OnRuleError
from placet.schemas.keywords import explain_array_keywords
from placet.schemas.portrayal import Portrayals
from placet.schemas.refusal import RefusalCode

Columns: TypeAlias = Mapping[str, object]
"""Field of a table -> its initial values, `(members, *field.shape)`."""

Step: TypeAlias = tuple[Array, Array, Array, Array, list[dict[str, Any]]]

NO_ACTION: Final = -1
"""The code of a member that proposed nothing in the step."""

_REQUIRED: Final = ("observation_space", "action_space", "to_payload", "observe", "reward")


@explain_array_keywords
class ArrayEnv:
    """A population whose members act by one column batch a step, as arrays for a learner.

        env = ArrayEnv(Line, Walk(), "walkers", 100, table="line.walkers", max_steps=20)
        env.reset(seed=1)
        env.step(np.ones(100, dtype=np.int64))
        print(env.observations.shape, env.rewards.shape, env.masks.all())

    The arrays are written in place by `reset` and `step`; copy one to keep it. After a step, a
    member is one of these:

    - *acting*: `masks` is True. A refused action changed nothing; `codes` has its code.
    - *terminated in the step*: `terminals` and `masks` are True; the observation is its last one.
    - *terminated before*: `terminals` is True and `masks` False until the episode ends; its
      observation and reward are 0, and its action is not sent.
    - *suspended* (by the operator): `masks` is False, and its action is not sent; the adapter
      observes and rewards it as any other.

    The episode ends when all members are terminated, or after `max_steps`: then `truncations` is
    True for each member that is not terminated.

    Args:
        domain_factory: Creates the domain; called at every reset.
        adapter: The spaces, and the meaning of actions, observations and rewards.
        population: Name of the population.
        count: Number of its members.
        table: Name of its table.
        columns: Initial columns of the members, or a function of the seed that returns them.
        max_steps: Steps after which the episode is truncated.
        tick_s: Simulated seconds of a step.
        config: Quotas, limits and so on. Its seed has no effect: episodes are seeded by `reset`.
        on_rule_error: `raise` the exception of a rule or a hook, whose step is undone as a whole;
            or `refuse` the rows as `rule_error`. That of `config` has no effect.
        autoreset_mode: `SAME_STEP`, as in PufferLib: the last step of an episode also begins the
            next one. Then `observations` are the first ones of the new episode, and
            `final_observations` the last ones of the old episode.
            `NEXT_STEP`: the step after the last one ignores its actions and begins the next
            episode, with `masks` False.
            `DISABLED`: call `reset`.
        render_mode: As of `WorldEnv`; a caption has the number of actions of each code.
        portrayal: As of `WorldEnv`.
        store: As of `WorldEnv`.
        buf: Arrays to write into, by the names of the attributes; None makes new ones.

    A copy (`copy.deepcopy`, or a pickle in another process) continues the episode apart from the
    original, and logs nothing. A pickle needs arguments that can be pickled, so no lambdas.

    Attributes:
        num_agents: Number of members.
        single_observation_space: Space of one member's observations.
        single_action_space: Space of one member's actions.
        observations: Observation of each member, `(num_agents, *single_observation_space.shape)`.
        rewards: Reward of each member, f4.
        terminals: Whether each member is terminated.
        truncations: Whether the episode of each member was cut off.
        masks: Whether each member took part in the step; after `reset`, whether it may act.
        actions: The latest action of each member.
        action_masks: Which actions each member may choose, `(num_agents, actions)`; None if the
            adapter has no masks.
        codes: Code of each member's action, i2: 0 is admitted, `NO_ACTION` nothing proposed; where
            it proposed intents of several kinds, the first refusal.
        code_names: Name of each code that there was; a code keeps its number.
        final_observations: Observations at the end of the latest episode; None before.
        autoreset_mode: As passed.
        render_mode: As passed.
        state_space: Space of `state`; only where the adapter has one.
        kernel: The world of the present episode.

    Raises:
        ValueError: A space of the adapter, an array of `buf` or another argument does not fit.
    """

    def __init__(
        self,
        domain_factory: Callable[[], Domain],
        adapter: ArrayAdapter,
        population: str,
        count: int,
        *,
        table: str,
        columns: Columns | Callable[[int], Columns] | None = None,
        max_steps: int = MAX_STEPS,
        tick_s: float = 1.0,
        config: KernelConfig | None = None,
        on_rule_error: OnRuleError = "raise",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        render_mode: str | None = None,
        portrayal: Portrayals = NO_PORTRAYALS,
        store: StoreOf = keeps_no_log,
        buf: Mapping[str, Array] | None = None,
    ) -> None:
        count = without_numpy(count)
        if type(count) is not int or count < 1:
            raise ValueError(f"count must be an int of at least 1, got {count!r}")
        self._episodes = Episodes(
            domain_factory, config, on_rule_error, steps_max=max_steps, tick_s=tick_s, store=store
        )
        require_adapter(adapter, ArrayAdapter, _REQUIRED)
        self._adapter, self._population, self._table = adapter, population, table
        self._columns = {} if columns is None else columns
        self.num_agents = count
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.single_observation_space = adapter.observation_space()
        self.single_action_space: Space[Any] = adapter.action_space()
        require_spaces(self.single_observation_space, self.single_action_space)
        spaces = self.single_observation_space, self.single_action_space
        arrays = new_arrays(*spaces, count, buf)
        self.observations, self.rewards = arrays["observations"], arrays["rewards"]
        self.terminals, self.truncations = arrays["terminals"], arrays["truncations"]
        self.masks, self.actions = arrays["masks"], arrays["actions"]
        self.action_masks: Array | None = None
        self.final_observations: Array | None = None
        self.codes = np.full(count, NO_ACTION, np.int16)
        self.code_names = ["admitted"]
        self._warnings = IntentWarnings(f"{type(adapter).__name__}.to_payload()")
        self._is_live = np.zeros(count, np.bool_)
        self._steps, self._is_over, self._is_started = 0, False, False
        if (state_space := adapter.state_space()) is not None:
            self.state_space = state_space
        self.kernel = self._episodes.present()
        self.render_mode = render_mode
        self._caption: Sequence[str] = ()
        names = [] if render_mode is None else [f"{population}:{n}" for n in range(count)]
        self._rendering = rendering_of(render_mode, adapter, names, portrayal, self.kernel)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name != "kernel"}
        return kept | {"world": (self.kernel.config, self.kernel.snapshot())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, world = state.pop("world")
        vars(self).update(state)
        self.kernel = self._episodes.restored(config, world)

    def __repr__(self) -> str:
        return f"<ArrayEnv of {self.num_agents} {self._population!r}: step {self._steps}>"

    @property
    def np_random_seed(self) -> int | None:
        """The latest seed, given or drawn; None before the first episode.

        `reset(seed=env.np_random_seed)` begins its first episode again. The name is gymnasium's.
        """
        return self._episodes.seed

    @cached_property
    def observation_space(self) -> Space[Any]:
        """The space of `observations`."""
        return batch_space(self.single_observation_space, self.num_agents)

    @cached_property
    def action_space(self) -> Space[Any]:
        """The space of the actions of all members, for example to sample from."""
        return batch_space(self.single_action_space, self.num_agents)

    def code_of(self, code: int | np.integer[Any]) -> str:
        """Return the name of a code of `codes`: `admitted`, or the code of its refusal."""
        return "none" if code == NO_ACTION else self.code_names[code]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, list[dict[str, Any]]]:
        """Start an episode in a new world.

        Args:
            seed: The same seed and the same actions give the same episode. None starts the next of
                the episodes that follow from the latest seed; the first is drawn by the system, so
                that copies of an environment play other episodes.
            options: `world_seed`, as of `WorldEnv.reset`.

        Returns:
            The observations, and an empty list of infos.

        Raises:
            StoreError: The store of the episode cannot be written, or has a log.
            ValueError: The population cannot be registered, an answer of the adapter is wrong, or
                the world is to be drawn and has no places.
        """
        self._begin(seed, options)
        self.rewards[:] = 0
        self.terminals[:] = self.truncations[:] = False
        self.codes[:] = NO_ACTION
        view = self._view()
        self.masks[:] = ~view.suspended
        self._observe(view)
        self._show()
        return self.observations, []

    def step(self, actions: object) -> Step:
        """Submit the actions of all members, and advance one tick.

        Args:
            actions: Action of each member, `(num_agents, *single_action_space.shape)`, each within
                the space.

        Returns:
            `observations`, `rewards`, `terminals`, `truncations`, and a list of one info:
            `counts` has the number of actions of each code.

        Raises:
            Exception: A rule or a hook raised it; the step is undone.
            StoreError: The log of the episode cannot be written.
            ValueError: The actions are not within their space, the episode has ended, or an answer
                of the adapter is wrong.
        """
        given = checked_actions(self.single_action_space, actions, self.num_agents)
        require_started(is_started=self._is_started)
        self.actions[:] = given
        if self._is_over:
            if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                raise ValueError("the episode has ended; call reset to start the next")
            self.reset()
            self.masks[:] = False  # the step from one episode to the next is no transition
            return self._results({})
        view = self._view()
        acting = self._is_live & ~view.suspended
        members = self.kernel.population(self._population)
        fields = self.kernel.tree.tables[self._table].fields
        before = {field: members[field] for field in fields}
        batches = list(self._batches(view, acting))
        verdicts = whole_step(self.kernel, self._episodes.tick_s, batches)
        self._episodes.flush(self.kernel)
        self._steps += 1
        self._note_codes(batches, verdicts)
        counts = self._counts()
        self._caption = [f"{name} {number}" for name, number in counts.items()]
        is_over = self._note_ends(before, acting)
        if is_over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._begin(None)
            self._observe(self._view())
        self._show()
        return self._results({"counts": counts})

    def state(self) -> Array:
        """Return the state of the whole world, which the adapter makes.

        Raises:
            NotImplementedError: The adapter has no state.
            ValueError: It has another shape than `state_space`, or there is no episode.
        """
        require_started(is_started=self._is_started)
        return required_state(self._adapter, getattr(self, "state_space", None), self._view())

    def render(self) -> Array | None:
        """Return the picture of the world; as `WorldEnv.render`."""
        if self._rendering is None:
            return None
        caption = "   ".join((f"step {self._steps}", *self._caption))
        return self._rendering.render(self.kernel, caption)

    def close(self) -> None:
        """Close the window, and the log of the present episode: later steps are not in it."""
        if self._rendering is not None:
            self._rendering.close()
        self._episodes.close()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None = None) -> None:
        self._is_started = False
        kernel, columns = self._episodes.begin(seed, options), self._columns
        initial: Any = columns(kernel.config.seed) if callable(columns) else columns
        kernel.register_population(self._population, self.num_agents, table=self._table, **initial)
        self._episodes.flush(kernel)
        self.kernel = kernel
        self._caption = ()
        if self._rendering is not None:
            self._rendering.begin(kernel)
        self._steps, self._is_over, self._is_started = 0, False, True
        self._is_live[:] = True

    def _view(self) -> PopulationView:
        return PopulationView(self.kernel, self._population, {})

    def _results(self, info: dict[str, Any]) -> Step:
        infos = [info] if info else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def _batches(self, view: PopulationView, acting: Array) -> Iterator[ColumnBatch]:
        """Yield the column batches of a step, without the rows of members that take no part."""
        answer: object = self._adapter.to_payload(self.actions, view)
        if not isinstance(answer, Mapping):
            raise ValueError(f"to_payload() must return a dict of kinds, got {answer!r:.80}")
        for number, (kind, given) in enumerate(answer.items()):
            agents, payload = given if isinstance(given, Some) else (None, given)
            if not isinstance(payload, Mapping):
                raise ValueError(
                    f"to_payload() must return a dict of payload arrays, or view.only(...), for "
                    f"the kind {kind!r}, got {payload!r:.80}"
                )
            own = {name: own_values(self.kernel, values) for name, values in payload.items()}
            if not acting.all():
                numbers = view.numbers if agents is None else np.asarray(agents)
                kept = ~np.isin(numbers, view.numbers[~acting])
                own = {name: _rows_of(values, kept) for name, values in own.items()}
                agents = numbers[kept]
            if agents is not None and not len(agents):
                continue
            req_id = req_id_of(self._steps * REQ_IDS + number)
            yield ColumnBatch(kind, self._population, own, req_id, agents, view.seq)

    def _note_codes(self, batches: list[ColumnBatch], verdicts: Any) -> None:  # noqa: ANN401
        """Write the codes of a step. The kernel numbers them by batch, `codes` by `code_names`."""
        codes = self.codes
        codes[:] = NO_ACTION
        for batch, verdict in zip(batches, verdicts, strict=True):
            found = np.zeros(256, np.int16)
            for code in np.flatnonzero(np.bincount(verdict.codes)).tolist():
                found[code] = self._number_of(name := verdict.code_of(code))
                if name == RefusalCode.PAYLOAD_INVALID:
                    refusals = verdict[int((verdict.codes == code).argmax())].refusals
                    self._warnings.warn(self.kernel.registry, batch.kind, refusals, depth=4)
            rows: Any = slice(None) if batch.agents is None else batch.agents
            codes[rows] = np.where(codes[rows] > 0, codes[rows], found[verdict.codes])

    def _number_of(self, name: str) -> int:
        if name not in self.code_names:
            self.code_names.append(name)
        return self.code_names.index(name)

    def _counts(self) -> dict[str, int]:
        numbers = np.bincount(self.codes[self.codes != NO_ACTION])
        return {self.code_names[c]: int(numbers[c]) for c in np.flatnonzero(numbers).tolist()}

    def _note_ends(self, before: Mapping[str, Array], acting: Array) -> bool:
        """Write rewards, ends and observations after a step; return whether the episode ended."""
        adapter, was_live, view = self._adapter, self._is_live.copy(), self._view()
        one = (self.num_agents,)
        reward = checked_answer("reward", adapter.reward(before, view), one, np.float32)
        is_done = checked_answer("is_done", adapter.is_done(view), one, np.bool_)
        self.rewards[:] = np.where(was_live, reward, 0)
        self.masks[:] = acting
        self._is_live &= ~is_done
        self.terminals[:] = ~self._is_live
        is_cut = self._steps >= self._episodes.steps_max
        self.truncations[:] = self._is_live & is_cut
        self._observe(view)
        self.observations[~was_live] = 0
        self._is_over = is_cut or not self._is_live.any()
        if self._is_over:
            self.final_observations = self.observations.copy()
        return self._is_over

    def _observe(self, view: PopulationView) -> None:
        observed = self._adapter.observe(view)
        self.observations[...] = checked_answer(
            "observe", observed, self.observations.shape, self.observations.dtype
        )
        masks = self._adapter.action_masks(view)
        if masks is None:
            self.action_masks = None
            return
        shape = (self.num_agents, mask_width(self.single_action_space))
        allowed = checked_answer("action_masks", masks, shape, np.bool_)
        if self.action_masks is None:
            self.action_masks = np.zeros(shape, np.bool_)
        self.action_masks[:] = allowed  # the answer may be a column of the world


def _rows_of(values: object, kept: Array) -> Array:
    """Return the kept rows; of an array of another length all, so that the kernel refuses it."""
    array = np.asarray(values)
    return array[kept] if array.shape[:1] == kept.shape else array
