"""A short, fixed scenario that uses every feature, with the same outcome in each run.

Time is stepped and each round waits for the one before, so a run that was killed and resumed
reaches the same state as an uninterrupted one. A resumed run acts as a client does: it asks for the
answers that it did not receive, and submits again the batches that have none.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from placet import Orchestrator, OrchestratorConfig, Verdict
from placet.runtime import world_opener
from placet.schemas.effect import Effect
from placet.schemas.limits import Limits
from placet.stores.files import Disk
from placet.stores.snapshots.files import SnapshotFiles, snapshots_of
from placet.stores.snapshots.writer import take_snapshot
from tests.crash import planted_bugs
from tests.crash.compiled import use_compiled_lab
from tests.crash.crash_points import CrashPoints, Pointed
from tests.crash.process_forker import Report
from tests.kernel.builders import add, intent
from tests.kernel.domains import MAIL, Lab

AGENTS: Final = ("alice", "bob", "carol")
LIFE_SECONDS_MAX: Final = 20.0

Intents = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Round:
    """One simulated second of the scenario."""

    batches: Sequence[Intents]
    later: Sequence[tuple[float, Intents]] = field(default=())
    standing: str = ""


def put(req_id: str, agent_id: str, value: int) -> dict[str, Any]:
    thing = {"thing": "a", "field": "x", "value": value}
    return intent("Put", thing, req_id, agent_id=agent_id)


def mail(req_id: str, agent_id: str, count: int) -> dict[str, Any]:
    return intent("Mail", {"count": count}, req_id, agent_id=agent_id)


# Every amount is a power of two, so that a sum tells which were added, and how often.
STORY: Final[Sequence[Round]] = (
    Round(
        batches=[
            [add("a:1", 1), add("a:2", 2)],
            [add("b:1", 4, agent_id="bob")],
            [put("a:3", "alice", 1)],
        ],
        later=[(2.5, [add("l:1", 8), put("l:2", "alice", 2)])],
    ),
    Round(
        batches=[
            [add("a:4", 16), mail("a:5", "alice", 2)],
            [intent("Take", {"amount": 10**6}, "b:2", agent_id="bob")],  # refused: too few
            [add("a:6", 32), add("b:3", 64, agent_id="bob")],  # of two agents
            [add("a:1", 1), add("a:2", 2)],  # asked before
        ],
        standing="suspended",
    ),
    Round(
        batches=[
            [add("c:1", 128, agent_id="carol")],  # refused: suspended
            [add("a:1", 1)],  # refused: a known id in another batch
            [intent("Grab", {"thing": "a"}, "b:4", agent_id="bob")],
            [intent("Grab", {"thing": "a"}, "a:7")],  # the loser leaves a refusal
            [mail("b:5", "bob", 1), put("b:6", "bob", 3), put("b:7", "bob", 4)],
        ],
        later=[(3.5, [intent("Take", {"amount": 10**6}, "l:3")])],  # refused when it is due
    ),
    Round(
        batches=[
            [],  # refused: no batch
            [put("b:8", "bob", 5)],  # refused: quota
            [add("c:2", 256, agent_id="carol"), add("c:3", 512, agent_id="carol")],
            [intent("Look", {"thing": "a"}, "c:4", agent_id="carol")],  # refused: stale
            [mail("c:5", "carol", 1)],
        ],
        standing="resumed",
    ),
)


def config_of(store: str) -> OrchestratorConfig:
    """Return the configuration: bounds so low that the scenario exceeds them."""
    return OrchestratorConfig(
        store=store,
        clock="stepped",
        seed=7,
        quotas={"Put": {"rate": 0.01, "burst": 2}},
        limits=Limits(checkpoint_groups=2, loop_lag_ms_max=600_000),
        log_level="critical",
    )


class ScenarioClient:
    """Runs the scenario, and reports each answer as soon as it has it."""

    def __init__(
        self,
        world: Orchestrator,
        points: CrashPoints,
        report: Report,
        keeper: "Housekeeper | None" = None,
    ) -> None:
        self._world = world
        self._points = points
        self._report = report
        self._keeper = keeper

    async def run(self) -> None:
        for agent_id in AGENTS:
            await self._world.register_agent(agent_id)
            self._points.reach("registered")
        await self._world.register_executor(MAIL, self._post_letter)
        await self._world.wait_effects()  # what a crash left open
        for number, one in enumerate(STORY, 1):
            if self._world.sim_time < number:
                await self._play(number, one)
            if self._keeper is not None:
                self._keeper.maintain()
        for one in STORY:
            await self._ask(one)

    async def _play(self, number: int, one: Round) -> None:
        await self._change(one.standing)
        for sim_time, intents in one.later:
            batch = {"intents": intents, "sim_time": sim_time}
            self._answered(intents, await self._world.submit(batch))
        tickets = [self._world.submit_nowait(list(intents)) for intents in one.batches]
        await self._world.step(number - self._world.sim_time)
        for intents, ticket in zip(one.batches, tickets, strict=True):
            self._answered(intents, await ticket)
        await self._world.wait_effects()

    async def _ask(self, one: Round) -> None:
        """Ask for the answers of a round, which may have been decided in an earlier child."""
        for intents in [*one.batches, *(later for _, later in one.later)]:
            for asked in intents:
                found = await self._world.verdict_of(asked["agent_id"], asked["req_id"])
                answer = None if found is None else answer_of(found)
                self._report.send("found", req_id=asked["req_id"], answer=answer)

    async def _change(self, what: str) -> None:
        agent = self._world._open.kernel.ledger.agents["carol"]
        if what == "suspended" and not agent.is_suspended:
            await self._world.suspend_agent("carol")
        if what == "resumed" and agent.is_suspended:
            await self._world.resume_agent("carol")
        self._points.reach("changed")

    def _answered(self, intents: Intents, verdict: Verdict) -> None:
        self._points.reach("before the answer is sent")
        is_kept = verdict.durability != "none"
        answer = answer_of(verdict)
        self._report.send("answer", ids=ids_of(intents), answer=answer, is_kept=is_kept)
        self._points.reach("after the answer is sent")

    async def _post_letter(self, effect: Effect) -> str:
        key = [effect.key.seq, effect.key.effect_index]
        self._report.send("effect", key=key)
        self._points.reach("effect begun")
        await asyncio.sleep(0)
        self._points.reach("effect done")
        return "posted"


class Housekeeper:
    """Takes snapshots and compacts the log as the world's scheduler does, synchronously."""

    def __init__(self, world: Orchestrator, points: CrashPoints) -> None:
        self._log = world._open.log
        self._epoch = world._open.epoch
        self._points = points
        folder = snapshots_of(self._log)
        assert isinstance(folder, SnapshotFiles), "the log is in a file"
        self._files = SnapshotFiles(folder.folder, Pointed(Disk(), points))

    def maintain(self) -> None:
        self._points.is_counting = True
        taken = take_snapshot(self._log, self._files)
        while self._log.compact(taken.compact_before, self._epoch, appends_max=2):
            self._points.reach("between two slices")
        self._points.is_counting = False


