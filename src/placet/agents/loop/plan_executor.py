"""Turns plans into batches: risk, mode, policy, grants, approvals, and the outcome.

The only place in the agent layer that submits. It submits as the agent for the agent's proposals,
and as the recorder for the session's records; in one batch they pass or fail together.
"""

from collections.abc import Sequence
from typing import Final

from placet.actors.policies.contention import lost_refs
from placet.agents.loop.held_plans import about_plan, changes_of, plan_of, request_id_of
from placet.agents.loop.recorder import SystemIntentFactory
from placet.agents.ports import Handle, InboxPort, Outcome, WorldPort
from placet.agents.proposal.codes import Code
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import RULINGS, ApprovalPolicy, Mode, PolicyDecision, covers
from placet.agents.proposal.plan import Action, DecidedAction, Issue, Plan
from placet.agents.proposal.turn_result import ActionOutcome, PlanResult, StateChange, Status
from placet.domains.session import COLLECTIONS
from placet.kernel.plugin import approved
from placet.kernel.plugin.domain import Risk
from placet.schemas.approval import Approval
from placet.schemas.codec import Json, thaw, to_json
from placet.schemas.foreseen import FieldChange
from placet.schemas.intent import Intent
from placet.schemas.refusal import Refusal, RefusalCode
from placet.schemas.verdict import Verdict

_SEQ_CHANGED: Final = "session.seq_changed"
"""Refusal code of `session.guard`: the world is no longer at the seq that it names."""
_CONFLICT_CODES: Final = frozenset({_SEQ_CHANGED, "session.grant_over", "session.grant_unknown"})
"""Refusal codes that mean a concurrent change, of the world or of a grant."""
BY_HAND: Final = Mode("autonomous", 32, frozenset({"read", "low", "medium", "high"}), 1)
"""The mode for a person's own actions: none of them needs an approval."""

_RETRIES: Final = 5
"""Largest number of tries of a preview or a submission that a concurrent change made void."""


