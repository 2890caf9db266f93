"""A sweep runs what is not finished, and keeps what is."""

import asyncio
import errno
import json
import os
import sys
from collections import Counter
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from platform import node

import pytest

from placet.lab import Results, Scenario, paired_differences, run_scenarios
from placet.scenarios import builtin
from placet.scenarios.values import ScenarioError
from placet.sweeps import study as study_module
from placet.sweeps.errors import LabError
from placet.sweeps.plan import run_key
from tests.scenarios.actors import by_actors
from tests.sweeps.sweeping import (
    InlineExecutor,
    agents_left,
    fail_where_marked,
    mark_execution,
    short_town,
    without_times,
)


@pytest.fixture
def marks(tmp_path, monkeypatch):
    path = tmp_path / "marks"
    monkeypatch.setenv("MARKS", str(path))
    return lambda: Counter(path.read_text().split()) if path.exists() else Counter()


def sweep(to, scenarios=None, **more):
    return run_scenarios(
        scenarios or short_town().product(max_step=[0.5, 1]),
        to=to,
        **{"replications": 2, "executor": InlineExecutor(), **more},
    )


def test_a_row_has_the_digest_and_the_counts_of_the_run(tmp_path):
    scenario = short_town()
    (row,) = sweep(tmp_path / "study", [scenario], replications=None, outcome=agents_left)
    report = asyncio.run(by_actors(scenario).run())
    assert (row["digest"], row["seq"]) == (report.digest, report.seq)
    assert (row["submitted"], row["admitted"]) == (report.submitted, report.admitted)
    assert (row["agents_left"], row["seed"], row["error"]) == (4, scenario.seed, None)


def test_rows_are_in_the_order_of_scenarios_and_seeds(tmp_path):
    results = sweep(tmp_path / "study")
    assert results.columns[:2] == ["settings.max_step", "seed"]
    assert [(row["settings.max_step"], row["seed"]) for row in results] == [
        (0.5, 1),
        (0.5, 2),
        (1, 1),
        (1, 2),
    ]


def test_equal_scenarios_share_their_runs_and_have_a_mean_each(tmp_path, marks):
    towns = short_town().product(max_step=[0.5, 1, 0.5])
    results = sweep(tmp_path / "study", towns, outcome=mark_execution)
    assert len(results) == 6
    assert sum(marks().values()) == 4
    means = results.means("mark_execution")
    assert len(means) == 3
    assert means[0] == means[2]


def test_a_finished_run_is_not_repeated(tmp_path, marks):
    before = sweep(tmp_path / "study", outcome=mark_execution)
    more = short_town().product(max_step=[0.5, 1, 2])
    after = sweep(tmp_path / "study", more, outcome=mark_execution)
    assert without_times(after)[:4] == without_times(before)
    assert sorted(marks().values()) == [1] * 6
    assert without_times(Results.load(tmp_path / "study")) == without_times(after)


def test_a_row_that_was_not_written_whole_is_run_again(tmp_path, marks):
    sweep(tmp_path / "study", outcome=mark_execution)
    (rows,) = (tmp_path / "study" / "results").iterdir()
    rows.write_bytes(rows.read_bytes()[:-3])
    results = sweep(tmp_path / "study", outcome=mark_execution)
    assert len(results) == 4
    assert sorted(marks().values()) == [1, 1, 1, 2]


def test_a_failing_outcome_is_a_row_with_its_error_until_it_is_retried(tmp_path, monkeypatch):
    fails = tmp_path / "fails"
    monkeypatch.setenv("FAILS", str(fails))
    fails.touch()
    results = sweep(tmp_path / "study", outcome=[agents_left, fail_where_marked])
    assert {row["status"] for row in results} == {"failed"}
    assert "fail_where_marked raised RuntimeError" in results[0]["error"]
    fails.unlink()
    again = sweep(tmp_path / "study", outcome=[agents_left, fail_where_marked])
    assert len(again.failed) == 4
    retried = sweep(tmp_path / "study", outcome=[agents_left, fail_where_marked], retry=True)
    assert retried.failed == []
    assert retried.column("fail_where_marked") == [True] * 4


