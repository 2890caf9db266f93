"""Outcomes fill columns of the results, and overwrite none of them."""

from dataclasses import replace

import pytest

from placet.lab import Results, Scenario, run_scenarios
from placet.scenarios.scenario import leaves_of
from placet.sweeps.columns import clash_of
from placet.sweeps.errors import LabError
from tests.sweeps import other_outcomes
from tests.sweeps.sweeping import InlineExecutor, agents_left, short_town


def refused(state):
    return len(state)


def ticks(state):
    return len(state)


def several(state):
    return {"agents": len(state["world.agents"]), "seed": -1}


def setting(state):
    return {"settings.max_step": "overwritten"}


def again(state):
    return {"agents_left": -1}


def beyond_64_bits(state):
    return 2**64 + len(state["world.agents"])


def vast(state):
    return 1 << 1023


def long_list(state):
    return list(range(10**6))


def large(state):
    return (1 << 1023) - 1


def sweep(outcome, **more):
    return run_scenarios(short_town(), executor=InlineExecutor(), outcome=outcome, **more)


@pytest.mark.parametrize("outcome", [refused, ticks, [agents_left, other_outcomes.agents_left]])
def test_a_function_named_as_another_column_is_refused_before_a_run(tmp_path, outcome):
    name = (outcome if callable(outcome) else outcome[0]).__name__
    with pytest.raises(LabError, match=f"would fill the column '{name}' and overwrite"):
        sweep(outcome, to=tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("outcome", "column"),
    [(several, "seed"), (setting, "settings.max_step"), ([agents_left, again], "agents_left")],
)
def test_a_returned_name_of_another_column_is_the_error_of_the_run(outcome, column):
    results = sweep(outcome, seeds=[7])
    assert results.column("seed") == [7]
    assert f"returned a value for the column '{column}'" in results[0]["error"]


def test_every_key_that_fills_a_column_is_taken_and_no_other():
    town = Scenario.load("town")
    bare = replace(town, settings={}, objects={}, ticks=2)
    keys = {*leaves_of(town), *leaves_of(bare)}
    free = {key for key in keys if clash_of(key) is None}
    assert free <= {"agents", "settings", "objects", "quotas", "collect"}
    scenarios = [replace(town, ticks=1), bare]
    results = run_scenarios(scenarios, executor=InlineExecutor())
    assert "ticks" in results.parameters
    assert free.isdisjoint(results.parameters)
    assert clash_of("max_step") is None


def test_an_outcome_named_twice_is_computed_once():
    assert sweep([agents_left, agents_left]).outcomes == ["agents_left"]


def test_an_integer_beyond_64_bits_is_json_text_in_a_table(tmp_path):
    results = sweep(beyond_64_bits, to=tmp_path / "study")
    assert results.column("beyond_64_bits") == [2**64 + 4]
    assert results.to_arrow()["beyond_64_bits"].to_pylist() == [str(2**64 + 4)]
    assert results.to_polars()["beyond_64_bits"].to_list() == [str(2**64 + 4)]
    results.write(tmp_path / "rows.parquet")


def test_the_error_of_an_outcome_is_short():
    (row,) = sweep(long_list)
    assert "returned [0, 1, 2, 3" in row["error"]
    assert len(row["error"]) < 300


def test_an_integer_beyond_the_largest_double_is_no_outcome():
    (row,) = sweep(vast)
    assert "returned an integer of 1024 bits; expected a finite number" in row["error"]
    results = sweep(large)
    assert results.column("large") == [(1 << 1023) - 1]
    assert results.means("large") == [float((1 << 1023) - 1)]


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([1, None, 2.5], [1.0, None, 2.5]),
        ([2**53 + 1, 0.5], [str(2**53 + 1), "0.5"]),
        ([True, 1], ["true", "1"]),
        (["é", 1], ['"é"', "1"]),
        ([None], [None]),
    ],
)
def test_a_column_has_one_type_that_holds_all_of_its_values(values, cells):
    results = Results([{"x": value} for value in values], ["x"])
    assert results.to_arrow()["x"].to_pylist() == cells
    assert results.to_polars()["x"].to_list() == cells
    assert [type(cell) for cell in results.to_polars()["x"].to_list()] == list(map(type, cells))
