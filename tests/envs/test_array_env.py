"""A population as arrays: actions, members that end, are suspended or refused, and copies."""

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from placet.envs import ArrayEnv
from placet.envs.array_env import NO_ACTION
from placet.kernel import Domain, Field, Kind, Table
from placet.kernel.prng import mix64
from placet.scenarios.population_view import Some
from tests.envs.line import (
    CELLS,
    GOAL,
    LEFT,
    LIMITED,
    MASKED,
    RIGHT,
    STAY,
    WALKERS,
    Line,
    Placed,
    Walk,
    at,
    line_env,
    parallel_line,
)


def cells(env: ArrayEnv) -> list[int]:
    return env.kernel.population("walkers")["cell"].tolist()  # type: ignore[no-any-return]


def test_a_step_is_a_column_batch_of_all_members_and_a_tick():
    env = at([0, 2, 4])
    records = env.kernel.record_count
    observations, rewards, terminals, truncations, infos = env.step([RIGHT, LEFT, RIGHT])
    assert cells(env) == [1, 1, 5]
    assert observations.tolist() == [[1], [1], [5]]
    assert rewards.tolist() == [0, 0, 1]
    assert terminals.tolist() == [False, False, True]
    assert not truncations.any()
    assert infos == [{"counts": {"admitted": 3}}]
    assert (env.kernel.record_count - records, env.kernel.sim_time) == (2, 1.0)


def test_the_arrays_are_the_environments_own_and_written_in_place():
    env = at([0, 2, 4])
    first = env.step([RIGHT, LEFT, LEFT])
    second = env.step([LEFT, STAY, LEFT])
    arrays = env.observations, env.rewards, env.terminals, env.truncations
    assert all(a is b is c for a, b, c in zip(first, second, arrays, strict=False))
    assert env.actions.tolist() == [LEFT, STAY, LEFT]
    assert [(a.shape[0], a.dtype.str[1:]) for a in (*arrays, env.masks, env.actions)] == [
        (3, dtype) for dtype in ("f4", "f4", "b1", "b1", "b1", "i4")
    ]


def test_given_arrays_are_written_into():
    given: dict[str, Any] = {
        "observations": np.zeros((6, 1), np.float32),
        "rewards": np.zeros(6, np.float32),
        "actions": np.zeros(6, np.int32),
        **{name: np.zeros(6, np.bool_) for name in ("terminals", "truncations", "masks")},
    }
    env = at([0, 2, 4], buf={name: array[3:] for name, array in given.items()})
    env.step([RIGHT, LEFT, RIGHT])
    assert given["observations"].ravel().tolist() == [0, 0, 0, 1, 1, 5]
    assert given["terminals"].tolist() == [False] * 5 + [True]
    with pytest.raises(ValueError, match=r"observations of buf .* got float32 of shape \(6, 1\)"):
        at([0, 2, 4], buf=given)
    with pytest.raises(ValueError, match=r"rewards of buf .* got list of shape \(3,\)"):
        line_env(3, buf={name: array[3:] for name, array in given.items()} | {"rewards": [0, 0, 0]})
    del given["masks"]
    with pytest.raises(ValueError, match="buf lacks the array 'masks'"):
        line_env(6, buf=given)


def test_a_refused_action_changes_nothing_and_has_its_code():
    env = at([0, 2, 0])
    *_, infos = env.step([LEFT, RIGHT, LEFT])
    assert cells(env) == [0, 3, 0]
    assert infos == [{"counts": {"admitted": 1, "line.edge": 2}}]
    assert [env.code_of(code) for code in env.codes] == ["line.edge", "admitted", "line.edge"]
    assert env.masks.all()  # a learner learns from a refusal
    assert env.rewards.tolist() == [-0.25, 0, -0.25]


