"""Events of tables and column batches: one a record, with counts, as far as a caller may see."""

import json

import numpy as np
import pytest

from placet.actors.publisher import events_of
from placet.kernel import ColumnBatch, RecordList
from placet.server.viewpoint import Viewpoint
from tests.actors.observation.flock import SIDE, flock_kernel, near_birds

N = 30


def flown(sight, **options):
    """Return a kernel whose birds flew twice, and the events of its log."""
    log = RecordList()
    kernel = flock_kernel(sight, n=N, sink=log)
    rng = np.random.default_rng(3)
    for tick in range(2):
        to = rng.uniform(0, SIDE, (N, 2))
        to[0] = np.nan
        kernel.step(1.0, [ColumnBatch("Fly", "birds", {"to": to}, f"m:{tick}", **options)])
    return kernel, [event for at, data in enumerate(log) for event in events_of(at, data)]


def of_columns(events):
    return [event for event in events if event["type"] == "columns"]


def test_the_operator_gets_one_event_with_counts():
    kernel, events = flown(None)
    shown = of_columns(Viewpoint("operator", None).events(kernel, events))
    assert [(e["rows"], e["refused"], e["refusals"]) for e in shown] == [
        (N, 1, {"payload_invalid": 1})
    ] * 2
    assert [event["columns"] for event in shown] == [["flock.birds/position"]] * 2
    assert len(json.dumps(shown[0])) < 1_000


@pytest.mark.parametrize("agent", ["birds:0", "w0"])
def test_an_agent_gets_the_changed_columns_of_public_tables_and_no_counts(agent):
    kernel, events = flown(None)
    shown = of_columns(Viewpoint(agent, agent).events(kernel, events))
    assert [event["columns"] for event in shown] == [["flock.birds/position"]] * 2
    assert all(not event["changes"] for event in shown)
    assert all("rows" not in event and "refusals" not in event for event in shown)


@pytest.mark.parametrize("agent", ["birds:0", "w0"])
def test_an_agent_gets_nothing_of_a_table_that_hides_rows(agent):
    kernel, events = flown(near_birds())
    assert of_columns(Viewpoint(agent, agent).events(kernel, events)) == []


def test_the_owner_of_a_population_reads_the_counts_of_its_batches():
    kernel, events = flown(near_birds())
    kernel.ledger.populations["birds"].owner = "w1"
    shown = of_columns(Viewpoint("w1", "w1").events(kernel, events))
    assert [(event["kind"], event["rows"], event["refused"]) for event in shown] == [
        ("Fly", N, 1)
    ] * 2
    assert all("columns" not in event for event in shown)


def test_a_projection_of_another_domain_gets_no_refusals():
    kernel, events = flown(None)
    own, others = Viewpoint("operator", None), Viewpoint("w0", "w0")
    assert own.readable(kernel, events) == events
    shown = [event for event in others.readable(kernel, events) if event.type == "columns"]
    assert [(event.data["refused"], event.data["refusals"]) for event in shown] == [
        (None, None)
    ] * 2
