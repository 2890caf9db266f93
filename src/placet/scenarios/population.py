"""The acting agents of a run: the members of its scenario, and agents born under a cohort.

Registered agents are looked up in the ledger before each tick, so that a run and its resumption
find the same agents. A removed agent is skipped. An agent that a rule or a program registered gets
the policy of its cohort: the cohort that it was registered under, or `sheep` for `sheep_12`. An
agent of no cohort is not asked. Nor is an agent whose own entities, made by `on_register`, a rule
has deleted: it is dead, though registered.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from placet.kernel.kernel import Kernel
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ledger import Ledger
from placet.scenarios.policies import PolicyFactory
from placet.scenarios.scenario import Scenario
from placet.scenarios.scenario_agent import ScenarioAgent
from placet.scenarios.values import Member, ScenarioError
from placet.schemas.intent import Intent
from placet.schemas.name_suggestions import nearest

_MEMBER: Final = re.compile(r"(.+)_[1-9][0-9]*")


class Population:
    """The agents of one run, in the order of the scenario, and then by name.

    Args:
        scenario: The scenario of the run.
        policies: By cohort, the factory of its agents' policies.
        check: As of `ScenarioAgent`.
        members: The agents of the scenario; None reads them from it.

    Attributes:
        agents: The agents that are registered, with their policies, as of the latest `refresh`.
    """

    def __init__(
        self,
        scenario: Scenario,
        policies: Mapping[str, PolicyFactory],
        check: Callable[[Intent], None] | None = None,
        members: Iterable[Member] | None = None,
    ) -> None:
        self._scenario = scenario
        self._policies = policies
        self._check = check
        members = scenario.members() if members is None else members
        self._members = {member.agent_id: member for member in members}
        self._rank = {agent_id: place for place, agent_id in enumerate(self._members)}
        self._by_id: dict[str, tuple[int, ScenarioAgent]] = {}
        self._latest: tuple[Ledger, int, int] | None = None
        self._own: dict[str, frozenset[str]] | None = None
        self._by_cohort: dict[str, set[str]] = {}
        self.agents: list[ScenarioAgent] = []

    def unregistered(self, ledger: Ledger) -> list[Member]:
        """Return the members of the scenario that are to be registered.

        Removed ones are not; nor is any that is missing once the ledger has forgotten some names.
        """
        agents, gone = ledger.agents, ledger.gone
        return [
            member
            for name, member in self._members.items()
            if name in agents or not (name in gone or ledger.generation_floor)
        ]

    def names(self, ledger: Ledger) -> list[str]:
        """Return the names of the registered agents that belong to a cohort, in their order."""
        found = [name for name, agent in ledger.agents.items() if self._cohort_of(agent)]
        return sorted(found, key=self._order)

    def refresh(self, kernel: Kernel) -> list[Member]:
        """Look up the registered agents; return the new ones that are not of the scenario.

        Their permissions are still to be set to those of their cohort. O(1) if no agent was
        registered or removed since the latest call, else O(agents).

        Raises:
            ScenarioError: A cohort is unknown, or a policy cannot be made.
        """
        if self.is_current(kernel):
            return []
        ledger = kernel.ledger
        if self._own is None:
            self._own = {name: self._own_collections(kernel, name) for name in self._policies}
        known, self._by_id, born = self._by_id, {}, []
        for name in self.names(ledger):
            agent = ledger.agents[name]
            entry = known.get(name)
            if entry is None or entry[0] != agent.generation:
                member = self._member(agent)
                made = ScenarioAgent(
                    member, self._scenario, self._policies[member.cohort], self._check
                )
                entry = (agent.generation, made)
                if name not in self._members:
                    born.append(member)
            self._by_id[name] = entry
        self._latest = ledger, ledger.removals, len(ledger.agents)
        self.agents = [agent for _, agent in self._by_id.values()]
        self._by_cohort = {cohort: set[str]() for cohort in self._policies}
        for made in self.agents:
            self._by_cohort[made.cohort].add(made.agent_id)
        return born

    def is_current(self, kernel: Kernel) -> bool:
        """Return whether no agent was registered or removed since the latest `refresh`. O(1)."""
        ledger, latest = kernel.ledger, self._latest
        now = ledger.removals, len(ledger.agents)
        return latest is not None and latest[0] is ledger and latest[1:] == now

    def acting(self, kernel: Kernel) -> list[ScenarioAgent]:
        """Return the agents to ask in a tick, without the dead. O(agents)."""
        dead = self._dead(kernel)
        if not dead:
            return self.agents
        return [agent for agent in self.agents if agent.agent_id not in dead]

    def _dead(self, kernel: Kernel) -> set[str]:
        """Return the names of the registered agents of which no own entity is left. O(agents)."""
        tree, own, dead = kernel.tree.collections, self._own or {}, set[str]()
        for cohort, ids in self._by_cohort.items():
            missing = ids if own[cohort] else set[str]()
            # By sets: a test of each agent would cost a tick 5 % of its instructions.
            for name in own[cohort] & tree.keys():
                missing = missing.difference(tree[name].entities)
            dead |= missing
        return dead

    def is_alive(self, kernel: Kernel, agent: ScenarioAgent) -> bool:
        """Return whether an agent is still of the run, as of the latest `refresh`, and alive."""
        _, latest = self._by_id.get(agent.agent_id, (0, None))
        own = (self._own or {}).get(agent.cohort)
        return latest is agent and (
            not own or any(kernel.tree.exists(name, agent.agent_id) for name in own)
        )

    def _order(self, agent_id: str) -> tuple[int, str]:
        return self._rank.get(agent_id, len(self._rank)), agent_id

    def _cohort_of(self, agent: Agent) -> str | None:
        """Return the cohort of an agent; None if it belongs to none.

        Raises:
            ScenarioError: It was registered under a cohort that the run does not have.
        """
        cohorts, cohort = self._scenario.agents, agent.cohort
        if cohort is None:
            member = self._members.get(agent.agent_id)
            match = _MEMBER.fullmatch(agent.agent_id)
            name = member.cohort if member is not None else match and match[1]
            return name if name in cohorts else None
        if cohort not in cohorts:
            near = nearest(cohort, cohorts, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(cohorts)}"
            problem = f"{agent.agent_id} was registered under the cohort {cohort!r}; {hint}"
            raise ScenarioError(self._scenario.name, "agents", problem)
        return cohort

    def _member(self, agent: Agent) -> Member:
        name = self._cohort_of(agent)
        assert name is not None, "only agents of a cohort act"
        known = self._members.get(agent.agent_id)
        if known is not None and known.cohort == name:
            return known
        cohort = self._scenario.agents[name]
        return cohort.member(name, agent.agent_id, cohort.attributes)

    def _own_collections(self, kernel: Kernel, cohort: str) -> frozenset[str]:
        """Return the collections in which the agents of a cohort have an entity of their name."""
        first = next((m for m in self._members.values() if m.cohort == cohort), None)
        given = self._scenario.agents[cohort].attributes if first is None else first.attributes
        return kernel.own_collections(f"{cohort}_0", given)
