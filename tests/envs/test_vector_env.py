"""Several worlds as one vector environment of gymnasium, and single-agent environments."""

import copy
import pickle
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from placet.envs import SingleAgentEnv, VectorEnv
from placet.envs.grid import grid_env, single_grid_env
from placet.kernel.prng import mix64
from tests.envs.line import LEFT, LIMITED, MASKED, RIGHT, STAY, line_env, make_line

MODES = list(AutoresetMode)


def digests(env: VectorEnv) -> list[str]:
    return [world.kernel.world_digest() for world in env.worlds]


@pytest.mark.parametrize("mode", MODES)
def test_each_world_has_the_episodes_of_an_environment_of_its_seed(mode):
    vector = VectorEnv(make_line, 3, autoreset_mode=mode)
    alone = [make_line(autoreset_mode=mode) for _ in range(3)]
    observations, _ = vector.reset(seed=5)
    for number, env in enumerate(alone):
        env.reset(mix64(5, number))
    assert observations.tolist() == np.concatenate([e.observations for e in alone]).tolist()
    assert len(set(digests(vector))) == 3
    rng = np.random.default_rng(1)
    for _ in range(6 if mode is AutoresetMode.DISABLED else 20):
        actions = rng.integers(0, 2, vector.num_envs)  # nobody goes right, so nobody is done
        *results, infos = vector.step(actions)
        for env, part in zip(alone, np.split(actions, 3), strict=True):
            env.step(part)
        for given, name in zip(
            results, ("observations", "rewards", "terminals", "truncations"), strict=True
        ):
            assert given.tolist() == np.concatenate([getattr(e, name) for e in alone]).tolist()
        assert infos["mask"].tolist() == np.concatenate([e.masks for e in alone]).tolist()
        named = [env.code_of(code) for env in alone for code in env.codes]
        assert [vector.worlds[0].code_of(code) for code in infos["code"]] == named
    assert digests(vector) == [env.kernel.world_digest() for env in alone]
    vector.close()


def test_results_are_copies_and_have_the_spaces_of_gymnasium():
    vector = VectorEnv(make_line, 2)
    first, _ = vector.reset(seed=1)
    kept = first.copy()
    vector.action_space.seed(1)
    second, rewards, *_ = vector.step(vector.action_space.sample())
    assert (first == kept).all()
    assert (vector.num_envs, second.shape, rewards.shape) == (6, (6, 1), (6,))
    assert vector.observation_space.contains(second)
    assert vector.single_action_space == gymnasium.spaces.Discrete(3)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_a_world_that_ended_in_the_step_has_its_last_observations_in_the_infos():
    vector = VectorEnv(make_line, 2, autoreset_mode="SameStep")
    vector.reset(seed=1)
    vector.step([LEFT] * 6)
    vector.worlds[1].reset()  # now the worlds end apart
    for _ in range(4):
        assert "final_obs" not in vector.step([LEFT] * 6)[4]
    observations, _, _, truncations, infos = vector.step([LEFT] * 6)
    assert truncations.tolist() == [True] * 3 + [False] * 3
    assert infos["_final_obs"].tolist() == [True] * 3 + [False] * 3
    assert infos["final_obs"].ravel().tolist() == [0] * 6
    assert observations[:3].any()


def test_worlds_are_reset_by_a_mask_where_nothing_resets_them():
    vector = VectorEnv(make_line, 2, autoreset_mode="Disabled")
    vector.reset(seed=1)
    vector.worlds[0].step([STAY] * 3)
    for _ in range(5):
        vector.step([STAY] * 6)
    mask = np.array([True] * 3 + [False] * 3)
    with pytest.raises(ValueError, match=r"the episode of the worlds \[0\] has ended; call reset"):
        vector.step([STAY] * 6)
    before = digests(vector)
    vector.reset(options={"reset_mask": mask})
    after = digests(vector)
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    with pytest.raises(ValueError, match="a part of the members of world 1"):
        vector.reset(options={"reset_mask": np.array([True] * 4 + [False] * 2)})
    with pytest.raises(ValueError, match=r"booleans of shape \(6,\), got int64 of shape \(2,\)"):
        vector.reset(options={"reset_mask": [1, 0]})


def test_masks_of_actions_are_in_the_infos():
    vector = VectorEnv(MASKED, 2)
    _, infos = vector.reset(seed=3)
    for _ in range(20):
        mask = infos["action_mask"]
        assert mask.shape == (8, 3)
        actions = mask.argmax(axis=1)
        *_, infos = vector.step(actions)
        assert (infos["code"] <= 0).all()
    assert "action_mask" not in VectorEnv(make_line, 2).reset()[1]


