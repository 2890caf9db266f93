"""The log of an episode: what it holds, and where it begins and ends."""

import copy
from itertools import count
from pathlib import Path

import pytest

from placet import Log
from placet.domains.world import World
from placet.envs import VectorEnv, WorldEnv
from placet.envs.grid import MoveOnGrid, grid_env
from placet.errors import StoreError
from placet.tables.collector import Collector
from tests.envs.line import LEFT, RIGHT, STAY, Line, line_env, parallel_line

WEST, NORTH = 2, 3


def lived(env, seed, options=None):
    """Step west until the episode ends; return the infos of all steps."""
    env.reset(seed, options)
    infos = []
    while env.agents:
        infos.append(env.step(dict.fromkeys(env.agents, WEST))[4])
    return infos


def test_the_log_of_each_episode_is_verified_and_explains_each_refusal(tmp_path):
    env = grid_env(max_steps=9, store=f"sqlite:///{tmp_path}/{{}}.db".format)
    for number, seed in enumerate((3, 4)):
        infos = lived(env, seed)
        digest = env.kernel.digest()
        env.close()
        with Log(tmp_path / f"{number}.db") as log:
            assert log.at().digest() == digest
            assert log.verify().is_ok
            refused = [info["ann"] for info in infos if info["ann"].get("code")]
            for info in refused:
                text = str(log.explain("ann", info["refusals"][0]["req_id"]))
                assert info["message"] in text
            assert refused
    assert not (tmp_path / "2.db").exists()


def test_the_log_changes_no_episode(tmp_path):
    logged = grid_env(max_steps=9, store=f"sqlite:///{tmp_path}/{{}}.db".format)
    plain = grid_env(max_steps=9)
    assert lived(logged, 3) == lived(plain, 3)
    assert logged.kernel.digest() == plain.kernel.digest()
    logged.close()


def test_every_second_episode_is_logged_beside_its_rows(tmp_path):
    def store(episode: int) -> str | None:
        return None if episode % 2 else f"sqlite:///{tmp_path}/{episode}.db"

    def collector(episode: int) -> Collector | None:
        return Collector(agents=["position"], to=tmp_path / f"{episode}.db.collected")

    env = grid_env(max_steps=3, store=store, collector=collector)
    for _ in range(3):
        lived(env, 1)
    env.close()
    assert sorted(file.name for file in tmp_path.glob("*.db")) == ["0.db", "2.db"]


def test_members_of_a_population_are_logged(tmp_path):
    env = parallel_line(max_steps=3, store=f"sqlite:///{tmp_path}/{{}}.db".format)
    env.reset(1)
    env.step(dict.fromkeys(env.agents, 2))
    env.close()
    with Log(tmp_path / "0.db") as log:
        assert log.at().digest() == env.kernel.digest()


def test_each_episode_of_arrays_is_logged_and_its_seed_begins_it_again(tmp_path):
    env = line_env(3, max_steps=4, store=f"sqlite:///{tmp_path}/{{}}.db".format)
    env.reset(3)
    env.step([LEFT, RIGHT, STAY])
    for _ in range(4):  # the third of them ends the episode and begins the next
        env.step([STAY] * 3)
    digest = env.kernel.digest()
    env.close()
    env.step([STAY] * 3)  # after close nothing is written
    with Log(tmp_path / "0.db", domain=Line) as log:
        assert log.verify().is_ok
        assert [event.type for event in log.records()].count("columns") == 4
    with Log(tmp_path / "1.db", domain=Line) as log:
        assert log.at().digest() == digest
        seed = next(iter(log.records())).data["seed"]
    again = line_env(3, max_steps=4)
    again.reset(options={"world_seed": seed})
    again.step([STAY] * 3)
    assert again.kernel.digest() == digest
    assert not (tmp_path / "2.db").exists()


def test_the_worlds_of_a_vector_have_stores_of_their_own_or_are_refused(tmp_path):
    numbers = count()
    env = VectorEnv(
        lambda: line_env(2, store=f"sqlite:///{tmp_path}/{next(numbers)}-{{}}.db".format), 3
    )
    env.reset(seed=1)
    env.close()
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["0-0.db", "1-0.db", "2-0.db"]
    shared = VectorEnv(lambda: line_env(2, store=f"sqlite:///{tmp_path}/all-{{}}.db".format), 2)
    with pytest.raises(StoreError, match="Each copy of an environment needs its own stores"):
        shared.reset(seed=1)