class PlanExecutor:
    """The part of a session that submits plans, and requests approvals of held plans.

    Args:
        world: The world that decides the batches.
        session: Name of the session.
        agent: Handle of the proposing agent.
        recorder: Makes the intents of the session.
        inbox: The requests for approval of the world.
        limits: Limits of the agent.
        policy: A rule of the host about whole plans; None for none.
    """

    def __init__(
        self,
        world: WorldPort,
        session: str,
        agent: Handle,
        recorder: SystemIntentFactory,
        inbox: InboxPort,
        *,
        limits: AgentLimits,
        policy: ApprovalPolicy | None,
    ) -> None:
        self._world = world
        self._session = session
        self._agent = agent
        self._recorder = recorder
        self._inbox = inbox
        self._limits = limits
        self._policy = policy

    async def submit(
        self, plan: Plan, mode: Mode, *, seconds_left: float, last: Sequence[Intent] = ()
    ) -> PlanResult:
        """Submit a parsed plan: apply it, hold it for an approval, or return the refusals.

        Args:
            plan: The plan, with the values of its conditions.
            mode: Mode of the session.
            seconds_left: Real seconds to wait for effects.
            last: Intents of the agent that are applied with the plan, after it.
        """
        for _ in range(_RETRIES):
            intents = self._intents(plan.actions, plan.base_seq)
            previewed = await self._world.submit(intents, dry_run=True)
            applied = _with_normalized_payloads(plan, previewed)
            risks = await self._risks(applied)
            ruling, broken = self._rule(applied, risks, mode)
            if broken is not None:
                return _refused(plan, [broken])
            if not previewed.admitted:
                return _refused_batch(plan, previewed.refusals, 0)
            grants = await self._grants_for(plan, applied, risks, mode)
            if ruling.decision == "hold" or None in grants:
                return await self._ask(plan, ruling, previewed)
            ahead = self._guard(plan, previewed)
            for name in filter(None, grants):
                proposer = self._agent.agent_id
                use = self._recorder.intent("session.use", grant=name, proposer=proposer, uses=1)
                ahead.append(use)
            verdict = await self._world.submit(
                [*ahead, *intents, *last], identity=self._agent, shows_changes=True
            )
            if RefusalCode.UNAUTHORIZED in verdict.codes:
                return self._agent_removed(plan)
            if _CONFLICT_CODES.isdisjoint(verdict.codes):
                return await self._result_of(plan, risks, verdict, len(ahead), seconds_left)
        return self._retries_exhausted(plan)

    # requests for approval

    async def _ask(self, plan: Plan, ruling: PolicyDecision, previewed: Verdict) -> PlanResult:
        """Request a person's approval of a plan whose preview was admitted."""
        limits = self._limits
        request_id = request_id_of(self._session, self._agent.agent_id, plan, self._world.seq)
        intents = self._intents(plan.actions, plan.base_seq)
        for number, intent in enumerate(intents):
            intent["req_id"] = f"{request_id}:{number}/ask"
        answer = await self._inbox.ask(
            intents,
            agent=self._agent,
            role=ruling.role,
            seconds=limits.approve_seconds_max if ruling.role else limits.confirm_seconds_max,
            unshown=sorted(COLLECTIONS),
            about=about_plan(self._session, plan, previewed),
            request_id=request_id,
        )
        request = answer.request
        if request is None and RefusalCode.UNAUTHORIZED in answer.codes:
            return self._agent_removed(plan)
        if request is None or request.about.get("session") != self._session:
            return _refused_batch(plan, answer.refusals, answer.ahead)
        code = Code.APPROVAL_REQUIRED if request.role else Code.CONFIRMATION_REQUIRED
        who = f"the approval of {request.role!r}" if request.role else "a person's confirmation"
        reason = f": {ruling.reason}" if ruling.reason else ""
        issue = Issue(code=code, message=f"this needs {who}{reason}", at="/actions")
        results = tuple(
            ActionOutcome(
                id=_name(action, index), kind=action.kind, outcome="held", issues=(issue,)
            )
            for index, action in enumerate(plan.actions)
        )
        return PlanResult("held", (issue,), results, changes_of(request), request.id)

    async def approve(
        self, held: Approval, by: str, role: str, *, seconds_left: float
    ) -> PlanResult:
        """Apply a held plan that a person approved, and return the result.

        If its changes or effects would differ from the shown ones, the request ends as `stale`, and
        a new request is made for the plan.

        Args:
            held: The request as the person was shown it.
            by: Name of the person.
            role: Role of the person.
            seconds_left: Real seconds to wait for effects.
        """
        plan = plan_of(held, self._world.seq)
        answer = await self._inbox.decide(held.id, "approve", by=by, role=role, digest=held.digest)
        if answer.verdict.admitted:
            calls = [(one["kind"], one["payload"]) for one in held.own_intents]
            risks = await self._world.gateway.risks(calls)
            return await self._result_of(plan, risks, answer.verdict, answer.ahead, seconds_left)
        if approved.NOT_FORESEEN in answer.codes:
            intents = self._intents(plan.actions, plan.base_seq)
            previewed = await self._world.submit(intents, dry_run=True)
            return await self._ask(plan, PolicyDecision("hold", held.role), previewed)
        return _refused_batch(plan, answer.refusals, answer.ahead)

    async def amend(
        self, held: Approval, plan: Plan, by: str, role: str, *, seconds_left: float
    ) -> PlanResult:
        """Apply a person's plan in place of a held plan, and return the result.

        The policy of the host judges the person's plan. The request stays open if the plan is
        refused.

        Args:
            held: The request as the person was shown it.
            plan: The actions of the person.
            by: Name of the person.
            role: Role of the person.
            seconds_left: Real seconds to wait for effects.
        """
        intents = self._intents(plan.actions, plan.base_seq)
        previewed = await self._world.submit(intents, dry_run=True)
        applied = _with_normalized_payloads(plan, previewed)
        risks = await self._risks(applied)
        ruling, broken = self._rule(applied, risks, BY_HAND)
        if broken is not None:
            return _refused(plan, [broken])
        if ruling.decision == "hold" and ruling.role not in {"", held.role}:
            return _refused(plan, [_other_role(held.role, ruling.role)])
        answer = await self._inbox.decide(
            held.id, "amend", by=by, role=role, digest=held.digest, intents=intents
        )
        if answer.verdict.admitted:
            return await self._result_of(plan, risks, answer.verdict, answer.ahead, seconds_left)
        return _refused_batch(plan, answer.refusals, answer.ahead)

    # risk, policy and grants

    async def _risks(self, plan: Plan) -> list[Risk]:
        return await self._world.gateway.risks(
            [(action.kind, action.payload) for action in plan.actions]
        )

    def _rule(
        self, plan: Plan, risks: Sequence[Risk], mode: Mode
    ) -> tuple[PolicyDecision, Issue | None]:
        if self._policy is None:
            return PolicyDecision(), None
        try:
            ruling: object = self._policy(plan, risks, mode)
        except Exception as error:  # noqa: BLE001  # a host's rule; its fault refuses the plan
            return _broken_policy(f"raised {type(error).__name__}")
        if not isinstance(ruling, PolicyDecision) or ruling.decision not in RULINGS:
            return _broken_policy("gave no ruling")
        if ruling.decision == "deny":
            message = ruling.reason or "the policy of this world does not allow it"
            return ruling, Issue(code=Code.POLICY_DENIED, message=message, at="/actions")
        return ruling, None

    async def _grants_for(
        self, plan: Plan, applied: Plan, risks: Sequence[Risk], mode: Mode
    ) -> list[str | None]:
        """Return for each action the grant to use; "" if it needs none, None if it has none."""
        if all(risk in mode.applies for risk in risks):
            return [""] * len(plan.actions)
        grants = await self._world.gateway.entities("session.grants")
        left = {
            name: grant["uses"]
            for name, grant in sorted(grants.items())
            if grant["proposer"] in {self._agent.agent_id, "*"}
            and grant["expires"] >= self._world.sim_time
        }
        names: list[str | None] = []
        for action, done, risk in zip(plan.actions, applied.actions, risks, strict=True):
            if risk in mode.applies:
                names.append("")
                continue
            grant = next(
                (
                    name
                    for name, uses in left.items()
                    if uses > 0 and covers(grants[name], action.kind, action.payload, done.payload)
                ),
                None,
            )
            if grant is not None:
                left[grant] -= 1
            names.append(grant)
        return names

    def _intents(self, actions: Sequence[Action], base_seq: int) -> list[Intent]:
        intents = []
        for action in actions:
            intent = self._agent.intent(action.kind)
            intent["payload"] = dict(action.payload)
            intent["context_seq"] = base_seq
            if action.if_unchanged:
                assert isinstance(action, DecidedAction), "a plan with paths has a view"
                intent["expect"] = list(action.expect)
            intents.append(intent)
        return intents

    def _guard(self, plan: Plan, previewed: Verdict) -> list[Intent]:
        """Return the intents that refuse the batch if the world changed since the preview.

        Needed for the risk of a payload, which depends on state that no footprint declares.
        """
        kinds = [self._world.gateway.registry.kinds[action.kind] for action in plan.actions]
        if all(kind.risk_of is None for kind in kinds):
            return []
        seq = min((result.seq for result in previewed.results if result.seq is not None), default=0)
        return [self._recorder.intent("session.guard", seq=seq)]

    def _agent_removed(self, plan: Plan) -> PlanResult:
        message = f"agent {self._agent.agent_id!r} was removed during the turn"
        return _refused(plan, [Issue(code=RefusalCode.AGENT_UNKNOWN, message=message)])

    def _retries_exhausted(self, plan: Plan) -> PlanResult:
        message = f"the world moved {_RETRIES} times while this was decided; propose it again"
        return _refused(plan, [Issue(code=RefusalCode.STALE_CONTEXT, message=message)])

    # results

    async def _result_of(
        self,
        plan: Plan,
        risks: Sequence[Risk],
        verdict: Verdict,
        ahead: int,
        seconds_left: float,
    ) -> PlanResult:
        """Return the result of a verdict.

        The first `ahead` intents of the batch are the recorder's, before those of the plan.
        """
        if not verdict.admitted:
            return _refused_batch(plan, verdict.refusals, ahead)
        results = verdict.results[ahead : ahead + len(plan.actions)]
        outcomes = await self._world.gateway.outcomes(verdict, seconds_max=max(0.0, seconds_left))
        decisions = []
        has_acted = False
        for index, (action, result, risk) in enumerate(
            zip(plan.actions, results, risks, strict=True)
        ):
            own = [outcome for outcome in outcomes if outcome.seq == result.seq]
            outputs = [outcome.output for outcome in own if outcome.succeeded]
            output = outputs[-1] if outputs else thaw(result.output)
            issues = tuple(
                _effect_issue(outcome, index) for outcome in own if not outcome.succeeded
            )
            has_acted = has_acted or (risk != "read" and (bool(outputs) or not issues))
            shown, is_truncated = self._cut(output)
            outcome = "failed" if issues else "read" if risk == "read" else "applied"
            decisions.append(
                ActionOutcome(
                    id=_name(action, index),
                    kind=action.kind,
                    outcome=outcome,  # type: ignore[arg-type]  # one of the three
                    seq=result.seq,
                    output=shown,
                    is_truncated=is_truncated,
                    issues=issues,
                )
            )
        failed = tuple(issue for decision in decisions for issue in decision.issues)
        diff = _changes(verdict.diff)
        status: Status = "failed" if failed else "applied"
        return PlanResult(status, failed, tuple(decisions), diff, has_acted=has_acted)

    def _cut(self, output: Json) -> tuple[Json, bool]:
        if output is None:
            return None, False
        text = to_json(output)
        if len(text) <= self._limits.output_bytes_max:
            return output, False
        return text[: self._limits.output_bytes_max].decode("utf-8", "ignore"), True


