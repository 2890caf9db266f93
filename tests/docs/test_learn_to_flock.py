"""The training of the examples learns, comes near the optimum, and its policy flies in a log."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn_to_flock.py"
EPISODES = 20


@pytest.mark.slow
def test_a_flock_learns_and_its_policy_flies_in_a_simulation_whose_log_verifies(tmp_path):
    example = runpy.run_path(str(EXAMPLE))
    env = example["flock_env"]()
    policy, curve = example["train"](env, EPISODES)
    assert np.mean(curve[-3:]) > np.mean(curve[:3]) + 0.3
    mean_reward = example["mean_reward"]
    acts = example["at_random"], policy.best, example["best_rule"]
    by_random, trained, best = (mean_reward(env, act) for act in acts)
    assert by_random < 0.3
    assert trained > by_random + 0.5
    assert best > 0.9  # of the optimum 1: it takes some steps to turn
    assert trained > 0.85 * best
    plot = example["plot"](curve, rows=5).splitlines()
    assert [line.split()[1] for line in plot] == ["4", "8", "12", "16", "20"]
    store = f"sqlite:///{tmp_path / 'flock.db'}"
    with example["fly"](policy, store, count=150, ticks=60) as run:
        heading = run.population("birds")["heading"]
        assert run.report.refusals == {}
    assert example["order"](heading) > 0.6  # the optimum is 1; at random it is 0.08
    proof = example["verified"](store)
    assert (proof.integrity.is_ok, proof.intents, proof.unverified) == (True, 150 * 60, ())