def test_an_outcome_that_exits_is_a_row_with_its_error(tmp_path):
    results = sweep(tmp_path / "study", outcome=exiting)
    assert "exiting raised SystemExit(3)" in results[0]["error"]
    assert len(results) == 4


def test_a_policy_that_exits_is_a_row_with_its_error(tmp_path, own_policy):
    (tmp_path / "standing.py").write_text(POLICY.replace("return []", "raise SystemExit(3)"))
    sys.modules.pop("standing", None)
    results = sweep(tmp_path / "study", [own_policy])
    assert [row["error"] for row in results] == ["SystemExit: 3"] * 2


def exiting(state):
    raise SystemExit(3)


def test_a_failing_policy_is_a_row_with_its_error(tmp_path):
    scenario = short_town().with_values({"agents.folk.options.popular": "many"})
    (row,) = sweep(tmp_path / "study", [scenario], replications=1)
    assert row["status"] == "failed"
    assert "agents.folk.options.popular: must be of type int" in row["error"]


POLICY = """
from beside import STEP
class Stander:
    def __init__(self, member, scenario, intent):
        pass
    def propose(self, view):
        return []
"""


@pytest.fixture
def own_policy(tmp_path, monkeypatch):
    """A scenario with a policy in the current folder, which imports a module beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "beside.py").write_text("STEP = 1\n")
    (tmp_path / "standing.py").write_text(POLICY)
    forget("beside", "standing")
    return short_town().with_values({"agents.folk.policy": "standing:Stander"})


class WithoutModules(InlineExecutor):
    """Runs calls where the modules of the current folder cannot be found."""

    def submit(self, function, /, *args, **kwargs):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir("/")
            patch.setattr(sys, "path", [path for path in sys.path if "/test_" not in path])
            patch.delitem(sys.modules, "standing")
            return super().submit(function, *args, **kwargs)


def test_a_module_that_a_worker_lacks_ends_the_sweep_and_is_named(tmp_path, own_policy):
    with pytest.raises(
        LabError,
        match=rf"worker process {os.getpid()} on {node()} cannot import the module 'standing'",
    ):
        sweep("study", [short_town(), own_policy], executor=WithoutModules())
    assert len(Results.load("study")) == 2, "the finished runs are kept, and no other has a row"


def test_a_study_of_other_code_stops_the_sweep_and_names_the_file(tmp_path, own_policy):
    before = sweep("study", [own_policy])
    (tmp_path / "beside.py").write_text("STEP = 2\n")
    with pytest.raises(LabError, match=r"other code: module beside \(.*beside.py\) was "):
        sweep("study", [own_policy])
    after = sweep("study", [own_policy], anyway=True)
    assert after.column("digest") == before.column("digest")
    everything = Results.load("study")
    assert len(everything) == 4
    assert len(set(everything.column("code"))) == 2


def test_failed_runs_of_other_code_are_retried(tmp_path, monkeypatch, own_policy):
    fails = tmp_path / "fails"
    monkeypatch.setenv("FAILS", str(fails))
    fails.touch()
    sweep("study", [own_policy], outcome=fail_where_marked)
    fails.unlink()
    (tmp_path / "beside.py").write_text("STEP = 2\n")
    retried = sweep("study", [own_policy], outcome=fail_where_marked, anyway=True, retry=True)
    assert retried.column("fail_where_marked") == [True] * 2
    (tmp_path / "beside.py").write_text("STEP = 3\n")
    again = sweep("study", [own_policy], outcome=fail_where_marked, anyway=True, retry=True)
    assert len(again) == 0, "they failed with one code and not with another"


BUNDLED = sorted(path.stem for path in Path(builtin.__file__).parent.glob("*.toml"))


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_scenario_is_swept(tmp_path, name):
    (row,) = sweep(tmp_path / "study", [Scenario.load(name).with_values(ticks=1)], replications=1)
    assert row["error"] is None


def retried_with_other_code(tmp_path, monkeypatch, seeds_that_fail, *, is_mended=True):
    """Sweep a study of which some seeds fail, change the code, and retry them."""
    fails = tmp_path / "fails"
    monkeypatch.setenv("FAILS", str(fails))
    fails.write_text(" ".join(map(str, seeds_that_fail)))
    (tmp_path / "standing.py").write_text(POLICY_THAT_FAILS)
    forget("beside", "standing")
    base = short_town().with_values({"agents.folk.policy": "standing:Stander"})
    scenarios = list(base.product(max_step=[1.0, 2.0]))
    before = sweep("study", scenarios)
    assert len(before.failed) == 2 * len(seeds_that_fail)
    (tmp_path / "beside.py").write_text("STEP = 200\n")  # of another length: no stale .pyc
    forget("beside", "standing")
    if is_mended:
        fails.write_text("")
    sweep("study", scenarios, retry=True, anyway=True)
    return Results.load("study")


def forget(*modules):
    for name in modules:
        sys.modules.pop(name, None)


POLICY_THAT_FAILS = """
import os
from pathlib import Path
from beside import STEP
class Stander:
    def __init__(self, member, scenario, intent):
        self.fails = str(scenario.seed) in Path(os.environ["FAILS"]).read_text().split()
    def propose(self, view):
        if self.fails:
            raise RuntimeError(f"step {STEP}")
        return []
