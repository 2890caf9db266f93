"""One turn: look, ask, parse, submit, and mend within bounds.

    context -> propose -> parse -> submit -> done, held, or another try

The next step after an answer is a pure function of it and of the counters (`after_invalid`,
`after_refused`), so that it can be read as a table. Budgets are checked before each request with an
estimate, and after it with the actual use; an adapter that knows its prices also checks the most
that a request may cost (`PlannerOverBudget`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import anyio

from placet.agents.loop.expected_values import with_expected
from placet.agents.loop.losses import is_loss, with_old_values
from placet.agents.loop.model_calls import BudgetExceeded
from placet.agents.loop.plan_executor import PlanExecutor
from placet.agents.loop.turn_lease import TurnLease
from placet.agents.proposal.adapter import (
    Adapter,
    PlannerInput,
    PlannerOutput,
    PlannerOverBudget,
    PlannerTimedOut,
    PlannerUnavailable,
    Repair,
    Usage,
)
from placet.agents.proposal.budget_messages import spent_message, tokens_message
from placet.agents.proposal.codes import TABLE, Code
from placet.agents.proposal.context_text import ContextTooLarge, tokens_of
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.modes import Mode
from placet.agents.proposal.plan import Issue, Plan, Stop
from placet.agents.proposal.plan_parser import parse, parse_calls
from placet.agents.proposal.turn_result import Attempt, OutcomeName, PlanResult, Status, TurnEnd
from placet.schemas.codec import Json, canonical
from placet.schemas.errors import PermissionDeniedError
from placet.schemas.refusal import RefusalCode

Look = Callable[["TurnUsage"], Awaitable[PlannerInput]]
"""Builds the context of the next request."""
Ask = Callable[[int, PlannerInput], Awaitable[PlannerOutput]]
"""Has the proposer asked for the n-th time."""


@dataclass(slots=True)
class TurnUsage:
    """The part of its budget that a turn has used so far.

    Attributes:
        requests: Number of answers of the adapter.
        repairs: Number of answers that could not be read as a plan.
        attempts: Number of plans that were submitted and refused, without the first loss.
        losses: Number of plans that were refused because others changed the world.
        usage: Requests, tokens and cost of the answers.
        repairing: The faulty answers with their faults.
        seen: Digests of faulty answers, to detect a repetition.
        seconds_left: Remaining seconds of the turn.
    """

    requests: int = 0
    repairs: int = 0
    attempts: int = 0
    losses: int = 0
    usage: Usage = field(default_factory=Usage)
    repairing: list[Repair] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    seconds_left: float = 0.0


class PlanningLoop:
    """The loop of one turn: asks an adapter until an answer leads to an outcome, within budgets.

    Args:
        adapter: The adapter that proposes.
        plan_executor: Submits plans.
        mode: Mode of the session.
        limits: Limits of the turn.
        look: Builds the context of each request.
        ask: Calls the adapter, and returns its answer.
        lease: The lease that the turn takes after losses.
        clock: Returns real seconds.

    Attributes:
        counters: Budget used so far.
        attempts: The answers so far, with their outcomes.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        plan_executor: PlanExecutor,
        mode: Mode,
        limits: AgentLimits,
        look: Look,
        ask: Ask,
        lease: TurnLease,
        clock: Callable[[], float],
    ) -> None:
        self._adapter = adapter
        self._plan_executor = plan_executor
        self._mode = mode
        self._limits = limits
        self._look = look
        self._ask = ask
        self._lease = lease
        self._clock = clock
        self._thought_s = 0.0
        self._ends_at = 0.0
        self.counters = TurnUsage()
        self.attempts: list[Attempt] = []
        self._asking = anyio.CancelScope()
        self._stopped = anyio.Event()

    def stop(self) -> None:
        """Make no further requests, and cancel the current one.

        A plan that is being submitted is decided.
        """
        self._stopped.set()
        self._asking.cancel()

    async def run(self) -> TurnEnd:
        """Ask the adapter until the turn has an outcome, and return the end of the turn."""
        self._ends_at = self._clock() + self._limits.seconds_max
        try:
            return await self._run()
        finally:
            await self._lease.end()

    async def _run(self) -> TurnEnd:
        counters = self.counters
        while not self._stopped.is_set():
            counters.seconds_left = self._ends_at - self._clock()
            try:
                context = await self._look(counters)
            except ContextTooLarge as error:
                return TurnEnd("failed", Code.CONTEXT_TOO_LARGE, str(error))
            except PermissionDeniedError as error:  # the agent was removed, and sees nothing
                return TurnEnd("refused", RefusalCode.AGENT_UNKNOWN, str(error))
            is_priced = getattr(self._adapter, "is_priced", True)
            tokens = tokens_of(context.text) + tokens_of(context.message)
            end = over_budget(counters, self._limits, tokens, is_priced)
            if end is not None:
                return end
            if self._stopped.is_set():  # while the context was built
                break
            counters.requests += 1
            began = self._clock()
            raw = await self._answer(counters.requests, context)
            self._thought_s = self._clock() - began
            if isinstance(raw, PlannerOutput):
                counters.usage = counters.usage.plus(raw.usage)
            if raw is None or self._stopped.is_set():  # an answer that comes with the stop is lost
                break
            if isinstance(raw, TurnEnd):
                return raw
            counters.seconds_left = self._ends_at - self._clock()
            end = await self._take(raw, context)
            if end is not None:
                return end
        return _end("refused", Code.OPERATOR_STOPPED)

    async def _answer(self, number: int, context: PlannerInput) -> PlannerOutput | TurnEnd | None:
        """Request an answer of the proposer; None if the turn was stopped."""
        try:
            with anyio.CancelScope() as self._asking:
                return await self._ask(number, context)
        except PlannerUnavailable as error:
            self.counters.usage = self.counters.usage.plus(error.usage)
            if isinstance(error, PlannerTimedOut):
                return _end("failed", Code.DEADLINE_EXCEEDED)
            if isinstance(error, PlannerOverBudget):
                return TurnEnd("failed", error.code, str(error))
            return TurnEnd("failed", Code.PLANNER_UNAVAILABLE, str(error))
        except BudgetExceeded as error:
            return TurnEnd("failed", Code.BUDGET_EXCEEDED, str(error))
        return None

    async def _take(self, raw: PlannerOutput, context: PlannerInput) -> TurnEnd | None:
        """Take in one answer; None asks again."""
        if raw.refused:
            self._note(raw, "stop")
            return TurnEnd("refused", Code.PLANNER_REFUSED, raw.text)
        if not raw.calls and raw.plan is None and raw.unread is None and raw.text.strip():
            self._note(raw, "said")
            return TurnEnd("said", Code.SAID, raw.text)
        plan, issues = decided(*read(raw, context, self._mode, self._limits), context)
        if plan is None:
            self._note(raw, "invalid", issues=tuple(issues))
            self.counters.repairs += 1
            # Without the id of a call: a provider gives the same call another id each time.
            calls = [[str(call.name), str(call.arguments)] for call in raw.calls]
            is_new = self._is_new([calls, str(raw.plan)], issues)
            return self._again_unless(
                after_invalid(issues, is_new, self.counters, self._limits), raw, issues
            )
        if plan.stop is not None:
            self._note(raw, "stop")
            return end_of_stop(plan.stop)
        result = await self._submit(plan)
        result = result._replace(issues=with_old_values(result.issues, context.state))
        kinds = tuple(action.kind for action in plan.actions)
        self._note(raw, result.status, kinds, result.issues)
        if result.status in {"applied", "held"} or result.has_acted:
            return end_of(result)
        is_new = self._count_refusal(plan, result.issues)
        end = after_refused(result.issues, is_new, self.counters, self._limits, self._mode)
        if end is not None:
            end = end_of(result) if result.status == "failed" else end._replace(plan_result=result)
        elif is_loss(result.issues):
            await self._take_lease(result, self.counters.losses)
        return self._again_unless(end, raw, result.issues)

    async def _submit(self, plan: Plan) -> PlanResult:
        """Submit a plan, and release the lease with it.

        A plan that is refused as `leased` need not change: after the agent gets its own lease, the
        plan is submitted again at its old seq, without a request to the proposer.
        """
        result = await self._submit_once(plan)
        is_early = result.issues and all(one.code == RefusalCode.LEASED for one in result.issues)
        if is_early and await self._take_lease(result, self.counters.losses + 1):
            result = await self._submit_once(plan)
        return result

    async def _submit_once(self, plan: Plan) -> PlanResult:
        return await self._plan_executor.submit(
            plan,
            self._mode,
            seconds_left=self.counters.seconds_left,
            last=self._lease.release(),
        )

    async def _take_lease(self, lost: PlanResult, losses: int) -> bool:
        """Wait for a lease of the entities of a loss, until the turn is stopped or over."""
        left = self._ends_at - self._clock()
        if self._stopped.is_set():
            return False
        with anyio.CancelScope(deadline=anyio.current_time() + left) as self._asking:
            return await self._lease.take(lost.contested, losses, self._thought_s)
        return False

    def _count_refusal(self, plan: Plan, issues: Sequence[Issue]) -> bool:
        """Count a refused plan, and return whether it is progress.

        A refusal because of changes by other agents (a loss) counts as progress: the same actions
        may be admitted now. The first loss of a turn uses no attempt, so the proposer is asked
        once more in every mode.
        """
        counters = self.counters
        if is_loss(issues):
            counters.losses += 1
            counters.attempts += counters.losses > 1
            return True
        counters.attempts += 1
        # Without the seq of the plan: the same actions refused again are no progress.
        return self._is_new([action.model_dump() for action in plan.actions], issues)

    def _note(
        self,
        raw: PlannerOutput,
        status: Status,
        actions: tuple[str, ...] = (),
        issues: tuple[Issue, ...] = (),
    ) -> None:
        self.attempts.append(
            Attempt(
                n=len(self.attempts) + 1,
                status=status,
                actions=actions,
                issues=issues,
                adapter=type(self._adapter).__name__,
                model=raw.model,
            )
        )

    def _again_unless(
        self, end: TurnEnd | None, raw: PlannerOutput, issues: Sequence[Issue]
    ) -> TurnEnd | None:
        if end is None:
            self.counters.repairing.append(Repair(raw, tuple(issues)))
        return end

    def _is_new(self, answer: Json, issues: Sequence[Issue]) -> bool:
        """Return whether this has not failed in the same way before, and remember it."""
        failed = [[issue.code, issue.at] for issue in issues]
        digest = blake2b(canonical([answer, failed]), digest_size=16).digest()
        if digest in self.counters.seen:
            return False
        self.counters.seen.add(digest)
        return True