def test_an_episode_begins_its_log(tmp_path):
    env = grid_env(store=lambda _: f"sqlite:///{tmp_path}/same.db")
    env.reset(1)
    with pytest.raises(StoreError, match=r"^store\(1\) .* has a log of .*: return another store"):
        env.reset(1)


def test_the_seed_in_a_log_begins_its_episode_again(tmp_path):
    env = grid_env(max_steps=3, store=f"sqlite:///{tmp_path}/{{}}.db".format)
    lived(env, None)
    infos = lived(env, None)  # its seed follows from that of the first
    digest = env.kernel.digest()
    env.close()
    with Log(tmp_path / "1.db") as log:
        seed = next(iter(log.records())).data["seed"]
    assert seed == env.kernel.config.seed
    again = grid_env(max_steps=3)
    assert lived(again, None, {"world_seed": seed}) == infos
    assert again.kernel.digest() == digest
    again.reset()
    assert again.kernel.config.seed != seed


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7"])
def test_a_seed_that_is_of_no_world_is_refused(seed):
    with pytest.raises(ValueError, match=r"world_seed of options must be"):
        grid_env().reset(options={"world_seed": seed})


@pytest.mark.parametrize("store", ["sqlite:///episodes.db", Path("episodes.db"), 5])
def test_one_store_for_all_episodes_is_refused_with_a_function(store):
    with pytest.raises(ValueError, match=r"store must be a function of .*, such as 'sqlite"):
        grid_env(store=store)


def test_the_store_of_an_episode_may_be_a_path_and_is_of_one_environment(tmp_path):
    env, copied = (grid_env(store=lambda _: tmp_path / "same.db") for _ in range(2))
    env.reset(1)
    why = r"^store\(0\) of the environment returned .*/same\.db, which is open elsewhere: this "
    with pytest.raises(StoreError, match=why + r".* store=f'sqlite:///copy-\{copy\}-") as info:
        copied.reset(1)
    assert "Orchestrator" not in str(info.value)
    env.close()
    with Log(tmp_path / "same.db") as log:
        assert len(log) == env.kernel.record_count


def test_a_copy_of_an_environment_keeps_no_log(tmp_path):
    env = grid_env(store=f"sqlite:///{tmp_path}/{{}}.db".format)
    env.reset(1)
    branch = copy.deepcopy(env)
    branch.step(dict.fromkeys(branch.agents, NORTH))
    before = env.kernel.record_count
    env.close()
    env.step(dict.fromkeys(env.agents, NORTH))  # after close nothing is written
    with Log(tmp_path / "0.db") as log:
        assert len(log) == before


def test_a_step_that_a_rule_undoes_is_not_in_the_log(tmp_path):
    class Broken(World):
        def on_tick(self, draft, sim_time):
            if sim_time > 1:
                raise RuntimeError("the rule broke")

    env = WorldEnv(
        Broken,
        MoveOnGrid(4, 4, (3, 3), 0),
        {"ann": {"position": [0, 0]}},
        store=lambda _: f"sqlite:///{tmp_path}/0.db",
    )
    env.reset(1)
    env.step({"ann": NORTH})
    with pytest.raises(RuntimeError, match="the rule broke"):
        env.step({"ann": NORTH})
    digest = env.kernel.digest()
    env.close()
    with Log(tmp_path / "0.db") as log:
        assert log.at().digest() == digest


def test_the_log_of_a_domain_of_the_program_is_decided_again_with_it_alone(tmp_path):
    env = parallel_line(max_steps=3, store=lambda _: f"sqlite:///{tmp_path}/line.db")
    env.reset(3)
    env.step(dict.fromkeys(env.agents, 2))
    env.close()
    without, given = Log(tmp_path / "line.db"), Log(tmp_path / "line.db", domain=Line)
    checked = without.verify()
    assert (checked.is_ok, checked.batches) == (None, 0)
    assert "its settings() returned None; give it: --domain" in str(checked)
    assert (given.verify().is_ok, without.verify(Line).is_ok) == (True, True)
    assert given.verify().batches > 0
