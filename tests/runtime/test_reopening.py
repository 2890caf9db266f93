"""A reopened world continues with its agents, quotas, dedup window, schedule, effects and time.

Every test runs with the log alone, with a snapshot at its end, and with a snapshot in its middle.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from placet import Limits, Orchestrator, OrchestratorConfig
from placet.history.reader import fold
from placet.runtime import world_opener
from placet.runtime.world_opener import WorldOpener
from placet.schemas.effect import Effect
from placet.schemas.verdict import Verdict
from placet.stores.snapshots.files import snapshots_of
from placet.stores.snapshots.recovery import recover
from placet.stores.snapshots.writer import take_snapshot
from placet.stores.url import open_event_log
from tests.kernel.builders import add, intent
from tests.kernel.domains import COUNTS, Lab


class ReopenedWorld:
    """A world that is opened, closed and reopened."""

    def __init__(self, folder: Path, snapshot: str) -> None:
        self.store = f"sqlite:///{folder}/w.db?synchronous=off"
        self._snapshot = snapshot
        self._is_begun = False

    @asynccontextmanager
    async def open(self, **config: Any) -> AsyncIterator[Orchestrator]:
        if self._is_begun:
            self._take()
        options = {"clock": "stepped", "snapshot_every_seqs": None, **config}
        async with Orchestrator(Lab(), OrchestratorConfig(store=self.store, **options)) as world:
            self._is_begun = True
            yield world

    def _take(self) -> None:
        """Write a snapshot beside the log, where this test needs one."""
        log = open_event_log(self.store)
        files = snapshots_of(log)
        assert files is not None
        end = recover(log).past.ledger.seq
        if self._snapshot == "in the middle":
            take_snapshot(log, files, to_seq=end // 2)
        elif self._snapshot == "at the end":
            take_snapshot(log, files)


@pytest.fixture(params=["without", "in the middle", "at the end"])
def reopened(request, tmp_path):
    return ReopenedWorld(tmp_path, request.param)


async def decided(world: Orchestrator, *batches: Any, dt: float = 1.0) -> list[Verdict]:
    """Submit batches, step, and return their verdicts."""
    tickets = [world.submit_nowait(batch) for batch in batches]
    await world.step(dt)
    return [await ticket for ticket in tickets]


async def test_agents_keep_permissions_and_suspension(reopened):
    async with reopened.open() as world:
        await world.register_agent("alice", permissions={"Take"})
        await world.register_agent("bob")
        await world.register_agent("carol")
        await world.suspend_agent("bob")
        await world.remove_agent("carol")
    async with reopened.open() as world:
        answers = await decided(
            world, *([add("r", agent_id=name)] for name in ("alice", "bob", "carol"))
        )
        assert [answer.codes for answer in answers] == [
            ("permission_denied",),
            ("agent_suspended",),
            ("agent_unknown",),
        ]
        assert (await world.register_agent("carol")).generation == 2


async def test_remembered_verdicts_survive_a_restart(reopened):
    drop = intent("Drop", {"thing": "x"}, "gone")
    async with reopened.open() as world:
        await world.register_agent("alice")
        before = await decided(world, [add("r:1", 5)], [drop])
    async with reopened.open() as world:
        after = await decided(world, [add("r:1", 5)], [drop], [add("r:1", 6)])
        assert [answer.replayed for answer in after] == [True, True, False]
        assert after[2].codes == ("req_id_reused",)
        assert [(a.admitted, a.seq, a.codes) for a in after[:2]] == [
            (b.admitted, b.seq, b.codes) for b in before
        ]
        assert await world.state(f"{COUNTS}/alice/count") == 5


async def test_req_ids_outside_the_dedup_window_stay_too_old(reopened):
    small = Limits(window_ids_max=2)
    async with reopened.open(limits=small) as world:
        await world.register_agent("alice")
        for number in range(6):
            await decided(world, [add(f"r:{number}")])
    async with reopened.open(limits=small) as world:
        (answer,) = await decided(world, [add("r:0")])
        assert answer.codes == ("req_id_too_old",)


async def test_spent_quotas_stay_spent(reopened):
    quotas = {"Add": {"rate": 0.1, "burst": 2}}
    async with reopened.open(quotas=quotas) as world:
        await world.register_agent("alice")
        spent = await decided(world, [add("a")], [add("b")])
        assert all(answer.admitted for answer in spent)
    async with reopened.open(quotas=quotas) as world:
        (refused,) = await decided(world, [add("c")])
        assert refused.codes == ("quota_exceeded",)
        (passed,) = await decided(world, [add("c")], dt=refused.refusals[0].retry_after or 0)
        assert passed.admitted


async def test_staleness_counts_changes_made_before_the_restart(reopened):
    async with reopened.open() as world:
        for name in ("alice", "bob"):
            await world.register_agent(name)
        put = intent("Put", {"thing": "a", "field": "x", "value": 1}, "p", agent_id="bob")
        (changed,) = await decided(world, [put])
        assert changed.seq is not None
        seen = changed.seq - 1
    async with reopened.open() as world:
        look = intent("Look", {"thing": "a"}, "l", context_seq=seen)
        (stale,) = await decided(world, [look])
        assert stale.codes == ("stale_context",)
        assert stale.refusals[0].changed[0]["by"] == "bob"


async def test_scheduled_batch_runs_after_a_restart(reopened):
    async with reopened.open() as world:
        await world.register_agent("alice")
        ticket = world.submit_nowait({"intents": [add("later", 7)], "sim_time": 10.0})
        await world.step(1.0)
        assert (await ticket).scheduled
    async with reopened.open() as world:
        assert world.sim_time == 1.0
        await world.step(8.0)
        answer = await world.verdict_of("alice", "later")
        assert answer is not None
        assert answer.scheduled
        await world.step(1.0)
        final = await world.verdict_of("alice", "later")
        assert final is not None
        assert (final.admitted, final.scheduled) == (True, False)
        assert await world.state(f"{COUNTS}/alice/count") == 7


async def test_scheduled_batch_runs_by_the_realtime_clock_after_a_restart(reopened):
    """No step is called in real time: the timer is set when the world opens."""
    async with reopened.open(clock="stepped") as world:
        await world.register_agent("alice")
        await world.submit({"intents": [add("later", 7)], "sim_time": world.sim_time + 0.2})
        seq = world.seq
    async with reopened.open(clock="realtime") as world:
        async for event in world.events(since=seq):
            if event.type == "batch":
                break
        assert await world.state(f"{COUNTS}/alice/count") == 7


async def test_only_open_effects_run_after_a_restart(reopened):
    ran: list[tuple[int, int]] = []

    async def send(effect: Effect) -> dict[str, Any]:
        ran.append((effect.key.seq, effect.key.effect_index))
        return {"sent": effect.payload["number"]}

    async def hang(effect: Effect) -> dict[str, Any]:
        raise RuntimeError("not now")

    async with reopened.open(log_level="critical") as world:
        await world.register_executor("mail", hang)
        await world.register_agent("alice")
        (failed,) = await decided(world, [intent("Mail", {"count": 1}, "m:1")])
        await world.wait_effects()
        executor = world._open.executors.by_kind.pop("mail")  # no executor from here on
        assert executor is not None
        (left,) = await decided(world, [intent("Mail", {"count": 2}, "m:2")])
        assert world.statistics()["outbox"] == 2
    async with reopened.open() as world:
        assert world.statistics()["outbox"] == 2
        await world.register_executor("mail", send)
        await world.wait_effects()
        assert sorted(ran) == [(left.seq, 0), (left.seq, 1)]
        assert world.statistics()["outbox"] == 0
        letters = await world.state("lab.letters")
        assert letters[f"world/{left.seq}/1"] == {"output": {"sent": 1}}
        assert failed.seq is not None
    async with reopened.open() as world:
        ran.clear()
        await world.register_executor("mail", send)
        await world.wait_effects()
        assert ran == []


async def test_time_continues_from_the_log_and_never_goes_back(reopened):
    async with reopened.open() as world:
        await world.register_agent("alice")
        await decided(world, [add("a")], dt=2.5)
    async with reopened.open() as world:
        assert world.sim_time == 2.5
        await world.step(0.5)
        assert world.sim_time == 3.0
    async with reopened.open(clock="realtime") as world:
        assert world.sim_time >= 3.0


async def test_log_with_a_restart_equals_the_log_without(reopened, tmp_path):
    """The log is the same byte for byte."""

    async def first(world: Orchestrator) -> None:
        for name in ("alice", "bob"):
            await world.register_agent(name)
        for number in range(5):
            grab = {"thing": "apple"}
            await decided(
                world,
                *([intent("Grab", grab, f"g:{number}", agent_id=n)] for n in ("alice", "bob")),
                [add(f"a:{number}")],
            )

    async def second(world: Orchestrator) -> None:
        for number in range(5, 9):
            await decided(world, [add(f"a:{number}")], [add(f"a:{number}", agent_id="bob")])

    options = {"seed": 5, "limits": Limits(checkpoint_groups=2)}
    async with reopened.open(**options) as world:
        await first(world)
    async with reopened.open(**options) as world:
        await second(world)
    (tmp_path / "whole").mkdir()
    whole = ReopenedWorld(tmp_path / "whole", "without")
    async with whole.open(**options) as world:
        await first(world)
        await second(world)
    logs = [[data for _, data in open_event_log(world.store).read()] for world in (reopened, whole)]
    assert logs[0] == logs[1]


async def test_log_keeps_the_origin_of_the_first_run(reopened):
    origin = {"program": "mine", "arguments": [1, {"two": None}]}
    async with reopened.open(origin=origin) as world:
        await world.register_agent("alice")
    async with reopened.open(origin={"program": "another"}):
        pass
    past = fold(open_event_log(reopened.store))
    assert past.header is not None
    assert past.header.origin == origin


def test_orchestrator_takes_the_fence_before_it_reads(monkeypatch, tmp_path):
    """Otherwise a record appended in between by an earlier writer would be missed."""
    calls: list[str] = []
    opener = WorldOpener(Lab(), OrchestratorConfig(store=f"{tmp_path}/w.db"), None)
    log = open_event_log(f"{tmp_path}/w.db")
    genuine = log.open

    def note_open(**options: Any) -> int:
        calls.append("open")
        return genuine(**options)

    def note_recover(log: Any) -> Any:
        calls.append("recover")
        return recover(log)

    monkeypatch.setattr(log, "open", note_open)
    monkeypatch.setattr(world_opener, "recover", note_recover)
    opener.load(log)
    log.close()
    assert calls == ["open", "recover"]
