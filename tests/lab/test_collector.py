"""Collectors: rows at ticks, live and from the log, equal; killed and continued."""

import asyncio
import re
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.domains.world import World
from placet.kernel import Kernel
from placet.runtime.kernel_world import KernelWorld
from placet.schemas.errors import PlacetError
from placet.stores.reading import log_to_read
from placet.tables import collector as collector_module
from placet.tables.collector import Collector
from placet.tables.parts import CollectError, read_collected


def spread(state):
    """Return the width of the agents' positions."""
    xs = [fields["position"][0] for fields in state["world.agents"].values()]
    return max(xs) - min(xs)


def mixed(state):
    """Return values of several types: an int, then a float, then a text."""
    count = len(state["world.agents"])
    x = state["world.agents"]["ann"]["position"][0]
    return {0.0: count, 1.0: 0.5}.get(x, f"at {x}")


class Walk:
    """A world of two agents that walk; every third step is out of bounds, which is refused."""

    def __init__(self, store):
        self.config = OrchestratorConfig(store=str(store), clock="stepped")

    async def run(self, collector, ticks, *, close=True):
        world_ = World(bounds=[[0, 0], [50, 50]])
        async with Orchestrator(world_, self.config) as world:
            ann = await world.register_agent("ann", position=[0, 0, 0])
            bob = await world.register_agent("bob", position=[9, 0, 0])
            await world.query(collector.attach)
            first = await world.query(lambda kernel: kernel.ledger.tick)
            for tick in range(first, first + ticks):
                sent = []
                for agent in (bob, ann):
                    await agent.refresh_view()
                    x = -1.0 if tick % 3 == 2 and agent is bob else tick + 1.0
                    intent = agent.intent("Move", to=[x, 0, 0])
                    intent["req_id"] = f"{tick}"
                    sent.append(([intent], agent.submit_nowait([intent])))
                await world.step(1.0)
                for batch, pending in sent:
                    collector.note(batch, await pending, tick)
            if close:
                collector.close()


def walk(store, collector, ticks, **options):
    asyncio.run(Walk(store).run(collector, ticks, **options))


def collector(to=None, every=1, ends=None, **more):
    world = {"spread": spread, "mixed": mixed, **more}
    return Collector(every=every, ends=ends, agents=["position"], world=world, refusals=True, to=to)


def rows_of(tables):
    return {name: list(table.rows()) for name, table in tables.items()}


def from_log(store, made):
    with closing(log_to_read(str(store))) as log:
        made.collect(log)
    made.close()
    return made.tables()


@pytest.mark.parametrize(
    ("every", "ends", "ticks"),
    [
        (1, None, [*range(1, 9)]),
        (1, True, [*range(9)]),
        (3, None, [0, 3, 6, 8]),
        (4, True, [0, 4, 8]),
        (3, False, [3, 6]),
    ],
)
def test_rows_collected_live_equal_rows_collected_later(tmp_path, every, ends, ticks):
    """G27: the log has all that a run collects, the rows of its beginning and its end too."""
    live = collector(every=every, ends=ends)
    walk(tmp_path / "w.db", live, 8)
    later = from_log(tmp_path / "w.db", collector(every=every, ends=ends))
    assert rows_of(live.tables()) == rows_of(later)
    assert [row["tick"] for row in later["world"].rows()] == ticks
    assert {name: len(table) for name, table in later.items()} == {
        "agents": 2 * len(ticks),
        "world": len(ticks),
        "refusals": 2,
    }
    for name, table in later.items():
        assert table.digest() == live.tables()[name].digest()


def test_planted_fault_of_the_live_rows_is_found(tmp_path, monkeypatch):
    """A collector that takes its rows one record too late sees another state."""
    live = collector()
    whole = Collector._on_tick
    waiting = []

    def late(self, kernel):
        waiting.append(kernel)
        if len(waiting) > 1:
            whole(self, kernel)

    monkeypatch.setattr(Collector, "_on_tick", late)
    walk(tmp_path / "w.db", live, 5)
    monkeypatch.undo()
    later = from_log(tmp_path / "w.db", collector())
    assert rows_of(live.tables())["agents"] != rows_of(later)["agents"]


