"""The visibility of intents: which intents of others a caller may read, at every interface.

To read an intent is to read its kind, payload and ids, and the gate's answer. There are three ways:

1. The caller speaks for the intent's agent. If the agent's name was registered before, its owner
   reads only the intents that it submitted itself: earlier ones may be of another owner's agent.
2. The intent is of a domain that shares its intents with the caller (`Domain.shares_intents`).
3. The intent is admitted and its kind is a `broadcast`: it is delivered once, when it is applied,
   to the observers that `Domain.should_deliver` selects. No agent reads it later, because
   visibility in the past is not known.

The operator reads all. Of other intents an agent learns only the changes of the state that it may
see.
"""

from collections.abc import Iterable, Mapping

from placet.kernel.ledger.ledger import Ledger
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.identity import OPERATOR


def speaks_for(ledger: Ledger, submitter: str, agent_id: str) -> bool:
    """Return whether a submitter may act for an agent, by the rule of the gate's agent stage.

    That is the operator, the agent itself, and its owner.
    """
    if submitter in {OPERATOR, agent_id}:
        return True
    agent = ledger.agents.get(agent_id)
    return agent is not None and agent.owner == submitter


class IntentReader:
    """Decides which intents a caller may read, at one state of a world.

    Takes O(agents) to create for an owner of agents, if a domain shares its intents.

    Args:
        registry: The domains of the world.
        ledger: The agents of the world.
        state: The state at which the domains decide.
        submitter: The caller: the operator, or the name whose agents the caller may act for.
        agent_id: The agent as which the operator reads; None for everything. Other callers
            read what any of their agents may read, whatever the value.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        state: State,
        submitter: str,
        agent_id: str | None = None,
    ) -> None:
        self.reads_all = submitter == OPERATOR and agent_id is None
        self._agents = ledger.agents
        self._reader = agent_id if submitter == OPERATOR and agent_id is not None else submitter
        self._domain_of = registry.domain_of
        self._readable_domains = {
            domain.name
            for domain in registry.with_shared_intents
            if any(domain.shares_intents(state, name) for name in self._names(ledger))
        }

    def may_read(self, intent: Mapping[str, Json], submitter: str) -> bool:
        """Return whether the caller may read an intent.

        Args:
            intent: The intent, as the log has it.
            submitter: Submitter of the intent's batch.
        """
        if self.reads_all or self._is_own(intent["agent_id"], submitter):
            return True
        domain = self._domain_of.get(intent["kind"])  # None: the log had another domain before
        return domain is not None and domain.name in self._readable_domains

    def _is_own(self, agent_id: str, submitter: str) -> bool:
        if agent_id == self._reader:
            return True
        agent = self._agents.get(agent_id)
        if agent is None or agent.owner != self._reader:
            return False
        return agent.generation == 1 or submitter == self._reader

    def _names(self, ledger: Ledger) -> Iterable[str]:
        yield self._reader
        if self._reader in ledger.owned:
            yield from (n for n, agent in ledger.agents.items() if agent.owner == self._reader)