def end_of(result: PlanResult) -> TurnEnd:
    """Return the end of a turn whose plan has a result."""
    if result.status == "applied":
        return _end("applied", Code.COMPLETED, result)
    issue = result.issues[0]
    outcome: dict[str, OutcomeName] = {"held": "held", "failed": "failed"}
    return TurnEnd(outcome.get(result.status, "refused"), issue.code, issue.message, result)


def end_of_stop(stop: Stop) -> TurnEnd:
    """Return the end of a turn in which the adapter proposed nothing, with its reason."""
    outcome: OutcomeName = "clarify" if stop.code == "clarification_needed" else "refused"
    return TurnEnd(outcome, stop.code, stop.message, choices=stop.choices)


def read(
    raw: PlannerOutput, context: PlannerInput, mode: Mode, limits: AgentLimits
) -> tuple[Plan | None, list[Issue]]:
    """Parse an adapter's answer, tool calls or a plan.

    Returns:
        The plan and no issues; or None and at least one issue.
    """
    if raw.unread is not None:
        return None, [Issue(code=raw.unread[0], message=raw.unread[1])]
    if raw.calls:
        return parse_calls(
            raw.calls,
            goal=context.message,
            base_seq=context.base_seq,
            domain=context.catalogue,
            limits=limits,
            actions_max=mode.actions_max,
        )
    if raw.plan is None:
        message = "the answer was empty: propose something, ask back, or say something in words"
        return None, [Issue(code=Code.ACTIONS_MISSING, message=message)]
    plan, issues = parse(
        raw.plan, domain=context.catalogue, limits=limits, actions_max=mode.actions_max
    )
    if plan is not None and plan.base_seq > context.base_seq:
        message = f"you were shown seq {context.base_seq}, so base_seq cannot be {plan.base_seq}"
        code = RefusalCode.CONTEXT_FROM_FUTURE
        return None, [Issue(code=code, message=message, at="/base_seq")]
    return plan, issues


