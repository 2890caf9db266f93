"""`Kernel.intent` builds intents: sequence req_ids, the present context, and a check on request."""

import pytest

from placet.domains.world import Interact, Move, Speak, World
from placet.kernel import Kernel
from placet.schemas.errors import IntentError

WORLD = World(objects={"lamp": {"position": [0, 0]}})


@pytest.fixture
def kernel():
    kernel = Kernel(WORLD)
    for agent in ("ann", "bob"):
        kernel.register_agent(agent, position=[0, 0])
    return kernel


def test_fields_besides_kind_and_payload_are_filled_in(kernel):
    first = kernel.intent("Move", agent="ann", to=[1, 0])
    assert first == {
        "kind": "Move",
        "payload": {"to": [1, 0]},
        "agent_id": "ann",
        "req_id": "k0:0",
        "context_seq": kernel.seq,
        "priority": 10,
        "schema_version": "1.0.0",
    }
    assert kernel.intent("Move", agent="bob", to=[1, 0])["req_id"] == "k0:0"
    assert kernel.intent("Move", agent="ann", to=[2, 0])["req_id"] == "k0:1"


def test_payload_is_the_type_of_the_kind_or_keywords(kernel):
    batch = [
        kernel.intent("Move", Move(to=[1, 0]), agent="ann"),
        kernel.intent("Speak", Speak(text="hello"), agent="ann", channel="public"),
        kernel.intent("Interact", Interact(target_id="lamp"), agent="ann"),
        kernel.intent("Custom", {"action": "wave", "agent": "bob", "check": 1}, agent="ann"),
    ]
    verdict = kernel.decide(batch)
    assert verdict.admitted
    assert verdict.results[3].normalized == {"action": "wave", "agent": "bob", "check": 1}


def test_req_ids_of_a_continued_or_restored_kernel_are_new():
    log: list[bytes] = []
    used: set[str] = set()
    for _ in range(3):
        world = Kernel(WORLD, history=[*log], sink=log.append)
        world.register_agent("ann")
        for x in range(3):
            intent = world.intent("Move", agent="ann", to=[x, 0])
            assert intent["req_id"] not in used
            used.add(intent["req_id"])
            verdict = world.decide([intent])
            assert (verdict.admitted, verdict.replayed) == (True, False)
        copy = Kernel(WORLD)
        copy.restore(world.snapshot())
        assert copy.intent("Move", agent="ann", to=[0, 0])["req_id"] not in used


@pytest.mark.parametrize(
    ("kind", "agent", "payload", "problem"),
    [
        ("Mvoe", "ann", {"to": [1, 0]}, "did you mean Move"),
        ("Move", "ann", {"to": [1]}, "payload of Move/to"),
        ("Move", "ann", {"to": ["a", 0]}, "payload of Move/to/0"),
        ("Move", "ann", {}, "payload of Move/to: field required"),
        ("Move", "ann", {"to": [1, 0], "by": 3}, "by"),
        ("Move", "anne", {"to": [1, 0]}, "no agent 'anne'; did you mean 'ann'"),
        ("Move", "zoe", {"to": [1, 0]}, "no agent 'zoe'; register it first"),
    ],
)
def test_mistake_is_raised_where_it_is_made_if_asked_for(kernel, kind, agent, payload, problem):
    kernel.intent(kind, payload, agent=agent)
    batches = kernel.snapshot()
    with pytest.raises(IntentError, match=problem):
        kernel.intent(kind, payload, agent=agent, check=True)
    assert kernel.snapshot() == batches
    assert kernel.intent("Move", agent="ann", check=True, to=[1, 0])["payload"] == {"to": [1, 0]}