def _with_normalized_payloads(plan: Plan, previewed: Verdict, ahead: int = 0) -> Plan:
    """Return a plan with the normalized payloads of its admitted preview, else the plan itself.

    Risk and policy judge the normalized payload, so that an alias of a field or an omitted default
    does not change their decision.

    Args:
        plan: The plan.
        previewed: Its preview.
        ahead: Number of the recorder's intents before those of the plan.
    """
    if not previewed.admitted:
        return plan
    actions = tuple(
        action.model_copy(update={"payload": thaw(result.normalized)})
        for action, result in zip(plan.actions, previewed.results[ahead:], strict=True)
    )
    return plan.model_copy(update={"actions": actions})


def _refused(plan: Plan, issues: Sequence[Issue]) -> PlanResult:
    """Return the outcome of a refused plan: faulty actions are rejected, the others skipped."""
    at_fault = {issue.at.split("/")[2] for issue in issues if issue.at.startswith("/actions/")}
    results = tuple(
        ActionOutcome(
            id=_name(action, index),
            kind=action.kind,
            outcome="rejected" if str(index) in at_fault or not at_fault else "skipped",
            issues=tuple(
                issue for issue in issues if f"{issue.at}/".startswith(f"/actions/{index}/")
            ),
        )
        for index, action in enumerate(plan.actions)
    )
    return PlanResult("rejected", tuple(issues), results)


