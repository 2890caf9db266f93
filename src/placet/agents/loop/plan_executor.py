"""Turns plans into batches: risk, mode, policy, grants, approvals, and the outcome.

The only place in the agent layer that submits. It submits as the agent for the agent's proposals,
and as the recorder for the session's records; in one batch they pass or fail together.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from placet.actors.policies.contention import lost_refs
from placet.agents.loop.recorder import SystemIntentFactory
from placet.agents.ports import Handle, Outcome, WorldPort
from placet.agents.proposal.codes import Code
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import RULINGS, ApprovalPolicy, Mode, PolicyDecision, covers
from placet.agents.proposal.plan import Action, DecidedAction, Issue, Plan
from placet.agents.proposal.turn_result import ActionOutcome, PlanResult, StateChange, Status
from placet.domains.session import COLLECTIONS, PLAN_CHANGED
from placet.kernel.plugin.domain import Risk
from placet.schemas.codec import Json, canonical, thaw, to_json
from placet.schemas.foreseen import FieldChange
from placet.schemas.intent import Intent
from placet.schemas.refusal import RefusalCode
from placet.schemas.verdict import Verdict

_SEQ_CHANGED: Final = "session.seq_changed"
"""Refusal code of `session.guard`: the world is no longer at the seq that it names."""
_NOT_FORESEEN: Final = f"session.{PLAN_CHANGED}"
"""Refusal code of an approved plan that would not change what was shown."""
_CONFLICT_CODES: Final = frozenset({_SEQ_CHANGED, "session.grant_over", "session.grant_unknown"})
"""Refusal codes that mean a concurrent change, of the world or of a grant."""
_RETRIES: Final = 5
"""Largest number of tries of a preview or a submission that a concurrent change made void."""
_SHOWN_MAX: Final = 64
"""Approval requests whose changes are kept to be shown: as many as a session keeps in the state."""


class Resolution(NamedTuple):
    """An approval request, and the person who decides about it.

    Attributes:
        approval_id: Id of the request.
        approval: The request, as in the state.
        by: Name of the person.
        role: Role of the person, as the host knows it.
    """

    approval_id: str
    approval: Mapping[str, Json]
    by: str
    role: str


class PlanExecutor:
    """The part of a session that submits plans, holds them for approval, and resolves approvals.

    Args:
        world: The world that decides the batches.
        session: Name of the session.
        agent: Handle of the proposing agent.
        recorder: Records approvals in the log.
        limits: Limits of the agent.
        policy: A rule of the host about whole plans; None for none.

    Attributes:
        shown: Id of an approval request of this process -> the changes that a person is shown.
    """

    def __init__(
        self,
        world: WorldPort,
        session: str,
        agent: Handle,
        recorder: SystemIntentFactory,
        limits: AgentLimits,
        policy: ApprovalPolicy | None,
    ) -> None:
        self._world = world
        self._session = session
        self._agent = agent
        self._recorder = recorder
        self._limits = limits
        self._policy = policy
        self.shown: dict[str, tuple[StateChange, ...]] = {}

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
                return _refused_batch(plan, previewed, 0)
            grants = await self._grants_for(plan, applied, risks, mode)
            if ruling.decision == "hold" or None in grants:
                return await self._request_approval(plan, ruling)
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

    # approval requests

    async def resolve(self, person: Resolution, *, seconds_left: float) -> PlanResult:
        """Apply a held plan as a person approved it, and return the result.

        If its changes or effects would differ from the shown ones, create a new approval
        request instead. The rule of `session.resolve` compares them in the batch that applies them.

        Args:
            person: The approval request, and the person who approves it.
            seconds_left: Real seconds to wait for effects.
        """
        approval = person.approval
        actions = tuple(DecidedAction(**action) for action in approval["actions"])
        plan = Plan.model_construct(goal=approval["goal"], base_seq=0, actions=actions)
        for _ in range(_RETRIES):
            now = self._world.seq
            plan = Plan.model_construct(goal=approval["goal"], base_seq=now, actions=actions)
            resolution = self._resolution(person, "approve")
            batch = [resolution, *self._intents(actions, now)]
            verdict = await self._world.submit(batch, dry_run=True)
            if verdict.admitted and "undecided" in approval:
                risks = await self._risks(_with_normalized_payloads(plan, verdict, 1))
                verdict = await self._world.submit(batch, shows_changes=True)
                if verdict.admitted:
                    return await self._result_of(plan, risks, verdict, 1, seconds_left)
            if verdict.admitted or _NOT_FORESEEN in verdict.codes:
                ruling = PolicyDecision("hold", approval["role"])
                stale = self._resolution(person, "stale")
                return await self._request_approval(plan, ruling, first=[stale])
            if RefusalCode.STALE_CONTEXT not in verdict.codes:
                return _refused_batch(plan, verdict, 1)
        return self._retries_exhausted(plan)

    async def decide(
        self, person: Resolution, decision: str, *, dry_run: bool = False
    ) -> list[Issue]:
        """Record that a person denied an approval request, or replaced its plan.

        Return the faults; an empty list if it was recorded. A dry run checks whether the person
        may decide so, also to approve, and records nothing.
        """
        resolution = self._resolution(person, decision)
        verdict = await self._world.submit([resolution], dry_run=dry_run)
        issues = [Issue.of_refusal(refusal) for refusal in verdict.refusals]
        return [issue for issue in issues if issue.code != _NOT_FORESEEN]  # the plan is not in it

    async def _request_approval(
        self,
        plan: Plan,
        ruling: PolicyDecision,
        first: Sequence[Intent] = (),
    ) -> PlanResult:
        limits = self._limits
        actions = [action.to_row() for action in plan.actions]
        needs = "approve" if ruling.role else "confirm"
        seconds = limits.approve_seconds_max if ruling.role else limits.confirm_seconds_max
        content = canonical([actions, plan.base_seq, self._agent.agent_id, self._session])
        digest = blake2b(content, digest_size=16).hexdigest()
        approval_id = f"{self._session}-{digest[:12]}-{self._world.seq}"
        # With the draws that the plan will have when its request is approved.
        pin = self._recorder.intent("session.pin_draws", approval_id=approval_id)
        intents = self._intents(plan.actions, plan.base_seq)
        previewed = await self._world.submit([pin, *intents], dry_run=True)
        if not previewed.admitted:
            return _refused_batch(plan, previewed, 1)
        foreseen = previewed.foreseen
        intent = self._recorder.intent(
            "session.request_approval",
            approval_id=approval_id,
            session=self._session,
            proposer=self._agent.agent_id,
            goal=plan.goal,
            base_seq=plan.base_seq,
            actions=actions,
            needs=needs,
            role=ruling.role,
            foreseen=foreseen.digest,
            undecided=foreseen.undecided,
            digest=digest,
            seconds=seconds,
        )
        verdict = await self._world.submit([*first, intent], identity=self._agent)
        if RefusalCode.UNAUTHORIZED in verdict.codes:
            return self._agent_removed(plan)
        if not verdict.admitted:  # these intents are the recorder's
            return _refused_batch(plan, verdict, len(first) + 1)
        code = Code.APPROVAL_REQUIRED if ruling.role else Code.CONFIRMATION_REQUIRED
        who = f"the approval of {ruling.role!r}" if ruling.role else "a person's confirmation"
        reason = f": {ruling.reason}" if ruling.reason else ""
        issue = Issue(code=code, message=f"this needs {who}{reason}", at="/actions")
        results = tuple(
            ActionOutcome(
                id=_name(action, index), kind=action.kind, outcome="held", issues=(issue,)
            )
            for index, action in enumerate(plan.actions)
        )
        changes = _changes(foreseen.changes)
        self.shown[approval_id] = changes
        if len(self.shown) > _SHOWN_MAX:
            del self.shown[next(iter(self.shown))]  # the oldest, which is resolved or expired
        return PlanResult("held", (issue,), results, changes, approval_id)

    def _resolution(self, person: Resolution, decision: str) -> Intent:
        return self._recorder.intent(
            "session.resolve",
            approval_id=person.approval_id,
            decision=decision,
            by=person.by,
            role=person.role,
            digest=person.approval["digest"],
        )

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
            return _refused_batch(plan, verdict, ahead)
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


def _refused_batch(plan: Plan, verdict: Verdict, ahead: int) -> PlanResult:
    """Return the outcome of a plan whose batch, with the recorder's intents ahead, was refused."""
    refused = _refused(
        plan, [_shift_pointer(Issue.of_refusal(refusal), ahead) for refusal in verdict.refusals]
    )
    names = [name for refusal in verdict.refusals for name in lost_refs(refusal)]
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


def _name(action: Action, index: int) -> str:
    return action.id or str(index)


def _changes(changes: Sequence[FieldChange]) -> tuple[StateChange, ...]:
    """Return the changes that a plan makes, without those of the session's own records."""
    return tuple(
        StateChange.of(change) for change in changes if change.collection not in COLLECTIONS
    )
