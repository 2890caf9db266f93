"""The access to a design in what is made of its log: a fork, a reopened world, an export."""

import csv

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet_design import Design
from placet_design.access import access_of

ACCESS = {"owner": "ann", "editors": ["ed"], "readers": []}


@pytest.fixture
def ferry(placet):
    """A store with a design that belongs to Ann."""
    assert placet("design", "60 m ferry", "--store", "ferry.db").code == 0
    owned = placet("design", "--owner", "ann", "--editors", "ed", "--store", "ferry.db")
    assert owned.code == 0
    return placet


def refusal_of(placet, store, agent):
    answer = placet("design", "set beam to 9 m", "--store", store, "--agent", agent, "--json")
    return (answer.json().get("rejections") or [{"code": None}])[0]["code"]


def test_a_fork_keeps_the_access_of_its_moment(ferry):
    assert ferry("fork", "ferry.db", "child.db").code == 0
    shown = ferry("design", "--access", "--store", "child.db", "--json").json()
    assert {field: shown[field] for field in ACCESS} == ACCESS
    assert refusal_of(ferry, "child.db", "mallory") == "no_access"
    assert refusal_of(ferry, "child.db", "ed") is None
    assert ferry("verify", "child.db").code == 0


def test_a_fork_that_replays_later_plans_refuses_them_by_its_own_access(ferry):
    """An operator takes the access away in a fork: what the agent did later is refused there."""
    assert refusal_of(ferry, "ferry.db", "ed") is None
    log = ferry("log", "ferry.db", "--json").json()
    at = next(one["seq"] for one in log if one.get("agent_id") == "ed")
    alone = "design.access/design/editors=[]"
    made = ferry(
        *("fork", "ferry.db", "child.db", "--at", str(at), "--set", alone, "--replay"),
        *("--effects", "simulate"),
    )
    assert made.code == 0, made.err
    assert "design.no_access" in ferry("log", "child.db", "--refused", "--json").out


def test_an_export_has_the_access_and_each_change_of_it(ferry):
    assert ferry("export", "ferry.db", "--to", "intents.csv").code == 0
    kinds = rows_of(ferry.folder / "intents.csv", "kind")
    assert "design.set_access" in kinds
    assert ferry("export", "ferry.db", "--to", "entities.csv", "--table", "entities").code == 0
    assert "design.access" in rows_of(ferry.folder / "entities.csv", "collection")


def rows_of(path, column):
    with path.open(newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


async def test_a_reopened_world_has_the_access(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path}/w.db")
    async with Orchestrator(Design(design_id="ship"), config) as world:
        host = await world.register_agent("host", role="operator")
        assert (await host.submit([host.intent("design.set_access", **ACCESS)])).admitted
    async with Orchestrator(Design(design_id="ship"), config) as world:
        mallory = await world.register_agent("mallory")
        refused = await mallory.submit([mallory.intent("design.noop")])
        assert refused.codes == ("design.no_access",)
        assert (await mallory.refresh_view()).state == {}
        stored = await world.query(lambda kernel: access_of(kernel.tree))
        assert stored is not None
        assert stored["owner"] == "ann"
