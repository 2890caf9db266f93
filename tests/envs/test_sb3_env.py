"""Worlds of populations as a `VecEnv` of stable-baselines3; most of it needs that package."""

from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from placet.envs import VectorEnv
from placet.envs.sb3_vec_env import Sb3VecEnv
from tests.envs.line import GOAL, LEFT, MASKED, RIGHT, at, line_env, make_line

HAS_SB3 = find_spec("stable_baselines3") is not None
needs_sb3 = pytest.mark.skipif(not HAS_SB3, reason="stable-baselines3 needs torch")


def sb3_line(make=make_line, worlds=2) -> Any:
    return Sb3VecEnv(VectorEnv(make, worlds, autoreset_mode="SameStep"))


@pytest.mark.skipif(HAS_SB3, reason="stable-baselines3 is installed")
def test_without_the_package_the_environment_names_it():
    with pytest.raises(ImportError, match="pip install stable-baselines3"):
        sb3_line()


@needs_sb3
def test_worlds_that_reset_in_the_next_step_are_refused():
    with pytest.raises(ValueError, match='autoreset_mode="SameStep"'):
        Sb3VecEnv(VectorEnv(make_line, 2))


@needs_sb3
def test_steps_are_those_of_the_vector_environment_and_worlds_end_apart():
    env, vector = sb3_line(), VectorEnv(make_line, 2, autoreset_mode="SameStep")
    env.seed(5)
    assert env.reset().tolist() == vector.reset(seed=5)[0].tolist()
    assert env.vector.worlds[1].kernel.config.seed == vector.worlds[1].kernel.config.seed
    env.vector.worlds[1].step([LEFT] * 3)
    vector.worlds[1].step([LEFT] * 3)
    rng = np.random.default_rng(1)
    ends_of = []
    for _ in range(14):
        actions = rng.integers(0, 2, 6)  # nobody goes right, so nobody is done
        observations, rewards, ends, infos = env.step(actions)
        expected = vector.step(actions)
        assert observations.tolist() == expected[0].tolist()
        assert rewards.tolist() == expected[1].tolist()
        assert ends.tolist() == expected[3].tolist()
        ends_of.append(ends.tolist())
        for slot, info in enumerate(infos):
            assert ("terminal_observation" in info) == ends[slot]
            if ends[slot]:
                assert info["terminal_observation"] == expected[4]["final_obs"][slot]
                assert info["TimeLimit.truncated"]
    assert [True] * 3 + [False] * 3 in ends_of
    env.close()


@needs_sb3
def test_a_seed_is_of_one_reset_alone():
    env = sb3_line()

    def digests() -> list[str]:
        env.reset()
        return [kernel.world_digest() for kernel in env.get_attr("kernel", [0, 3])]

    env.seed(7)
    first, second = digests(), digests()
    env.seed(7)
    assert (digests(), digests()) == (first, second)
    assert len({*first, *second}) == 4


@needs_sb3
def test_without_a_seed_copies_play_other_episodes_that_their_seed_repeats():
    envs = [sb3_line() for _ in range(6)]
    begun = [env.reset().tolist() for env in envs]
    assert len(set(map(str, begun))) > 1
    for env, cells in zip(envs, begun, strict=True):
        again = sb3_line()
        again.seed(env.vector.np_random_seed)
        assert again.reset().tolist() == cells


@needs_sb3
def test_a_member_that_is_done_waits_for_the_others_and_is_not_truncated():
    env = sb3_line(lambda: at([1, GOAL - 1]), worlds=1)
    env.reset()
    steps = [env.step(np.array([RIGHT, RIGHT])) for _ in range(GOAL - 1)]
    assert [ends.tolist() for _, _, ends, _ in steps] == [[False] * 2] * 3 + [[True] * 2]
    assert [rewards.tolist() for _, rewards, _, _ in steps] == [[0, 1], [0, 0], [0, 0], [1, 0]]
    *_, infos = steps[-1]
    assert not any(info["TimeLimit.truncated"] for info in infos)


@needs_sb3
def test_the_time_limit_truncates_the_members_that_are_not_done():
    env = sb3_line(lambda: at([1, GOAL - 1], max_steps=2), worlds=1)
    env.reset()
    env.step(np.array([RIGHT, RIGHT]))
    observations, _, ends, infos = env.step(np.array([RIGHT, RIGHT]))
    assert ends.tolist() == [True, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [True, False]
    assert [info["terminal_observation"].tolist() for info in infos] == [[3], [0]]
    assert observations.ravel().tolist() == [1, GOAL - 1]
    assert env.step(np.array([RIGHT, RIGHT]))[3] == [{}, {}]


@needs_sb3
def test_masks_are_methods_of_the_slots_and_other_methods_are_an_error():
    env = sb3_line(MASKED)
    env.reset()
    masks = env.env_method("action_masks")
    assert np.stack(masks).shape == (8, 3)
    assert env.has_attr("action_masks")
    assert not sb3_line().has_attr("action_masks")
    with pytest.raises(AttributeError, match="no method 'render_all'"):
        env.env_method("render_all")
    env.set_attr("label", "x", indices=[0, 5])
    assert env.get_attr("label", 4) == ["x"]
    assert env.env_is_wrapped(object) == [False] * 8


@needs_sb3
def test_the_picture_is_of_all_worlds():
    env = sb3_line(partial(line_env, 3, render_mode="rgb_array"))
    env.reset()
    assert env.render().shape == (480 * 2, 640, 3)
    assert len(env.env_method("render")) == 6
    assert sb3_line().render_mode is None


@needs_sb3
def test_a_learner_of_the_package_takes_it():
    from stable_baselines3 import PPO  # not a dependency
    from stable_baselines3.common.vec_env import VecMonitor  # not a dependency

    learner = PPO(
        "MlpPolicy", VecMonitor(sb3_line()), seed=1, n_steps=8, batch_size=48, device="cpu"
    )
    learner.learn(96)
    assert learner.num_timesteps == 96
    assert {episode["l"] for episode in learner.ep_info_buffer} <= {*range(1, 7)}