def test_refusals_of_all_worlds_have_one_numbering():
    vector = VectorEnv(lambda: line_env(2, config=LIMITED), 2)
    vector.reset(seed=4)
    vector.worlds[1].step([LEFT, LEFT])
    infos = vector.step([LEFT] * 4)[4]
    first, second = (env.codes for env in vector.worlds)
    assert infos["code"].tolist() == [*first, *second]
    assert [vector.code_names[code] for code in second] == ["quota_exceeded"] * 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_a_vector_goes_on_as_the_original_and_apart(copied):
    vector = VectorEnv(make_line, 2)
    vector.reset(seed=2)
    vector.step([RIGHT] * 6)
    branch = copied(vector)
    before = digests(vector)
    for _ in range(9):
        branch.step([LEFT] * 6)
    assert digests(vector) == before
    for _ in range(9):
        vector.step([LEFT] * 6)
    assert digests(vector) == digests(branch)
    assert branch.code_names is branch.worlds[1].code_names


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_episode_of_a_slot_is_counted_once_where_it_ends(mode):
    vector = VectorEnv(make_line, 2, autoreset_mode=mode)
    vector.reset(seed=3)
    rng = np.random.default_rng(2)
    returns, lengths, waits, counted = np.zeros(6), np.zeros(6, int), np.zeros(6, bool), 0
    for _ in range(60):
        between = np.repeat(waits.reshape(2, 3).all(axis=1), 3)
        if mode is AutoresetMode.SAME_STEP:
            returns[between], lengths[between], waits[between] = 0, 0, False
        _, rewards, ends, cuts, infos = vector.step(rng.integers(0, 3, 6))
        found = infos.get("_episode", np.zeros(6, bool))
        for slot in range(6):
            if mode is AutoresetMode.NEXT_STEP and between[slot]:
                returns[slot], lengths[slot], waits[slot] = 0, 0, False
                assert not found[slot]
                continue
            is_end = not waits[slot] and (ends[slot] or cuts[slot])
            if not waits[slot]:
                returns[slot], lengths[slot] = returns[slot] + rewards[slot], lengths[slot] + 1
            assert found[slot] == is_end
            if is_end:
                assert infos["episode"]["r"][slot] == returns[slot]
                assert infos["episode"]["l"][slot] == lengths[slot] <= 6
                waits[slot], counted = True, counted + 1
    assert counted > 40


def test_episodes_are_counted_where_a_mask_resets_their_worlds():
    vector = VectorEnv(make_line, 3, autoreset_mode="Disabled")
    vector.reset(seed=3)
    rng = np.random.default_rng(2)
    returns, lengths, waits = np.zeros(9), np.zeros(9, int), np.zeros(9, bool)
    counted = resets = 0
    for number in range(60):
        mask = np.repeat(waits.reshape(3, 3).all(axis=1), 3)
        if number % 7 == 3:
            mask[:3] = True  # a world is also reset within an episode
        if mask.any():
            vector.reset(options={"reset_mask": mask})
            returns[mask], lengths[mask], waits[mask] = 0, 0, False
            resets += 1
        _, rewards, ends, cuts, infos = vector.step(rng.integers(0, 3, 9))
        returns, lengths = returns + np.where(waits, 0, rewards), lengths + ~waits
        is_end = ~waits & (ends | cuts)
        assert infos.get("_episode", np.zeros(9, bool)).tolist() == is_end.tolist()
        if is_end.any():
            assert infos["episode"]["r"].tolist() == np.where(is_end, returns, 0).tolist()
            assert infos["episode"]["l"].tolist() == np.where(is_end, lengths, 0).tolist()
        waits, counted = waits | is_end, counted + is_end.sum()
    assert counted > 60
    assert resets > 15


def test_a_step_with_a_world_to_reset_steps_no_world():
    vector = VectorEnv(make_line, 2, autoreset_mode="Disabled")
    vector.reset(seed=1)
    vector.step([STAY] * 6)
    vector.reset(options={"reset_mask": np.array([True] * 3 + [False] * 3)})
    for _ in range(5):
        vector.step([STAY] * 6)
    before = digests(vector)
    with pytest.raises(ValueError, match=r"the episode of the worlds \[1\] has ended; call reset"):
        vector.step([STAY] * 6)
    assert digests(vector) == before