"""


@pytest.mark.parametrize("failing", [(1,), (1, 2)])
def test_a_run_retried_with_other_code_replaces_its_failed_row(
    tmp_path, monkeypatch, own_policy, failing
):
    results = retried_with_other_code(tmp_path, monkeypatch, failing)
    assert (len(results), results.failed) == (4, [])
    assert results.column("settings.max_step") == [1.0, 1.0, 2.0, 2.0]
    assert results.column("seed") == [1, 2, 1, 2]
    assert len(results.means("admitted")) == 2
    assert [row["runs"] for row in results.by_scenario()] == [2, 2]
    assert [d.pairs for d in paired_differences(results, "max_step", measures=["admitted"])] == [2]


def test_a_run_that_fails_again_with_other_code_has_its_later_error(
    tmp_path, monkeypatch, own_policy
):
    results = retried_with_other_code(tmp_path, monkeypatch, (1, 2), is_mended=False)
    assert len(results) == 4
    assert all("step 200" in row["error"] for row in results.failed)


def test_other_rules_of_the_domain_stop_the_sweep(tmp_path):
    sweep(tmp_path / "study")
    manifest = tmp_path / "study" / "manifest.json"
    content = json.loads(manifest.read_text())
    for scenario in content["scenarios"].values():
        for version in scenario["code"].values():
            version[1] = "0" * 32
    manifest.write_text(json.dumps(content))
    with pytest.raises(LabError, match="the domain's rules were 000"):
        sweep(tmp_path / "study")


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        LabError, match=r"no study: it has no manifest.json, and holds 'thesis.tex'"
    ):
        sweep(tmp_path)
    with pytest.raises(LabError, match="cannot be the folder of a study"):
        sweep(tmp_path / "thesis.tex")
    (tmp_path / "manifest.json").write_text('{"format": "another"}')
    with pytest.raises(LabError, match="not a study of this release"):
        sweep(tmp_path)


@pytest.mark.parametrize("make", [str, Path])
def test_a_url_is_no_folder_of_a_study(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    url = make("postgresql://ann:secret@db.example/worlds?world=town")
    with pytest.raises(LabError, match="a study is a folder, got the URL postgresql:") as raised:
        sweep(url)
    with pytest.raises(LabError, match="a study is a folder"):
        Results.load(url)
    assert "secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_two_sweeps_do_not_write_one_study(tmp_path):
    with (
        study_module.Study(tmp_path / "study").locked(),
        pytest.raises(LabError, match="another sweep runs in"),
    ):
        sweep(tmp_path / "study")


def test_a_full_disk_ends_the_sweep_and_keeps_the_finished_rows(tmp_path, monkeypatch, marks):
    written: list[bytes] = []
    write = os.write

    def write_until_full(number, data):
        if len(written) == 7:  # three runs, each its collected rows and its row; and the fourth's
            write(number, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(data)
        return write(number, data)

    with monkeypatch.context() as patch:
        patch.setattr("placet.sweeps.study.os.write", write_until_full)
        with pytest.raises(LabError, match=r"No space left on device.*are kept.*same command"):
            sweep(tmp_path / "study", outcome=mark_execution)
    assert len(sweep(tmp_path / "study", outcome=mark_execution)) == 4
    assert sum(marks().values()) == 5  # the fourth run, whose row had no room, twice


def test_a_row_after_a_failed_write_is_whole(tmp_path, monkeypatch):
    write = os.write

    def write_half(number, data):
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(number, data[:20])

    name = "a run whose row has no room left"
    row = {"code": "c", "scenario": name, "attempt": 0, "error": None}
    rows = [{"key": run_key("c", name, seed), "seed": seed, **row} for seed in range(3)]
    with study_module.Study(tmp_path).locked() as study:
        writer = study_module.RowWriter(tmp_path, study.session)
        writer.write(rows[0])
        with monkeypatch.context() as patch:
            patch.setattr("placet.sweeps.study.os.write", write_half)
            with pytest.raises(OSError, match="No space left"):
                writer.write(rows[1])
        writer.write(rows[2])
        writer.close()
        assert list(study.read_rows().values()) == [rows[0], rows[2]]


class DyingExecutor(InlineExecutor):
    """Runs calls, and breaks before the answers arrive, as a pool whose worker is killed."""

    def submit(self, function, /, *args, **kwargs):
        function(*args, **kwargs)
        future: Future[object] = Future()
        future.set_exception(BrokenExecutor("a worker was killed"))
        return future


def test_a_row_that_was_written_before_its_pool_broke_counts(tmp_path, marks):
    executors = iter([DyingExecutor(), InlineExecutor()])
    results = run_scenarios(
        short_town(),
        replications=4,
        outcome=mark_execution,
        executor=lambda: next(executors),
        to=tmp_path / "study",
    )
    assert len(results) == 4
    assert sorted(marks().values()) == [1] * 4


def test_a_misspelled_setting_is_refused_before_any_run(tmp_path):
    with pytest.raises(ScenarioError, match="did you mean 'max_step'"):
        sweep(tmp_path / "study", [short_town().with_values(max_stp=1)])
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": [1]}, "not both"),
        ({"replications": 0}, "at least 1"),
        ({"replications": 10**12}, "at most 1000000 runs"),
        ({"replications": 500_001}, "at most 1000000 runs"),
        ({"replications": None, "seeds": count()}, "at most 1000000 runs"),
        ({"replications": None, "seeds": []}, "empty"),
        ({"replications": None, "seeds": [-1]}, "a seed must be"),
        ({"outcome": "no_such_module:f"}, "no_such_module"),
        ({"scenarios": ["town"]}, "expected scenarios"),
        ({"scenarios": "town"}, "`scenarios` must be Scenario.load"),
        ({"scenarios": 3}, "`scenarios` must be Scenario.load"),
        ({"outcome": 3}, "`outcome` must be a function, or a list of functions, got 3"),
        ({"replications": 1.5}, "replications must be at least 1, got 1.5"),
        ({"replications": None, "seeds": 3}, "`seeds` must be a list or a range"),
        ({"executor": 3}, "`executor` must be a concurrent.futures executor, or a function"),
        ({"executor": list}, r"`executor` must return a concurrent.futures executor, got \[\]"),
        ({"executor": None, "jobs": 0}, "jobs must be at least 1, got 0"),
        ({"executor": None, "jobs": 1.5}, "jobs must be at least 1, got 1.5"),
        ({"timeout_s": "3"}, "timeout_s must be a number of seconds above 0 .* got '3'"),
        ({"logs": "fail"}, "logs must be one of 'all', 'failed', 'none', got 'fail'"),
        ({"on": "slurm"}, "on must be one of 'here', 'ray', got 'slurm'"),
    ],
)
def test_contradicting_arguments_are_refused(tmp_path, arguments, message):
    with pytest.raises(LabError, match=message):
        sweep(tmp_path / "study", **arguments)


def test_a_run_in_a_thread_has_no_timeout():
    with ThreadPoolExecutor() as executor, pytest.raises(LabError, match="cannot be ended"):
        run_scenarios(short_town(), executor=executor, timeout_s=1)


def test_threads_run_scenarios_too(tmp_path):
    scenarios = short_town().product(max_step=[0.5, 1])
    with ThreadPoolExecutor(2) as executor:
        results = run_scenarios(scenarios, replications=2, executor=executor)
    assert without_times(results) == without_times(sweep(tmp_path / "study"))


def test_logs_are_kept_of_all_of_failed_or_of_no_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("FAILS", str(tmp_path / "none"))
    for logs, kept in (("all", 4), ("failed", 0), ("none", 0)):
        sweep(tmp_path / logs, logs=logs, outcome=fail_where_marked)
        assert len(list((tmp_path / logs / "logs").glob("*.db"))) == kept
    monkeypatch.setenv("FAILS", str(tmp_path))
    sweep(tmp_path / "failing", logs="failed", outcome=fail_where_marked)
    assert len(list((tmp_path / "failing" / "logs").glob("*.db"))) == 4


def others_than_merchants(state):
    """Where the agents are whom the merchants' talk does not touch."""
    agents = state["world.agents"].items()
    return json.dumps({n: a["position"] for n, a in agents if not n.startswith("merchant")})


