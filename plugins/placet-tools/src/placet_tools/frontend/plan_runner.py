"""Admitted plans: their tools run, and the done calls of a failed plan are undone.

An effect runs after its batch is durable, so a plan may be done in part. Then the calls that were
done are undone in reverse order, in one batch each. A plan that was cut off by a crash is
finished when the gate is opened again: the state has its calls.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.verdict import Verdict
from placet_tools.domain import RELEASE, UNDO, ToolsDomain, undo_key
from placet_tools.frontend.background import BackgroundTasks
from placet_tools.frontend.call_records import CallRecords
from placet_tools.frontend.calls import NOT_ENDED, ToolCall, of_effect
from placet_tools.frontend.recorder import PLAN_MIN, Recorder
from placet_tools.outcome import Outcome


class PlanRunner(BackgroundTasks):
    """Follows admitted plans to their end, also if their callers are canceled.

    Args:
        world: The world.
        domain: The domain of the tools.
        recorder: Makes intents.
        records: Reads calls.
        wait_s: Real seconds to wait for the tools of a plan.
    """

    def __init__(
        self,
        world: Orchestrator,
        domain: ToolsDomain,
        recorder: Recorder,
        records: CallRecords,
        wait_s: float,
    ) -> None:
        super().__init__()
        self._world = world
        self._domain = domain
        self._recorder = recorder
        self._records = records
        self._wait_s = wait_s
        self._followers: dict[str, asyncio.Task[None]] = {}  # at most one of each plan
        self._watcher: asyncio.Task[None] | None = None

    async def resume(self) -> None:
        """Follow the plans that an earlier process left."""
        plans = await self._world.gateway.entities(self._domain.records.plans)
        for plan, fields in plans.items():
            if fields["state"] != "partly_done":
                self._follow(plan)

    def watch(self) -> None:
        """Follow the plans that are admitted from now on, whichever program submits them."""
        if self._watcher is None:
            self._watcher = self.start(self._watch(self._world.records))

    async def _watch(self, position: int) -> None:
        plans = f"{self._domain.records.plans}/"
        async for page in self._world.event_pages(from_record=position):
            for event in page:
                for change in event.data["changes"] if event.type == "batch" else ():
                    if change["entity"].startswith(plans):
                        self._follow(change["entity"].removeprefix(plans))

    async def run(self, calls: Sequence[ToolCall], verdict: Verdict, ahead: int) -> list[Outcome]:
        """Wait for the tools of an admitted batch; undo a plan of which a call failed.

        Args:
            calls: The calls of the batch.
            verdict: Its verdict.
            ahead: Number of the gate's own intents before those of the calls.
        """
        keys = self._recorder.keys_of_tools(calls)
        if len(keys) >= PLAN_MIN:
            self._follow(keys[0])
        effects = await self._world.outcomes(verdict, seconds_max=self._wait_s)
        by_seq = {effect.seq: effect for effect in effects}
        outcomes = []
        for call, result in zip(calls, verdict.results[ahead:], strict=True):
            effect = by_seq.get(-1 if result.seq is None else result.seq)
            if self._domain.tool_of(call.kind) is None:
                outcomes.append(Outcome("done", result.output, key=call.key))
            elif effect is None:
                outcomes.append(Outcome("running", message=NOT_ENDED, key=call.key))
            elif effect.is_in_doubt:
                outcomes.append(await self._records.outcome(call.key))  # with the reason
            else:
                outcomes.append(await self._records.values.opened(of_effect(call, effect)))
        is_in_part = {"failed", "done"} <= {one.status for one in outcomes}
        if len(keys) < PLAN_MIN or not is_in_part or not await self.finish(keys[0]):
            return outcomes
        return [await self._after_undo(one) for one in outcomes]

    async def finish(self, plan: str) -> bool:
        """Undo the done calls of a plan of which a call has failed; return whether it has ended.

        It has not while one of its calls runs, or is in doubt: they are undone after that.
        """
        following = self._follow(plan)
        plans = await self._world.gateway.entities(self._domain.records.plans, [plan])
        if plan in plans and plans[plan]["state"] == "running":
            return False
        await asyncio.shield(following)
        return True

    def _follow(self, plan: str) -> "asyncio.Task[None]":
        """Return the task that finishes a plan; start it if there is none."""
        if plan not in self._followers:
            self._followers[plan] = self.start(self._finish(plan))
            self._followers[plan].add_done_callback(lambda _: self._followers.pop(plan))
        return self._followers[plan]

    async def _finish(self, plan: str) -> None:
        plans = self._domain.records.plans
        while True:
            position = self._world.records
            fields = (await self._world.gateway.entities(plans, [plan])).get(plan)
            if fields is None or fields["state"] == "partly_done":
                return
            if fields["state"] == "undoing":
                break
            await self._records.wait(fields["keys"], position)
        for key in reversed(fields["keys"]):
            record = await self._records.record(key)
            if record is None or record["state"] != "done":
                continue
            if self._domain.tools[record["tool"]].undo and not await self._undo(plan, key, record):
                break
        await self._world.submit([await self._recorder.own(RELEASE, plan=plan)])

    async def _undo(self, plan: str, key: str, record: Mapping[str, Json]) -> bool:
        """Undo one call by the tool of its `undo`; return whether that was done."""
        again = undo_key(key)
        undoing = await self._records.record(again)  # an earlier process may have begun it
        if undoing is None and not record["agent"]:  # it was removed
            return False
        if undoing is None:
            tool = self._domain.tools[record["tool"]]
            arguments = self._domain.undo_arguments(record)
            handle = await self._recorder.handle(record["agent"])
            call = ToolCall(again, self._domain.kind_of(tool.undo), arguments)
            intent = call.intent(handle.agent_id, uuid4().hex[:12], self._world.seq)
            first = await self._recorder.own(UNDO, plan=plan, key=key)
            verdict = await self._world.submit([first, intent], identity=handle)
            if not verdict.admitted:
                return False
            undoing = await self._records.record(again)
        return (await self._records.ended(again, undoing)).status == "done"

    async def _after_undo(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a call whose plan failed."""
        record = await self._records.record(outcome.key) if outcome.status == "done" else None
        if record is None:
            return outcome
        if record["state"] == "undone":
            return replace(outcome, status="undone", message="another call of its plan failed")
        message = "the plan is done in part: another call failed, and this one is not undone"
        return replace(outcome, message=message)
