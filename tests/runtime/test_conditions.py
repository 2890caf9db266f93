"""Conditions from the handle of an agent: `if_unchanged`."""

import pytest

from placet import Orchestrator
from placet.domains.world import World

LAMP = {"lamp": {"position": [1, 0]}}


def world() -> Orchestrator:
    return Orchestrator(World(objects=LAMP, observation={"distance": 5}))


async def test_an_intent_with_if_unchanged_is_admitted_while_its_values_are_as_they_were_seen():
    async with world() as opened:
        ann = await opened.register_agent("ann", position=[0, 0])
        bob = await opened.register_agent("bob", position=[0, 0])
        await ann.refresh_view()
        unchanged = ["world.objects/lamp/used_by", ["world.agents", "bob", "position"]]
        act = {"target_id": "lamp", "interaction_type": "use"}
        intent = ann.intent("Interact", act, if_unchanged=unchanged)
        assert intent["expect"] == [
            {"path": ["world.objects", "lamp", "used_by"], "op": "absent"},
            {"path": ["world.agents", "bob", "position"], "op": "==", "value": [0.0, 0.0, 0.0]},
        ]
        assert (await ann.submit(intent)).admitted
        await ann.refresh_view()
        later = ann.intent("Interact", act, if_unchanged=unchanged)
        assert (await bob.submit(bob.intent("Move", to=[0, 1]))).admitted
        (refusal,) = (await ann.submit(later)).refusals
        assert refusal.code == "condition_failed"
        assert refusal.details["found"] == [0.0, 1.0, 0.0]
        # What ann does not see any more is to her as what never was.
        assert (await bob.submit(bob.intent("Move", to=[0, 50]))).admitted
        await ann.refresh_view()
        gone = ann.intent("Interact", act, if_unchanged=["world.agents/bob"])
        assert gone["expect"] == [{"path": ["world.agents", "bob"], "op": "absent"}]
        assert (await ann.submit(gone)).admitted


async def test_if_unchanged_needs_a_view_and_paths():
    async with world() as opened:
        ann = await opened.register_agent("ann")
        with pytest.raises(ValueError, match=r"a view of 'ann': call refresh_view\(\) first"):
            ann.intent("Move", to=[1, 1], if_unchanged=["world.objects/lamp"])
        await ann.refresh_view()
        with pytest.raises(ValueError, match="a path must be collection/entity"):
            ann.intent("Move", to=[1, 1], if_unchanged=["lamp"])
        async with ann.fresh_context() as context:
            intent = ann.intent("Move", to=[1, 1], if_unchanged=["world.objects/lamp"])
            assert intent["context_seq"] == context.view.view_seq
        assert (await ann.submit(intent)).admitted
        named = ann.intent("Custom", {"action": "wave", "if_unchanged": 3})
        assert "expect" not in named