def test_a_code_keeps_its_number_in_later_steps_and_worlds():
    env = at([0, 0, 4], config=LIMITED)
    env.step([LEFT, RIGHT, STAY])
    first = dict(enumerate(env.code_names))
    env.step([LEFT, LEFT, LEFT])
    assert [env.code_of(code) for code in env.codes] == [
        "line.edge",
        "quota_exceeded",
        "quota_exceeded",
    ]
    assert first.items() <= dict(enumerate(env.code_names)).items()
    env.reset()
    assert (env.codes == NO_ACTION).all()
    assert env.code_of(NO_ACTION) == "none"


def test_a_terminated_member_waits_for_the_others():
    env = at([4, 0], max_steps=3)
    env.step([RIGHT, RIGHT])
    assert env.terminals.tolist() == [True, False]
    assert env.masks.all()
    assert env.observations.tolist() == [[GOAL], [1]]
    observations, rewards, terminals, _, infos = env.step([LEFT, RIGHT])
    assert cells(env) == [GOAL, 2]  # its action was not sent
    assert observations.tolist() == [[0], [2]]
    assert rewards.tolist() == [0, 0]
    assert terminals.tolist() == [True, False]
    assert env.masks.tolist() == [False, True]
    assert infos == [{"counts": {"admitted": 1}}]
    assert env.codes.tolist() == [NO_ACTION, 0]
    env.step([LEFT, RIGHT])
    assert env.truncations.tolist() == [False, True]


def test_a_suspended_member_is_not_asked_and_goes_on_when_resumed():
    env = at([1, 1, 1])
    env.kernel.change_agent("walkers:1", "suspended")
    *_, infos = env.step([RIGHT, RIGHT, RIGHT])
    assert cells(env) == [2, 1, 2]
    assert env.masks.tolist() == [True, False, True]
    assert env.codes.tolist() == [0, NO_ACTION, 0]
    assert env.observations.tolist() == [[2], [1], [2]]
    assert infos == [{"counts": {"admitted": 2}}]
    env.kernel.change_agent("walkers:1", "resumed")
    env.step([LEFT, RIGHT, LEFT])
    assert cells(env) == [1, 2, 1]
    assert env.masks.all()


def test_a_step_without_an_acting_member_is_a_tick():
    env = at([1, 1])
    for number in range(2):
        env.kernel.change_agent(f"walkers:{number}", "suspended")
    *_, infos = env.step([RIGHT, RIGHT])
    assert infos == [{"counts": {}}]
    assert (cells(env), env.kernel.sim_time) == ([1, 1], 1.0)


class Split(Walk):
    """Each walker acts by one of two kinds; the action that stays proposes nothing."""

    def to_payload(self, actions, view):
        is_left, is_right = actions == LEFT, actions == RIGHT
        return {
            "Step": view.only(is_left, by=np.full(is_left.sum(), -1)),
            "Jump": view.only(np.flatnonzero(is_right), by=np.full(is_right.sum(), 1)),
        }


def test_members_may_act_by_several_kinds_and_by_none():
    env = line_env(5, adapter=Split())
    env.reset(3)
    before = np.array(cells(env))
    env.step([STAY] * 5)
    assert cells(env) == before.tolist()
    assert env.codes.tolist() == [NO_ACTION] * 5
    *_, infos = env.step([LEFT, STAY, RIGHT, LEFT, RIGHT])
    moved = before + np.array([-1, 0, 1, -1, 1])
    moved[moved < 0] = 0
    assert cells(env) == moved.tolist()
    assert sum(infos[0]["counts"].values()) == 4
    assert env.codes[1] == NO_ACTION


class Wrong(Walk):
    """Members that do not exist, or arrays of another length, in part after some are terminated."""

    def __init__(self, agents: Any, count: int) -> None:
        super().__init__()
        self._agents, self._count = agents, count

    def to_payload(self, actions, view):
        return {"Step": Some(self._agents, {"by": np.zeros(self._count, int)})}


