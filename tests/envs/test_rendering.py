"""Pictures and windows of environments: what is on them, and clear errors where nothing can be."""

import copy
import pickle
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pygame
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import RenderCollection
from pettingzoo.test.render_test import collect_render_results
from pettingzoo.utils.conversions import parallel_to_aec

import placet.envs.rendering
from placet.domains.world import World
from placet.envs import EnvAdapter, VectorEnv, WorldEnv
from placet.envs.grid import MoveOnGrid, grid_env
from placet.envs.map_colors import CATEGORIES, QUIET, SCALE, ColorScales
from placet.envs.map_marks import MapMarks
from placet.envs.map_picture import draw_picture
from placet.history.timeline.fold import PlayedState, played_of
from placet.scenarios import Portrayal
from tests.envs.line import LEFT, RIGHT, Line, WalkAlone, at, line_env, parallel_line
from tests.kernel.domains import Lab

DASHBOARD = Path(placet.envs.rendering.__file__).parents[1] / "server/dashboard"
PANEL, GOAL, BLOCKED = (255, 255, 255), (214, 232, 220), (60, 61, 57)
STAY, EAST, WEST, NORTH, SOUTH = range(5)


@pytest.fixture(autouse=True)
def _dummy(monkeypatch):
    """Open windows of SDL's driver without a display, and let no test wait for a frame."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(placet.envs.rendering, "RENDER_FPS", 0)
    yield
    pygame.display.quit()


class Walled(MoveOnGrid):
    """A grid of 4 by 3 with a blocked cell."""

    def __init__(self) -> None:
        super().__init__(4, 3, (3, 2), 2)
        self.map_blocked = [(1, 1)]


def walled(**options: Any) -> WorldEnv:
    agents: dict[str, Any] = {
        "ann": {"position": [0, 0], "team": "red"},
        "bob": {"position": [2, 0], "team": "blue"},
    }
    objects = {"lamp": {"position": [3, 0]}}
    factory = partial(World, bounds=[[0, 0], [3, 2]], objects=objects)
    options.setdefault("render_mode", "rgb_array")
    return WorldEnv(factory, Walled(), agents, **options)


def drawn(env: Any) -> Any:
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((480, 640, 3), np.uint8)
    return picture


def centers(picture: Any, color: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Return the cell (x, y) of each cell of the 4 by 3 grid that has pixels of a color."""
    is_it = (picture == color).all(axis=2)
    side = 438 / 3  # the height without margin and caption, by cells
    left = (640 - 4 * side) / 2
    found = []
    for y in range(3):
        for x in range(4):
            top = 12 + (2 - y) * side
            part = is_it[round(top) + 3 : round(top + side) - 3]
            if part[:, round(left + x * side) + 3 : round(left + (x + 1) * side) - 3].any():
                found.append((x, y))
    return found


def test_a_picture_has_cells_goal_blocked_cells_and_agents_in_colors_of_their_own():
    env = walled()
    env.reset(seed=1)
    picture = drawn(env)
    assert centers(picture, GOAL) == [(3, 2)]
    assert centers(picture, BLOCKED) == [(1, 1)]
    assert centers(picture, CATEGORIES[0]) == [(0, 0)]
    assert centers(picture, CATEGORIES[1]) == [(2, 0)]
    assert centers(picture, QUIET) == [(3, 0)]  # the lamp is no agent
    env.step({"ann": NORTH, "bob": STAY})
    assert centers(drawn(env), CATEGORIES[0]) == [(0, 1)]
    assert drawn(env).flags.c_contiguous


def test_the_caption_has_the_step_and_rewards_or_refusals(monkeypatch):
    captions: list[str] = []

    def draw(*given: Any) -> Any:
        captions.append(given[-1])
        return draw_picture(*given)

    monkeypatch.setattr("placet.envs.rendering.draw_picture", draw)
    env = walled()
    env.reset(seed=1)
    env.render()
    env.step({"ann": EAST, "bob": SOUTH})
    env.render()
    assert captions == ["step 0", "step 1   bob +0 refused: world.out_of_bounds   ann +1"]


def test_a_portrayal_colors_and_labels_as_in_the_player():
    portrayal = Portrayal(color="team", marker="team", label="team")
    env = walled(portrayal={"world.agents": portrayal})
    env.reset(seed=1)
    marks, legend, unknown = MapMarks(env.agents, {"world.agents": portrayal}).of(
        played_of(env.kernel.tree, env.kernel.ledger)
    )
    assert [(mark.color, mark.shape, mark.label) for mark in marks] == [
        (QUIET, 1, ""),
        (CATEGORIES[1], 1, "red"),
        (CATEGORIES[0], 0, "blue"),
    ]
    assert legend == [(CATEGORIES[0], "blue"), (CATEGORIES[1], "red")]
    assert unknown == []
    assert (drawn(env)[:40] == CATEGORIES[1]).all(axis=2).any()  # the legend is above the map


