"""What a debugger or a notebook shows of an object: short, with its state, without an address."""

import pytest

from placet import Orchestrator, OrchestratorConfig
from placet.actors.policies.agent import AgentActor
from placet.domains.world import World
from placet.kernel import Kernel
from placet.schemas.explanation import Explanation
from placet.schemas.verdict import Verdict
from tests.kernel.builders import add, kernel_of

pytestmark = pytest.mark.anyio


def test_a_verdict_counts_equal_codes():
    kernel = kernel_of()
    verdict = kernel.decide([add("a", 1, context_seq=99), add("b", 1, context_seq=99)])
    assert repr(verdict) == f"<Verdict {verdict.batch_id} refused: context_from_future x2>"
    dry = Verdict("b1", True, 5, 5, 0.0, dry_run=True, scheduled=True)
    assert repr(dry) == "<Verdict b1 admitted at seq 5, dry_run, scheduled>"


def test_a_domain_shows_its_version_and_the_number_of_its_kinds():
    assert repr(World()).startswith("<World, version ")
    assert repr(World()).endswith(" kinds>")
    assert "at 0x" not in repr(object.__new__(World)), "also before its attributes are set"


async def test_an_agent_actor_a_scope_and_a_view_show_their_state():
    hidden = World(observation={"distance": 1})
    async with Orchestrator(hidden, OrchestratorConfig()) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        await world.register_agent("bob", position=[9, 9])
        actor = AgentActor(ann, lambda view: None)
        assert repr(actor) == "<AgentActor 'ann': 0 batches proposed, 0 admitted, 0 refused>"
        async with ann.fresh_context() as scope:
            assert repr(scope) == f"<StalenessScope of 'ann' at seq {world.seq}: not stale>"
        view = await ann.refresh_view()
        assert repr(view.state) == "<state as ann sees it: world.agents: 1>"
        assert repr(view.state["world.agents"]) == "<world.agents as ann sees it: 1 entities>"
        whole = await world.query(lambda kernel: repr(kernel.state["world.agents"]))
        assert whole == "<2 entities: ann, bob>"


async def test_an_explanation_prints_as_lines():
    async with Orchestrator(World(max_step=1.0)) as world:
        ann = await world.register_agent("ann", position=[0, 0])
        refused = ann.intent("Move", to=[5, 5])
        await ann.submit([refused])
        explained = await world.explain("ann", refused["req_id"])
        headline, *lines = str(explained).splitlines()
        start = f"ann {refused['req_id']}: refused by domain: world.step_too_long (record "
        assert headline.startswith(start)
        assert repr(explained) == f"<Explanation of {headline}>"
        assert "  structure: passed" in lines
        assert any(line.startswith("    world.step_too_long: ") for line in lines)
    assert str(Explanation(answer="unknown", agent_id="ann", req_id="r")) == "ann r: unknown"


def test_a_kernel_shows_where_it_is():
    assert repr(Kernel(World())).startswith("<Kernel 'world' of world: seq ")
