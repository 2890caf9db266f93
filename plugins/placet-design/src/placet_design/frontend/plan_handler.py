"""Submit plans, and convert verdicts into the response bodies of seed 000."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

from starlette.responses import Response

from placet.kernel.kernel import Kernel
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.refusal import RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.server.http.responses import json_response
from placet.server.routes.batches import verdict_answer
from placet_design.actions.answers import (
    PLAN_REUSED,
    STALE_PLAN,
    ExecutionResult,
    is_stale,
    may_retry,
    replayed_answer,
    version_met,
)
from placet_design.actions.plans import (
    PLAN_BODY,
    action_as_dict,
    batch_of,
    intent_payload,
    plan_body,
)
from placet_design.actions.protocol import (
    ActionPlan,
    Intent,
    IntentType,
    StalePlanError,
    stale_message,
)
from placet_design.domain import Design
from placet_design.payloads import PARAMETERS, LogIntent
from placet_design.settings import DesignSettings
from placet_design.text import Clarification, parse_text, rewordings
from placet_design.views import read_design, version_of

_SEEDS_OWN = frozenset({Stage.STRUCTURE, Stage.DOMAIN})
"""What stages refuse is a rejection in the seed's words; everything else is the gate's."""


class DesignPlanHandler(NamedTuple):
    """Submits plans for a design on behalf of a caller.

    Attributes:
        world: World of the design.
        setup: Settings of the design.
        agent_id: Agent that submits; registered with its first plan.
        role: Role of the agent.
        submitter: Caller that the token of the request authenticates.
    """

    world: Orchestrator
    setup: DesignSettings
    agent_id: str
    role: str
    submitter: str

    def fresh_id(self) -> str:
        """Return a req_id for a request without one; such a request is never deduplicated."""
        return f"http-{token_hex(8)}"

    async def enter(self) -> None:
        """Register the agent in the world if it is new."""
        if await self.world.query(lambda kernel: _is_new(kernel, self.agent_id)):
            await self.world.register_agent(self.agent_id, role=self.role)

    async def execute(self, plan: ActionPlan, intent: Intent | None, *, dry_run: bool) -> Response:
        """Execute or dry-run a plan; the message that it derives from is logged with it.

        A dry run registers no agent, and also returns the previous values.
        """
        paths = [action.path for action in plan.actions] if dry_run else ()
        now = self._look(paths)
        if now.is_agent_new and not dry_run:
            await self.enter()
            now = self._look(paths)
        verdict = await self._decide(plan, intent, now, dry_run=dry_run)
        if is_stale(plan, verdict, now.version):
            return _stale(plan, version_met(verdict, now.version))
        if answer_of(verdict) is None:
            return _of_the_gate(verdict)
        replayed = None
        if verdict.replayed and verdict.admitted:
            answer = await self.world.query(
                lambda kernel: replayed_answer(kernel.tree, plan.plan_id)
            )
            replayed = answer or (plan.design_version_before, ())
        heads = 1 if intent is None else 2
        result = ExecutionResult(plan, verdict, self.setup, now.values, replayed, heads)
        body = result.as_dict()
        if dry_run:
            body |= {"dry_run": True, "diff": result.diff()}
        return json_response(body)

    async def _decide(
        self, plan: ActionPlan, intent: Intent | None, now: "_Now", *, dry_run: bool
    ) -> Verdict:
        options: dict[str, Any] = {"context_seq": now.seq, "intent": intent, "dry_run": dry_run}
        batch = batch_of(plan, self.agent_id, **options)
        if now.is_agent_new and dry_run:
            return await self._decided_on_a_copy(batch)
        verdict = await self.world.submit_nowait(batch, submitter=self.submitter)
        is_retry = self.world.query_nowait(
            lambda kernel: may_retry(kernel, plan, self.agent_id, verdict)
        )
        if not is_retry:
            return verdict
        batch = batch_of(plan, self.agent_id, is_retry=True, **options)
        return await self.world.submit_nowait(batch, submitter=self.submitter)

    def _look(self, paths: Sequence[str | None]) -> "_Now":
        """Read the state without a cycle of the orchestrator.

        A cycle would add a tenth of a plan's cost. The values are returned with the plan's verdict,
        which is released only when they are durable.
        """
        return self.world.query_nowait(lambda kernel: _now(kernel, paths, self.agent_id))

    async def _decided_on_a_copy(self, batch: Mapping[str, Json]) -> Verdict:
        """Decide a batch on a copy of the world in which its agent is registered."""
        world = self.world
        snapshot, now = await world.query(lambda kernel: (kernel.snapshot(), kernel.sim_time))
        copy = Kernel(world.domains, world.config.kernel_config())
        copy.restore(snapshot)
        copy.register_agent(self.agent_id, role=self.role)
        return copy.decide(batch, now, submitter=self.submitter)


class _Now(NamedTuple):
    """The state that a plan meets.

    The world's seq, the design's version, and for a dry run the values of the paths it touches.
    """

    seq: int
    version: int
    values: dict[str, Json]
    is_agent_new: bool


def setup_of(world: Orchestrator) -> DesignSettings:
    """Return the settings of a world's design."""
    design, *_ = world.domains
    assert isinstance(design, Design), "served where the domain is"
    return design.setup