def decided(
    plan: Plan | None, issues: list[Issue], context: PlannerInput
) -> tuple[Plan | None, list[Issue]]:
    """Return a parsed plan with the values that it expects, those of its context's view.

    Returns:
        The plan and no issues; or None and at least one issue.
    """
    if plan is None:
        return None, issues
    declared = context.catalogue.registry.collections
    plan, issues = with_expected(plan, context.state, context.base_seq, declared)
    return (None, issues) if issues else (plan, issues)


def after_invalid(
    issues: Sequence[Issue], is_new: bool, counters: TurnUsage, limits: AgentLimits
) -> TurnEnd | None:
    """Return the end of the turn after an invalid answer; None to try again."""
    return _after(issues, is_new, counters.repairs > limits.repairs_max, Code.REPAIR_EXHAUSTED)


def after_refused(
    issues: Sequence[Issue], is_new: bool, counters: TurnUsage, limits: AgentLimits, mode: Mode
) -> TurnEnd | None:
    """Return the end of the turn after a refused plan; None to try again."""
    most = min(limits.attempts_max, mode.attempts_max)
    return _after(issues, is_new, counters.attempts >= most, Code.ATTEMPTS_EXHAUSTED)


def _after(
    issues: Sequence[Issue], is_new: bool, is_exhausted: bool, exhausted: Code
) -> TurnEnd | None:
    final = next((issue for issue in issues if not issue.is_repairable), None)
    if final is not None:
        return TurnEnd("refused", final.code, final.message)
    if not is_new:
        return TurnEnd("failed", Code.REPAIR_NO_PROGRESS, issues[0].message)
    if is_exhausted:
        return TurnEnd("failed", exhausted, issues[0].message)
    return None


