"""Policies on Ray: one digest, deaths of workers and nodes, and what is refused."""

import pytest

from placet.scenarios import ScenarioError
from placet.scenarios.engine import run_scenario
from placet.scenarios.thinking import Workers
from tests.scenarios.test_workers import walkers
from tests.sweeps.ray_program import ray_program

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return a function that asks the program of `ray_workers` for a run."""
    with ray_program("tests.scenarios.ray_workers", tmp_path_factory.mktemp("ray")) as ask:
        yield ask


@slow
def test_workers_on_ray_have_one_digest_through_kills(cluster):
    found = cluster("digests")
    assert found["1"] == found["2"] == found["alone"]


@slow
def test_a_policy_that_raises_on_ray_gives_the_error_of_one_process(cluster):
    found = cluster("policy_that_raises")
    with pytest.raises(ScenarioError) as alone:
        run_scenario(walkers(count=8, fails="raises", agent="walker_4", tick=2))
    assert found == {"error": str(alone.value), "kind": "PolicyError"}


@slow
@pytest.mark.soak
def test_a_policy_that_kills_its_workers_on_ray_is_named(cluster):
    found = cluster("policy_that_kills")
    assert found["kind"] == "WorkerFailed"
    assert "the policy of walker_5 ended its worker in tick 2" in found["error"]


@slow
def test_functions_of_a_program_travel_to_ray_by_value(cluster):
    found = cluster("by_value")
    assert found["ray"] == found["alone"]


@slow
def test_more_workers_than_slots_or_gpus_of_the_cluster_are_refused(cluster):
    found = cluster("too_few_slots")
    assert "3 workers need 3 slots, and Ray has 2; use fewer" in found["slots"]
    assert "2 workers need 1 GPUs, and Ray has 0" in found["gpus"]


@slow
@pytest.mark.soak
def test_a_module_that_a_node_lacks_is_refused_and_named(cluster):
    found = cluster("module_missing")
    assert "on 127.0.0.1 (" in found["error"]
    assert "No module named 'only_here'" in found["error"]


@slow
@pytest.mark.soak
def test_a_node_of_other_code_is_refused_with_its_file(cluster):
    found = cluster("other_code")
    assert "on 127.0.0.1 (" in found["error"]
    assert "has another kernel/prng.py there" in found["error"]


@slow
@pytest.mark.soak
def test_a_lost_node_costs_the_thinking_of_its_share(cluster):
    found = cluster("node_lost")
    assert found["ray"] == found["alone"]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("head", "--ray-address must be HOST:PORT of the cluster's head, got 'head'"),
        ("127.0.0.1:1", "cannot reach Ray at 127.0.0.1:1"),
        ("ray://head:1", "streams no answers"),
    ],
)
def test_an_address_at_which_no_ray_listens_is_refused(address, problem):
    with pytest.raises(ScenarioError, match=problem):
        run_scenario(walkers(), workers=Workers(2, "ray", address))
