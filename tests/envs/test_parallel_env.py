"""A world as a PettingZoo environment: PettingZoo's own tests pass, refusals are in the infos."""

import copy
import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo.test.parallel_test import parallel_api_test
from pettingzoo.test.seed_test import parallel_seed_test
from pettingzoo.test.state_test import test_state as _test_state
from pettingzoo.test.state_test import test_state_space as _test_state_space
from pettingzoo.utils.conversions import parallel_to_aec

from placet.actors.observation.cut_indexes import CutIndexes
from placet.domains.world import World
from placet.envs import SingleAgentEnv, VectorEnv
from placet.envs.grid import STEPS, grid_env
from placet.envs.parallel_env import EnvAdapter, WorldEnv
from placet.errors import ValidationError
from placet.kernel import KernelConfig
from placet.kernel.plugin.registry import Registry
from placet.tables.collector import Collector
from placet.tables.parts import CollectError, read_collected
from tests.envs.line import WALKERS, Line, WalkAlone, line_env, parallel_line
from tests.kernel.domains import Lab, Nursery

STAY, EAST, WEST, NORTH, SOUTH = range(len(STEPS))


def corner_env(**options: Any) -> WorldEnv:
    """A grid of 4 by 4 whose goal is (3, 3)."""
    return grid_env(width=4, height=4, goal=(3, 3), **options)


def at_origin(env: WorldEnv) -> WorldEnv:
    """Start an episode in which ann starts at the origin."""
    for seed in range(500):
        observations, _ = env.reset(seed)
        if tuple(observations["ann"][1]) == (0, 0) and tuple(observations["bob"][1]) != (3, 3):
            return env
    raise AssertionError("no seed puts ann at the origin")


def test_the_environment_passes_pettingzoos_api_test():
    parallel_api_test(grid_env(max_steps=60), num_cycles=150)


def test_a_seed_determines_an_episode():
    parallel_seed_test(grid_env, num_cycles=30)


def test_the_same_seed_and_actions_give_the_same_world():
    def lived(env, seed):
        env.reset(seed)
        rng = np.random.default_rng(5)
        seen = []
        while env.agents:
            seen.append(env.step({agent: int(rng.integers(5)) for agent in env.agents}))
        return repr(seen), env.kernel.digest()

    env = grid_env(max_steps=25)
    first = lived(env, 3)
    assert lived(grid_env(max_steps=25), 3) == first
    assert lived(env, 4) != first
    assert lived(env, 3) == first


def test_episodes_after_a_seed_follow_from_it_and_differ():
    def starts(env):
        return [
            env.reset(7)[0]["ann"].tolist(),
            *(env.reset()[0]["ann"].tolist() for _ in range(9)),
        ]

    first = starts(grid_env())
    assert first == starts(grid_env())
    assert len({str(start) for start in first}) > 3


def first_cells(env: Any, **options: Any) -> str:
    """Return where the members of an environment begin."""
    return str(env.reset(**options)[0])


@pytest.mark.parametrize(
    "make",
    [
        partial(parallel_line, config=KernelConfig(seed=5)),
        lambda: SingleAgentEnv(parallel_line(1)),
        partial(line_env, 9),
        lambda: VectorEnv(partial(line_env, 9), 2),
    ],
    ids=["WorldEnv", "SingleAgentEnv", "ArrayEnv", "VectorEnv"],
)
def test_copies_without_a_seed_play_other_episodes_that_their_seed_repeats(make):
    envs = [make() for _ in range(6)]
    begun = [first_cells(env) for env in envs]
    assert len(set(begun)) > 1
    seeds = [env.np_random_seed for env in envs]
    assert len(set(seeds)) == len(seeds)
    later = [first_cells(env) for env in envs]
    assert [env.np_random_seed for env in envs] == seeds
    assert [first_cells(make(), seed=seed) for seed in seeds] == begun
    assert [first_cells(env, seed=seed) for env, seed in zip(envs, seeds, strict=True)] == begun
    assert [first_cells(env) for env in envs] == later


def test_worlds_of_a_vector_without_a_seed_differ():
    cells, _ = VectorEnv(partial(line_env, 9), 6).reset()
    assert len({str(world) for world in np.split(cells, 6)}) > 1


def widest(state):
    """Return the largest x of an agent."""
    return max(agent["position"][0] for agent in state["world.agents"].values())


