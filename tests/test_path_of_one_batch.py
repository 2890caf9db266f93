"""The path of one batch, module by module, from admission to the settlement of its effect.

    Kernel.check > order > gate > commit (record, ledger, chain) > committer > store
    > verdict > publisher > agent,  and its effect: > executor > settlement > orchestrator

Each test is one step and states the batch's form there. They share one world: agents ring a bell;
ringing is an effect, because the bell is outside.
"""

import asyncio
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from typing_extensions import TypedDict

import placet
from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.actors.committer import Committer, CycleOutput
from placet.actors.effects.executor import Executor, RetryPolicy
from placet.actors.metrics import Counters
from placet.actors.publisher import Publisher, events_of
from placet.domains.world import World
from placet.kernel import Draft, Kernel, KernelConfig, RuleRefusal, refuse
from placet.kernel.decide.order import execution_order
from placet.kernel.gate import ON_ARRIVAL
from placet.kernel.log.replay import Replayer
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import from_canonical
from placet.schemas.effect import Effect, EffectKey, EffectMark, Settlement
from placet.schemas.intent import Intent
from placet.schemas.log.record import Admitted, LogAppend, Settled, decode_record, record_hash
from placet.schemas.verdict import Verdict
from placet.stores.memory import MemoryEventLog
from tests.actors.virtual_time import ManualClock

BELL = "tower.bell"
FILES_MAX, CHANGES_MAX = 30, 60
RING = "ring"


class Ring(TypedDict):
    times: int


def ring(draft: Draft, intent: Intent) -> RuleRefusal | None:
    """Declare an effect that rings the bell, and count it in the state."""
    times = intent["payload"]["times"]
    if times > 12:
        return refuse(
            "too_often", f"{times} is more than any clock strikes; 12 at most", at="/times"
        )
    draft.put(BELL, "great", "asked", draft.get(BELL, "great", "asked", 0) + times)
    draft.emit(RING, {"times": times})
    return None


class Tower(Domain):
    name, version = "tower", "1"
    kinds = (Kind("Ring", Ring, ring, effects=(RING,)),)

    def on_open(self, draft: Draft) -> None:
        draft.create(BELL, "great", {"asked": 0, "rung": 0})

    def on_settle(self, draft: Draft, effect: Effect, settlement: Settlement) -> None:
        rung = draft.get(BELL, "great", "rung", 0)
        draft.put(BELL, "great", "rung", rung + settlement.output["rung"])


BATCH = [
    {
        "kind": "Ring",
        "payload": {"times": times},
        "agent_id": "quasimodo",
        "req_id": f"strike:{number}",
        "context_seq": 0,
        "priority": priority,
        "schema_version": "1.0.0",
    }
    for number, (times, priority) in enumerate([(3, 10), (1, 90)])
]
"""Two intents; the second is the more urgent."""

MANY = {"times": 13}


def tower(records: list[bytes]) -> Kernel:
    """A kernel at seq 3: configured, an executor of rings, one agent."""
    kernel = Kernel(Tower(), KernelConfig(seed=1831), sink=records.append)
    kernel.change_executor(RING, 100)
    kernel.register_agent("quasimodo")
    return kernel


def checked(kernel: Kernel) -> CheckedBatch:
    batch = kernel.check(BATCH, "quasimodo")
    assert isinstance(batch, CheckedBatch)
    return batch


def decided() -> tuple[Kernel, list[bytes], Verdict, list[Effect]]:
    """The batch after its decision: the kernel, all records, its verdict, its effects."""
    records: list[bytes] = []
    kernel = tower(records)
    decision = kernel.decide_checked([checked(kernel)], now_ns=1_000)
    ((_, verdict),) = decision.answers
    return kernel, records, verdict, decision.effects


def test_1_admission_validates_and_encodes_it_once():
    """`kernel/gate/structure`: in the submitter's task. An invalid batch is never queued."""
    records: list[bytes] = []
    kernel = tower(records)
    batch = checked(kernel)
    assert batch.batch_id == "b1"
    assert batch.req_ids == ["strike:0", "strike:1"]
    assert batch.order == [1, 0]  # inside a batch: priority, then position
    assert batch.counts == (("quasimodo", "Ring", 2),)
    assert [one[:2] for one in from_canonical(batch.encoded)] == [
        ["quasimodo", "strike:0"],
        ["quasimodo", "strike:1"],
    ]
    unsound = kernel.check([BATCH[0], {**BATCH[1], "payload": {"times": "often"}}], "quasimodo")
    assert isinstance(unsound, Verdict)
    assert [(r.index, r.stage.value, r.at) for r in unsound.refusals] == [
        (1, "structure", "/intents/1/payload/times")
    ]
    assert len(records) == 4  # header, policy, executor, agent: no trace of either batch