def over_budget(
    counters: TurnUsage, limits: AgentLimits, tokens: int, is_priced: bool
) -> TurnEnd | None:
    """Return the name of the limit that the next request would exceed; None if none.

    Args:
        counters: Budget used so far.
        limits: The limits.
        tokens: Estimated tokens of the next request, without its answer.
        is_priced: Whether the price of a request is known.
    """
    if counters.seconds_left <= 0:
        return _end("failed", Code.DEADLINE_EXCEEDED)
    used = counters.usage
    left = limits.tokens_max - used.input_tokens - used.output_tokens
    if tokens > left:
        return TurnEnd("failed", Code.TOKENS_EXHAUSTED, tokens_message(tokens, 0, left))
    if limits.cost_usd_max is None:
        return None
    if used.cost_usd is None or not is_priced:
        is_denied = limits.on_unknown_price == "deny"
        return _end("failed", Code.COST_UNKNOWN) if is_denied else None
    if 0 < used.cost_usd >= limits.cost_usd_max:
        return TurnEnd("failed", Code.COST_EXHAUSTED, spent_message(used.cost_usd))
    return None


def _end(outcome: OutcomeName, code: Code, result: PlanResult | None = None) -> TurnEnd:
    return TurnEnd(outcome, code, TABLE[code].text, result)
