"""Mistakes in a policy of a stepped run are errors that say what to write instead."""

import random
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from placet import Domain, Kind, Simulation
from placet.cli.app import run_command
from placet.domains.world import World
from placet.kernel import Kernel
from placet.scenarios.scenario_agent import PolicyError
from placet.scenarios.values import ScenarioError


def walk(view, intent):
    x, y, _ = view.state["world.agents"][view.agent_id]["position"]
    return [intent("Move", to=[x + 1, y])]


def two_batches(view, intent):
    return [[intent("Speak", text="a")], [intent("Speak", text="b")]]


def without_kind(view):
    return [{"payload": {}}]


def with_none(view, intent):
    return [*walk(view, intent), None]


def in_numpy(view):
    return np.stack([])


class Everyone:
    def __init__(self, scenario, cohort):
        pass

    def propose_all(self, views):
        return [[()] for _ in views]


HERE = r"\(test_mistakes_of_policies.py, line \d+, in {}\)"


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (
            two_batches,
            r"returned a list at place 0 of its batch, \[\{'kind': 'Speak'.* \(an answer is one "
            r"batch, .* in tick 1 \(0 s\) for folk_1 " + HERE.format("two_batches"),
        ),
        (without_kind, "a mapping without 'kind' at place 0 .* " + HERE.format("without_kind")),
        (
            with_none,
            "None at place 1 of its batch, which is no intent .*" + HERE.format("with_none"),
        ),
        (Everyone, r"a tuple at place 0 of its batch, \(\) .*" + HERE.format("propose_all")),
        (lambda view: None, "returned None .*" + HERE.format("<lambda>")),
        (
            lambda view: view.random.choice([1, 2]),
            r"view\.random\(purpose\) draws a number in \[0, 1\), and view\.randint_below",
        ),
        (
            lambda view: view.settings["beta"],
            r"a view has no 'settings': a policy that is a class, made with \(member, scenario, ",
        ),
        (in_numpy, ".* for folk_1 " + HERE.format("in_numpy")),
        (lambda view: view.random_unit, "a view has no 'random_unit'; did you mean 'random'"),
        (
            lambda view: view.randint_below("way", 4),
            r"expected randint_below\(bound, purpose\), .* got randint_below\('way', 4\)",
        ),
        (lambda view: view.random(4), "the purpose of a draw is its name, such as 'way', got 4"),
    ],
)
def test_the_first_tick_stops_and_says_what_to_write(policy, problem):
    simulation = Simulation(World(), {"folk": (2, policy)})
    with pytest.raises(PolicyError, match=problem):
        simulation.step()
    assert simulation.tick == 0


def test_a_run_that_refuses_the_errors_of_rules_refuses_what_is_no_intent():
    simulation = Simulation(World(), {"folk": (2, two_batches)}, on_rule_error="refuse")
    assert simulation.run(1).refusals == {"structure/field_invalid": 4}


def test_bound_and_purpose_that_are_swapped_are_an_error_in_a_rule_too():
    def rule(draft, intent):
        draft.randint_below("way", 4)

    class Die(Domain):
        name, version, kinds = "die", "1", (Kind("Roll", dict[str, int], rule),)

    kernel = Kernel(Die())
    kernel.register_agent("alice")
    (refusal,) = kernel.decide(kernel.intent("Roll", agent="alice")).refusals
    assert "expected randint_below(bound, purpose)" in refusal.details["message"]


# modules


@pytest.mark.parametrize("key", ["policy", "until", "domain"])
def test_a_module_that_is_not_found_is_looked_for_in_the_current_folder(
    tmp_path, monkeypatch, capsys, key
):
    chosen = {"policy": "townsfolk", "until": None, "domain": "world"} | {key: "my_model:walk"}
    (tmp_path / "mine.toml").write_text(
        f'ticks = 1\ndomain = "{chosen["domain"]}"\n'
        + (f'until = "{chosen["until"]}"\n' if chosen["until"] else "")
        + f'[agents.folk]\ncount = 1\npolicy = "{chosen["policy"]}"\n'
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert run_command(["run", str(tmp_path / "mine.toml"), "--store", "memory://"]) != 0
    error = " ".join(capsys.readouterr().err.split())
    assert f"modules are found in the current folder ({elsewhere})" in error
    assert "run placet in the folder of my_model.py" in error


def test_a_module_that_a_module_imports_is_named_alone(tmp_path, monkeypatch):
    (tmp_path / "imports_another.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match="No module named 'no_such_library'") as caught:
        Simulation(World(), {"folk": (1, "imports_another:walk")})
    assert "current folder" not in str(caught.value)


# the text of a report


def test_a_report_says_why_intents_were_refused_in_words():
    def walk_and_speak(view, intent):
        return [*walk(view, intent), intent("Speak", text="a", channel="public")]

    simulation = Simulation(World(bounds=[[0, 0], [2, 9]]), {"folk": (5, walk_and_speak)})
    text = repr(simulation.run(5))
    assert "30 refused (15 of them with another intent of their batch)" in text
    (line,) = text.splitlines()[1:]
    assert line.startswith("  refused 15 times: domain/world.out_of_bounds, first as: [3, 0, 0] is")
    alone = repr(Simulation(World(bounds=[[0, 0], [2, 9]]), {"folk": (5, walk)}).run(5))
    assert re.search("25 intents: 10 admitted, 15 refused; ", alone)


# global random numbers


def drawing(draw, ticks=9) -> list[str]:
    """Return the warnings of a run whose policy draws from tick 3 on."""
    warnings: list[str] = []

    def policy(view, intent):
        if view.sim_time >= 2:
            draw()
        return walk(view, intent)

    with Simulation(World(), {"folk": (2, policy)}) as simulation:
        logger: Any = type("Logger", (), {"warning": warnings.append})
        simulation._runner._logger = cache(lambda: logger)
        simulation.run(ticks)
    return warnings


@pytest.mark.parametrize(
    ("draw", "name"), [(random.random, "module random"), (np.random.random, "numpy.random")]
)
def test_a_run_warns_once_of_global_random_numbers(draw, name):
    (warning,) = drawing(draw)
    assert f"the global {name} was used in tick 4" in warning
    assert "view.random(purpose)" in warning
    assert drawing(lambda: random.Random(1).random()) == []
    assert drawing(draw, ticks=2) == []