def test_rows_of_each_episode_are_collected_with_its_refusals(tmp_path):
    def collector(episode: int) -> Collector:
        return Collector(
            agents=["position"],
            world={"widest": widest},
            refusals=True,
            to=tmp_path / str(episode),
        )

    env = corner_env(collector=collector, max_steps=3)
    for seed in (3, 3, None):
        env.reset(seed)
        while env.agents:
            env.step(dict.fromkeys(env.agents, WEST))
    env.close()
    first, second, third = (read_collected(tmp_path / str(number)) for number in range(3))
    assert {n: t.digest() for n, t in first.items()} == {n: t.digest() for n, t in second.items()}
    assert first["agents"].digest() != third["agents"].digest()
    assert [row["tick"] for row in first["world"].rows()] == [1, 2, 3]
    positions = {name: a["position"] for name, a in env.kernel.state["world.agents"].items()}
    last = {row["agent"]: row["position"] for row in list(third["agents"].rows())[-2:]}
    assert last == {name: list(position) for name, position in positions.items()}
    refusals = [*first["refusals"].rows(), *third["refusals"].rows()]
    assert {row["code"] for row in refusals} == {"world.out_of_bounds"}
    assert {row["kind"] for row in refusals} == {"Move"}
    assert max(row["tick"] for row in refusals) == 2


def test_an_episode_without_a_collector_collects_nothing():
    kept = []

    def every_second(episode: int) -> Collector | None:
        if episode % 2:
            return None
        kept.append(Collector(agents=["position"]))
        return kept[-1]

    env = corner_env(collector=every_second)
    for _ in range(4):
        env.reset(1)
        env.step(dict.fromkeys(env.agents, STAY))
    assert env.collector is None
    assert [len(collector.tables()["agents"]) for collector in kept] == [2, 2]


def test_a_function_of_the_collector_that_raises_is_an_error_of_the_step():
    env = corner_env(collector=lambda _: Collector(world={"n": lambda state: 1 / 0}))
    env.reset(1)
    with pytest.raises(CollectError, match="the column 'n' raised ZeroDivisionError"):
        env.step(dict.fromkeys(env.agents, STAY))


def test_a_refused_action_is_reported_and_changes_nothing():
    env = at_origin(corner_env())
    before = env.kernel.digest()
    observations, rewards, _, _, infos = env.step({"ann": WEST, "bob": STAY})
    assert infos["ann"]["admitted"] is False
    assert infos["ann"]["code"] == "world.out_of_bounds"
    assert "is outside the world" in infos["ann"]["message"]
    assert infos["ann"]["refusals"][0]["stage"] == "domain"
    assert infos["bob"] == {}
    assert rewards["ann"] == 0
    assert tuple(observations["ann"][1]) == (0, 0)
    assert env.kernel.digest() == before


@pytest.mark.parametrize("action", [5, -1, 1.5, "east", None, [1]])
def test_an_action_outside_its_space_is_refused_before_the_step(action):
    env = at_origin(corner_env())
    before, seq = env.kernel.digest(), env.kernel.seq
    with pytest.raises(ValueError, match=r"'bob' must act within Discrete\(5\), got"):
        env.step({"ann": EAST, "bob": action})
    assert (env.kernel.digest(), env.kernel.seq) == (before, seq)
    assert env.render_mode is None


def test_an_admitted_action_is_seen_by_all_and_rewarded():
    env = at_origin(corner_env())
    _, rewards, _, _, infos = env.step({"ann": EAST})
    assert infos["ann"] == {"admitted": True, "seq": env.kernel.seq - 1}  # the tick is the last
    assert rewards["ann"] == 1
    observations, *_ = env.step({"ann": NORTH})
    assert tuple(observations["ann"][1]) == (1, 1)
    assert tuple(observations["bob"][2]) == (1, 1)
    assert tuple(observations["bob"][0]) == (3, 3)
    assert all(env.observation_space(agent).contains(seen) for agent, seen in observations.items())