def answer_of(verdict: Verdict) -> dict[str, Any]:
    """Return the parts of an answer that must not change."""
    return {
        "admitted": verdict.admitted,
        "scheduled": verdict.scheduled,
        "seq": verdict.seq,
        "refusals": [[r.index, r.stage, r.code] for r in verdict.refusals],
    }


def ids_of(intents: Intents) -> list[list[str]]:
    return [[one["agent_id"], one["req_id"]] for one in intents]


def run(
    report: Report,
    *,
    store: str,
    crash_at: int | None = None,
    plant: str | None = None,
    has_maintenance: bool = False,
) -> None:
    """Run the scenario on a store, in a child; report the outcome, or crash at a point."""
    use_compiled_lab()
    points = CrashPoints(crash_at, report)
    points.is_counting = not has_maintenance
    points.watch_sqlite()
    watch_log(points)
    if plant is not None:
        planted_bugs.PLANTED_BUGS[plant]()
    asyncio.run(_live(report, points, store, has_maintenance))


def watch_log(points: CrashPoints) -> None:
    """Put crash points around the log that a world is opened from. For a child: never undone."""
    open_event_log = vars(world_opener)["open_event_log"]
    vars(world_opener)["open_event_log"] = lambda *given: Pointed(open_event_log(*given), points)


async def _live(report: Report, points: CrashPoints, store: str, has_maintenance: bool) -> None:
    async with asyncio.timeout(LIFE_SECONDS_MAX):
        async with Orchestrator(Lab(), config_of(store)) as world:
            keeper = Housekeeper(world, points) if has_maintenance else None
            await ScenarioClient(world, points, report, keeper).run()
            ends = {
                "seq": world.seq,
                "digest": await world.digest(),
                "world_digest": world._open.kernel.world_digest(),
                "chain": world._open.kernel._journal.prev.hex(),
            }
    points.reach("closed")
    report.send("ended", points=points.reached, **ends)


if __name__ == "__main__":
    run(Report(sys.stdout.fileno()), store=sys.argv[1], plant=next(iter(sys.argv[2:]), None))
