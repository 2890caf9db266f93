"""The benchmarks measure what they report. No test here asserts a time."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from placet.kernel.kernel import Kernel
from placet.kernel.log.replay import Replayer
from placet.schemas.limits import SECOND_NS
from placet.schemas.log.record import Admitted, decode_record
from placet_bench import WORKLOADS, Scale, as_markdown, as_table, run
from placet_bench.columns import BOUND, CLAIM, FOLD, GIVE, MOVE, MOVE_DIGEST, PERMUTED
from placet_bench.columns import MESA as MESA_DRAW
from placet_bench.measure import Sample, cpu_ratios, percentiles_ms, ratios, spread
from placet_bench.reference_loop import submit
from placet_bench.report import BARS, figure
from placet_bench.step import COLLECTED, ENV, L1, L2, LOOK, MESA, PLAIN_ENV, ROUNDS_MIN, SET, SIGHT
from placet_bench.subjects import KernelAlone, Reference, UnexpectedRefusalError, WholeWorld
from placet_bench.suite import SUITE
from placet_bench.workloads import SIDE, Load, Shape, make_config, make_domain

TINY = Scale(
    agents=3,
    window_ids=24,
    crowds=(1, 2),
    crowd_window_ids=12,
    log_records=40,
    replay_intents=200,
    recovery_intents=(200, 400),
    recovery_tail_intents=120,
    idle_agents=20,
    chunk_intents=120,
    import_repeats=1,
    step_agents=4,
    step_crowds=(2, 4),
    env_agents=(2, 4),
    look_entities=6,
    town_runs=1,
    town_arguments=("--agents", "4", "--ticks", "2"),
    column_agents=(20, 40),
    members=100,
)
SHAPE = Shape(agents=3, window_ids=64)


@pytest.fixture(scope="module")
def results():
    return {result["workload"]: result for result in run(WORKLOADS, 0.05, scale=TINY)}


def pair(shape=SHAPE):
    """Return a new reference loop and a new kernel with one seed."""
    return Reference(Load(shape)), KernelAlone(Load(shape), [])


def ask(kernel, raw, submitter, now_ns):
    """Decide one batch; return the code of its first refusal, None if it is admitted."""
    verdict = kernel.decide(raw, now_ns / SECOND_NS, submitter=submitter)
    return None if verdict.admitted else verdict.refusals[0].code


def ask_reference(reference, raw, submitter, now_ns):
    admitted, code = submit(reference.world, raw, submitter, now_ns)
    return None if admitted else code


# the report


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_reports_the_same_fields(results, workload):
    result = results[workload]
    assert json.loads(json.dumps(result)) == result
    assert {"workload", "intents_per_second", "ratio_to_reference", "verdict_ms"} <= result.keys()
    assert {"python", "machine", "versions", "seconds", "seed"} <= result.keys()


@pytest.mark.parametrize(
    "workload", ["w1", "w1s", "w2", "w3", "w4", "w5", "replay", "recovery", "kernel"]
)
def test_throughput_has_a_spread_and_a_ratio(results, workload):
    result = results[workload]
    for name in ("intents_per_second", "ratio_to_reference"):
        bounds = result["spread"][name]
        assert 0 < bounds["min"] <= bounds["median"] == result[name] <= bounds["max"]


@pytest.mark.parametrize("workload", ["w1", "w1s", "w2", "w3", "w4"])
def test_latency_is_reported_for_workloads_with_a_waiting_caller(results, workload):
    latency = results[workload]["verdict_ms"]
    assert 0 < latency["p50"] <= latency["p99"]


def test_a_durable_figure_comes_with_its_commit_latency(results):
    assert 0 < results["w3"]["commit_ms"]["p50"] <= results["w3"]["commit_ms"]["p99"]
    assert results["w3"]["ratio_to_memory"] > 0


def test_scaling_reports_the_compared_sizes(results):
    sizes = results["w5"]["sizes"]
    assert [size["agents"] for size in sizes] == [3, 6, 3]
    assert sizes[-1]["log_records"] >= TINY.log_records > 0
    assert results["w5"]["cost_largest_to_smallest"] >= 1


def test_a_step_is_measured_beside_its_peers(results):
    names = [row["name"] for row in results["step"]["rows"]]
    assert {L1, L2, MESA, COLLECTED, SET, ENV, PLAIN_ENV, LOOK, SIGHT} == set(names)
    for row in results["step"]["rows"]:
        assert 0 < row["cpu_us"]["p25"] <= row["cpu_us"]["median"] <= row["cpu_us"]["p75"]
        assert row["rounds"] >= ROUNDS_MIN
    assert results["step"]["batch_intents"] == 1
    assert results["step"]["town_cpu_seconds"] > 0


def test_columns_are_measured_beside_throughput_and_mesa_by_size(results):
    result = results["columns"]
    sizes = [(row["name"], row["agents"]) for row in result["rows"]]
    assert len(set(sizes)) == len(sizes) - 1  # W1 is of one size in both groups
    names = {MOVE, MOVE_DIGEST, PERMUTED, CLAIM, GIVE, BOUND, FOLD, MESA_DRAW}
    assert {(name, size) for name in names for size in TINY.column_agents} < set(sizes)
    for row in result["rows"]:
        assert 0 < row["cpu_us"]["p25"] <= row["cpu_us"]["median"] <= row["cpu_us"]["p75"]
        assert (
            ("w1_factor" in row) == ("mesa_factor" in row) == (row["name"] in names - {MESA_DRAW})
        )
    assert result["bytes_per_member"] > 0
    table = as_table([result])
    assert MOVE in table
    assert "Mesa ÷ it" in table


def test_storage_is_measured_in_bytes(results):
    assert results["memory"]["bytes_per_agent"] > 0
    memory = results["memory"]
    assert memory["bytes_per_free_form_req_id"] > memory["bytes_per_req_id"] > 0
    assert results["import"]["import_seconds"] > 0
    assert results["import"]["first_world_seconds"] > 0


def test_opening_from_a_snapshot_folds_only_the_tail(results):
    short, long = results["recovery"]["openings"]
    assert long["intents"] > short["intents"]
    assert short["folded"] == long["folded"] < short["records"] < long["records"]


def test_every_bar_has_a_figure(results):
    for bar in BARS:
        assert figure(results[bar.workload], bar.path) is not None, bar.label


def test_tables_name_every_workload_and_every_bar(results):
    table = as_table(list(results.values()))
    assert all(workload in table for workload in WORKLOADS)
    markdown = as_markdown(list(results.values()))
    assert all(bar.label in markdown for bar in BARS)
    assert "not run" not in markdown
    assert "not run" in as_markdown([])


@pytest.mark.parametrize(
    ("workloads", "seconds", "message"),
    [(["w9"], 1.0, "w9"), ([], 0.0, "seconds"), ([], float("nan"), "seconds")],
)
def test_invalid_arguments_are_reported(workloads, seconds, message):
    with pytest.raises(ValueError, match=message):
        run(workloads, seconds)


def test_every_workload_describes_its_measurement():
    assert all(workload.__doc__ for workload in SUITE.values())


# the arithmetic


def test_a_ratio_is_to_the_mean_of_the_turns_around_it():
    second = 1_000_000_000
    reference = [
        Sample(100, second, second),
        Sample(300, second, second),
        Sample(300, second, second),
    ]
    turns = [Sample(100, second, second), Sample(300, second, second)]
    assert ratios(turns, reference) == [0.5, 1.0]
    assert cpu_ratios(turns[1:], reference[1:]) == [1.0]


def test_percentiles_are_taken_from_sorted_samples():
    assert percentiles_ms([n * 1_000_000 for n in range(100, -1, -1)]) == {"p50": 50, "p99": 99}
    assert percentiles_ms([]) is None
    assert spread([3, 1, 2]).as_dict() == {"min": 1, "median": 2, "max": 3}


# the load


def test_a_load_is_reproducible_by_its_seed_and_numbers_every_lane():
    shape = Shape(agents=2, batch_intents=3, lanes=2)
    one, other = Load(shape), Load(shape)
    assert one.chunk(5, 2) == other.chunk(5, 2)
    chunk = one.chunk(6, 1)
    assert chunk.intents == shape.round_intents == 12
    ids = [i["req_id"] for lane in chunk.lanes for batch in lane.batches for i in batch]
    assert ids[:3] == ["lane0:6", "lane0:7", "lane0:8"]
    assert ids[-3:] == ["lane1:6", "lane1:7", "lane1:8"]
    assert [lane.agent_id for lane in chunk.lanes] == ["agent_000000", "agent_000001"] * 2


async def test_the_clock_starts_when_every_window_is_full():
    load = Load(SHAPE)
    async with KernelAlone(load) as contender:
        windows = [agent.window for agent in contender.kernel.ledger.agents.values()]
    assert all(window is not None and window.forgotten for window in windows)


def test_every_stage_is_enabled():
    config = make_config(SHAPE)
    assert config.quotas
    assert config.staleness_threshold is not None
    domain = make_domain()
    assert domain.setup.bounds is not None
    assert next(kind for kind in domain.kinds if kind.name == "Move").reads_self is not None


async def test_a_refused_workload_stops_the_benchmark():
    load = Load(SHAPE)
    async with WholeWorld(load) as world, Reference(Load(SHAPE)) as reference:
        for contender in (world, reference, KernelAlone(Load(SHAPE))):
            chunk = Load(SHAPE, seed=12).chunk(0, 1)
            chunk.lanes[0].batches[0][0]["payload"]["to"][0] = SIDE + 1
            for lane in chunk.lanes:
                for batch in lane.batches:
                    for number, intent in enumerate(batch):
                        intent["req_id"] = f"planted{number}"
            with pytest.raises((UnexpectedRefusalError, ExceptionGroup)):
                await contender.run(chunk)


# the reference does the same work


def test_reference_and_placet_write_the_same_records():
    reference, alone = pair()
    kernel = alone.kernel
    skipped = kernel.seq - reference.world.seq
    load = Load(SHAPE)
    now_ns = 0
    for lanes in zip(*[lane.batches for lane in load.chunk(0, 20).lanes], strict=True):
        for agent_id, batch in zip(load.agent_ids, lanes, strict=True):
            now_ns += 1_000_000
            assert ask(kernel, batch, agent_id, now_ns) is None
            assert ask_reference(reference, batch, agent_id, now_ns) is None
    records = [decode_record(data) for data in alone.records]
    theirs = [record for record in records if isinstance(record, Admitted)]
    ours = [decode_record(data) for data in reference.world.log]
    assert len(ours) == len(theirs) == 60
    for our, their in zip(ours, theirs, strict=True):
        assert isinstance(our, Admitted)
        assert our.seq + skipped == their.seq
        for name in set(their.__struct_fields__) - {"prev", "seq", "changes"}:
            assert getattr(our, name) == getattr(their, name), name
        assert our.changes.collections == their.changes.collections
        shifted = [replace(c, seq=c.seq + skipped) for c in our.changes.entities]
        assert shifted == their.changes.entities
    assert positions_of(kernel) == reference.world.positions
    assert reference.world.counts == {"admitted": 600, "refused": 0}


def positions_of(kernel):
    return {name: row["position"] for name, row in kernel.state["world.agents"].items()}


async def test_all_implementations_reach_the_same_positions():
    reference, alone = pair()
    async with reference, alone, WholeWorld(Load(SHAPE)) as world:
        state = await world.orchestrator.state("world.agents")
    moved = {name: tuple(row["position"]) for name, row in state.items()}
    assert moved == positions_of(alone.kernel) == reference.world.positions


@pytest.mark.slow
def test_a_fold_of_the_records_gives_the_same_positions():
    _, alone = pair()
    asyncio.run(alone.run(alone.next_chunk()))
    replayer = Replayer()
    for data in alone.records:
        replayer.apply(data)
    assert replayer.state.digest().hex() == alone.kernel.digest()


def planted():
    """A fault, and the function that plants it into a valid second batch."""

    def edit(name, value):
        def plant(batch):
            batch[3][name] = value

        return plant

    def move_out(batch):
        batch[3]["payload"] = {"to": [SIDE + 1, 0.0, 0.0]}

    def repeat(batch):
        batch[3]["req_id"] = batch[2]["req_id"]

    def reuse(batch):
        batch[3]["req_id"] = "lane0:0"

    return [
        ("payload_invalid", edit("payload", {"to": "north"})),
        ("field_invalid", repeat),
        ("agent_not_yours", edit("agent_id", "nobody")),
        ("agent_not_yours", edit("agent_id", "agent_000001")),
        ("req_id_reused", reuse),
        ("context_from_future", edit("context_seq", 2**40)),
        ("world.out_of_bounds", move_out),
    ]


@pytest.mark.parametrize(("code", "plant"), planted(), ids=lambda v: v if type(v) is str else "")
def test_the_reference_refuses_the_same_batches_as_placet(code, plant):
    reference, alone = pair()
    lane = Load(SHAPE).chunk(4, 3).lanes[0]
    first, second, third = lane.batches
    plant(second)
    for batch, expected in ((first, None), (second, code), (third, None)):
        assert ask(alone.kernel, batch, lane.agent_id, 0) == expected
        assert ask_reference(reference, batch, lane.agent_id, 0) == expected
    assert positions_of(alone.kernel) == reference.world.positions


def both(shape, batches, submitter="agent_000000", now_ns=0):
    """Return the codes of both sides for a sequence of batches."""
    reference, alone = pair(shape)
    return [
        (
            ask(alone.kernel, batch, submitter, now_ns),
            ask_reference(reference, batch, submitter, now_ns),
        )
        for batch in batches
    ]


def test_both_repeat_an_answer_and_forget_below_the_high_water_mark():
    batches = Load(SHAPE).chunk(4, 9).lanes[0].batches
    assert both(SHAPE, [batches[0], batches[0]]) == [(None, None)] * 2
    assert both(SHAPE, [*batches, batches[0]])[-1] == ("req_id_too_old", "req_id_too_old")


def test_both_refuse_a_stale_batch():
    first, second = Load(SHAPE).chunk(4, 2).lanes[0].batches
    reference, alone = pair()
    assert ask(alone.kernel, first, "operator", 0) is None
    assert ask_reference(reference, first, "operator", 0) is None
    entity = alone.kernel.tree.stamp("world.agents", "agent_000000")
    stamp = reference.world.agents["agent_000000"]
    entity.by = stamp.by = "somebody else"
    assert ask(alone.kernel, second, "operator", 0) == "stale_context"
    assert ask_reference(reference, second, "operator", 0) == "stale_context"


def test_both_refuse_kinds_that_are_not_permitted():
    batch = Load(SHAPE).chunk(4, 1).lanes[0].batches[0]
    reference, alone = pair()
    alone.kernel.set_agent_permissions("agent_000000", {"Speak"})
    reference.world.agents["agent_000000"].permissions = frozenset({"Speak"})
    assert ask(alone.kernel, batch, "operator", 0) == "permission_denied"
    assert ask_reference(reference, batch, "operator", 0) == "permission_denied"


@pytest.mark.parametrize(
    ("burst", "code"), [(25, "quota_exceeded"), (9, "batch_exceeds_burst"), (30, None)]
)
def test_both_apply_the_same_quotas(burst, code):
    shape = SHAPE
    reference, _ = pair()
    config = make_config(shape)
    config = type(config)(
        quotas={"Move": {"rate": 1_000_000.0, "burst": burst}}, limits=config.limits
    )
    kernel = Kernel(make_domain(), config.kernel_config())
    kernel.register_agent("agent_000000")
    reference.world.burst = burst
    codes = [
        (ask(kernel, batch, "operator", 0), ask_reference(reference, batch, "operator", 0))
        for batch in Load(shape).chunk(1, 3).lanes[0].batches
    ]
    assert codes[-1] == (code, code)


def test_the_reference_refuses_invalid_batches_and_a_full_outbox():
    reference, _ = pair()
    batch = Load(SHAPE).chunk(4, 1).lanes[0].batches[0]
    assert ask_reference(reference, [], "operator", 0) == "batch_empty"
    assert ask_reference(reference, batch * 52, "operator", 0) == "batch_too_large"
    reference.world.outbox_depth = reference.world.outbox_max
    assert ask_reference(reference, batch, "operator", 0) == "executor_busy"
    assert reference.world.counts["refused"] == 1 + 1 + 10


def test_http_counts_every_kind_of_request(results):
    names = {"health", "batch", "dry_run", "stream_message"}
    http = results["http"]
    assert http["per_cpu_second"].keys() == http["spread"]["cpu_us"].keys() == names
    assert all(rate > 0 for rate in http["per_cpu_second"].values())
    assert http["verdict_ms"]["p50"] <= http["verdict_ms"]["p99"]
    assert "dry_run" in as_table([http])