@pytest.mark.parametrize("is_suspended", [False, True])
def test_rows_that_do_not_fit_are_refused_also_where_some_members_are_left_out(is_suspended):
    for agents, count, message in [
        ([0, 1, 9], 3, "must be numbers 0..2, got 9"),
        ([0, 1], 3, r"by of Step must be an array of shape"),
        ([1, 1], 2, "1 is there twice"),
    ]:
        env = line_env(3, adapter=Wrong(agents, count))
        env.reset(1)
        if is_suspended:
            env.kernel.change_agent("walkers:2", "suspended")
        with pytest.raises(ValueError, match=message):
            env.step([STAY] * 3)
    env = line_env(3, adapter=Wrong([2, 0], 2))
    env.reset(1)
    env.kernel.change_agent("walkers:2", "suspended")
    env.step([STAY] * 3)
    assert env.codes.tolist() == [0, NO_ACTION, NO_ACTION]


class Both(Walk):
    """Each walker steps by one kind and back by the other."""

    def to_payload(self, actions, view):
        return {"Step": {"by": actions - 1}, "Jump": {"by": 1 - actions}}


def test_the_first_refusal_of_a_member_is_its_code():
    env = ArrayEnv(Line, Both(), "walkers", 9, table=WALKERS)
    env.reset(3)
    before = cells(env)
    env.step([LEFT] * 9)
    expected = ["line.edge" if cell == 0 else "admitted" for cell in before]
    assert "line.edge" in expected
    assert [env.code_of(code) for code in env.codes] == expected


@pytest.mark.parametrize("on_rule_error", ["raise", "refuse"])
def test_the_reward_compares_the_columns_before_and_after(on_rule_error):
    env = at([0, 1], on_rule_error=on_rule_error)
    assert env.step([LEFT, RIGHT])[1].tolist() == [-0.25, 0]  # a refusal: the rest is written
    assert env.step([RIGHT, STAY])[1].tolist() == [0, -0.25]


class Board(Domain):
    """Players who fill the cell of their number, and note a number as their score."""

    name, version = "board", "1"
    tables = (
        Table("board.players", {"score": Field("i4")}),
        Table("board.cells", {"value": Field("i4")}, rows=2),
    )

    def __init__(self):
        self.kinds = (
            Kind("Fill", {"value": Field("i4")}, rows=self._fill, table="board.players"),
            Kind("Note", {"score": Field("i4")}, rows=self._note, table="board.players"),
        )

    def _fill(self, rows):
        rows.claim("board.cells", rows.numbers)
        rows.put("board.cells", rows.numbers, "value", rows.payload["value"])

    def _note(self, rows):
        rows.write("score", rows.payload["score"])


class FillAndNote(Walk):
    """Each player fills its cell, and notes what the cell had before."""

    def to_payload(self, actions, view):
        return {"Fill": {"value": actions}, "Note": {"score": view.table("board.cells")["value"]}}

    def observe(self, view):
        return view["score"][:, None]

    def reward(self, before, after):
        return after["score"] - before["score"]

    def is_done(self, view):
        return view["score"] < 0


@pytest.mark.parametrize("on_rule_error", ["raise", "refuse"])
def test_all_payloads_of_a_step_are_of_the_state_before_it(on_rule_error):
    adapter, table = FillAndNote(), "board.players"
    env = ArrayEnv(Board, adapter, "players", 2, table=table, on_rule_error=on_rule_error)
    env.reset(1)
    assert env.step([1, 2])[1].tolist() == [0, 0]
    assert env.step([2, 0])[1].tolist() == [1, 2]
    assert env.kernel.state["board.cells"]["cells:0"]["value"] == 2


# episodes


def lived(env: ArrayEnv, steps: int = 12) -> list[Any]:
    rng = np.random.default_rng(5)
    return [
        [np.array(part).tolist() for part in env.step(rng.integers(0, 3, env.num_agents))[:4]]
        for _ in range(steps)
    ]


def test_the_same_seed_and_actions_give_the_same_episodes():
    env = line_env(max_steps=5)
    env.reset(7)
    first = lived(env), env.kernel.world_digest()
    env.reset(7)
    assert (lived(env), env.kernel.world_digest()) == first
    env.reset(8)
    assert lived(env) != first[0]


