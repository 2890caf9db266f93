"""A malformed batch raises `IntentError` from the orchestrator and from a handle."""

import pytest

from placet import IntentError, Orchestrator


@pytest.mark.parametrize("given", [None, 5, "x", {}, [], [3]], ids=repr)
async def test_malformed_batch_raises_an_intent_error(given):
    async with Orchestrator() as orchestrator:
        alice = await orchestrator.register_agent("alice")
        for face in (orchestrator, alice):
            with pytest.raises(IntentError) as raised:
                await face.submit_intents(given)
            assert isinstance(raised.value, ValueError)
            assert raised.value.refusals