def _refused_batch(plan: Plan, refusals: Sequence[Refusal], ahead: int) -> PlanResult:
    """Return the outcome of a plan whose batch, with the recorder's intents ahead, was refused."""
    refused = _refused(
        plan, [_shift_pointer(Issue.of_refusal(refusal), ahead) for refusal in refusals]
    )
    names = [name for refusal in refusals for name in lost_refs(refusal)]
    return refused._replace(contested=tuple(dict.fromkeys(names)))


def _shift_pointer(issue: Issue, ahead: int) -> Issue:
    """Return an issue whose pointer counts actions of the plan, not intents of the batch."""
    parts = issue.at.split("/")
    if len(parts) < 3 or parts[1] != "actions" or not parts[2].isdecimal():  # noqa: PLR2004
        return issue
    index = int(parts[2]) - ahead
    at = "/".join(["", "actions", str(index), *parts[3:]]) if index >= 0 else "/actions"
    return issue.model_copy(update={"at": at})


def _effect_issue(outcome: Outcome, index: int) -> Issue:
    at = f"/actions/{index}"
    if outcome.succeeded is not None:
        return Issue(code=Code.EFFECT_FAILED, message=str(outcome.output)[:2_000], at=at)
    if outcome.is_in_doubt:
        message = "the effect was started and its outcome is unknown; it is not tried again"
        return Issue(code=Code.EFFECT_IN_DOUBT, message=message, at=at)
    message = "the effect is not finished yet; its outcome will be in the log"
    return Issue(code=Code.EFFECT_TIMEOUT, message=message, at=at)


def _broken_policy(fault: str) -> tuple[PolicyDecision, Issue]:
    message = f"the policy {fault}, so nothing was allowed"
    return PolicyDecision("deny"), Issue(code=Code.POLICY_ERROR, message=message, at="/actions")


def _other_role(held: str, needed: str) -> Issue:
    message = (
        f"these actions need the role {needed!r}, and the request needs {held!r}; deny the "
        "request, and propose the actions as a new plan"
    )
    return Issue(code=Code.POLICY_DENIED, message=message, at="/actions")


def _name(action: Action, index: int) -> str:
    return action.id or str(index)


def _changes(changes: Sequence[FieldChange]) -> tuple[StateChange, ...]:
    """Return the changes that a plan makes, without those of sessions and requests."""
    own = {*COLLECTIONS, *approved.COLLECTIONS}
    return tuple(StateChange.of(change) for change in changes if change.collection not in own)
