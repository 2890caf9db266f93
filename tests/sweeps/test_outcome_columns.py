"""Outcomes fill columns of the results, and overwrite none of them."""

import json
import sys
from dataclasses import replace
from math import inf, isnan, nan

import duckdb
import pandas as pd
import polars as pl
import pytest

from placet.lab import Results, Scenario, run_scenarios
from placet.scenarios.scenario import leaves_of
from placet.scenarios.values import Collect
from placet.sweeps.columns import clash_of
from placet.sweeps.errors import LabError
from tests.cli.command_line import CommandLine
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


NUMBERS = [nan, inf, -inf, 0.5, 1.5]


def numbered(state):
    return NUMBERS[sum(name.startswith("folk_") for name in state["world.agents"])]


def half_broken(state):
    return {"good": nan, "bad": object(), "worse": "\ud800", "better": 1}


def leaving(state):
    sys.exit(3)


def raising(state):
    raise ValueError("no outcome \ud800")


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


def test_nan_and_infinity_are_values_in_rows_files_tables_and_means(tmp_path, capsys):
    study = f"{tmp_path}/study"
    axes = ["--set", "ticks=0", "--set", "agents.folk.count=0..4"]
    outcome = ["--outcome", f"{__name__}:numbered"]
    done = CommandLine(capsys, tmp_path)("sweep", "town", *axes, *outcome, "--to", study, "--json")
    results = Results.load(study)
    assert results.column("status") == ["done"] * len(NUMBERS)
    files = [results.write(tmp_path / f"x.{end}") for end in ("csv", "jsonl", "parquet", "arrow")]
    columns = [
        [row["numbered"] for row in json.loads(done.out)["rows"]],
        results.column("numbered"),
        results.means("numbered"),
        [row["numbered"] for row in results.by_scenario()],
        results.to_pandas()["numbered"].tolist(),
        results.to_polars()["numbered"].to_list(),
        pd.read_csv(files[0])["numbered"].tolist(),
        pd.read_json(files[1], lines=True)["numbered"].tolist(),
        [json.loads(line)["numbered"] for line in files[1].read_text().splitlines()],
        duckdb.read_json(str(files[1])).df()["numbered"].tolist(),
        pd.read_parquet(files[2])["numbered"].tolist(),
        pl.read_ipc(files[3])["numbered"].to_list(),
    ]
    for column in columns:
        assert list(map(repr, map(float, column))) == list(map(repr, NUMBERS))
    assert "nan" in repr(results)


def test_one_failed_outcome_leaves_the_others_of_its_run():
    outcomes = [agents_left, raising, half_broken, leaving]
    (row,) = sweep(outcomes)
    assert (row["agents_left"], row["better"], row["status"]) == (4, 1, "failed")
    assert isnan(row["good"])
    assert row["submitted"] > 0
    for part in ("raising raised", "returned <object>", "\\ud800", "leaving raised SystemExit"):
        assert part in row["error"]


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
    assert "returned an integer of 1024 bits; expected a number" in row["error"]
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


SEEN: list[tuple[type, list[str]]] = []


def seen(state):
    SEEN.append((type(state), sorted(name for name in dir(state) if not name.startswith("_"))))
    people = state.columns("sir.people")
    return {"susceptible": int((people["state"] == 0).sum())}


def never(state):
    return seen(state)["susceptible"] < 0


def test_an_outcome_a_collector_and_a_condition_get_a_state_with_the_same_methods():
    SEEN.clear()
    collect = Collect(world={"n": f"{__name__}:seen"})
    scenario = Scenario.load("sir").with_values(ticks=2, until=f"{__name__}:never")
    (row,) = run_scenarios(
        replace(scenario, collect=collect), executor=InlineExecutor(), outcome=seen
    )
    assert (row["error"], row["susceptible"] > 0) == (None, True)
    assert len(SEEN) >= 5
    assert len({(kind, tuple(names)) for kind, names in SEEN}) == 1


def test_the_collected_columns_of_a_bundled_model_are_outcomes_too():
    (row,) = run_scenarios(
        Scenario.load("sir").with_values(ticks=2),
        executor=InlineExecutor(),
        outcome="placet.scenarios.builtin.sir:states",
    )
    assert row["error"] is None
    assert row["susceptible"] + row["infectious"] + row["recovered"] == 500


def changing(state):
    state["world.agents"]["folk_1"]["position"] = None


def test_an_outcome_that_changes_the_state_is_an_error_of_the_row():
    (row,) = sweep(changing)
    assert "does not support item assignment" in row["error"]
