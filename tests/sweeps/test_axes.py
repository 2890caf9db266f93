"""Values of a sweep's options, and the scenarios that they make."""

import pandas
import polars
import pytest

from placet.lab import Scenario
from placet.scenarios.values import ScenarioError
from placet.sweeps.axes import read_axis, read_seeds
from placet.sweeps.errors import LabError

TOWN = Scenario.load("town")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.5,1,2", [0.5, 1, 2]),
        ("50..200:50", [50, 100, 150, 200]),
        ("0.1..0.3:0.1", [0.1, 0.2, 0.3]),
        ("1,5..7", [1, 5, 6, 7]),
        ("[[0, 0], [1, 1]],[[0, 0], [2, 2]]", [[[0, 0], [1, 1]], [[0, 0], [2, 2]]]),
        ('{ a = "1,2" }', [{"a": "1,2"}]),
        ("true,false", [True, False]),
    ],
)
def test_an_axis_has_values_and_ranges(text, values):
    assert read_axis(TOWN, "settings.max_step", text) == values


def test_an_axis_of_a_text_key_has_texts():
    assert read_axis(TOWN, "agents.folk.policy", "child,crier") == ["child", "crier"]


@pytest.mark.parametrize("text", ["0.1..0.3", "1..2.5"])
def test_a_range_without_a_step_that_misses_its_last_value_is_refused(text):
    with pytest.raises(LabError, match=f"{text} has no step, and steps of 1 do not reach"):
        read_axis(TOWN, "settings.max_step", text)
    assert read_axis(TOWN, "settings.max_step", "0.5..2.5") == [0.5, 1.5, 2.5]


@pytest.mark.parametrize("text", ["1,,2", "", "5..1", "1..9:0", "0..9e9"])
def test_an_axis_without_values_is_refused(text):
    with pytest.raises(LabError, match="max_step"):
        read_axis(TOWN, "settings.max_step", text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1..1e99999", "beyond the largest"),
        ("1..1e1000000000", "beyond the largest"),
        ("1..1e99999999999999999999", "too many values"),
        ("1..2:1e-400", "too many values"),
        ("1..2:1e-999999999999", "too many values"),
        (f"1..{'9' * 5000}", "beyond the largest"),
        (f"{'9' * 5000}", "beyond the largest"),
        ("1..1000001", "too many values"),
    ],
)
def test_a_range_without_end_is_refused_at_once(text, problem):
    with pytest.raises(LabError, match=problem):
        read_seeds(text)
    if ".." in text:
        with pytest.raises(LabError, match=problem):
            read_axis(TOWN, "settings.max_step", text)


def test_a_range_of_long_integers_is_exact():
    first = 10**40 + 1
    assert read_axis(TOWN, "settings.max_step", f"{first}..{first + 2}") == [
        first,
        first + 1,
        first + 2,
    ]


def test_a_product_is_bounded():
    axes = {"ticks": range(10_000), "max_step": range(101)}
    with pytest.raises(ScenarioError, match="1010000 combinations of values, expected at most"):
        TOWN.product(axes)


def test_seeds_are_numbers_and_ranges():
    assert read_seeds("1..3,7") == [1, 2, 3, 7]
    with pytest.raises(LabError, match="no seeds"):
        read_seeds("1.5..3")


def test_a_product_has_every_combination_and_the_last_key_changes_fastest():
    scenarios = TOWN.product({"agents.folk.count": [5, 6]}, max_step=[0.5, 1])
    combinations = [(s.agents["folk"].count, s.settings["max_step"]) for s in scenarios]
    assert combinations == [(5, 0.5), (5, 1), (6, 0.5), (6, 1)]


@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame])
def test_a_data_frame_has_a_scenario_in_each_row(library):
    samples = library({"agents.folk.count": [5.0, 6.0], "max_step": [0.25, 0.5]})
    scenarios = Scenario.from_dataframe(samples, base="town")
    assert [s.agents["folk"].count for s in scenarios] == [5, 6]
    assert [s.settings["max_step"] for s in scenarios] == [0.25, 0.5]


def test_a_data_frame_may_name_the_scenario_of_each_row():
    samples = pandas.DataFrame({"scenario": ["town", "rush"], "ticks": [3, 4]})
    assert [(s.name, s.ticks) for s in Scenario.from_dataframe(samples)] == [
        ("town", 3),
        ("rush", 4),
    ]
    with pytest.raises(ScenarioError, match=r"row 0 .* expected a column 'scenario'"):
        Scenario.from_dataframe([{"ticks": 3}])


@pytest.mark.parametrize(
    ("axes", "hint"),
    [
        ({"agents.folks.count": [1]}, "did you mean 'folk'"),
        ({"agents.folk.cuont": [1]}, "did you mean 'count'"),
        ({"tick": [1], "agents": [1]}, "agents"),
        ({"ticks": ["a"]}, "valid integer"),
        ({"ticks": []}, "at least one value"),
        ({"ticks": 5}, "a list of values"),
    ],
)
def test_an_unknown_key_or_value_is_refused_with_the_nearest_name(axes, hint):
    with pytest.raises(ScenarioError, match=hint):
        TOWN.product(axes)
