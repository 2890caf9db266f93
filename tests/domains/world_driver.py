"""A kernel with a world, and short methods that submit intents."""

from itertools import count

from placet.domains.world import AGENTS, OBJECTS, World
from placet.kernel import Kernel, KernelConfig


class WorldDriver:
    """One world with agents, where every intent is based on the latest seq unless it says not."""

    def __init__(
        self, world=None, *, agents=("ann", "bob", "eve"), config=None, **attributes_strategy
    ):
        self.kernel = Kernel(world or World(), config or KernelConfig())
        for agent_id in agents:
            self.kernel.register_agent(agent_id, **attributes_strategy.get(agent_id, {}))
        self._numbers = count(1)

    def intent(self, agent_id, kind, *, context_seq=None, priority=10, **payload):
        """Make an intent."""
        return {
            "kind": kind,
            "payload": payload,
            "agent_id": agent_id,
            "req_id": f"r:{next(self._numbers)}",
            "context_seq": self.kernel.seq if context_seq is None else context_seq,
            "priority": priority,
            "schema_version": "1.0.0",
        }

    def propose(self, agent_id, kind, *, now=None, context_seq=None, **payload):
        """Decide a batch of one intent."""
        intent = self.intent(agent_id, kind, context_seq=context_seq, **payload)
        return self.kernel.decide([intent], now)

    def interact(self, agent_id, interaction_type, target_id, *, now=None, **data):
        """Decide a batch of one Interact."""
        more = {"data": data} if data else {}
        return self.propose(
            agent_id,
            "Interact",
            now=now,
            target_id=target_id,
            interaction_type=interaction_type,
            **more,
        )

    def agent(self, agent_id):
        """Return the fields of an agent."""
        return self.kernel.state[AGENTS][agent_id]

    def thing(self, object_id):
        """Return the fields of an object."""
        return self.kernel.state[OBJECTS][object_id]

    def assert_holders_agree(self):
        """Check that held objects have a holder and no position, and that inventories agree."""
        agents = self.kernel.state.get(AGENTS, {})
        held = {item: name for name, agent in agents.items() for item in agent["inventory"]}
        assert len(held) == sum(len(agent["inventory"]) for agent in agents.values())
        for object_id, thing in self.kernel.state.get(OBJECTS, {}).items():
            assert thing["holder"] == held.pop(object_id, None)
            assert (thing["position"] is None) == (thing["holder"] is not None)
        assert held == {}