def test_a_step_that_ends_an_episode_begins_the_next_in_the_same_step():
    env = line_env(max_steps=2)
    env.reset(7)
    assert env.kernel.config.seed == mix64(7, 0)
    env.step([LEFT] * 5)
    env.step([STAY] * 5)
    assert env.truncations.all()
    assert env.kernel.config.seed == mix64(7, 1)
    assert env.observations.ravel().tolist() == cells(env)
    assert env.final_observations is not None
    assert env.final_observations.tolist() != env.observations.tolist()
    env.step([STAY] * 5)
    assert not env.truncations.any()
    assert env.observations.ravel().tolist() == cells(env)


def test_the_next_step_begins_an_episode_where_gymnasium_has_it_so():
    env = line_env(max_steps=1, autoreset_mode="NextStep")
    env.reset(7)
    env.step([STAY] * 5)
    assert env.truncations.all()
    ended = env.observations.copy()
    assert ended.ravel().tolist() == cells(env)
    observations, rewards, terminals, truncations, infos = env.step([RIGHT] * 5)
    assert infos == []
    assert not np.concatenate([rewards, terminals, truncations]).any()
    assert env.kernel.ledger.tick == 0
    assert observations.ravel().tolist() == cells(env)
    assert (env.codes == NO_ACTION).all()
    assert not env.masks.any()
    env.step([STAY] * 5)
    assert env.masks.all()


def test_without_autoreset_a_step_after_the_end_is_refused():
    env = at([4], autoreset_mode="Disabled")
    env.step([RIGHT])
    with pytest.raises(ValueError, match="the episode has ended; call reset"):
        env.step([RIGHT])
    env.reset()
    env.step([LEFT])
    assert cells(env) == [3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("steps", [None, 0, 3, 6])
def test_a_copy_goes_on_as_the_original_and_apart(copied, steps):
    env = line_env(6, max_steps=5)
    if steps is not None:
        env.reset(3)
        for _ in range(steps):
            env.step([RIGHT, LEFT, STAY, LEFT, STAY, RIGHT])
    branch = copied(env)
    if steps is None:
        branch.reset(3)
        env.reset(3)
    before = env.kernel.world_digest(), env.observations.copy().tolist()
    branch_lived = lived(branch)
    assert (env.kernel.world_digest(), env.observations.tolist()) == before
    assert lived(env) == branch_lived
    assert env.kernel.world_digest() == branch.kernel.world_digest()


def test_columns_may_be_a_function_of_the_seed():
    def columns(seed: int) -> dict[str, Any]:
        return {"steps": np.full(3, seed % 1_000)}

    env = line_env(3, columns=columns)
    for seed in (3, 4):
        env.reset(seed)
        steps = env.kernel.population("walkers")["steps"]
        assert steps.tolist() == [mix64(seed, 0) % 1_000] * 3


# masks


def test_action_masks_follow_the_state():
    env = MASKED()
    env.reset(2)
    first = env.action_masks
    for _ in range(9):
        at_edge = np.array(cells(env)) == 0
        assert env.action_masks is not None
        assert env.action_masks is first
        assert (env.action_masks[:, LEFT] == ~at_edge).all()
        allowed = [np.flatnonzero(row)[0] for row in env.action_masks]
        *_, infos = env.step(allowed)
        assert set(infos[0]["counts"]) <= {"admitted"}
    assert line_env().action_masks is None


# the same world by ordinary intents


@pytest.mark.parametrize("seed", range(5))
def test_the_parallel_environment_of_a_population_comes_to_the_same_state(seed):
    arrays, parallel = line_env(max_steps=9, autoreset_mode="Disabled"), parallel_line(max_steps=9)
    arrays.reset(seed)
    parallel.reset(seed)
    rng = np.random.default_rng(seed)
    refused = 0
    while parallel.agents:
        live = [int(name.rpartition(":")[2]) for name in parallel.agents]
        actions = rng.integers(0, 3, 5)
        seen, rewards, ends, cut, infos = parallel.step({f"walkers:{n}": actions[n] for n in live})
        arrays.step(actions)
        assert np.flatnonzero(arrays.masks).tolist() == live
        for number in live:
            name = f"walkers:{number}"
            assert arrays.observations[number] == seen[name]
            assert arrays.rewards[number] == rewards[name]
            assert arrays.terminals[number] == ends[name]
            assert arrays.truncations[number] == (cut[name] and not ends[name])
            code = infos[name].get("code", "admitted")
            assert arrays.code_of(arrays.codes[number]) == code
            refused += code != "admitted"
        assert arrays.kernel.digest() == parallel.kernel.digest()
    assert refused or seed != 0


# bad input


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (
            [0, 1],
            r"actions must be an array of shape \(3,\), one for each of 3 members, got \(2,\)",
        ),
        ([[0], [1], [2]], r"shape \(3,\), .* got \(3, 1\)"),
        (1, r"got \(\)"),
        ([0, 1, 3], r"actions must be within Discrete\(3\), got 3 of member 2"),
        ([0, -1, 3], "got -1 of member 1"),
        ([0.0, 1.0, 1.0], r"actions must be integers within Discrete\(3\), got float64"),
        ([0, np.nan, 1], "got float64"),
        ([True, False, True], "got bool"),
        (["a", "b", "c"], "must be integers"),
        (None, "actions must be an array of shape"),
        ({"walkers:0": 1}, "actions must be an array of shape"),
    ],
)
def test_actions_that_are_not_within_their_space_are_refused_before_the_step(actions, message):
    env = at([0, 2, 4])
    before = env.kernel.world_digest(), env.kernel.record_count, env.actions.tolist()
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    assert (env.kernel.world_digest(), env.kernel.record_count, env.actions.tolist()) == before