def test_2_it_is_ordered_within_its_group():
    """`kernel/order`: never arrival alone, never the lowest id, never the wall clock."""
    kernel = tower([])
    kernel.register_agent("frollo")
    calm = kernel.check([{**BATCH[0], "agent_id": "frollo"}], "frollo")
    urgent = checked(kernel)
    assert isinstance(calm, CheckedBatch)
    assert list(execution_order([calm, urgent], kernel.ledger, 1831, 0)) == [1, 0]


def test_3_the_gate_runs_its_stages_in_order():
    """`kernel/gate`: the first stage at which an intent fails refuses the whole batch."""
    stages = ["structure", *(check.__module__.rpartition(".")[2] for check in ON_ARRIVAL), "domain"]
    assert stages == [
        "structure", "agent", "dedup", "staleness", "quota", "backpressure", "domain"
    ]  # fmt: skip
    kernel = tower([])
    before = kernel.digest()
    stranger = kernel.decide([{**one, "agent_id": "stranger"} for one in BATCH])
    early = kernel.decide([{**BATCH[0], "context_seq": 99}, BATCH[1]])
    often = kernel.decide(
        [{**BATCH[0], "req_id": "strike:2"}, {**BATCH[1], "req_id": "strike:3", "payload": MANY}]
    )
    assert [v.refusals[0].stage.value for v in (stranger, early, often)] == [
        "agent",
        "staleness",
        "domain",
    ]
    assert kernel.digest() == before  # also of the refused batch's first intent nothing is left


def test_4_an_admitted_batch_is_applied():
    """`kernel/commit/commit.py`: the draft becomes state, and the ledger has its seqs."""
    kernel, _, verdict, effects = decided()
    assert verdict.admitted
    assert kernel.seq == verdict.seq == 5
    assert kernel.state[BELL]["great"] == {"asked": 4, "rung": 0}
    # In the submitter's order; the urgent one ran first.
    assert [(r.req_id, r.seq) for r in verdict.results] == [("strike:0", 5), ("strike:1", 4)]
    assert [(str(e.key), e.payload) for e in effects] == [
        ("world/4/0", {"times": 1}),
        ("world/5/1", {"times": 3}),
    ]
    assert kernel.open_effects() == effects


def test_5_it_is_one_record_in_a_chain():
    """`Journal` in `kernel/commit/commit.py`: the record holds the hash before it."""
    _, records, verdict, _ = decided()
    record = decode_record(records[-1])
    assert isinstance(record, Admitted)
    assert record.prev == record_hash(records[-2])
    assert (record.batch_id, record.seq, record.now_ns) == ("b1", verdict.seq, 1_000)
    assert [change.fields for change in record.changes.entities] == [{"asked": 4}]
    assert [kind for _, kind, _, _ in record.effects] == [RING, RING]


async def test_6_it_becomes_durable_before_it_is_answered():
    """`actors/committer` and `stores/`: append, append, then the replies."""
    kernel, records, verdict, effects = decided()
    log = MemoryEventLog()
    released: list[CycleOutput] = []
    counters = Counters(kernel.registry.kinds)
    committer = Committer(log, log.open(), ManualClock(), counters, 4, released.append)
    reply: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    append = LogAppend(0, 0, kernel.seq, tuple(records))
    assert not reply.done()
    committer.offer(CycleOutput(append, [(reply, verdict)], effects))
    assert reply.result() is verdict
    assert committer.durable_seq == verdict.seq
    assert [data for _, data in log.read()] == records
    assert released[0].effects == effects  # and now its effects may run


def test_7_the_log_alone_gives_the_same_world():
    """`kernel/log/replay.py`: no rule and no effect runs; state and chain are the same."""
    kernel, records, _, effects = decided()
    past = Replayer()
    for data in records:
        past.apply(data)
    assert past.state.digest().hex() == kernel.digest()
    again = Kernel(Tower(), KernelConfig(seed=1831), history=records)
    assert again.world_digest() == kernel.world_digest()
    assert again.open_effects() == effects


