"""Sweeps on Ray: what travels, what is refused, and every fault on three simulated nodes."""

import json
import sys
from pathlib import Path

import pytest

from placet.lab import run_scenarios
from placet.sweeps.errors import LabError
from placet.sweeps.on_ray.staging import stage
from placet.sweeps.plan import plan_sweep
from tests.sweeps.ray_program import ray_program
from tests.sweeps.sweeping import InlineExecutor, short_town


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Return a function that asks the program of `ray_nodes` for a fault."""
    with ray_program("tests.sweeps.ray_nodes", tmp_path_factory.mktemp("ray")) as ask:
        yield ask


slow = pytest.mark.slow


def require_whole(done, runs):
    """Check that every run has one row, and that each was executed."""
    assert (done["recorded"], done["recorded_twice"]) == (runs, 0)
    assert len(done["executed"]) == runs


@slow
def test_rows_and_digests_are_those_of_the_process_pool(nodes):
    both = nodes("equal_to_local")
    for done in both.values():
        assert done["code"] == 0, done["error"]
        require_whole(done, 40)
    assert both["ray"]["digests"] == both["here"]["digests"]
    rows = [
        [
            {k: v for k, v in row.items() if k != "seconds"}
            for row in json.loads(done["out"])["rows"]
        ]
        for done in both.values()
    ]
    assert rows[0] == rows[1]
    assert both["ray"]["logs"] == 40, "the logs come back to the study's folder"


@slow
@pytest.mark.soak
def test_each_way_of_a_run_to_fail_is_a_row(nodes):
    done = nodes("runs_that_fail")
    require_whole(done, 160)
    assert done["code"] == 1
    assert done["status"] == {"done": 156, "failed": 1, "died": 2, "timeout": 1}
    assert "this seed raises" in done["failed"]["20"]
    assert "worker process died" in done["failed"]["60"]
    assert "longer than 6 s" in done["failed"]["100"]
    assert "worker process died" in done["failed"]["140"]


@pytest.mark.soak
def test_a_node_with_another_placet_ends_the_sweep_and_is_named(nodes):
    done = nodes("node_of_other_code")
    assert done["code"] == 1
    assert "the Ray node 127.0.0.1 (" in done["error"]
    assert "has another kernel/prng.py there" in done["error"]
    assert done["recorded_twice"] == 0


@slow
@pytest.mark.soak
def test_a_module_that_a_worker_lacks_ends_the_sweep_and_is_named(nodes):
    done = nodes("node_without_module")
    assert done["code"] == 1
    assert "the Ray node 127.0.0.1 (" in done["error"]
    assert "module 'faulty' cannot be imported" in done["error"]
    assert "No module named 'only_here'" in done["error"]
    assert done["executed"] == {}


@pytest.mark.soak
def test_killed_workers_cost_no_run(nodes):
    done = nodes("workers_killed")
    assert done["code"] == 0, done["error"]
    require_whole(done, 120)
    assert done["again"] <= 3


@slow
def test_a_killed_driver_repeats_no_run_that_it_recorded(nodes):
    done = nodes("driver_killed")
    assert done["code"] == 0, done["error"]
    require_whole(done, 160)
    # What was under way, or finished and not yet fetched: of two slots, and groups of a second.
    assert done["again"] <= 64


@pytest.mark.soak
def test_ctrl_c_keeps_what_is_finished(nodes):
    done = nodes("interrupted")
    assert done["first"]["code"] == 130, done["first"]
    assert "finished runs are kept in study" in done["first"]["error"]
    assert done["first"]["recorded"] >= 60
    assert done["second"]["code"] == 0
    require_whole(done["second"], 160)


@slow
@pytest.mark.soak
def test_a_lost_machine_costs_no_run_and_another_takes_over(nodes):
    done = nodes("machine_lost")
    assert done["code"] == 0, done["error"]
    require_whole(done, 60)
    assert done["status"] == {"done": 60}


@pytest.mark.soak
def test_a_cluster_without_a_free_slot_is_reported(nodes):
    done = nodes("no_free_slot")
    assert done["code"] == 0, done["error"]
    assert "no node of Ray had a free slot for 1 s" in done["error"]
    require_whole(done, 2)


def test_ray_client_and_functions_of_a_script_are_refused(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "measure", len, raising=False)
    with pytest.raises(LabError, match="streams no answers"):
        run_scenarios(short_town(), on="ray", ray_address="ray://head:10001")
    with pytest.raises(LabError, match="move the function into a module"):
        run_scenarios(short_town(), on="ray", outcome="__main__:measure")
    with pytest.raises(LabError, match="not both"):
        run_scenarios(short_town(), on="ray", executor=InlineExecutor())


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("head", "--ray-address must be HOST:PORT of the cluster's head, got 'head'"),
        ("head:", "must be HOST:PORT"),
        ("127.0.0.1:99999999", "cannot reach Ray at 127.0.0.1:99999999"),
        ("127.0.0.1:1", "cannot reach Ray at 127.0.0.1:1: .*refused; start its head there with"),
    ],
)
def test_an_address_at_which_no_ray_listens_is_refused_at_once(tmp_path, address, problem):
    with pytest.raises(LabError, match=problem):
        run_scenarios(short_town(), on="ray", ray_address=address, to=tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_modules_of_the_current_folder_travel_and_installed_ones_are_compared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "travelling"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "steps.py").write_text("STEP = 1\n")
    (package / "policy.py").write_text(
        "from travelling.steps import STEP\nclass Stander:\n    def __init__(*_): pass\n"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "map.txt").write_text("map")
    town = short_town().with_values({"agents.folk.policy": "travelling.policy:Stander"})
    staged = stage(plan_sweep([town]), [Path("data")])
    wanted = {"travelling/__init__.py", "travelling/steps.py", "travelling/policy.py"}
    assert {*wanted, "data/map.txt"} <= staged.files.keys()
    assert not any(path.startswith("placet") for path in staged.files)
    version, digests = staged.expected["packages"]["placet"]
    assert version
    assert "kernel/prng.py" in digests
    assert "travelling.policy" in staged.expected["modules"]
    staged.write(tmp_path / "job")
    assert (tmp_path / "job" / "data" / "map.txt").read_text() == "map"
    for path, problem in ((Path("nothing"), "no such file"), (Path("/etc/hostname"), "not below")):
        with pytest.raises(LabError, match=problem):
            stage(plan_sweep([town]), [path])
