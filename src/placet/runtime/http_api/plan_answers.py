"""From a plan to the gate, and from its verdict to the bodies of seed 000."""

from collections.abc import Mapping
from secrets import token_hex
from typing import NamedTuple

from starlette.responses import Response

from placet.domains.design.answers import (
    STALE_PLAN,
    ExecutionResult,
    is_stale,
    replayed_answer,
    version_met,
)
from placet.domains.design.design import Design
from placet.domains.design.plans import (
    PLAN_BODY,
    action_as_dict,
    batch_of,
    intent_payload,
    plan_body,
)
from placet.domains.design.protocol import ActionPlan, Intent, stale_message
from placet.domains.design.settings import Settings
from placet.domains.design.text import Clarification, parse_text
from placet.domains.design.text_rewordings import rewordings
from placet.domains.design.views import read_design, version_of
from placet.domains.design.vocabulary import PARAMETERS
from placet.kernel.kernel import Kernel
from placet.runtime.facade import Orchestrator
from placet.runtime.http_api.batches import verdict_answer
from placet.schemas.codec import Json, to_json
from placet.schemas.refusal import RefusalCode, Stage
from placet.schemas.verdict import Verdict

_SEEDS_OWN = frozenset({Stage.STRUCTURE, Stage.DOMAIN})
"""What stages refuse is a rejection in the seed's words; everything else is the gate's."""


class Desk(NamedTuple):
    """Where one who asks hands in plans for a design.

    Attributes:
        world: The design's.
        agent_id: As whom.
        submitter: For whom the token speaks.
        role_to_be: What the agent would be registered as, for trials of one that is not yet.
    """

    world: Orchestrator
    agent_id: str
    submitter: str
    role_to_be: str | None = None

    def fresh_id(self) -> str:
        """Make a req_id for what comes without one: it is not safe to repeat, and not repeated."""
        return f"http-{token_hex(8)}"

    async def execute(self, plan: ActionPlan, intent: Intent | None, *, dry_run: bool) -> Response:
        """Execute a plan, or try it; the intent that it comes from is logged with it."""
        now = await self.world.read(lambda kernel: _now(kernel, plan))
        batch = batch_of(plan, self.agent_id, context_seq=now.seq, intent=intent, dry_run=dry_run)
        verdict = await self._decided(batch)
        if is_stale(plan, verdict, now.version):
            return _stale(plan, version_met(verdict, now.version))
        if answer_of(verdict) is None:
            return _of_the_gate(verdict)
        (domain,) = self.world.domains
        assert isinstance(domain, Design), "served where the domain is"
        replayed = None
        if verdict.replayed and verdict.admitted:
            found = await self.world.read(lambda kernel: replayed_answer(kernel.tree, plan.plan_id))
            replayed = found or (plan.design_version_before, ())
        heads = 1 if intent is None else 2
        result = ExecutionResult(plan, verdict, domain.setup, now.values, replayed, heads)
        body = result.as_dict()
        if dry_run:
            body |= {"dry_run": True, "diff": result.diff()}
        return Response(to_json(body), media_type="application/json")

    async def _decided(self, batch: Mapping[str, Json]) -> Verdict:
        """Have a batch decided; of one who is not registered yet on a copy, where it is."""
        if self.role_to_be is None:
            return await self.world.post(batch, submitter=self.submitter)
        world = self.world
        snapshot, now = await world.read(lambda kernel: (kernel.snapshot(), kernel.sim_time))
        copy = Kernel(world.domains, world.config.kernel_config())
        copy.restore(snapshot)
        copy.register_agent(self.agent_id, role=self.role_to_be)
        return copy.decide(batch, now, submitter=self.submitter)


class _Now(NamedTuple):
    """What a plan finds: the world's seq, the design's version, and the values it is about."""

    seq: int
    version: int
    values: dict[str, Json]


def plan_schemas() -> dict[str, Json]:
    """Give the JSON Schema of a plan as a body, and what it refers to."""
    schema = PLAN_BODY.json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), "Plan": schema}


def preview_of(
    kernel: Kernel, setup: Settings, design_id: str, text: str, intent_id: str | None
) -> dict[str, Json]:
    """Say what a text comes to: a plan that can be submitted as it is, or what is to be asked."""
    design, key = read_design(kernel.tree, kernel.ledger.now_ns), token_hex(8)
    current, fields = design.parameters, setup.fields
    said = intent_id or f"intent-{key}"
    read = parse_text(text, fields=fields, current=current, intent_id=said, design_id=design_id)
    found: dict[str, Json] = {
        "answer": "query",
        "intent": intent_payload(read.intent),
        "design_version": design.design_version,
        "plan": None,
        "question": None,
        "candidates": [],
        "understood": [],
        "rewordings": [],
    }
    if isinstance(read, Clarification):
        return found | {
            "answer": "clarification",
            "question": read.question,
            "candidates": list(read.candidates),
            "understood": [action_as_dict(action) for action in read.understood],
            "rewordings": list(rewordings(read, fields=fields, current=current)),
        }
    if not read.actions:
        return found
    version = design.design_version
    plan = ActionPlan(f"plan-{key}", said, design_id, list(read.actions), version)
    return found | {"answer": "understood", "plan": plan_body(plan, read.intent)}


def answer_of(verdict: Verdict) -> dict[str, Json] | None:
    """Say success or rejection in the seed's words; None where the gate answers in its own."""
    if verdict.admitted:
        return {"success": True, "rejections": []}
    first = verdict.refusals[0]
    if first.stage not in _SEEDS_OWN or first.code == STALE_PLAN:
        return None
    rejections = [
        {"path": "", "reason": refusal.message, "code": refusal.code.removeprefix("design.")}
        for refusal in verdict.refusals
    ]
    return {"success": False, "rejections": rejections}


def _of_the_gate(verdict: Verdict) -> Response:
    """Answer what is neither success nor rejection; an id that was reused has the seed's body."""
    first = verdict.refusals[0]
    if first.code == RefusalCode.REQ_ID_REUSED:
        body = {"error": "plan_id_reused", "message": first.message}
        return Response(to_json(body), 409, media_type="application/json")
    return verdict_answer(verdict)


def _stale(plan: ActionPlan, current: int) -> Response:
    body = {
        "error": "stale_plan",
        "message": stale_message(plan.design_version_before, current),
        "current_design_version": current,
    }
    return Response(to_json(body), 409, media_type="application/json")


def _now(kernel: Kernel, plan: ActionPlan) -> _Now:
    values = {
        action.path: kernel.tree.get(PARAMETERS, action.path, "value")
        for action in plan.actions
        if isinstance(action.path, str)
    }
    return _Now(kernel.seq, version_of(kernel.tree), values)