def test_an_observation_holds_the_nearest_agents_in_sight():
    names = tuple("abcdefgh")
    env = grid_env(names, width=40, height=40, sight=6.0, others_max=3)
    env.reset(1)
    positions = {"a": [9, 9], "b": [9, 13], "c": [9, 8], "d": [10, 9], "e": [9, 11], "f": [30, 30]}
    positions |= {"g": [0, 39], "h": [0, 39]}
    given: Any = [("world.agents", a, {"position": place}, False) for a, place in positions.items()]
    env.kernel.patch(given, "the test places them")
    observations, *_ = env.step({})
    assert observations["a"].tolist() == [[20, 20], [9, 9], [9, 8], [10, 9], [9, 11]]
    assert observations["f"].tolist() == [[20, 20], [30, 30], [-1, -1], [-1, -1], [-1, -1]]
    assert observations["g"].tolist() == [[20, 20], [0, 39], [0, 39], [-1, -1], [-1, -1]]
    assert all(env.observation_space(a).contains(observations[a]) for a in names)
    with pytest.raises(ValueError, match="others_max must be an int of at least 0, got -1"):
        grid_env(others_max=-1)


def questions_per_agent(monkeypatch: pytest.MonkeyPatch, agents: int) -> float:
    """Count the questions who may see what in a step, on a grid as dense at any size."""
    names = [f"a{number}" for number in range(agents)]
    width = round((4 * agents) ** 0.5)
    env = grid_env(names, width=width, height=width, sight=3.0)
    env.reset(1)
    env.step({})
    asked: list[object] = []
    may_see = Registry.may_see

    def counted(*arguments: Any) -> bool:
        asked.append(arguments)
        return may_see(*arguments)

    monkeypatch.setattr(Registry, "may_see", counted)
    env.step(dict.fromkeys(env.agents, EAST))
    monkeypatch.undo()
    return len(asked) / agents


@pytest.mark.slow
def test_the_questions_of_a_step_do_not_grow_with_the_number_of_agents(monkeypatch):
    small, large = (questions_per_agent(monkeypatch, agents) for agents in (64, 196))
    assert large < 1.5 * small  # the rim of a small grid has fewer neighbors
    monkeypatch.setattr(CutIndexes, "visible_candidates", lambda *arguments: None)
    assert questions_per_agent(monkeypatch, 196) > 5 * small


def test_an_agent_at_the_goal_is_done_and_others_continue():
    env = at_origin(corner_env())
    for action in [EAST, NORTH, EAST, NORTH, EAST]:
        assert not any(env.step({"ann": action})[2].values())
    _, _, terminations, truncations, _ = env.step({"ann": NORTH})
    assert terminations == {"ann": True, "bob": False}
    assert truncations == {"ann": False, "bob": False}
    assert env.agents == ["bob"]
    observations, *_ = env.step({"bob": STAY})
    assert observations.keys() == {"bob"}
    with pytest.raises(ValueError, match=r"'ann' is not an active agent; active are \['bob'\]"):
        env.step({"ann": STAY})


def test_an_episode_is_truncated_at_its_steps():
    env = at_origin(corner_env(max_steps=2))
    assert not any(env.step({})[3].values())
    assert all(env.step({})[3].values())
    assert env.agents == []
    with pytest.raises(ValueError, match="the episode has ended; call reset"):
        env.step({})


def test_a_step_is_a_tick_of_simulated_time():
    env = grid_env()
    env.reset(1)
    env.step({})
    env.step({})
    assert env.kernel.sim_time == 2.0


@pytest.mark.parametrize("steps", [None, 0, 3])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_environment_goes_on_as_the_original_and_apart(copied, steps, tmp_path):
    env = grid_env(
        width=9, height=9, goal=(8, 8), max_steps=9, collector=partial(rows_in, tmp_path)
    )
    if steps is not None:
        env.reset(seed=3)
        for _ in range(steps):
            env.step(dict.fromkeys(env.agents, 1))
    branch = copied(env)
    assert branch.collector is None
    if steps is None:
        branch.reset(seed=3)
        env.reset(seed=3)
    before = env.kernel.digest()
    while branch.agents:
        branch.step(dict.fromkeys(branch.agents, branch.kernel.ledger.tick % 5))
    assert env.kernel.digest() == before
    while env.agents:
        env.step(dict.fromkeys(env.agents, env.kernel.ledger.tick % 5))
    assert env.kernel.world_digest() == branch.kernel.world_digest()
    env.close()


def rows_in(folder, episode):
    return Collector(agents=["position"], to=folder / f"{episode}") if episode < 1 else None


def test_environments_need_at_least_one_step():
    with pytest.raises(ValueError, match="max_steps must be an int of at least 1, got 0"):
        grid_env(max_steps=0)