def plan_schemas() -> dict[str, Json]:
    """Return the JSON Schema of a plan as a request body, and the schemas it refers to."""
    schema = PLAN_BODY.json_schema(ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {})
    intent = parts[LogIntent.__name__]
    types = {"intent_type": {"enum": [kind.value for kind in IntentType]}}
    schema["properties"]["intent"] = {
        "anyOf": [{"$ref": "#/components/schemas/PlanIntent"}, {"type": "null"}],
        "description": "the person's sentence; its intent_id and design_id are the plan's",
    }
    plan_intent = {**intent, "properties": {**intent["properties"], **types}}
    return {**parts, "PlanIntent": plan_intent, "Plan": schema}


def preview_of(
    kernel: Kernel, setup: DesignSettings, design_id: str, text: str, intent_id: str | None
) -> dict[str, Json]:
    """Return the interpretation of a text, as the body of a response; nothing is submitted.

    It holds a plan that can be submitted unchanged, or a clarification.
    """
    design, key = read_design(kernel.tree, kernel.ledger.now_ns), token_hex(8)
    current, fields = design.parameters, setup.fields
    intent_key = intent_id or f"intent-{key}"
    read = parse_text(
        text, fields=fields, current=current, intent_id=intent_key, design_id=design_id
    )
    preview: dict[str, Json] = {
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
        return preview | {
            "answer": "clarification",
            "question": read.question,
            "candidates": list(read.candidates),
            "understood": [action_as_dict(action) for action in read.understood],
            "rewordings": list(rewordings(read, fields=fields, current=current)),
        }
    if not read.actions:
        return preview
    version = design.design_version
    plan = ActionPlan(f"plan-{key}", intent_key, design_id, list(read.actions), version)
    return preview | {"answer": "understood", "plan": plan_body(plan, read.intent)}


def answer_of(verdict: Verdict) -> dict[str, Json] | None:
    """Return the answer to a plan in the form of the design protocol.

    None if the response has the form of a verdict.
    """
    if verdict.admitted:
        return {"success": True, "rejections": []}
    first = verdict.refusals[0]
    if first.stage not in _SEEDS_OWN or first.code in {STALE_PLAN, PLAN_REUSED}:
        return None
    rejections = [
        {"path": "", "reason": refusal.message, "code": refusal.code.removeprefix("design.")}
        for refusal in verdict.refusals
    ]
    return {"success": False, "rejections": rejections}


def _of_the_gate(verdict: Verdict) -> Response:
    """Return the response for other verdicts; a reused id has the design protocol's body."""
    first = verdict.refusals[0]
    if first.code in {RefusalCode.REQ_ID_REUSED, PLAN_REUSED}:
        body = {"error": "plan_id_reused", "message": first.message}
        return json_response(body, 409)
    return verdict_answer(verdict)


def _stale(plan: ActionPlan, current: int) -> Response:
    message = stale_message(plan.design_version_before, current)
    stale = StalePlanError(message, current_design_version=current)
    return json_response(stale.as_dict(), 409)


def _now(kernel: Kernel, paths: Sequence[str | None], agent_id: str) -> _Now:
    get = kernel.tree.get
    values = {path: get(PARAMETERS, path, "value") for path in paths if path is not None}
    return _Now(kernel.seq, version_of(kernel.tree), values, _is_new(kernel, agent_id))


def _is_new(kernel: Kernel, agent_id: str) -> bool:
    """Return whether an agent was never registered; a removed agent is not new.

    A removed agent stays removed until the operator registers it.
    """
    return agent_id not in kernel.ledger.agents and agent_id not in kernel.ledger.gone
