"""A stepped world beside the reference model: its clients get the promised answers."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from placet import Orchestrator, OrchestratorConfig, Verdict
from placet.kernel.decide.batches import Decision
from placet.kernel.kernel import Kernel
from placet.schemas.effect import Effect
from placet.schemas.limits import Limits
from tests.kernel.reference.fair_batches import AGENTS, a_batch_of
from tests.kernel.reference.fairground import POST, Fairground
from tests.kernel.reference.gate_machine import LIMITS, SETTINGS, expected, promised
from tests.kernel.reference.reference_model import Model
from tests.kernel.reference.reference_world import Answer

ROUNDS = 40

Groups = list[tuple[int, Decision]]


def resolved(batch: Mapping[str, Any], seq: int, now: float) -> dict[str, Any]:
    """Resolve the relative context seq and time of drawn intents."""
    made = {name: value for name, value in batch.items() if name != "later"}
    if "later" in batch:
        made["sim_time"] = now + batch["later"]
    made["intents"] = [dict(intent) for intent in batch["intents"]]
    for intent in made["intents"]:
        intent["context_seq"] = max(0, seq - intent.pop("context_back"))
    return made


def replay(model: Model, groups: Groups, raws: Mapping[str, Any]) -> dict[str, Answer]:
    """Decide the batches of the kernel by the model, in the kernel's order, and compare."""
    answers = {}
    for now_ns, decision in groups:
        model.now, model.claims = now_ns, {}
        due = {number: model.schedule[number][1] for number in model.due()}
        for batch, verdict in decision.answers:
            raw = raws[batch.batch_id] if batch.due_of is None else due[batch.due_of]
            answer = expected(model.decide(raw, batch.due_of))
            assert promised(verdict) == answer, raw
            answers[batch.batch_id] = answer
    return answers


@pytest.mark.parametrize("setting", SETTINGS)
async def test_the_orchestrator_agrees_with_the_model(setting):
    chosen, rng, groups = SETTINGS[setting], Random(f"facade {setting}"), Groups()
    config = OrchestratorConfig(
        clock="stepped", seed=3, limits=Limits(**LIMITS), log_level="critical", **chosen
    )
    threshold = chosen.get("staleness_threshold")
    model = Model(LIMITS, chosen["quotas"], chosen.get("world_quota"), threshold)
    decide = Kernel.decide_checked

    def witnessed(self: Kernel, batches: Any, now_ns: int, **_: bool) -> Decision:
        groups.append((now_ns, decide(self, batches, now_ns)))
        return groups[-1][1]

    may_post = asyncio.Event()

    async def post_late(effect: Effect) -> None:
        """Leave effects open until the end, so that the outbox fills and the gate refuses."""
        await may_post.wait()

    asked: dict[tuple[str, str], None] = {}
    with patch.object(Kernel, "decide_checked", witnessed):
        async with Orchestrator(Fairground(), config) as world:
            await world.register_executor(POST, post_late, outbox_max=2)
            model.change_executor(POST, 2)
            for agent in AGENTS:
                await world.register_agent(agent)
                model.register(agent, None, 100, {})
            for _ in range(ROUNDS):
                drawn = [a_batch_of(rng.randrange(2**32)) for _ in range(rng.randrange(1, 7))]
                batches = [resolved(batch, world.seq, world.sim_time) for batch in drawn]
                tickets = [world.submit_nowait(batch) for batch in batches]
                stepped = await world.step(rng.choice([0, 0.5, 2]))
                verdicts = [await ticket for ticket in tickets]
                assert [v for v in verdicts if v in stepped] == stepped
                raws = {v.batch_id: batch for v, batch in zip(verdicts, batches, strict=True)}
                answers = replay(model, groups, raws)
                groups.clear()
                model.tick()
                _check_structure(model, verdicts, batches, answers)
                for batch in batches:
                    asked |= {(i["agent_id"], i["req_id"]): None for i in batch["intents"]}
                assert world.seq == model.seq
                assert await world.state() == {n: rows for n, rows in model.state.items() if rows}
            for agent, req_id in asked:
                verdict = await world.verdict_of(agent, req_id)
                assert (verdict is None) == (model.verdict_of(agent, req_id) is None)
            may_post.set()


def _check_structure(
    model: Model, verdicts: list[Verdict], batches: list[Any], answers: Mapping[str, Answer]
) -> None:
    for verdict, batch in zip(verdicts, batches, strict=True):
        if verdict.batch_id not in answers:
            answer = model.decide(batch)
            assert {code for _, _, code in answer.refusals} == set(verdict.codes)