def test_a_size_is_an_area_and_a_number_a_color_of_the_scale():
    state = PlayedState(
        {"a.things": {n: {"position": [v, 0], "mass": v} for n, v in (("x", 1), ("y", 4))}}
    )
    marks, legend, _ = MapMarks([], {"a.things": Portrayal(color="mass", size="mass")}).of(state)
    assert [(mark.size, mark.color) for mark in marks] == [(0.5, SCALE[0]), (1.0, SCALE[-1])]
    assert legend == [(SCALE[0], "1"), (SCALE[-1], "4")]


def test_values_keep_their_colors_along_the_pictures():
    scales = ColorScales()
    assert scales.colored("f", "category", ["b", None], ())[0] == [CATEGORIES[0], QUIET]
    colors, legend = scales.colored("f", "category", ["a", "b"], ())
    assert colors == [CATEGORIES[1], CATEGORIES[0]]
    assert legend == [(CATEGORIES[0], "b"), (CATEGORIES[1], "a")]
    assert scales.colored("n", "category", [2, 0], ("S", "I", "R")) == (
        [CATEGORIES[2], CATEGORIES[0]],
        [(CATEGORIES[0], "S"), (CATEGORIES[2], "R")],
    )
    assert scales.colored("many", "category", list(range(9)), ())[0][8] == SCALE[-1]
    first, second = scales.colored("d", "direction", [0.0, 2.0], ())[0]
    assert first != second


def test_more_agents_than_colors_differ_by_shape():
    names = [f"agent_{number}" for number in range(20)]
    state = PlayedState({"w.agents": {name: {"position": [0, 0]} for name in names}})
    marks, *_ = MapMarks(names, {}).of(state)
    assert len({(mark.color, mark.shape) for mark in marks}) == 20


def test_rows_of_a_table_are_drawn_at_their_cells_with_their_names():
    env = parallel_line(render_mode="rgb_array")
    env.reset(seed=1)
    marks, *_ = MapMarks(env.agents, {}).of(played_of(env.kernel.tree, env.kernel.ledger))
    assert [mark.label for mark in marks] == [f"walkers:{number}" for number in range(5)]
    drawn(env)


def test_a_population_is_drawn_by_its_environment_of_arrays_and_by_a_vector(monkeypatch):
    captions: list[str] = []

    def draw(*given: Any) -> Any:
        captions.append(given[-1])
        return draw_picture(*given)

    monkeypatch.setattr("placet.envs.rendering.draw_picture", draw)
    env = at([0, 3], render_mode="rgb_array", max_steps=2)
    before = drawn(env)
    env.step([LEFT, RIGHT])
    assert (drawn(env) != before).any()
    env.step([1, 1])
    assert drawn(env).shape == before.shape
    assert captions == ["step 0", "step 1   admitted 1   line.edge 1", "step 0"]
    vector = VectorEnv(partial(line_env, 3, render_mode="rgb_array"), 2)
    vector.reset(seed=1)
    assert (vector.render_mode, len(vector.render() or ())) == ("rgb_array", 2)
    assert VectorEnv(partial(line_env, 3), 2).render() is None


def test_arrays_are_shown_in_a_window_that_close_closes():
    env = line_env(3, render_mode="human")
    env.reset(seed=1)
    env.step([1, 1, 1])
    assert pygame.display.get_init()
    env.close()
    assert not pygame.display.get_init()


def test_the_colors_are_those_of_the_player():
    css = (DASHBOARD / "player.css").read_text()
    light = css[: css.index("prefers-color-scheme: dark")]
    kinds = re.findall(r"--kind-\d: #(\w{6})", light)
    assert [bytes.fromhex(kind) for kind in kinds[:8]] == [bytes(color) for color in CATEGORIES]
    scale = re.search(r"light: \[(.*?)\]", (DASHBOARD / "player_colors.js").read_text())
    assert scale is not None
    stops = re.findall(r"#(\w{6})", scale[1])
    assert [bytes.fromhex(stop) for stop in stops] == [bytes(color) for color in SCALE]