def test_rows_are_of_the_state_right_after_the_tick(tmp_path):
    live = collector()
    walk(tmp_path / "w.db", live, 3)
    rows = rows_of(live.tables())
    assert [(r["tick"], r["agent"], r["position"]) for r in rows["agents"]] == [
        (1, "ann", [1.0, 0.0, 0.0]),
        (1, "bob", [1.0, 0.0, 0.0]),
        (2, "ann", [2.0, 0.0, 0.0]),
        (2, "bob", [2.0, 0.0, 0.0]),
        (3, "ann", [3.0, 0.0, 0.0]),
        (3, "bob", [2.0, 0.0, 0.0]),
    ]
    assert [r["spread"] for r in rows["world"]] == [0.0, 0.0, 1.0]
    (refusal,) = rows["refusals"]
    assert (refusal["tick"], refusal["agent"], refusal["code"], refusal["recorded"]) == (
        2,
        "bob",
        "world.out_of_bounds",
        True,
    )


def test_folder_is_sealed_into_parquet_with_joined_types(tmp_path, monkeypatch):
    monkeypatch.setattr(collector_module, "_PART_ROWS", 3)
    live = collector(tmp_path / "out")
    walk(tmp_path / "w.db", live, 6)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "agents.parquet",
        "world.parquet",
        "refusals.parquet",
        "_schema.json",
    }
    tables = read_collected(tmp_path / "out")
    later = from_log(tmp_path / "w.db", collector())
    assert {n: t.digest() for n, t in tables.items()} == {n: t.digest() for n, t in later.items()}
    assert str(tables["world"].arrow.schema.field("mixed").type) == "extension<arrow.json>"
    assert str(tables["world"].arrow.schema.field("spread").type) == "double"


def test_a_closed_run_that_is_continued_loses_its_last_rows(tmp_path):
    """The tick that was the last is one of many now, and no multiple of `every`."""
    walk(tmp_path / "w.db", collector(tmp_path / "out", every=3), 7)
    assert [row["tick"] for row in read_collected(tmp_path / "out")["world"].rows()] == [0, 3, 6, 7]
    resumed = collector(tmp_path / "out", every=3)
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        resumed.continue_from(log)
    walk(tmp_path / "w.db", resumed, 4)
    walk(tmp_path / "other.db", collector(tmp_path / "whole", every=3), 11)
    whole, continued = read_collected(tmp_path / "whole"), read_collected(tmp_path / "out")
    assert [row["tick"] for row in continued["world"].rows()] == [0, 3, 6, 9, 11]
    assert rows_of(continued)["agents"] == rows_of(whole)["agents"]


@pytest.mark.parametrize("part_rows", [2, 5, 10_000])
@pytest.mark.parametrize("lost_marker", [False, True])
def test_killed_run_continues_with_the_rows_of_an_undisturbed_one(
    tmp_path, monkeypatch, part_rows, lost_marker
):
    """Parts that were not closed are taken from the log; what the log lost is dropped.

    So are the rows of the last tick of a run that was closed and is continued.
    """
    monkeypatch.setattr(collector_module, "_PART_ROWS", part_rows)
    killed = collector(tmp_path / "out")
    walk(tmp_path / "w.db", killed, 7, close=False)  # as a kill: nothing is written at the end
    parts = sorted((tmp_path / "out" / "parts").glob("*.ticks"))
    if lost_marker and parts:
        parts[-1].unlink()
    (tmp_path / "out" / "parts" / "000099.agents.arrow").write_bytes(b"half")
    resumed = collector(tmp_path / "out")
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        resumed.continue_from(log)
    walk(tmp_path / "w.db", resumed, 5)
    walk(tmp_path / "other.db", collector(tmp_path / "whole"), 12)
    whole, continued = read_collected(tmp_path / "whole"), read_collected(tmp_path / "out")
    for name in whole:
        strip = [drop(row, "seq") for row in whole[name].rows()]
        assert [drop(row, "seq") for row in continued[name].rows()] == strip


def drop(row, name):
    return {key: value for key, value in row.items() if key != name}


def test_rows_after_the_last_durable_tick_are_dropped(tmp_path, monkeypatch):
    """A crash lost the end of the log, whose rows had been written."""
    monkeypatch.setattr(collector_module, "_PART_ROWS", 4)
    ahead = collector(tmp_path / "out")
    walk(tmp_path / "long.db", ahead, 9, close=False)
    walk(tmp_path / "short.db", collector(), 5)
    resumed = collector(tmp_path / "out")
    with closing(log_to_read(str(tmp_path / "short.db"))) as log:
        resumed.continue_from(log)
    resumed.close()
    later = from_log(tmp_path / "short.db", collector())
    assert {n: t.digest() for n, t in read_collected(tmp_path / "out").items()} == {
        n: t.digest() for n, t in later.items()
    }


