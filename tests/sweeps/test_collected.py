"""Collected rows of the runs of a sweep."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from placet import Log
from placet.lab import Results, Scenario, run_scenarios
from placet.scenarios.collecting import collector_of
from placet.scenarios.engine import run_scenario
from placet.scenarios.values import ScenarioError
from placet.sweeps.errors import LabError
from tests.sweeps.sweeping import InlineExecutor, short_town

TOWN = short_town().with_values(
    collect={
        "every": 1,
        "agents": ["position"],
        "refusals": True,
        "world": {"carried": "tests.sweeps.test_collected:carried"},
    }
)


def carried(state):
    """The number of carried objects."""
    return sum(len(agent["inventory"]) for agent in state["world.agents"].values())


def mixed(state):
    """An int for some runs, a text for others."""
    agents = state["world.agents"]
    return len(agents) if len(agents) == 4 else f"{len(agents)} agents"


def sweep(to, scenarios, **more):
    arguments = {"seeds": [1, 2], "executor": InlineExecutor(), "to": to, **more}
    return run_scenarios(scenarios, **arguments)


def test_the_rows_of_a_run_are_those_of_the_run_alone(tmp_path):
    results = sweep(tmp_path / "study", TOWN.product(max_step=[0.5, 1]))
    table = results.collected("agents")
    assert table.columns == [
        "settings.max_step",
        "seed",
        "tick",
        "seq",
        "sim_time_ns",
        "agent",
        "position",
    ]
    frame = table.to_pandas()
    assert len(frame) == 2 * 2 * 2 * 4  # settings, seeds, ticks, agents
    alone = collector_of(TOWN, None)
    assert alone is not None
    run_scenario(TOWN.with_values(seed=2, max_step=1), collector=alone)
    own = frame[(frame["settings.max_step"] == 1) & (frame["seed"] == 2)]
    expected = alone.tables()["agents"].to_pandas()
    assert own.iloc[:, 2:].to_csv(index=False) == expected.to_csv(index=False)
    assert Results.load(tmp_path / "study").collected("agents").digest() == table.digest()


def test_the_rows_the_log_and_the_code_of_one_run_are_found_by_its_number(tmp_path):
    results = sweep(tmp_path / "study", TOWN.product(max_step=[0.5, 1]), logs="all")
    table = results.collected("agents")
    parts = [list(results.collected("agents", run=number).rows()) for number in range(4)]
    assert [row for part in parts for row in part] == list(table.rows())
    assert [part[0]["seed"] for part in parts] == results.column("seed") == [1, 2, 1, 2]
    loaded = Results.load(tmp_path / "study")
    assert loaded.runs == results.runs
    for run, row in zip(loaded.runs, loaded, strict=True):
        assert run.key == f"{run.code}-{run.key.split('-')[1]}-{row['seed']}"
        assert run.log is not None
        with Log(run.log) as log:
            assert log.verify().integrity.is_ok
    with pytest.raises(LabError, match="no run 4: the rows are 0 to 3"):
        results.collected("agents", run=4)


def test_a_run_that_collected_nothing_has_no_rows_and_one_without_log_no_path(tmp_path):
    broken = TOWN.with_values(
        collect={"world": {"n": "tests.sweeps.test_collected:broken"}}, ticks=3
    )
    results = sweep(tmp_path / "study", [TOWN, broken])
    assert [len(results.collected("world", run=number)) for number in range(4)] == [2, 2, 0, 0]
    assert {run.log for run in results.runs} == {None}
    assert Results([{"a": 1}], ["a"]).runs == []


def test_a_column_has_the_type_of_its_values_in_all_runs(tmp_path):
    town = TOWN.with_values(collect={"world": {"n": "tests.sweeps.test_collected:mixed"}})
    table = sweep(tmp_path / "study", [town, town.with_agents(5)]).collected("world")
    assert set(table.to_pandas()["n"]) == {"4", '"5 agents"'}
    assert "agents.folk.count" in table.columns


def test_rows_of_a_torn_result_are_in_no_table(tmp_path):
    sweep(tmp_path / "study", [TOWN])
    (rows,) = (tmp_path / "study" / "results").iterdir()
    rows.write_bytes(rows.read_bytes()[:-3])
    assert len(Results.load(tmp_path / "study").collected("world")) == 2
    assert len(sweep(tmp_path / "study", [TOWN]).collected("world")) == 4


def test_a_failing_function_is_a_row_and_an_unknown_one_is_refused(tmp_path):
    broken = TOWN.with_values(collect={"world": {"n": "tests.sweeps.test_collected:broken"}})
    results = sweep(tmp_path / "study", [broken])
    assert "the function of the column 'n' raised MissingKeyError" in results[0]["error"]
    unknown = TOWN.with_values(collect={"world": {"n": "tests.sweeps.test_collected:nothing"}})
    with pytest.raises(ScenarioError, match="has no function 'nothing'"):
        sweep(tmp_path / "study", [unknown])


def broken(state):
    return state["nothing"]


def test_a_table_that_no_run_collected_is_named(tmp_path):
    results = sweep(tmp_path / "study", [short_town()])
    with pytest.raises(LabError, match=r"no run collected a table 'agents'.*\[collect\]"):
        results.collected("agents")
    with ThreadPoolExecutor(1) as executor:
        kept_nowhere = run_scenarios(TOWN, executor=executor)
    with pytest.raises(LabError, match="name one with `to`"):
        kept_nowhere.collected("agents")


@pytest.mark.parametrize(
    "collect",
    [
        {"world": {"seed": "tests.sweeps.test_collected:carried"}},
        {"world": {"ticks": "tests.sweeps.test_collected:carried"}},
        {"agents": ["seed"]},
    ],
)
def test_a_collected_column_that_names_the_run_is_refused(tmp_path, collect):
    with pytest.raises(LabError, match=r"town collects '(seed|ticks)', .* have a column of that"):
        sweep(tmp_path / "study", [TOWN.with_values(collect=collect)])


def test_a_qualified_field_has_a_column_of_its_own(tmp_path):
    town = TOWN.with_values(collect={"agents": ["world.agents/team"]})
    table = sweep(tmp_path / "study", [town]).collected("agents")
    assert {"seed", "world.agents/team"} < set(table.columns)


def test_refusals_are_collected(tmp_path):
    values = {"quotas.Speak.rate": 0.01, "ticks": 8, "collect": {"refusals": True}}
    town = Scenario.load("town").with_agents(40).with_values(values)
    results = sweep(tmp_path / "study", [town])
    counts = sum(results.column("refused"))
    assert len(results.collected("refusals")) >= counts > 0