def test_a_window_is_shown_at_every_step_and_closed():
    env = grid_env(render_mode="human", max_steps=3)
    env.reset(seed=1)
    surface = pygame.display.get_surface()
    assert surface is not None
    assert surface.get_size() == (640, 480)
    before = pygame.surfarray.array3d(surface).copy()
    env.step(dict.fromkeys(env.agents, NORTH))
    assert (pygame.surfarray.array3d(surface) != before).any()
    assert env.render() is None
    env.reset(seed=2)  # a new episode is shown in the same window
    assert pygame.display.get_surface() is not None
    env.close()
    assert not pygame.display.get_init()


def test_an_episode_goes_on_without_the_window_that_its_user_has_closed():
    env = grid_env(render_mode="human")
    env.reset(seed=1)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    for _ in range(2):
        env.step(dict.fromkeys(env.agents, NORTH))
    assert not pygame.display.get_init()
    env.close()


def test_both_modes_pass_pettingzoos_test_of_their_results():
    for mode, kind in (("human", type(None)), ("rgb_array", np.ndarray)):
        env = parallel_to_aec(grid_env(render_mode=mode, max_steps=4))
        results = collect_render_results(env)
        env.close()
        assert {type(one) for one in results} == {kind}


def test_gymnasium_makes_a_film_of_the_grid():
    made = gymnasium.make("placet/Grid-v0", render_mode="rgb_array", max_steps=3)
    env: Any = RenderCollection(made)
    env.reset(seed=1)
    for _ in range(3):
        env.step(STAY)
    assert [frame.shape for frame in env.render()] == [(480, 640, 3)] * 4
    assert env.metadata["render_fps"] == 10


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_environment_with_a_window_has_none(copied):
    env = grid_env(render_mode="human")
    env.reset(seed=1)
    branch = copied(env)
    env.close()
    assert not pygame.display.get_init()
    branch.step(dict.fromkeys(branch.agents, NORTH))
    assert pygame.display.get_init()
    branch.close()


class Counting(EnvAdapter):
    """Agents without a place."""

    def observation_space(self, agent):
        return Box(0, 10, (1,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def to_intent(self, agent, action, view):
        return None

    def observe(self, view, agent):
        return np.zeros(1, np.float32)

    def reward(self, before, after, agent):
        return 0.0


def test_a_world_without_places_says_what_to_give():
    message = r"draws entities with a place, and none of lab.counts has one; give .* 'position'"
    with pytest.raises(ValueError, match=message):
        WorldEnv(Lab, Counting(), {"ann": {}}, render_mode="human").reset()
    env = WorldEnv(Lab, Counting(), {"ann": {}}, render_mode="rgb_array")
    with pytest.raises(ValueError, match=message):
        env.reset()


@pytest.mark.parametrize(
    ("portrayal", "message"),
    [
        (Portrayal(color="team"), r"must map collections .* Portrayal\(color=\"team\"\)"),
        ({"world.agents": {"color": "team"}}, "must map collections .* got"),
        ({"line.walkers": Portrayal(color="cel")}, "no field 'cel'; did you mean 'cell'"),
    ],
)
def test_a_wrong_portrayal_is_refused(portrayal, message):
    with pytest.raises(ValueError, match=message):
        WorldEnv(
            Line,
            WalkAlone(),
            {},
            populations={"walkers": {"count": 5, "table": "line.walkers"}},
            portrayal=portrayal,
        )


@pytest.mark.parametrize(
    ("portrayal", "message"),
    [
        (
            {"world.agent": Portrayal(color="team")},
            "no such collection; did you mean 'world.agents",
        ),
        ({"world.agents": Portrayal(color="taem")}, "no field 'taem'; did you mean 'team'"),
    ],
)
def test_a_portrayal_that_shows_nothing_is_named_once(portrayal, message):
    env = walled(portrayal=portrayal)
    with pytest.warns(UserWarning, match=message):
        env.reset(seed=1)
    env.render()


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="must be 'human', 'rgb_array' or None, got 'ansi'"):
        grid_env(render_mode="ansi")
    env = grid_env()
    env.reset(seed=1)
    assert env.render() is None


def test_without_a_display_the_error_says_what_to_take(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "none-such")
    env = grid_env(render_mode="human")
    with pytest.raises(RuntimeError, match="take render_mode='rgb_array', or set SDL_VIDEODRIVER"):
        env.reset(seed=1)


def test_pictures_need_an_extra_and_environments_without_pictures_do_not():
    program = (
        "import sys; sys.modules['pygame'] = None; from placet.envs.grid import grid_env; "
        "grid_env().reset(1); grid_env(render_mode='rgb_array')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    said = (
        "render_mode='rgb_array' needs the extra 'render': pip install '.[render]' in a clone of "
        "placet"
    )
    assert done.stderr.endswith(f"ImportError: {said}\n")