async def test_8_subscribers_receive_it():
    """`actors/publisher`: an event is a projection of the durable record."""
    kernel, records, verdict, _ = decided()
    log = MemoryEventLog()
    publisher = Publisher(log, 10, lambda: (kernel.seq, log.count()))
    append = LogAppend(0, 0, kernel.seq, tuple(records))
    log.append(append, log.open())
    publisher.close()
    events = [event async for event in publisher.events()]
    assert [event.type for event in events] == [
        "configured",
        "executor_changed",
        "registered",
        "batch",
    ]
    assert [events[-1]] == events_of(4, records[-1])
    assert (events[-1].seq, events[-1].data["batch_id"]) == (verdict.seq, "b1")
    assert [intent["req_id"] for intent in events[-1].data["intents"]] == ["strike:0", "strike:1"]


async def test_9_its_effects_run_and_the_gate_settles_their_outcomes():
    """`actors/effects/executor.py`, `kernel/control/outbox.py`: an outcome is a record."""
    kernel, records, _, effects = decided()
    settled = asyncio.Event()

    async def pull_the_rope(effect: Effect) -> dict[str, int]:
        return {"rung": effect.payload["times"]}

    async def settle(settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            assert kernel.settle(settlement)
            assert not kernel.settle(settlement)  # once
        if not kernel.open_effects():
            settled.set()

    async def mark(key: EffectKey, mark: EffectMark, why: str) -> bool:
        return kernel.mark_effect(key, mark, why)

    retry_policy = RetryPolicy(
        delivery="keyed", concurrency=1, attempts_max=1, seconds_max=60, outbox_max=10
    )
    executor = Executor(
        RING,
        pull_the_rope,
        retry_policy,
        settle,
        mark,
        clock=ManualClock(),
        counters=Counters(kernel.registry.kinds),
        seed=0,
        on_fault=lambda where, error: None,
        on_left=lambda key: None,
    )
    running = asyncio.ensure_future(executor.run())
    for effect in effects:
        executor.take(effect)
    await settled.wait()
    await executor.finish()
    await running
    record = decode_record(records[-1])
    assert isinstance(record, Settled)
    assert (record.effect_seq, record.effect_index, record.output) == (5, 1, {"rung": 3})
    assert kernel.state[BELL]["great"] == {"asked": 4, "rung": 4}
    assert kernel.seq == 7  # a settlement is an entry of its own


async def test_the_whole_path_through_an_orchestrator():
    """`runtime/orchestrator.py`: the same, as a user sees it."""
    struck: list[EffectKey] = []

    async def pull_the_rope(effect: Effect) -> dict[str, Any]:
        struck.append(effect.key)
        return {"rung": effect.payload["times"]}

    async with Orchestrator(Tower(), OrchestratorConfig(seed=1831)) as world:
        await world.register_executor(RING, pull_the_rope)
        quasimodo = await world.register_agent("quasimodo")
        verdict = await quasimodo.submit(BATCH)
        assert (verdict.admitted, verdict.seq, verdict.durability) == (True, 5, "memory")
        await world.wait_effects()
        assert [str(key) for key in struck] == ["world/4/0", "world/5/1"]
        view = await quasimodo.refresh_view()
        assert (view.view_seq, view.state[BELL]["great"]) == (7, {"asked": 4, "rung": 4})
        again = await quasimodo.submit(BATCH)
        assert (again.replayed, again.seq, world.seq) == (True, 5, 7)


async def test_10_the_way_of_a_batch_is_short():
    """A reader follows one batch through few files, and seldom goes from one to another."""
    root = f"{Path(placet.__file__).parent}/"
    files: list[str] = []

    def note_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            files.append(frame.f_code.co_filename.removeprefix(root))

    async with Orchestrator(World()) as orchestrator:
        alice = await orchestrator.register_agent("alice", position=[0, 0, 0])
        for number in range(3):
            batch = [alice.intent("Move", to=[number, 1, 0]), alice.intent("Speak", text="hi")]
            sim_time = orchestrator.sim_time
            sys.setprofile(note_call if number == 2 else None)
            try:
                await orchestrator.submit_intents(batch, sim_time)
            finally:
                sys.setprofile(None)
    changes = sum(file != after for file, after in pairwise(files))
    assert files, "no call was seen"
    assert len(set(files)) <= FILES_MAX, sorted(set(files))
    assert changes <= CHANGES_MAX