def test_a_wrapper_that_would_count_waiting_slots_is_refused():
    vector = RecordEpisodeStatistics(VectorEnv(make_line, 2))
    vector.reset(seed=1)
    for _ in range(5):
        vector.step(np.zeros(6, np.int64))
    with pytest.raises(ValueError, match="'episode' but this key already exists"):
        vector.step(np.zeros(6, np.int64))


def test_wrappers_of_gymnasium_work():
    vector: Any = DictInfoToList(VectorEnv(make_line, 2))
    vector.reset(seed=1)
    episodes: list[Any] = []
    for _ in range(20):
        *_, infos = vector.step(np.zeros(6, np.int64))
        episodes += [info["episode"] for info in infos if "episode" in info]
    assert {int(episode["l"]) for episode in episodes} == {6}
    assert len(episodes) == 18  # an episode of six steps, and a step that resets


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VectorEnv(make_line, 0), "worlds must be an int of at least 1, got 0"),
        (lambda: VectorEnv(grid_env, 2), "must return an ArrayEnv, got"),  # type: ignore[arg-type]
        (lambda: VectorEnv(iter([line_env(2), line_env(3)]).__next__, 2), r"one size .*\(3, .*\(2"),
        (lambda: VectorEnv(make_line, 2).step([0] * 5), r"shape \(6,\), .* got \(5,\)"),
        (lambda: VectorEnv(make_line, 2).step([0, 0, 0, 0, 0, 7]), "got 7 of member 5"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# registration with gymnasium


def test_the_registered_grid_passes_gymnasiums_checks():
    env = gymnasium.make("placet/Grid-v0", width=4, height=4, max_steps=9)
    assert isinstance(env.unwrapped, SingleAgentEnv)
    check_env(env.unwrapped)
    env.reset(seed=1)
    infos = [env.step(2)[4] for _ in range(5)]
    assert "world.out_of_bounds" in {info.get("code") for info in infos}
    env.close()
    drawn = gymnasium.make("placet/Grid-v0", render_mode="rgb_array")
    drawn.reset()
    picture: Any = drawn.render()
    assert picture.shape == (480, 640, 3)


def test_gymnasium_makes_vectors_of_the_grid_and_of_a_registered_array_environment():
    grids = gymnasium.make_vec("placet/Grid-v0", num_envs=3, width=4, height=4)
    assert grids.reset(seed=1)[0].shape == (3, 2, 2)
    made: Any = lambda num_envs: VectorEnv(make_line, num_envs // 3)  # noqa: E731
    gymnasium.register("line-v0", vector_entry_point=made)
    lines = gymnasium.make_vec("line-v0", num_envs=12)
    assert isinstance(lines, VectorEnv)
    assert lines.reset(seed=1)[0].shape == (12, 1)


def logged_grid(folder: str, copy: int) -> SingleAgentEnv:
    store = f"sqlite:///{folder}/{copy}-{{}}.db".format
    return single_grid_env(width=4, height=4, max_steps=3, store=store)


@pytest.mark.parametrize("make", [SyncVectorEnv, partial(AsyncVectorEnv, context="spawn")])
def test_vectors_of_gymnasium_have_copies_with_seeds_and_logs_of_their_own(make, tmp_path):
    copies: Any = make([partial(logged_grid, str(tmp_path), copy) for copy in range(2)])
    first, _ = copies.reset()
    drawn = copies.get_attr("np_random_seed")
    assert len(set(drawn)) == 2
    for _ in range(5):  # beyond the end of an episode
        copies.step([1, 2])
    assert copies.reset(seed=list(drawn))[0].tolist() == first.tolist()
    copies.reset(seed=7)
    assert copies.get_attr("np_random_seed") == (7, 8)
    copies.close()
    names = [path.name for path in tmp_path.glob("*.db")]
    assert sorted(names) == [f"{copy}-{number}.db" for copy in range(2) for number in range(4)]


def test_a_seed_that_is_read_before_the_first_reset_is_not_that_of_its_episode():
    envs: Any = gymnasium.make("placet/Grid-v0"), VectorEnv(make_line, 2)
    for env in envs:
        assert env.np_random_seed is not None  # gymnasium draws one
        first, _ = env.reset()
        again, _ = env.reset(seed=env.np_random_seed)
        assert first.tolist() == again.tolist()


def test_an_environment_of_several_agents_is_no_single_agent_environment():
    with pytest.raises(ValueError, match=r"has one agent, got 2: \['ann', 'bob'\]; use WorldEnv"):
        SingleAgentEnv(grid_env())
