"""What a `WorldEnv` is given wrongly is named then: arguments, and answers of adapters."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from placet.domains.world import World
from placet.envs import (
    ArrayAdapter,
    ArrayEnv,
    EnvAdapter,
    IntentWarning,
    SingleAgentEnv,
    VectorEnv,
    WorldEnv,
)
from placet.envs.grid import MoveOnGrid, grid_env
from placet.kernel import Kernel
from tests.envs.line import RIGHT, STAY, WALKERS, Line, Walk, line_env

ANN: Any = {"ann": {"position": [0, 0]}}
EAST = 1


class Bare(EnvAdapter):
    """Defines nothing."""


class BareArrays(ArrayAdapter):
    """Likewise."""


BARE: Any = Bare
BARE_ARRAYS: Any = BareArrays
WALK: Any = Walk


def grid(adapter: Any = None, agents: Any = ANN, factory: Any = World, **options: Any) -> WorldEnv:
    walk = MoveOnGrid(8, 6, (5, 4), 0)
    return WorldEnv(factory, walk if adapter is None else adapter, agents, **options)


def answering(method: str, answer: object, **others: Any) -> WorldEnv:
    """Return a grid whose adapter answers by a method as given."""
    adapter: Any = MoveOnGrid(8, 6, (5, 4), 0)
    for name, value in {**others, method: answer}.items():
        setattr(adapter, name, lambda *_, value=value: value)
    return grid(adapter)


def steps(env: WorldEnv) -> Any:
    env.reset(seed=1)
    return env.step(dict.fromkeys(env.agents, EAST))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: grid(agents=["ann"]), r"agents must map names .*, got \['ann'\]"),
        (lambda: grid(agents=lambda _: ["ann"]), r"agents must map names .*, got \['ann'\]"),
        (lambda: grid(agents={"ann": [0, 0]}), r"agents must map names .*, got \[0, 0\] for 'ann'"),
        (lambda: grid(agents={}), "needs an agent: pass agents, populations, or both"),
        (lambda: grid(populations={"birds": 3}), "populations must map names .* got 3 for 'birds'"),
        (
            lambda: grid(populations={"birds": {"table": "t"}}),
            "population 'birds' needs an int 'co",
        ),
        (
            lambda: grid(factory=World()),
            "domain_factory must be a class of a domain, or a function",
        ),
        (lambda: grid(factory=Kernel(World())), "domain_factory must be a class of a domain"),
        (
            lambda: grid(factory=lambda: Kernel(World())),
            "must be an object of a subclass of .*Domain",
        ),
        (lambda: grid(MoveOnGrid), r"EnvAdapter, got <class .*; call it: MoveOnGrid\(\.\.\.\)"),
        (lambda: grid(Walk()), "adapter must be an object of a subclass of placet.envs.EnvAdapter"),
        (lambda: grid(BARE()), r"Bare must define observation_space\(\)"),
        (
            lambda: answering("observation_space", None),
            r"observation_space\('ann'\) must return a s",
        ),
        (
            lambda: answering("action_space", 5),
            r"action_space\('ann'\) must return a space .* got 5",
        ),
        (lambda: grid(max_steps=1.5), "max_steps must be an int of at least 1, got 1.5"),
        (lambda: grid_env("ann"), "agents must be a sequence of different names, got 'ann'"),
        (lambda: grid_env(("ann", "ann")), "agents must be a sequence of different names"),
        (lambda: grid_env(width=0), "width must be an int of at least 1, got 0"),
        (lambda: grid_env(goal=(8, 0)), r"goal must be a cell of the grid of 8 x 8, got \(8, 0\)"),
        (lambda: SingleAgentEnv(3), "a SingleAgentEnv is made of a WorldEnv, got 3"),  # type: ignore[arg-type]
        (lambda: VectorEnv(line_env(), 2), "make_env must be a function without arguments"),  # type: ignore[arg-type]
        (lambda: line_env(adapter=BARE_ARRAYS()), r"BareArrays must define observation_space\(\)"),
        (
            lambda: ArrayEnv(Line, WALK, "w", 3, table=WALKERS),
            r"ArrayAdapter, got .* call it: Walk",
        ),
    ],
)
def test_a_wrong_argument_is_named_when_the_environment_is_made(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("to_intent", ["Move", {"to": [0, 0]}], r"to_intent\(\) must return .*, got \['Move'"),
        ("to_intent", [[{"kind": "Move"}]], r"to_intent\(\) must return .*, got \[\[\{'kind'"),
        ("to_intent", {"to": [0, 0]}, "got {'to': .* without 'kind'"),
        ("to_intent", [{"kind": "Move"}], "got {'kind': 'Move'} without 'payload'"),
        ("to_intent", {"kind": "Mov", "payload": {}}, "the kind 'Mov', .* did you mean 'Move'?"),
        (
            "to_intent",
            {"kind": ["Move"], "payload": {}},
            "the kind .'Move'.*, which the domain does",
        ),
        ("observe", [[0, 0], [0, 0]], "must return an array of float32, .* got list; convert it"),
        (
            "observe",
            np.zeros((2, 2)),
            "an array of float32, as its space has, got float64; convert",
        ),
        ("observe", np.zeros((2, 2), int), "an array of float32, as its space has, got int64"),
        (
            "observe",
            np.zeros(4, np.float32),
            r"array of shape \(2, 2\), as its space has, got \(4,\)",
        ),
        ("observe", np.full((2, 2), 99, np.float32), r"must return an element of Box.*, got array"),
        ("observe", np.full((2, 2), np.nan, np.float32), "must return an element of Box"),
        ("reward", None, r"reward\(\) must return a number for 'ann', got None"),
        ("reward", "1", r"reward\(\) must return a number for 'ann', got '1'"),
        ("reward", float("nan"), r"reward\(\) must return a number for 'ann', got nan"),
        ("reward", np.zeros(2), r"reward\(\) must return a number for 'ann', got array"),
        ("is_done", None, r"is_done\(\) must return True or False for 'ann', got None"),
        ("action_mask", [2, 0, 0, 0, 1], r"action_mask\(\) must return booleans, or 0 and 1"),
        ("action_mask", ["a"] * 5, r"action_mask\(\) must return booleans, or 0 and 1"),
    ],
)
def test_a_wrong_answer_of_an_adapter_is_named_where_it_is_returned(
    method: str, answer: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        steps(answering(method, answer))


def test_an_observation_of_another_shape_in_a_later_step_is_named():
    adapter = MoveOnGrid(8, 6, (5, 4), 0)
    env = grid(adapter)
    env.reset(seed=1)
    adapter.observe = lambda *_: np.zeros(3, np.float32)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"of shape \(2, 2\), as its space has, got \(3,\)"):
        env.step({"ann": EAST})


def test_spaces_without_a_shape_are_compared_as_a_whole():
    dicts = Dict({"x": Box(0, 1, (1,))})
    with pytest.raises(ValueError, match=r"must return an element of Dict.*, got \{'y': 1\}"):
        steps(answering("observe", {"y": 1}, observation_space=dicts))
    env = answering("observe", 2, observation_space=Discrete(3))
    assert steps(env)[0] == {"ann": 2}


def test_numbers_of_numpy_are_rewards_and_ends():
    env = answering("reward", np.float32(0.5), is_done=np.True_)
    _, rewards, terminations, _, _ = steps(env)
    assert rewards == {"ann": 0.5}
    assert terminations == {"ann": True}
    assert type(terminations["ann"]) is bool


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"to": "there"}, r"payload of Move/to: input should be an array, got 'there'"),
        (
            {"too": [1, 1]},
            r"payload of Move/to: field required; payload of Move/too: .*; did you mean 'to'\?",
        ),
        ({}, r"payload of Move/to: field required"),
    ],
)
def test_a_payload_that_fits_no_state_is_a_refusal_with_one_warning(payload, why):
    env = answering("to_intent", {"kind": "Move", "payload": payload})
    with pytest.warns(
        IntentWarning, match=rf"to_intent\(\) .* refuses in every state: {why}"
    ) as made:
        infos = [steps(env)[4] for _ in range(3)]
    assert len(made) == 1
    assert [info["ann"]["code"] for info in infos] == ["payload_invalid"] * 3


@pytest.mark.parametrize(("by", "count"), [(7, 2), (2**40, 2), (1, 0)])
def test_numbers_of_an_array_that_no_state_admits_are_refusals_with_one_warning(by, count, recwarn):
    class Far(Walk):
        def to_payload(self, actions, view):
            return {"Step": {"by": np.where(actions == RIGHT, by, 0)}}

    env = ArrayEnv(Line, Far(), "walkers", 3, table=WALKERS)
    env.reset(seed=1)
    infos = [env.step([RIGHT, STAY, RIGHT])[4][0]["counts"] for _ in range(2)]
    assert [info.get("payload_invalid", 0) for info in infos] == [count, count]
    why = r"Far.to_payload\(\) .* in every state: .* Later ones of Step are in infos alone"
    assert [bool(re.search(why, str(one.message))) for one in recwarn] == [True] * (count > 0)


def test_the_warning_of_an_intent_can_be_an_error_and_names_the_line_of_the_step():
    env = answering("to_intent", {"kind": "Move", "payload": {}})
    with warnings.catch_warnings():
        warnings.simplefilter("error", IntentWarning)
        with pytest.raises(IntentWarning, match=r"No warning: .*placet\.envs\.IntentWarning"):
            steps(env)
    with pytest.warns(IntentWarning) as made:
        steps(answering("to_intent", {"kind": "Move", "payload": {}}))
    assert made[0].filename == __file__


def test_no_warning_is_of_a_payload_that_is_refused_in_a_state(recwarn):
    payload = {"target_id": "lamp", "interaction_type": "pickup"}
    infos = steps(answering("to_intent", {"kind": "Interact", "payload": payload}))[4]
    assert infos["ann"]["code"].startswith("world.")
    assert not recwarn.list


def test_agents_have_the_same_names_for_every_seed():
    given = iter([ANN, {"bob": ANN["ann"]}])
    env = grid(agents=lambda seed: next(given))
    with pytest.raises(
        ValueError, match=r"one list of names for every seed, \['ann'\], got \['bob'"
    ):
        env.reset(seed=7)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([EAST], r"actions must map agents to their actions, .*, got \[1\]"),
        ({"bob": EAST}, r"'bob' is not an active agent; active are \['ann'\]"),
    ],
)
def test_wrong_actions_are_refused(actions, message):
    env = grid()
    with pytest.raises(ValueError, match="there is no episode; call reset to start one"):
        env.step(actions)
    env.reset(seed=1)
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_a_seed_is_an_int():
    with pytest.raises(ValueError, match="seed must be an int or None, got 'x'"):
        grid().reset(seed="x")  # type: ignore[arg-type]
    seeded: Any = np.int64(3)
    assert grid().reset(seed=seeded)[0]["ann"].tolist() == grid().reset(seed=3)[0]["ann"].tolist()