def test_agents_that_a_setting_does_not_touch_draw_alike(tmp_path):
    """Common random numbers: with one seed, only the merchants act otherwise."""
    town = short_town(60, 6)
    quiet, loud = town.product({"agents.merchant.options.talkative": [0.0, 1.0]})
    results = sweep(tmp_path / "study", [quiet, loud], outcome=others_than_merchants)
    first, second, first_loud, second_loud = results.column("others_than_merchants")
    assert (first, second) == (first_loud, second_loud)
    assert first != second
    submitted = results.column("submitted")
    assert submitted[2] > submitted[0]
    assert submitted[3] > submitted[1]


def test_results_show_themselves_and_write_files(tmp_path):
    results = sweep(tmp_path / "study", outcome=agents_left)
    assert repr(results).startswith("Results of 4 runs\n")
    assert "agents_left" in repr(results)
    assert results._repr_html_().count("<tr>") == 5
    frame = results.to_pandas()
    assert list(frame["agents_left"]) == [4] * 4
    assert results.means("agents_left") == [4, 4]
    means = results.by_scenario()
    assert [(row["settings.max_step"], row["runs"]) for row in means] == [(0.5, 2), (1, 2)]
    assert means[0]["admitted"] == sum(results.column("admitted")[:2]) / 2
    assert results.to_polars()["seed"].to_list() == [1, 2, 1, 2]
    for ending in ("csv", "jsonl", "parquet", "arrow"):
        assert results.write(tmp_path / f"rows.{ending}").stat().st_size > 0
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.column_names == results.columns
    assert table["digest"].to_pylist() == results.column("digest")
    with pytest.raises(LabError, match="expected an ending"):
        results.write(tmp_path / "rows.xls")
    with pytest.raises(LabError, match="no column 'gini'"):
        results.means("gini")


def test_a_scenario_is_run_with_its_own_seed_where_none_is_named(tmp_path):
    scenarios = short_town().product(seed=[3, 4])
    assert sweep(tmp_path / "s", scenarios, replications=None).column("seed") == [3, 4]
