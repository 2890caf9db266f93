"""`placet.Log` reads a finished or growing log."""

import asyncio
import subprocess
import sys
from itertools import islice

import pytest

import placet
from placet import Orchestrator, OrchestratorConfig
from placet.schemas.errors import PlacetError, StoreError
from tests.lab.logs import run_town


def test_records_are_events_of_the_log(town_log):
    log = placet.Log(town_log)
    events = list(log.records())
    assert events[0].type == "header"
    assert {event.record for event in events} == set(range(len(log)))
    assert [e.seq for e in log.records(10, 12)] == [10, 11, 12]


@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        ({"refused": True}, lambda e: e.type == "refused"),
        (
            {"kind": ["Move", "Speak"]},
            lambda e: {"Move", "Speak"} & {i["kind"] for i in e.data.get("intents", ())},
        ),
        ({"grep": "apple_[0-9]"}, lambda e: "apple_" in str(e.data)),
        (
            {"agent": "folk_1"},
            lambda e: (
                e.data.get("agent_id") == "folk_1"
                or "folk_1" in {i["agent_id"] for i in e.data.get("intents", ())}
            ),
        ),
    ],
)
def test_filters_select_exactly_the_matching_records(town_log, filters, holds):
    log = placet.Log(town_log)
    expected = [(e.record, e.seq) for e in log.records() if holds(e)]
    assert expected
    assert [(e.record, e.seq) for e in log.records(**filters)] == expected


def test_a_filter_that_is_no_regular_expression_is_an_error(town_log):
    with pytest.raises(PlacetError, match=r"grep='\(' is no regular expression: missing \)"):
        next(placet.Log(town_log).records(grep="("))


def test_at_returns_the_world_at_a_seq_a_tick_and_the_end(town_log):
    log = placet.Log(town_log)
    end = log.at()
    assert end.digest() == log.verify().integrity.digest
    assert log.at(end.seq).state == end.state
    assert log.at(tick=3).sim_time == 3.0
    assert log.at(tick=3).state != end.state
    assert "folk_1" in end.agents
    with pytest.raises(StoreError, match="has no tick 99"):
        log.at(tick=99)
    with pytest.raises(StoreError, match=f"it ends at seq {end.seq}$"):
        log.at(10**9)
    with pytest.raises(ValueError, match="a position is one number"):
        log.at(5, tick=1)


def test_rows_need_no_extra_and_can_be_read_again(town_log):
    program = (
        "import sys; sys.modules['pyarrow'] = None; import placet;"
        f"log = placet.Log({str(town_log)!r});"
        "print(len(list(log.intents)), len(list(log.intents)), len(list(log.refusals)),"
        "len(list(log.changes)), len(list(log.entities(every=4))))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, *others = map(int, done.stdout.split())
    assert first == second > 0
    assert all(others)


def test_rows_are_those_of_the_tables(town_log):
    log = placet.Log(town_log)
    tables = log.tables(every=4)
    assert [r["seq"] for r in log.intents] == tables["intents"].arrow["seq"].to_pylist()
    move = next(r for r in log.intents if r["kind"] == "Move")
    row = next(r for r in tables["intents"].rows() if r["kind"] == "Move")
    assert row["Move.to"] == move["payload"]["to"]
    entities = list(log.entities(every=4))
    assert len(entities) == len(tables["entities"])
    assert {r["tick"] for r in entities} == {4, 8, 12}


def test_entities_after_a_tick_are_the_state_then(town_log):
    log = placet.Log(town_log)
    rows = [r for r in log.entities(every=5) if r["tick"] == 10]
    state = log.at(tick=10).state
    assert {(r["collection"], r["entity"]) for r in rows} == {
        (collection, entity) for collection, found in state.items() for entity in found
    }
    folk = next(r for r in rows if r["entity"] == "folk_1" and r["collection"] == "world.agents")
    assert tuple(folk["fields"]["position"]) == state["world.agents"]["folk_1"]["position"]


def test_tables_become_frames_of_pandas_and_polars(town_log):
    log = placet.Log(town_log)
    tables = log.tables("intents", "changes")
    frame = tables["intents"].to_pandas()
    assert len(frame) == len(tables["intents"]) == tables["intents"].to_polars().height
    assert log.refusals.to_pandas().shape[0] == len(list(log.refusals))
    assert tables["changes"].to_polars()["new"].dtype.__class__.__name__ == "String"


def test_explain_and_verify(town_log):
    log = placet.Log(town_log)
    refused = next(iter(log.refusals))
    explained = log.explain(refused["agent"], refused["req_id"])
    assert explained.answer == "refused"
    admitted = next(iter(log.intents))
    assert log.explain(seq=admitted["seq"]).req_id == admitted["req_id"]
    assert log.verify().is_ok
    with pytest.raises(ValueError, match="name a request"):
        log.explain("folk_1")


def test_reprs_and_html_name_the_contents(town_log):
    log = placet.Log(town_log)
    tables = log.tables("intents", "ticks")
    assert repr(log).endswith(f"{len(log)} records>")
    assert repr(tables["ticks"]) == "<ArrowTable ticks: 12 rows, 8 columns>"
    assert repr(tables).startswith("<Tables: intents ")
    for shown in (log, log.at(), tables, tables["ticks"], log.intents, log.refusals):
        html = shown._repr_html_()
        assert html.count("<table>") == html.count("</table>") == 1
    assert "&lt;b&gt;" not in tables["ticks"]._repr_html_()


def test_cells_are_escaped_in_html(notes_log, tmp_path):
    from tests.lab.logs import write_notes

    store = tmp_path / "notes.db"
    write_notes(store, [[("Put", {"id": "a", "value": "<script>alert(1)</script>"})]])
    html = placet.Log(store).tables("changes")["changes"]._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_missing_store_is_an_error_at_once(tmp_path):
    with pytest.raises(StoreError, match="there is no file"):
        placet.Log(tmp_path / "none.db")
    with pytest.raises(StoreError, match="a log in memory ends with its process"):
        placet.Log("memory://")
    with pytest.raises(PlacetError, match="every must be a number of ticks"):
        placet.Log(store_of(tmp_path)).entities(every=0)


def store_of(folder):
    store = folder / "town.db"
    run_town(store, ticks=1)
    return store


def test_log_is_read_while_its_writer_goes_on(tmp_path):
    """The reader takes no fence: the writer is not stopped, and later reads see more."""

    async def run():
        config = OrchestratorConfig(store=str(tmp_path / "w.db"), clock="stepped")
        async with Orchestrator(None, config) as world:
            ann = await world.register_agent("ann", position=[0, 0, 0])
            log = placet.Log(tmp_path / "w.db")
            counts = []
            for number in range(4):
                pending = ann.submit_nowait([ann.intent("Move", to=[0.1 * number, 0, 0])])
                await world.step(1.0)
                assert (await pending).admitted
                await ann.refresh_view()
                counts.append(len(list(log.intents)))
            reader = iter(log.records())
            first = list(islice(reader, 3))
            await world.step(1.0)
            rest = list(reader)
            assert first[0].type == "header"
            assert rest[-1].sim_time == 4.0
            return counts

    assert asyncio.run(run()) == [1, 2, 3, 4]
