"""Birds learn to fly one way: REINFORCE on an `ArrayEnv`, and the policy in a `Simulation`.

`python learn_to_flock.py` trains for some seconds, prints the curve, and lets a larger flock fly by
the trained policy. The reward of a bird is the cosine of the angle between its heading and that of
the birds around it: 1 is the optimum, and birds that turn at random are near 0.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from placet import Simulation
from placet.envs import ArrayAdapter, ArrayEnv
from placet.history.verify_log import Verification, verify_log
from placet.scenarios.builtin.flock import BIRDS, Flock, order
from placet.scenarios.population_view import PopulationView
from placet.stores.url import open_event_log

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 12
TURNS = np.array([-0.3, 0.0, 0.3])
VISION, DISCOUNT, RATE = 15.0, 0.8, 0.3
BIRDS_COUNT, SIDE, STEPS = 100, 60.0, 50
RANDOM = np.random.default_rng(3)
LARGER = Flock(side=2 * SIDE)


class Align(ArrayAdapter):
    """A bird sees the angle to its neighbors' heading, and turns left or right or not."""

    def observation_space(self) -> Box:
        return Box(-np.pi, np.pi, (1,), np.float32)

    def action_space(self) -> Discrete:
        return Discrete(len(TURNS))

    def to_payload(self, actions: NDArray[Any], view: PopulationView) -> Mapping[str, Any]:
        x, y = view["heading"].T
        turn = TURNS[actions]
        to = [x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)]
        return {"Fly": {"heading": np.stack(to, axis=1)}}

    def observe(self, view: PopulationView) -> Floats:
        around, own = heading_around(view), view["heading"]
        ahead = (own * around).sum(axis=1)
        aside = own[:, 0] * around[:, 1] - own[:, 1] * around[:, 0]
        angle: Floats = np.arctan2(aside, ahead)[:, None]
        return angle

    def reward(self, before: Mapping[str, Any], after: PopulationView) -> Floats:
        cosine: Floats = (after["heading"] * heading_around(after)).sum(axis=1)
        return cosine


def heading_around(view: PopulationView) -> Floats:
    """Return the mean heading of each bird's neighbors as a unit vector; (0, 0) of none."""
    heading = view["heading"]
    near = view.neighbors("position", VISION, box=view.settings["side"])
    total = near.sums(heading[near.second], heading[near.first])
    length = np.hypot(*total.T)[:, None]
    return total / np.where(length > 0, length, 1.0)


class TablePolicy:
    """A softmax over the turns for each bin of the angle; `logits` are what is learned."""

    def __init__(self) -> None:
        self.logits = np.zeros((BINS, len(TURNS)))

    def bins(self, observations: NDArray[Any]) -> Ints:
        angle = observations[:, 0].astype(float)
        return np.clip((angle / (2 * np.pi) + 0.5) * BINS, 0, BINS - 1).astype(np.int64)

    def chances(self, bins: Ints) -> Floats:
        weights = np.exp(self.logits[bins] - self.logits[bins].max(axis=1, keepdims=True))
        chances: Floats = weights / weights.sum(axis=1, keepdims=True)
        return chances

    def sample(self, bins: Ints, random: np.random.Generator) -> Ints:
        reached = self.chances(bins).cumsum(axis=1) > random.random((len(bins), 1))
        turns: Ints = reached.argmax(axis=1)
        return turns

    def best(self, observations: NDArray[Any]) -> Ints:
        turns: Ints = self.logits[self.bins(observations)].argmax(axis=1)
        return turns


def flock_env() -> ArrayEnv:
    flock = partial(Flock, side=SIDE)
    return ArrayEnv(flock, Align(), "birds", BIRDS_COUNT, table=BIRDS, max_steps=STEPS)


def train(env: ArrayEnv, episodes: int, seed: int = 1) -> tuple[TablePolicy, list[float]]:
    """Return the trained policy, and the mean reward of a step in each episode.

    Source: Williams, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning", Machine Learning 8, 1992.
    """
    policy, random, curve = TablePolicy(), np.random.default_rng(seed), []
    observations, _ = env.reset(seed)
    for _ in range(episodes):
        steps: list[tuple[Any, ...]] = []
        for _ in range(STEPS):
            bins = policy.bins(observations)
            actions = policy.sample(bins, random)
            observations, rewards, *_ = env.step(actions)
            steps.append((bins, actions, rewards.copy()))
        gradient, value = np.zeros_like(policy.logits), np.zeros(env.num_agents)
        for bins, actions, rewards in reversed(steps):
            value = rewards + DISCOUNT * value
            advantage = value - value.mean()  # of the flock in this step: the baseline
            by_turn = -policy.chances(bins) * advantage[:, None]
            by_turn[np.arange(len(bins)), actions] += advantage
            np.add.at(gradient, bins, by_turn)
        policy.logits += RATE * gradient / np.linalg.norm(gradient)
        curve.append(float(np.mean([rewards for *_, rewards in steps])))
    return policy, curve


def at_random(observations: NDArray[Any]) -> Ints:
    return RANDOM.integers(0, len(TURNS), len(observations))


def best_rule(observations: NDArray[Any]) -> Ints:
    """Turn toward the neighbors' heading: no turn of these three is better for the reward."""
    angle = observations[:, 0]
    return np.where(abs(angle) < TURNS[-1] / 2, 1, np.where(angle > 0, 2, 0))


def mean_reward(env: ArrayEnv, act: Callable[[NDArray[Any]], Ints], seed: int = 7) -> float:
    """Return the mean reward of a step in an episode by a rule."""
    observations, _ = env.reset(seed)
    rewards = []
    for _ in range(STEPS):
        observations, reward, *_ = env.step(act(observations))
        rewards.append(reward.mean())
    return float(np.mean(rewards))


def fly(policy: TablePolicy, store: str, count: int = 400, ticks: int = 100) -> Simulation:
    """Return the simulation of a flock of another size that has flown by a policy."""
    adapter = Align()

    def trained(view: PopulationView) -> Mapping[str, Any]:
        return adapter.to_payload(policy.best(adapter.observe(view)), view)

    birds = (count, BIRDS, trained)
    run = Simulation(LARGER, populations={"birds": birds}, seed=9, store=store)
    run.run(ticks=ticks)
    return run


def verified(store: str) -> Verification:
    """Decide the log of a flight again."""
    with closing(open_event_log(store)) as log:
        return verify_log(log, [LARGER])


def plot(curve: list[float], rows: int = 12) -> str:
    """Return a curve as lines of text, each the mean of some episodes."""
    lines = []
    for part in np.array_split(np.arange(len(curve)), min(rows, len(curve))):
        mean = float(np.mean([curve[number] for number in part]))
        lines.append(f"episode {part[-1] + 1:4} {mean:6.2f} {'#' * round(50 * max(mean, 0))}")
    return "\n".join(lines)


if __name__ == "__main__":
    policy, curve = train(flock_env(), episodes=60)
    print(plot(curve))
    env = flock_env()
    means = [mean_reward(env, act) for act in (at_random, policy.best, best_rule)]
    print("one episode: at random {:.2f}, trained {:.2f}, best rule {:.2f}".format(*means))
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'flock.db'}"
        with fly(policy, store) as run:
            (verdict,) = run.column_verdicts["birds"]
            heading = run.population("birds")["heading"]
            print(f"400 birds, tick {run.tick}: {verdict.counts()}, order {order(heading):.2f}")
        proof = verified(store)
        print(f"log ok: {proof.is_ok}, {proof.intents} intents decided again")
