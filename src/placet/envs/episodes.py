"""The worlds of an environment's episodes: one kernel each, seeded by the episode's number.

An episode has a log where the environment has a store for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from secrets import randbits
from typing import Any, Final

from placet.envs.adapter_checks import require_function
from placet.envs.episode_log import EpisodeLog, StoreOf, keeps_no_log
from placet.kernel import Domain, Kernel, KernelConfig
from placet.kernel.prng import mix64
from placet.scenarios.ticks import require_time_for
from placet.schemas.codec import without_numpy
from placet.schemas.config import OnRuleError

_SEED_BITS: Final = 32
_WORLD_SEEDS: Final = 2**64


def drawn_seed() -> int:
    """Return a seed that the system draws, short enough to type."""
    return randbits(_SEED_BITS)


class Episodes:
    """Makes the world of each episode of an environment.

    Args:
        domain_factory: Creates the domain of a world.
        config: Configuration of the worlds; its seed has no effect.
        on_rule_error: As in `KernelConfig`, whose own value has no effect.
        steps_max: Steps after which an episode is truncated.
        tick_s: Simulated seconds of a step.
        store: Returns the store of an episode.

    A copy of it logs no episode: two environments cannot write one store.

    Attributes:
        steps_max: As passed.
        tick_s: As passed.
        count: Number of episodes that were begun.

    Raises:
        ValueError: `steps_max` is no int of at least 1, an episode is longer than simulated time
            can be, or `domain_factory` or `store` is not callable.
    """

    def __init__(
        self,
        domain_factory: Callable[[], Domain],
        config: KernelConfig | None,
        on_rule_error: OnRuleError,
        *,
        steps_max: int,
        tick_s: float,
        store: StoreOf = keeps_no_log,
    ) -> None:
        if not callable(domain_factory):
            raise ValueError(
                "domain_factory must be a class of a domain, or a function without arguments that "
                f"returns one, got {domain_factory!r:.80}"
            )
        steps_max = without_numpy(steps_max)
        if type(steps_max) is not int or steps_max < 1:
            raise ValueError(f"max_steps must be an int of at least 1, got {steps_max!r}")
        require_time_for(steps_max, tick_s)
        require_function("store", store, "'sqlite:///episode-{}.db'.format")
        self.steps_max, self.tick_s, self.count = steps_max, tick_s, 0
        self._store_of = store
        self._log: EpisodeLog | None = None
        self._domain_factory = domain_factory
        self._config = replace(config or KernelConfig(), on_rule_error=on_rule_error)
        self._seed: int | None = None
        self._number = 0
        self._world_seed: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_log": None}

    @property
    def seed(self) -> int | None:
        """The latest seed, given or drawn; None before the first episode."""
        return self._seed

    @property
    def world_seed(self) -> int:
        """The seed of the world of the present episode, or of a first one with the seed 0."""
        if self._world_seed is not None:
            return self._world_seed
        return mix64(self._seed or 0, self._number)

    def begin(self, seed: int | None, options: Mapping[str, object] | None = None) -> Kernel:
        """Return the world of the next episode, and close the log of the present one.

        Args:
            seed: The same seed gives the same world. None is the next of the episodes that follow
                from the latest seed, or the first of a seed that the system draws.
            options: `world_seed`, the seed of this world alone, such as that of a log.

        Raises:
            StoreError: The store of the episode cannot be opened, or has a log.
            ValueError: A seed is no int, or that of the world is outside 0..2**64-1.
        """
        given = _required_seed("seed", seed)
        world_seed = _required_seed("world_seed of options", (options or {}).get("world_seed"))
        if world_seed is not None and not 0 <= world_seed < _WORLD_SEEDS:
            raise ValueError(
                "world_seed of options must be the seed of a world, an int in 0..2**64-1, "
                f"got {world_seed}"
            )
        self.close()
        if (store := self._store_of(self.count)) is not None:
            self._log = EpisodeLog(store, self.count, self._config.limits)
        self.count += 1
        self._world_seed = world_seed
        if given is None and self._seed is None:
            given = drawn_seed()
        self._number += 1
        if given is not None:
            self._seed, self._number = given, 0
        return self.present()

    def present(self) -> Kernel:
        """Return a new world with the seed of the present episode, which is logged if that is."""
        config = replace(self._config, seed=self.world_seed)
        if self._log is None:
            return Kernel(self._domain_factory(), config)
        log, domain = self._log, self._domain_factory()
        return Kernel(domain, config, sink=log.records, durability=log.durability)

    def flush(self, kernel: Kernel) -> None:
        """Write the new records of the world of the present episode, if it has a log.

        Raises:
            StoreError: They cannot be written.
        """
        if self._log is not None:
            self._log.flush(kernel)

    def close(self) -> None:
        """Close the log of the present episode, if it has one; later steps are not logged."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def restored(self, config: KernelConfig, snapshot: bytes) -> Kernel:
        """Return the world of a snapshot that a kernel of this configuration made."""
        kernel = Kernel(self._domain_factory(), config)
        kernel.restore(snapshot)
        return kernel


def _required_seed(name: str, value: object) -> int | None:
    given: Any = without_numpy(value)
    if given is not None and type(given) is not int:
        raise ValueError(f"{name} must be an int or None, got {value!r:.80}")
    return given
