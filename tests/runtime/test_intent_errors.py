"""What is no list of intents is an `IntentError` too, at both faces."""

import pytest

from placet import IntentError, Orchestrator


@pytest.mark.parametrize("given", [None, 5, "x", {}, [], [3]], ids=repr)
async def test_what_is_no_batch_raises_an_intent_error(given):
    async with Orchestrator() as orchestrator:
        alice = await orchestrator.register_agent("alice")
        for face in (orchestrator, alice):
            with pytest.raises(IntentError) as raised:
                await face.submit_intents(given)
            assert isinstance(raised.value, ValueError)
            assert raised.value.refusals
