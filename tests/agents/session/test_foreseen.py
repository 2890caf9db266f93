"""What a person is shown is what is applied, and a turn reports what its record holds.

The law, over random plans whose rules draw, read the time, the seq and the state, and emit effects;
in every clock, with and without a person, while another agent acts.
"""

from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet import Orchestrator, OrchestratorConfig
from placet.agents import ScriptedAdapter, Session
from placet.domains.session import Sessions
from placet.schemas.foreseen import FieldChange
from tests.kernel.maze import NAMES, ROWS, STEPS, Maze, require_definite
from tests.levels import examples

_RESOLUTIONS_MAX = 4


class Meddled(Orchestrator):
    """A world in which another agent acts after the next dry runs, and before decisions."""

    meddling = 0

    async def submit(self, batch: Any, *, dry_run: bool = False, **options: Any) -> Any:
        is_approval = batch[0]["kind"] == "approvals.decide"
        if is_approval and self.meddling:
            self.meddling -= 1
            await self.meddle(100 + self.meddling)
        verdict = await super().submit(batch, dry_run=dry_run, **options)
        if dry_run and self.meddling:
            self.meddling -= 1
            await self.meddle(100 + self.meddling)
        return verdict

    async def meddle(self, start: int) -> None:
        bob = await self.register_agent("bob")
        await super().submit([bob.intent("Start", start=start)])


@asynccontextmanager
async def opened(clock: Any) -> Any:
    ticks: dict[str, Any] = {"tick_s": 1.0} if clock == "next_event" else {}
    config = OrchestratorConfig(clock=clock, **ticks)
    async with Meddled([Maze(), Sessions()], config) as world, anyio.create_task_group() as group:
        wired: list[Any] = []

        async def wire(effect: Any) -> None:
            wired.append(effect.payload)

        async def steps() -> None:
            while True:
                await world.step(0.01)
                await anyio.lowlevel.checkpoint()

        await world.register_executor("wire", wire)
        if clock == "stepped":
            group.start_soon(steps)
        yield world, wired
        group.cancel_scope.cancel()


async def pass_time(world: Meddled, seconds: float) -> None:
    if world.config.clock == "next_event":
        ann = await world.register_agent("ann")
        await ann.sleep(seconds)


async def made_by_plan(world: Orchestrator) -> list[FieldChange]:
    """Return the changes of the last batch of the plan, from the log alone."""
    rows: dict[str, dict[str, Any]] = {name: {"start": 7, "value": 0} for name in (*NAMES, "spare")}
    made: list[FieldChange] = []
    async for event in world.events():
        before = {name: dict(fields) for name, fields in rows.items()}
        for change in event.data.get("changes", ()):
            collection, _, name = change["entity"].partition("/")
            if collection != ROWS:
                continue
            if change["fields"] is None:
                rows.pop(name)
            elif change["whole"]:
                rows[name] = dict(change["fields"])
            else:
                rows[name].update(change["fields"])
        if event.type == "batch" and any(one["kind"] == "Go" for one in event.data["intents"]):
            made = _difference(before, rows)
        if event.seq >= world.seq:
            break
    return made


def _difference(before: Any, after: Any) -> list[FieldChange]:
    changes = []
    for name in {**before, **after}:
        old, new = before.get(name, {}), after.get(name, {})
        for field in {**old, **new}:
            was, now = old.get(field), new.get(field)
            op: Any = "add" if field not in old else "remove" if field not in new else "replace"
            if op != "replace" or was != now:
                changes.append(FieldChange(ROWS, name, field, op, was, now))
    return changes


def shown(changes: Any) -> Any:
    return sorted((one.path, one.op, one.old, one.new) for one in changes)


async def _live(clock: str, mode: Any, plan: Any, between: str, seconds: float) -> None:
    script = ScriptedAdapter([[("Go", {"steps": steps}) for steps in plan]], is_looping=True)
    async with opened(clock) as (world, wired):
        session = await Session.open(world=world, mode=mode, adapter=script)
        turn = await session.send("go")
        seen = turn.diff
        start = await world.state(f"{ROWS}/a/start")
        world.meddling = int(between == "during")
        if between == "before" and turn.outcome == "held":
            await world.meddle(50)
        await pass_time(world, seconds)
        for _ in range(_RESOLUTIONS_MAX):
            if turn.outcome != "held":
                break
            seen = turn.diff
            if between != "before":
                start = await world.state(f"{ROWS}/a/start")
            turn = await session.resolve(turn.approval_id, "approve", by="ann")
            assert turn.outcome != "held" or between, "nothing changed meanwhile"
            if turn.outcome == "held":
                between = "done"
        assert turn.outcome in {"applied", "failed", "refused"}, turn
        if turn.outcome == "applied":
            made = await made_by_plan(world)
            assert shown(turn.diff) == shown(made), "the turn reports its record"
            if mode != "autonomous":
                require_definite([change.field_change for change in seen], made)
                assert {effect["of"]["to"] for effect in wired} <= {start}
        else:
            assert not turn.diff
        await session.close()


@pytest.mark.parametrize("clock", ["realtime", "stepped", "next_event"])
@settings(max_examples=examples(40))  # each opens a world
@given(
    mode=st.sampled_from(["assisted", "assisted", "autonomous"]),
    plan=st.lists(STEPS, min_size=1, max_size=2),
    between=st.sampled_from(["", "before", "during"]),
    seconds=st.sampled_from([0.0, 0.3, 70.0]),
)
def test_a_definite_change_that_was_shown_is_applied_or_nothing_is(
    clock: str, mode: str, plan: Any, between: str, seconds: float
) -> None:
    anyio.run(_live, clock, mode, plan, between, seconds)