def test_stopped_run_is_sealed_and_can_be_continued(tmp_path):
    walk(tmp_path / "w.db", collector(tmp_path / "out"), 4)
    assert len(read_collected(tmp_path / "out")["world"]) == 4
    resumed = collector(tmp_path / "out")
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        resumed.continue_from(log)
    walk(tmp_path / "w.db", resumed, 3)
    assert [r["tick"] for r in read_collected(tmp_path / "out")["world"].rows()] == [*range(1, 8)]


def test_kernel_without_an_orchestrator_is_collected():
    kernel = Kernel(World())
    kernel.register_agent("ann", position=[0, 0, 0])
    made = Collector(agents=["world.agents/position"], world={"spread": spread})
    made.attach(kernel)
    kernel.step(1.0)
    kernel.tick(2.0)
    rows = rows_of(made.tables())
    assert [(r["tick"], r["world.agents/position"]) for r in rows["agents"]] == [
        (1, [0, 0, 0]),
        (2, [0, 0, 0]),
    ]
    with pytest.raises(CollectError, match="has a collector already"):
        Collector(agents=["position"]).attach(kernel)


def test_missing_field_is_null_and_its_column_is_kept():
    kernel = Kernel(World())
    kernel.register_agent("ann", position=[0, 0, 0])
    made = Collector(agents=["energy"])
    made.attach(kernel)
    kernel.step(1.0)
    assert rows_of(made.tables())["agents"][0]["energy"] is None


@pytest.mark.parametrize("error", [ZeroDivisionError("no one is here"), SystemExit(3)], ids=repr)
def test_function_that_fails_ends_the_collecting_and_not_the_world(tmp_path, error):
    def broken(state):
        if state["world.agents"]["ann"]["position"][0] == 3.0:
            raise error
        return 1

    live = collector(tmp_path / "out", broken=broken)
    with pytest.raises(CollectError, match=r"'broken' raised \w+\(.*\) at tick 3"):
        walk(tmp_path / "w.db", live, 5)
    assert {path.suffix for path in (tmp_path / "out").rglob("*")} == {"", ".arrow", ".ticks"}
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        with pytest.raises(CollectError):
            collector(tmp_path / "later", broken=broken).collect(log)
        mended = collector(tmp_path / "out", broken=lambda state: 1)
        mended.continue_from(log)
        mended.close()
    assert not (tmp_path / "later").exists()
    kept = read_collected(tmp_path / "out")
    assert [r["tick"] for r in kept["world"].rows()] == [1, 2, 3, 4, 5]
    assert [r["tick"] for r in kept["agents"].rows()] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "nothing to collect"),
        ({"agents": "position"}, r"such as \['position'\]"),
        ({"agents": [3]}, "a field of the agents is a name, got 3"),
        ({"every": 0, "refusals": True}, "from 1 on, got 0"),
        ({"world": {"a": "math"}}, "expected module:function"),
        (
            {"world": {"a": "no_such_module:f"}},
            "cannot be imported: No module named 'no_such_module'",
        ),
        ({"world": {"a": "math:nix"}}, "'math' has no function 'nix'"),
    ],
)
def test_invalid_arguments_are_clear_errors(arguments, said):
    with pytest.raises(CollectError, match=said):
        Collector(**arguments)


def test_existing_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    kernel = Kernel(World())
    with pytest.raises(CollectError, match="is there already"):
        Collector(agents=["position"], to=tmp_path / "out").attach(kernel)
    assert kernel.on_tick is None
    assert (tmp_path / "out" / "mine").read_text() == "kept"
    with pytest.raises(CollectError, match="has no collected tables"):
        read_collected(tmp_path / "out")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            '{"tables": {"../agents": {}}, "ticks": 1}',
            "of no collector: expected the tables agents, refusals",
        ),
        ('{"tables": {"world": {}}, "ticks": 1}', "cannot read the collected rows"),
        ('{"rows": 1}', "cannot read the collected rows"),
        ("torn", "cannot read the collected rows"),
    ],
)
def test_rows_of_a_stranger_do_not_lead_out_of_the_folder(tmp_path, schema, said):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "agents.parquet")
    (tmp_path / "in" / "_schema.json").write_text(schema)
    with pytest.raises(CollectError, match=said):
        read_collected(tmp_path / "in")


