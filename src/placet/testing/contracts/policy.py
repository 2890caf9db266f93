"""The laws of a policy of scenarios: reproducible, well-formed, and without effect on its view."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

from placet.kernel.plugin.domain import Domain
from placet.plugins.domains import default_domain
from placet.scenarios.policies import AnyPolicy, IntentFactory, ScriptedPolicy, factory_of
from placet.scenarios.scenario import Scenario
from placet.scenarios.simulation import Simulation
from placet.scenarios.values import Member
from placet.schemas.codec import Json, to_json
from placet.schemas.intent import Intent, joined_payload, new_intent
from placet.schemas.refusal import STAGE_OF, Stage
from placet.schemas.view import View

_Seen: TypeAlias = dict[str, dict[str, dict[str, Json]]]


class PolicyContract:
    """Laws of a policy, which run it for several agents. Subclass it and define `policy`.

    Attributes:
        agents_count: Number of agents with the policy.
        cohort: Further keys of their cohort, as in a scenario file: `area`, `options`, ...
        ticks: Number of ticks of a run.
    """

    agents_count = 5
    cohort: Mapping[str, Any] = {"area": [[0, 0], [9, 9]]}
    ticks = 20

    def policy(self) -> AnyPolicy:
        """Return the policy: a function, a class, or the name of one."""
        raise NotImplementedError

    def domain(self) -> Domain:
        """Return a new domain whose kinds the policy proposes; by default, the domain `world`."""
        return default_domain()

    def simulation(self, policy: AnyPolicy, seed: int = 1) -> Simulation:
        """Return a new run of agents with a policy. Override it for agents of other policies."""
        agents = {"sample": {"count": self.agents_count, "policy": policy, **self.cohort}}
        return Simulation(self.domain(), agents, seed=seed, check=True)

    def test_runs_of_one_seed_have_one_digest(self) -> None:
        """Run the policy twice: a policy draws random values by name, from the seed alone."""
        digests = set()
        for _ in range(2):
            with self.simulation(self.policy()) as run:
                run.run(ticks=self.ticks)
                digests.add(run.digest())
        assert len(digests) == 1, "the policy depends on something besides its views and the seed"

    def test_no_batch_is_malformed_or_of_another_agent(self) -> None:
        """Refuse kinds that the domain lacks, payloads of another form, and foreign agents."""
        with self.simulation(self.policy()) as run:
            for _ in range(self.ticks):
                for agent_id, verdict in run.step().items():
                    malformed = [code for code in verdict.codes if _is_malformed(code)]
                    assert not malformed, f"{agent_id} proposed a batch that was refused: {verdict}"

    def test_proposals_do_not_depend_on_the_order_of_agents(self) -> None:
        """Propose on the same views in two orders: agents share no memory."""
        calls = self._calls()
        proposals = [_proposals(order, self.policy()) for order in (calls, calls[::-1])]
        assert proposals[0] == proposals[1], "agents of the policy share a memory"

    def test_views_are_only_read(self) -> None:
        """Compare each view before and after a proposal: a view shares the values of the world."""
        for call in self._calls():
            before = deepcopy(call.seen)
            _proposals([call], self.policy())
            assert call.seen == before, f"the policy changed the view of {call.member.agent_id}"

    def _calls(self) -> "list[_Call]":
        """Return each agent of the first tick with a copy of its view."""
        calls: list[_Call] = []
        factory = factory_of(self.policy())

        def observed(member: Member, scenario: Scenario, intent: IntentFactory) -> ScriptedPolicy:
            return _Observed(factory(member, scenario, intent), member, scenario, calls)

        with self.simulation(observed) as run:
            run.step()
        assert calls, "the policy of no agent was called"
        return calls


class _Call:
    """An agent with the view on which its policy was called."""

    def __init__(self, member: Member, scenario: Scenario, view: View) -> None:
        self.member, self.scenario = member, scenario
        self.seen: _Seen = {
            name: {entity: deepcopy(dict(fields)) for entity, fields in entities.items()}
            for name, entities in view.state.items()
        }
        self.view = View(view.view_seq, view.sim_time, view.agent_id, self.seen, draws=view.draws)

    def intent(
        self, kind: str, mapping: Mapping[str, Json] | None = None, /, **payload: Json
    ) -> Intent:
        content = payload if mapping is None else joined_payload(kind, mapping, payload)
        return new_intent(kind, content, self.member.agent_id, "contract", self.view.view_seq)


class _Observed:
    """A policy that notes the views of another one, and proposes its batches."""

    def __init__(
        self, policy: ScriptedPolicy, member: Member, scenario: Scenario, calls: list[_Call]
    ) -> None:
        self._policy, self._member, self._scenario, self._calls = policy, member, scenario, calls

    def propose(self, view: View) -> Iterable[Intent]:
        self._calls.append(_Call(self._member, self._scenario, view))
        return self._policy.propose(view)


def _proposals(order: Sequence[_Call], policy: AnyPolicy) -> dict[str, bytes]:
    """Return the batch of each agent, made and called in an order."""
    factory = factory_of(policy)
    made = [(call, factory(call.member, call.scenario, call.intent)) for call in order]
    return {
        call.member.agent_id: to_json(_as_list(policy.propose(call.view))) for call, policy in made
    }


def _as_list(batch: Iterable[Intent] | Intent) -> list[Json]:
    return [batch] if isinstance(batch, Mapping) else list(batch)


def _is_malformed(code: str) -> bool:
    return code == "agent_not_yours" or STAGE_OF.get(code) is Stage.STRUCTURE