class Shaped(Walk):
    """A walk with another space, or with a wrong answer."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self._answers = answers

    def __getattribute__(self, name: str) -> Any:
        answers: Mapping[str, Any] = object.__getattribute__(self, "__dict__").get("_answers", {})
        if name in answers:
            return lambda *_: answers[name]
        return super().__getattribute__(name)


SPACES: list[tuple[Any, Any, str]] = [
    (
        MultiDiscrete([3, 2]),
        [[0, 2], [0, 1]],
        r"within MultiDiscrete\(\[3 2\]\), got \[0, 2\] of mem",
    ),
    (Box(-1, 1, (2,)), [[0, np.nan], [0, 1]], r"got \[0\.0, nan\] of member 0"),
    (Box(-1, 1, (2,)), [[0, 1], [0, -1.5]], r"got \[0\.0, -1\.5\] of member 1"),
    (Box(-1, 1, (2,)), [["0", "1"], ["0", "1"]], r"must be numbers within Box"),
    (Discrete(3, start=2), [1, 2], r"got 1 of member 0"),
]


@pytest.mark.parametrize(("space", "actions", "message"), SPACES)
def test_actions_of_every_space_are_checked(space, actions, message):
    env = line_env(2, adapter=Shaped(action_space=space, to_payload={"Step": {"by": [0, 0]}}))
    env.reset(1)
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    env.step(env.action_space.sample())
    assert env.observation_space.contains(env.observations)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            {"observe": np.zeros(3)},
            r"observe\(\) must return an array of shape \(3, 1\), got \(3,\)",
        ),
        ({"observe": np.full((3, 1), np.nan)}, r"observe\(\) must return numbers, got NaN for mem"),
        ({"observe": [["a"]] * 3}, r"observe\(\) must return float32, got <U1"),
        ({"action_masks": np.ones((3, 2), bool)}, r"must return an array of shape \(3, 3\), got"),
        ({"action_masks": np.ones((3, 3))}, r"action_masks\(\) must return bool, got float64"),
        ({"reward": 1.0}, r"reward\(\) must return an array of shape \(3,\), got \(\)"),
        ({"reward": [0, np.nan, 0]}, r"reward\(\) must return numbers, got NaN for member 1"),
        ({"is_done": [0, 1, 0]}, r"is_done\(\) must return bool, got int64"),
        ({"to_payload": [1]}, r"to_payload\(\) must return a dict of kinds, got \[1\]"),
        ({"to_payload": {"Step": [0, 0, 0]}}, r"for the kind 'Step', got \[0, 0, 0\]"),
        ({"to_payload": {"Stop": {}}}, "there is no kind 'Stop'; .* did you mean 'Step'"),
        ({"to_payload": {"Step": {"by": [0]}}}, r"by of Step must be an array of shape \(3,\)"),
    ],
)
def test_a_wrong_answer_of_an_adapter_names_its_method(answers, message):
    env = line_env(3, adapter=Shaped(**answers))

    def one_step() -> None:
        env.reset(1)
        env.step([STAY] * 3)

    with pytest.raises(ValueError, match=message):
        one_step()


def test_masks_of_parts_are_one_after_another_and_a_box_has_none():
    parts = {"action_space": MultiDiscrete([3, 2]), "action_masks": np.ones((2, 5), bool)}
    env = line_env(2, adapter=Shaped(**parts))
    env.reset(1)
    assert env.action_masks is not None
    env = line_env(2, adapter=Shaped(action_space=Box(0, 1), action_masks=np.ones((2, 5), bool)))
    with pytest.raises(ValueError, match=r"action_masks\(\) must return None for actions of Box"):
        env.reset(1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: line_env(0), "count must be an int of at least 1, got 0"),
        (lambda: line_env(max_steps=0), "max_steps must be an int of at least 1, got 0"),
        (lambda: line_env(adapter=Shaped(observation_space=Discrete(3))), "must return a Box, got"),
        (lambda: line_env(adapter=Shaped(action_space=Dict())), r"or a Box, got Dict\(\)"),
        (
            lambda: line_env(adapter=Shaped(action_space=MultiDiscrete(np.ones((1, 1), int)))),
            "one axis",
        ),
        (lambda: line_env(autoreset_mode="Never"), "'Never' is not a valid AutoresetMode"),
        (lambda: line_env().step([0] * 5), "there is no episode; call reset to start one"),
        (lambda: line_env(columns={"cel": [0] * 5}).reset(), "has no field 'cel'.*'cell'"),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], object], message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_exception_of_a_rule_undoes_the_step():
    class Broken(Line):
        def on_tick(self, draft, sim_time):
            raise LookupError("planted")

    env = ArrayEnv(Broken, Walk(), "walkers", 3, table=WALKERS)
    env.reset(1)
    before = env.kernel.world_digest()
    with pytest.raises(Exception, match="planted"):
        env.step([STAY] * 3)
    assert env.kernel.world_digest() == before
    assert repr(env) == "<ArrayEnv of 3 'walkers': step 0>"
    env.close()


def test_a_walk_ends_at_the_goal():
    env = at([0], max_steps=50)
    steps = 0
    while not env.terminals.any():
        env.step([RIGHT])
        steps += 1
    assert steps == GOAL < CELLS


def test_the_state_is_that_of_the_adapter_and_of_its_space():
    env = line_env(5)
    env.reset(seed=1)
    assert env.state().tolist() == env.observations[:, 0].tolist()
    assert env.state_space.contains(env.state())
    small = line_env(3)
    with pytest.raises(ValueError, match="there is no episode; call reset to start one"):
        small.state()
    small.reset()
    with pytest.raises(ValueError, match=r"state\(\) must return an array of shape \(5,\)"):
        small.state()


def test_an_adapter_without_a_state_says_what_to_define():
    class Stateless(Walk):
        def state_space(self) -> Any:
            return None

    env = line_env(5, adapter=Stateless())
    env.reset(seed=1)
    assert not hasattr(env, "state_space")
    with pytest.raises(NotImplementedError, match=r"Stateless has no state; define state_space"):
        env.state()


def test_after_a_reset_that_fails_there_is_no_episode():
    given = iter([{"cell": np.zeros(2, np.int64)}, {"cell": np.zeros(3, np.int64)}])
    env = ArrayEnv(Placed, Walk(), "walkers", 2, table=WALKERS, columns=lambda _: next(given))
    env.reset(seed=1)
    with pytest.raises(ValueError, match="cell"):
        env.reset()
    with pytest.raises(ValueError, match="call reset to start one"):
        env.step([0, 0])
