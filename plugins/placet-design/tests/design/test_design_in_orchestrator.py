"""The same domain in an orchestrator: many agents, durable log, executors off the orchestrator."""

import asyncio
import re

from tests.design.designer import VESSEL, put

from placet import Orchestrator, OrchestratorConfig
from placet_design import (
    Action,
    ActionPlan,
    ActionType,
    Design,
    audit,
    batch_of,
)
from placet_design.events.projection import project
from placet_design.payloads import RUN_EFFECT


def plan(n, version, *actions):
    return ActionPlan(f"plan-{n}", "intent", "ship", list(actions), version)


async def test_plans_phases_and_exports_in_an_orchestrator(tmp_path):
    config = OrchestratorConfig(store=f"sqlite:///{tmp_path}/ship.db")
    async with Orchestrator(Design(design_id="ship"), config) as orchestrator:
        ann = await orchestrator.register_agent("ann")
        await orchestrator.register_agent("bob", role="operator")
        sets = [put(path, value) for path, value in VESSEL.items()]
        first = await ann.submit(batch_of(plan(1, 0, *sets), "ann"))
        assert first.admitted, first.refusals
        runs = [Action(ActionType.RUN_PHASES), Action(ActionType.EXPORT, format="json")]
        assert (await ann.submit(batch_of(plan(2, 1, *runs), "ann"))).admitted
        await orchestrator.wait_effects()
        about = await orchestrator.state("design.about/design")
        assert about["version"] == 1
        phases = await orchestrator.state("design.phases")
        assert {kept["status"] for kept in phases.values()} == {"completed"}
        stale = await ann.submit(batch_of(plan(3, 0, put("hull.loa", 61)), "ann"))
        assert stale.codes == ("design.stale_plan",)
        assert stale.refusals[0].details["current_design_version"] == 1
        digest = await orchestrator.digest()

    async with Orchestrator(Design(design_id="ship"), config) as orchestrator:
        assert await orchestrator.digest() == digest
        ann = await orchestrator.register_agent("ann")
        undo = ann.intent("design.undo")
        assert (await ann.submit([undo])).admitted
        loa = await orchestrator.state("design.parameters/hull.loa")
        assert loa == {"value": None}


async def test_only_one_of_several_plans_on_a_version_passes():
    async with Orchestrator(Design()) as orchestrator:
        agents = [await orchestrator.register_agent(f"agent-{n}") for n in range(20)]
        verdicts = await asyncio.gather(
            *[
                agent.submit(batch_of(plan(n, 0, put("hull.loa", 50 + n)), agent.agent_id))
                for n, agent in enumerate(agents)
            ]
        )
        assert sum(verdict.admitted for verdict in verdicts) == 1
        about = await orchestrator.state("design.about/design")
        assert about["version"] == 1


async def test_events_and_audit_are_projected_from_an_orchestrators_log():
    async with Orchestrator(Design()) as orchestrator:
        ann = await orchestrator.register_agent("ann")
        await ann.submit(batch_of(plan(1, 0, put("hull.loa", 600)), "ann"))
        await ann.submit(batch_of(plan(2, 1, put("hull.lao", 60)), "ann"))
        log = []
        async for event in orchestrator.events(since=0):
            log.append(event)
            if event.type == "refused":
                break
    told = [event.event_type.value for record in log for event in project(record)]
    assert "state.mutated" in told
    assert told[-1] == "validation.action_rejected"
    assert [entry.admitted for entry in audit(log)] == [True, False]


async def test_without_executors_a_run_is_refused_as_unregistered():
    async with Orchestrator(Design()) as orchestrator:
        await orchestrator.unregister_executor(RUN_EFFECT)
        ann = await orchestrator.register_agent("ann")
        verdict = await ann.submit([ann.intent("design.run_phases")])
        assert verdict.codes == ("tool_unregistered",)
        assert re.search("design.run_phases", verdict.refusals[0].message)