DEEP = b"[" * 100_000 + b"]" * 100_000


def rewrite_part(metadata, name=None):
    """Return the bytes of a part of `world` with other metadata, or without a column."""

    def rewritten(data):
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table = table if name is None else table.drop_columns([name])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
            writer.write_table(table.replace_schema_metadata(metadata))
        return sink.getvalue().to_pybytes()

    return rewritten


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("*.ticks", b""),
        ("*.ticks", b"[1]"),
        ("*.ticks", b'["1", 2]'),
        ("*.ticks", DEEP),
        ("*.world.arrow", b""),
        ("*.world.arrow", lambda data: data[:-100]),
        ("*.world.arrow", rewrite_part(None)),
        ("*.world.arrow", rewrite_part({"placet.types": DEEP})),
        ("*.world.arrow", rewrite_part({"placet.types": '{"spread": "x"}'})),
        ("*.world.arrow", rewrite_part({"placet.types": '{"other": "1 "}'})),
        ("*.world.arrow", rewrite_part({"placet.types": "{}"}, "tick")),
    ],
)
def test_a_damaged_part_ends_the_continued_collecting_with_one_error(
    tmp_path, monkeypatch, name, damage
):
    monkeypatch.setattr(collector_module, "_PART_ROWS", 2)
    walk(tmp_path / "w.db", collector(tmp_path / "out"), 2, close=False)
    path = max((tmp_path / "out" / "parts").glob(name))
    path.write_bytes(damage(path.read_bytes()) if callable(damage) else damage)
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        said = continued(tmp_path / "out", log)
    assert re.search("^cannot read the collected rows in [^\\n]*$", said)


def continued(folder, log):
    """Continue to collect, and return the error."""
    again = collector(folder)
    try:
        again.continue_from(log)
        again.close()
    except CollectError as error:
        return str(error)
    return ""


def test_folder_of_other_tables_is_refused(tmp_path):
    walk(tmp_path / "w.db", collector(tmp_path / "out"), 2)
    other = Collector(agents=["position"], to=tmp_path / "out")
    log = log_to_read(str(tmp_path / "w.db"))
    with closing(log), pytest.raises(CollectError, match="has the tables agents, world, refusals"):
        other.continue_from(log)


def test_unrecorded_refusals_are_collected_live_alone(tmp_path):
    async def run(made):
        config = OrchestratorConfig(
            store=str(tmp_path / "q.db"),
            clock="stepped",
            quotas={"Speak": {"rate": 0.001, "burst": 1}},
        )
        async with Orchestrator(World(), config) as world:
            await world.query(made.attach)
            ann = await world.register_agent("ann", position=[0, 0, 0])
            for tick in range(3):
                batch = [ann.intent("Speak", text="hello", channel="public")]
                pending = ann.submit_nowait(batch)
                await world.step(1.0)
                made.note(batch, await pending, tick)
            made.close()

    live = Collector(refusals=True)
    asyncio.run(run(live))
    rows = rows_of(live.tables())["refusals"]
    assert [(r["code"], r["recorded"]) for r in rows] == [("quota_exceeded", False)] * 2
    assert len(from_log(tmp_path / "q.db", Collector(refusals=True))["refusals"]) == 0


def speak(store, made, ticks, *, is_noted_before=True, more=0, is_closed=True):
    """Run ticks with a refused move in each, and `more` refused moves after them.

    A kernel decides at once, so that a verdict can be noted before the tick ends, or after.
    """
    config = OrchestratorConfig(store=str(store), clock="stepped")
    world = KernelWorld(World(bounds=[[0, 0], [50, 50]]), config, on_fault=lambda *_: None)
    kernel = world.kernel
    if "ann" not in kernel.ledger.agents:
        kernel.register_agent("ann", position=[0, 0, 0])
    made.attach(kernel)
    first = kernel.ledger.tick
    for tick in range(first, first + ticks + more):
        batch = [kernel.intent("Move", agent="ann", to=[-1, 0, 0])]
        verdict = kernel.decide(batch)
        assert not verdict.admitted
        if is_noted_before:
            made.note(batch, verdict, kernel.ledger.tick)
        if tick < first + ticks:
            kernel.tick(tick + 1.0)
        if not is_noted_before:
            made.note(batch, verdict, tick)
    world.flush()
    world.close()
    if is_closed:
        made.close()