# an adapter of one's own


ONE_EVERY_TEN_SECONDS: Any = {"Add": {"rate": 0.1, "burst": 1}}


class Posting(EnvAdapter):
    """Each agent may ask for an effect, and observes its own counter."""

    def observation_space(self, agent):
        return Box(0, 10, (1,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def to_intent(self, agent, action, view):
        if action:
            return {"kind": "Mail", "payload": {"count": 1}}
        return {"kind": "Add", "payload": {"amount": 1}, "priority": 60}

    def observe(self, view, agent):
        return np.array([view.state["lab.counts"][agent]["count"]], np.float32)

    def reward(self, before, after, agent):
        return float(after.view_seq - before.view_seq)


def posting_env(**options: Any) -> WorldEnv:
    return WorldEnv(Lab, Posting(), {"ann": {}, "bob": {"count": 2}}, **options)


def test_any_world_is_an_environment_by_an_adapter():
    env = posting_env()
    observations, infos = env.reset(1)
    assert [float(seen[0]) for seen in observations.values()] == [0, 2]
    assert infos == {"ann": {}, "bob": {}}
    observations, rewards, terminations, _, _ = env.step({"ann": 0, "bob": 0})
    assert [float(seen[0]) for seen in observations.values()] == [1, 3]
    assert rewards == {"ann": 3, "bob": 3}  # two intents and a tick
    assert terminations == {"ann": False, "bob": False}


def test_an_agent_that_a_rule_removes_is_terminated():
    class Bury(Posting):
        def to_intent(self, agent, action, view):
            return {"kind": "Bury", "payload": {"thing": "bob"}} if agent == "ann" else None

        def observe(self, view, agent):
            return np.array([len(view.state["lab.counts"])], np.float32)

        def reward(self, before, after, agent):
            return 0.0

    env = WorldEnv(Nursery, Bury(), {"ann": {}, "bob": {}})
    env.reset()
    _, _, terminations, _, infos = env.step({"ann": 0, "bob": 0})
    assert (terminations, env.agents) == ({"ann": False, "bob": True}, ["ann"])
    assert infos["ann"]["admitted"]


def test_steps_beyond_the_end_of_simulated_time_are_refused():
    with pytest.raises(ValueError, match=r"room for 146 ticks of 3\.15576e\+07 s, got 200"):
        WorldEnv(World, Posting(), {"ann": {}}, max_steps=200, tick_s=365.25 * 86_400)


def test_an_effect_without_an_executor_is_refused():
    env = posting_env()
    env.reset(1)
    *_, infos = env.step({"ann": 1})
    assert infos["ann"]["code"] == "tool_unregistered"
    env.kernel.change_executor("mail", 10)
    *_, infos = env.step({"ann": 1})
    assert infos["ann"]["admitted"]
    env.step({})
    assert len(env.kernel.open_effects()) == 1  # still open: nothing here settles it


def test_the_policy_of_the_world_binds_the_actions():
    quotas = {"Add": {"rate": 0.1, "burst": 1}}
    env = posting_env(config=KernelConfig(quotas=quotas, seed=9), tick_s=0.5)
    env.reset()
    assert env.step({"ann": 0})[4]["ann"]["admitted"]
    refused = env.step({"ann": 0})[4]["ann"]
    assert refused["code"] == "quota_exceeded"
    assert refused["refusals"][0]["retry_after"] > 0


def test_intents_carry_the_seq_of_the_view():
    env = posting_env(config=KernelConfig(staleness_threshold=0))  # strict: on the very latest
    env.reset()
    for _ in range(3):
        assert env.step({"ann": 0})[4]["ann"]["admitted"]


def test_a_failed_registration_is_an_error():
    env = WorldEnv(World, Posting(), {"ann": {"position": "here"}})
    with pytest.raises(ValidationError, match="position"):
        env.reset()


@pytest.mark.parametrize("name", ["parallel_env", "grid"])
def test_a_missing_extra_is_reported_in_one_sentence(name):
    program = f"import sys; sys.modules['gymnasium'] = None; import placet.envs.{name}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    said = "placet.envs needs the extra 'gym': pip install '.[gym]' in a clone of placet"
    assert done.stderr.endswith(f"ImportError: {said}\n")


def test_importing_placet_does_not_load_pettingzoo():
    program = "import sys, placet.cli; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# state, masks and populations


def test_a_population_of_a_world_is_a_parallel_environment_with_state_and_masks():
    parallel_api_test(parallel_line(max_steps=9), num_cycles=60)
    env = parallel_line()
    observations, infos = env.reset(4)
    assert list(observations) == [f"walkers:{number}" for number in range(5)]
    assert env.state_space.contains(env.state())
    assert env.state().tolist() == [seen[0] for seen in observations.values()]
    for _ in range(9):
        actions = {a: env.action_space(a).sample(infos[a]["action_mask"]) for a in env.agents}
        *_, infos = env.step(actions)
        assert all(info["admitted"] for info in infos.values())
        assert all(info["action_mask"].dtype == np.int8 for info in infos.values())


def test_the_state_passes_pettingzoos_own_test():
    env = parallel_to_aec(parallel_line(max_steps=4))
    _test_state_space(env)
    _test_state(env, num_cycles=1)


def test_a_copy_of_a_population_goes_on_as_the_original():
    env = parallel_line(max_steps=9)
    env.reset(3)
    branch = pickle.loads(pickle.dumps(env))
    for one in (env, branch):
        one.step(dict.fromkeys(one.agents, 2))
    assert env.kernel.world_digest() == branch.kernel.world_digest()
    assert env.state().tolist() == branch.state().tolist()


class Twice(Posting):
    """An action adds to the own counter, and then again; both or neither."""

    def to_intent(self, agent, action, view):
        return [{"kind": "Add", "payload": {"amount": amount}} for amount in (1, action)]


def test_several_intents_of_an_action_are_one_batch():
    env = WorldEnv(Lab, Twice(), {"ann": {}, "bob": {"count": 2}})
    env.reset(1)
    observations, _, _, _, infos = env.step({"ann": 1, "bob": 1})
    assert [float(seen[0]) for seen in observations.values()] == [2, 4]
    assert all(info["admitted"] for info in infos.values())
    env = WorldEnv(Lab, Twice(), {"ann": {}}, config=KernelConfig(quotas=ONE_EVERY_TEN_SECONDS))
    env.reset(1)
    observations, _, _, _, infos = env.step({"ann": 1})
    assert infos["ann"]["code"] == "batch_exceeds_burst"
    assert observations["ann"].tolist() == [0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WorldEnv(Lab, Posting(), ["ann"]), r"agents must map names .*, got \['ann'\]"),  # type: ignore[arg-type]
        (lambda: WorldEnv(Lab(), Posting(), {}), "domain_factory must be a class of a domain, or"),  # type: ignore[arg-type]
        (lambda: WorldEnv(Lab, Posting(), {}, populations=[1]), "populations must map names"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("proposal", ["Add", 1, [1], [{"kind": "Add"}, None]])
def test_an_action_that_means_no_intent_is_an_error(proposal):
    adapter = Posting()
    adapter.to_intent = lambda *_: proposal  # type: ignore[method-assign]
    env = WorldEnv(Lab, adapter, {"ann": {}})
    env.reset(1)
    with pytest.raises(ValueError, match=r"to_intent\(\) must return \{\"kind\""):
        env.step({"ann": 1})


def test_an_adapter_without_a_state_says_so():
    env = posting_env()
    env.reset(1)
    assert not hasattr(env, "state_space")
    with pytest.raises(NotImplementedError, match=r"Posting has no state; define state_space\(\)"):
        env.state()


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        (
            "observe",
            np.zeros(2),
            r"observe\(\) must return an array of shape \(1,\), .* got \(2,\)",
        ),
        ("state", np.zeros(2), r"state\(\) must return an array of shape \(5,\), .* got \(2,\)"),
        ("state", None, r"state\(\) must return an array of shape \(5,\), .* got \(\)"),
        ("action_mask", [1, 1], r"one item for each of 3 actions, got an array of shape \(2,\)"),
    ],
)
def test_an_answer_of_another_shape_than_its_space_is_an_error(method, answer, message):
    adapter = WalkAlone()
    setattr(adapter, method, lambda *_: answer)
    walkers = {"walkers": {"count": 5, "table": WALKERS}}
    env = WorldEnv(Line, adapter, {}, populations=lambda seed: walkers)

    def seen() -> None:
        env.reset(1)
        env.state()

    with pytest.raises(ValueError, match=message):
        seen()
