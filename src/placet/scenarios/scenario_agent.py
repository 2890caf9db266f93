"""An agent of a run: its policy, the intents that it builds, and the errors of its policy."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Final

from placet.scenarios.policies import (
    CohortMember,
    CohortPolicy,
    IntentFactory,
    PolicyFactory,
    ScriptedPolicy,
    find_policy,
    place_of,
)
from placet.scenarios.scenario import Scenario
from placet.scenarios.ticks import REQ_IDS, req_id_of
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.codec import Json
from placet.schemas.errors import describe_error
from placet.schemas.intent import REQUIRED_FIELDS, Intent, joined_payload, new_intent
from placet.schemas.view import View

_SHOWN_CHARACTERS: Final = 60


class PolicyError(ScenarioError):
    """A policy raised, or returned something other than a list of intents.

    Attributes:
        agent_id: Agent of the policy.
    """

    def __init__(self, source: str, key: str, problem: str, agent_id: str) -> None:
        super().__init__(source, key, problem)
        self.agent_id = agent_id


class ScenarioAgent:
    """An agent of a scenario: its name, and the policy that proposes its batches.

    Args:
        member: The agent.
        scenario: The scenario.
        make: Makes the agent's policy.
        check: Called with each intent that the policy builds; raises for a mistake in it.

    Raises:
        ScenarioError: The policy could not be made.
    """

    __slots__ = (
        *("_check", "_context_seq", "_next", "_policy", "_refuses_no_intents", "_source"),
        *("agent_id", "cohort", "member"),
    )

    def __init__(
        self,
        member: Member,
        scenario: Scenario,
        make: PolicyFactory,
        check: Callable[[Intent], None] | None = None,
    ) -> None:
        self.agent_id = member.agent_id
        self.cohort = member.cohort
        self.member = member
        self._source = scenario.name
        self._next = self._context_seq = 0
        self._check = check
        self._refuses_no_intents = scenario.on_rule_error == "raise"
        intent: IntentFactory = self._intent
        try:
            self._policy: ScriptedPolicy = make(member, scenario, intent)
        except ScenarioError:
            raise
        except Exception as error:
            raise self._fault(
                f"raised {describe_error(error)} as it was made for", error
            ) from error

    def _intent(
        self, kind: str, mapping: Mapping[str, Json] | None = None, /, **payload: Json
    ) -> Intent:
        """Build an intent; its req_id depends on the tick, not on the process."""
        number = self._next
        self._next = number + 1
        content = payload if mapping is None else joined_payload(kind, mapping, payload)
        intent = new_intent(kind, content, self.agent_id, req_id_of(number), self._context_seq)
        if self._check is not None:
            self._check(intent)
        return intent

    @property
    def cohort_policy(self) -> CohortPolicy | None:
        """The policy that decides for all agents of the cohort at once; None if there is none."""
        policy = self._policy
        return policy.cohort_policy if type(policy) is CohortMember else None

    def propose(
        self, view: View, tick: int, call: Callable[[View], object] | None = None
    ) -> list[Intent]:
        """Return the policy's batch for a view; empty where it proposes nothing.

        Args:
            view: The agent's view.
            tick: Number of completed ticks.
            call: Returns the policy's answer; None calls the policy.

        Raises:
            PolicyError: The policy raised, or returned something other than intents.
        """
        self._context_seq = view.view_seq
        self._next = tick * REQ_IDS
        try:
            answer = self._policy.propose(view) if call is None else call(view)
            # A batch is mostly a list of intents that are complete.
            if type(answer) is list and len(answer) == 1:
                intent = answer[0]
                if type(intent) is dict and len(intent) >= REQUIRED_FIELDS:
                    return answer
            problem, batch = self._read(answer)
        except Exception as error:
            # The policy may be user code. Stop the run: without this agent it would be another one.
            problem = f"raised {describe_error(error)} in tick {tick + 1} ({view.sim_time:g} s) for"
            raise self._fault(problem, error) from error
        if problem:
            raise self._fault(f"returned {problem} in tick {tick + 1} ({view.sim_time:g} s) for")
        return batch

    def unsendable(self, problem: str, tick: int) -> PolicyError:
        """Return the error of a batch that cannot be sent to the process of the kernel."""
        return self._fault(
            f"returned intents that cannot be pickled ({problem}) in tick {tick + 1} for"
        )

    def owns(self, batch: Sequence[object]) -> bool:
        """Return whether all of a batch is intents of this agent."""
        own = self.agent_id
        return all(
            isinstance(intent, Mapping) and intent.get("agent_id") == own for intent in batch
        )

    def _read(self, answer: object) -> tuple[str, list[Intent]]:
        """Return the problem of a policy's answer, or no problem and the batch.

        An element that is no intent is a mistake of the program. With `on_rule_error = "refuse"` it
        stays in the batch: the gate refuses it, and says why.
        """
        if isawaitable(answer):
            close = getattr(answer, "close", None)
            if close is not None:
                close()  # else Python warns that it was never awaited
            return "an awaitable (nothing awaits here; return a list of intents)", []
        if isinstance(answer, Mapping):
            answer = [answer]
        if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
            return f"{short_text(answer)} (return a list of intents, [] for none)", []
        batch = list(answer)
        if self._refuses_no_intents and (problem := _no_intent_of(batch)):
            return problem, []
        for place, intent in enumerate(batch):
            if isinstance(intent, Mapping) and "kind" in intent and len(intent) < REQUIRED_FIELDS:
                batch[place] = {**self._intent(intent["kind"]), **intent}
        return "", batch

    def _fault(self, problem: str, error: Exception | None = None) -> PolicyError:
        where = place_of(getattr(self, "_policy", None), error)
        return PolicyError(
            self._source,
            f"agents.{self.member.cohort}.policy",
            f"{problem} {self.agent_id}{where}",
            self.agent_id,
        )


def _no_intent_of(batch: Sequence[object]) -> str:
    """Return the problem of a batch with an element that is no intent; empty if there is none."""
    for place, intent in enumerate(batch):
        if isinstance(intent, Mapping):
            if "kind" in intent:
                continue
            return f"a mapping without 'kind' at place {place} of its batch ({short_text(intent)})"
        if isinstance(intent, list | tuple):
            return (
                f"a {type(intent).__name__} at place {place} of its batch, {short_text(intent)} "
                "(an answer is one batch, admitted or refused as a whole: return all intents in "
                "one list, and another batch in the next tick)"
            )
        return f"{short_text(intent)} at place {place} of its batch, which is no intent"
    return ""


def make_policy(member: Member, scenario: Scenario, intent: IntentFactory) -> ScriptedPolicy:
    """Create the policy of one agent, which builds its intents with `intent`."""
    return find_policy(scenario.agents[member.cohort].policy)(member, scenario, intent)


def propose_all(
    agents: Sequence[ScenarioAgent], views: Iterable[View], tick: int
) -> list[tuple[ScenarioAgent, list[Intent]]]:
    """Call the policy of every agent; return the agents that propose something, with their batches.

    Args:
        agents: The agents.
        views: A view for each agent.
        tick: Number of completed ticks.

    Raises:
        PolicyError: Policies failed: the error of the first, with the number of the others. All
            are called, so one mistake in many agents is reported once.
    """
    proposals: list[tuple[ScenarioAgent, list[Intent]]] = []
    failures: list[PolicyError] = []
    for agent, batch in zip(agents, batches_of(agents, views, tick), strict=True):
        if isinstance(batch, PolicyError):
            failures.append(batch)
        elif batch:
            proposals.append((agent, batch))
    if failures:
        raise first_of(failures)
    return proposals


def batches_of(
    agents: Sequence[ScenarioAgent], views: Iterable[View], tick: int
) -> Iterator[list[Intent] | PolicyError]:
    """Call the policy of every agent; yield its batch, or its error.

    A policy of a whole cohort is called once for all of its agents, before the others.
    """
    calls: dict[str, Callable[[View], object]] = {}
    if any(agent.cohort_policy is not None for agent in agents):
        views = list(views)
        calls = _calls_of_cohorts(agents, views)
    for agent, view in zip(agents, views, strict=True):
        try:
            yield agent.propose(view, tick, calls.get(agent.cohort))
        except PolicyError as error:
            yield error


def _calls_of_cohorts(
    agents: Sequence[ScenarioAgent], views: Sequence[View]
) -> dict[str, Callable[[View], object]]:
    """Call the policies of cohorts; return by cohort a function of a view that returns its batch.

    The function raises the error of the policy.
    """
    shares: dict[str, tuple[CohortPolicy, list[View]]] = {}
    for agent, view in zip(agents, views, strict=True):
        if (policy := agent.cohort_policy) is not None:
            shares.setdefault(agent.cohort, (policy, []))[1].append(view)
    return {cohort: _call_of_cohort(*share) for cohort, share in shares.items()}


def _call_of_cohort(policy: CohortPolicy, views: list[View]) -> Callable[[View], object]:
    try:
        answers = list(policy.propose_all(views))
        if len(answers) != len(views):
            problem = f"propose_all returned {len(answers)} batches for {len(views)} views"
            raise ValueError(f"{problem}; expected a batch for each, [] for none")
    except Exception as error:  # noqa: BLE001  # each agent reports it
        return partial(_fail, error)
    by_agent = dict(zip((view.agent_id for view in views), answers, strict=True))
    return lambda view: by_agent[view.agent_id]


def _fail(error: Exception, _view: View) -> object:
    raise error


def first_of(failures: Sequence[PolicyError]) -> PolicyError:
    """Return the first failure of a tick, whose text has the number of the others."""
    first, others = failures[0], len(failures) - 1
    if others:
        first.args = (f"{first}; in this tick the policies of {others} more agents failed too",)
    return first


def short_text(value: object) -> str:
    """Return the text of a value that a policy returned, cut for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