def refusals_of(folder):
    return [(r["tick"], r["req_id"]) for r in read_collected(folder)["refusals"].rows()]


@pytest.mark.parametrize("is_noted_before", [True, False])
def test_refusals_of_a_killed_run_are_collected_once(tmp_path, monkeypatch, is_noted_before):
    monkeypatch.setattr(collector_module, "_PART_ROWS", 1)
    noted = {"is_noted_before": is_noted_before}
    speak(
        tmp_path / "w.db",
        Collector(refusals=True, to=tmp_path / "out"),
        12,
        is_closed=False,
        **noted,
    )
    resumed = Collector(refusals=True, to=tmp_path / "out")
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        resumed.continue_from(log)
    speak(tmp_path / "w.db", resumed, 3, **noted)
    later = from_log(tmp_path / "w.db", Collector(refusals=True))["refusals"]
    assert refusals_of(tmp_path / "out") == [(r["tick"], r["req_id"]) for r in later.rows()]
    assert [tick for tick, _ in refusals_of(tmp_path / "out")] == [*range(15)]


@pytest.mark.parametrize("ticks", [0, 2])
def test_refusals_after_the_last_tick_are_kept_and_collected_once(tmp_path, ticks):
    speak(tmp_path / "w.db", Collector(refusals=True, to=tmp_path / "out"), ticks, more=2)
    assert [tick for tick, _ in refusals_of(tmp_path / "out")] == [*range(ticks), ticks, ticks]
    speak(tmp_path / "w.db", Collector(refusals=True), 1)  # a run that this folder does not see
    resumed = Collector(refusals=True, to=tmp_path / "out")
    with closing(log_to_read(str(tmp_path / "w.db"))) as log:
        resumed.continue_from(log)
    resumed.close()
    later = from_log(tmp_path / "w.db", Collector(refusals=True))["refusals"]
    assert refusals_of(tmp_path / "out") == [(r["tick"], r["req_id"]) for r in later.rows()]
    assert len(later) == ticks + 3


def one_tick(**world):
    kernel = Kernel(World())
    made = Collector(world=world)
    made.attach(kernel)
    kernel.step(1.0)
    return made


def test_values_of_numpy_are_plain():
    made = one_tick(
        mean=lambda _: np.float64(0.5),
        count=lambda _: np.int64(3),
        bins=lambda _: np.array([1, 2]),
        gaps=lambda _: np.array([np.nan, np.inf, 1]),
    )
    (row,) = made.tables()["world"].rows()
    assert (row["mean"], row["count"], row["bins"]) == (0.5, 3, [1, 2])
    assert repr(row["gaps"]) == "[nan, inf, 1.0]"


@pytest.mark.parametrize("value", [{1, 2}, object(), {1: 2}, "\ud800", {"a": float("nan")}, 2**64])
def test_value_that_is_no_json_ends_the_collecting_and_names_the_column(value):
    made = one_tick(odd=lambda _: value)
    with pytest.raises(CollectError, match=r"function of the column 'odd' returned .* at tick 1: "):
        made.check()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"world": {"tick": spread}}, "tick"),
        ({"agents": ["agent"]}, "agent"),
        ({"agents": ["x", "x"]}, "x"),
    ],
)
def test_two_columns_of_one_name_are_refused(arguments, name):
    with pytest.raises(CollectError, match=f"would have two columns '{name}'"):
        Collector(**arguments)


@pytest.mark.parametrize("is_sealed", [True, False])
def test_folder_of_other_columns_is_refused(tmp_path, monkeypatch, is_sealed):
    monkeypatch.setattr(collector_module, "_PART_ROWS", 1)
    walk(tmp_path / "w.db", collector(tmp_path / "out"), 3, close=is_sealed)
    other = collector(tmp_path / "out", another=spread)
    with (
        closing(log_to_read(str(tmp_path / "w.db"))) as log,
        pytest.raises(CollectError, match=r"mixed in the table world, and .*another are collected"),
    ):
        other.continue_from(log)


def test_missing_pyarrow_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PlacetError, match=r"pip install '\.\[lab\]'"):
        Collector(agents=["position"])
