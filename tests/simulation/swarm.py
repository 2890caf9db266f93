"""Swarm testing: each seed enables a random subset of features and faults, with random rates.

A run with everything on finds less than many runs with some of it: features hide each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from placet.runtime.config import OrchestratorConfig
from placet.schemas.limits import SECOND_NS, Limits

BEHAVIORS = ("steady", "doubler", "reorderer", "delayer", "retrier", "flooder", "canceler")
STORE_FAULTS = ("fail before", "fail after", "die before", "die after")
PROCESS_FAULTS = ("kill", "kill", "restart", "takeover")


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarm:
    """Configuration of one run, drawn by its seed.

    Attributes:
        behaviors: One for each agent.
        batches: How many each agent sends.
        config: Of the world.
        is_blocking: The store is called in a thread.
        append_seconds_max: What a thread takes to the store, or back.
        store_faults: Number of an append -> what happens to it.
        process_faults: `(seconds, what)`.
        executor: `none`, or how its handler misbehaves, if it does.
        poison: Share of batches with a rule that raises, or that are no batch.
        later: Share of batches for later.
        repeats: Share of batches that are sent again.
        pair: Share of batches that the operator sends for two agents.
        is_windy: Agents are suspended, resumed, forbidden, and removed.
        is_halting: The world is paused and drained now and then.
        is_forgetful: The dedup windows are short: old answers are forgotten.
    """

    behaviors: Sequence[str]
    batches: int
    config: OrchestratorConfig
    is_blocking: bool
    append_seconds_max: float
    store_faults: dict[int, str]
    process_faults: list[tuple[float, str]]
    executor: str
    poison: float
    later: float
    repeats: float
    pair: float
    is_windy: bool
    is_halting: bool
    is_forgetful: bool

    @property
    def is_stepped(self) -> bool:
        return self.config.clock == "stepped"


def swarm_of(seed: int) -> Swarm:
    """Draw the configuration of a seed."""
    rng = Random(f"swarm {seed}")
    behaviors = rng.sample(BEHAVIORS, rng.randint(1, len(BEHAVIORS)))
    agents = rng.randint(3, 8)
    is_forgetful = rng.random() < 0.25
    config = OrchestratorConfig(
        seed=seed % 2**64,
        clock="stepped" if rng.random() < 0.3 else "realtime",
        staleness_threshold=rng.choice([3, 20]) if rng.random() < 0.2 else None,
        quotas=_quotas(rng),
        world_quota={"rate": 9.0, "burst": 12} if rng.random() < 0.15 else None,
        backpressure=rng.choice(["reject", "reject", "wait", "shed_lowest"]),
        limits=Limits(**_bounds(rng), **(_short_memory(rng) if is_forgetful else _LONG_MEMORY)),
        log_level="critical",
    )
    return Swarm(
        behaviors=[rng.choice(behaviors) for _ in range(agents)],
        batches=rng.randint(20, 60) // agents + 1,
        config=config,
        is_blocking=rng.random() < 0.6,
        append_seconds_max=rng.choice([0.0, 0.001, 0.02, 0.2]),
        store_faults=_store_faults(rng) if rng.random() < 0.4 else {},
        process_faults=_process_faults(rng) if rng.random() < 0.5 else [],
        executor=rng.choice(["none", "sound", "sound", "slow", "failing", "hanging"]),
        poison=0.08 if rng.random() < 0.4 else 0.0,
        later=0.2 if rng.random() < 0.4 else 0.0,
        repeats=0.3 if rng.random() < 0.6 else 0.05,
        pair=0.2 if rng.random() < 0.4 else 0.0,
        is_windy=rng.random() < 0.4,
        is_halting=rng.random() < 0.25,
        is_forgetful=is_forgetful,
    )


_LONG_MEMORY = {"window_age_ns_max": 100_000 * SECOND_NS}


def _short_memory(rng: Random) -> dict[str, int]:
    return {
        "window_ids_max": rng.choice([3, 8]),
        "window_age_ns_max": rng.choice([1, 5, 1000]) * SECOND_NS,
        "dedup_entries_max": rng.choice([10, 40, 1000]),
    }


def _quotas(rng: Random) -> dict[str, dict[str, Any]]:
    quotas: dict[str, dict[str, Any]] = {}
    if rng.random() < 0.4:
        quotas["Earn"] = {"rate": rng.choice([0.5, 2.0, 7.0]), "burst": rng.randint(2, 6)}
    if rng.random() < 0.15:
        quotas["*"] = {"rate": rng.choice([2.0, 9.0]), "burst": rng.randint(4, 9)}
    return quotas


def _bounds(rng: Random) -> dict[str, int]:
    """Draw limits so small that they are reached."""
    bounds = {
        "checkpoint_groups": rng.choice([1, 3, 20]),
        "effect_seconds_max": 2,
        "shutdown_seconds_max": rng.choice([1, 10]),
    }
    for share, drawn in (
        (0.5, {"group_batches_max": [1, 1, 4], "groups_in_flight_max": [1, 1, 3]}),
        (0.4, {"mailbox_batches_max": [1, 2, 4]}),
        (0.3, {"mailbox_age_ms_max": [5, 50]}),
        (0.3, {"wait_queue_batches_max": [1, 3], "wait_queue_ms_max": [50, 1000]}),
        (0.3, {"schedule_batches_max": [1, 3]}),
        (0.2, {"ingress_rate_per_second_max": [5], "ingress_burst_max": [8]}),
    ):
        if rng.random() < share:
            bounds |= {name: rng.choice(values) for name, values in drawn.items()}
    return bounds


def _store_faults(rng: Random) -> dict[int, str]:
    return {rng.randint(2, 60): rng.choice(STORE_FAULTS) for _ in range(rng.randint(1, 3))}


def _process_faults(rng: Random) -> list[tuple[float, str]]:
    count = rng.randint(1, 3)
    return sorted((rng.uniform(0.0, 12.0), rng.choice(PROCESS_FAULTS)) for _ in range(count))
