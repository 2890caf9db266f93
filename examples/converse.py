"""Three agents talk, each with a model that takes its time over every word.

    ./dev python examples/converse.py

Carol begins a long answer to Alice's question. Bob, who is quicker, has it first: what Carol was
saying is no longer to the point. Her model is stopped in the middle of the sentence, she is told
why, and she says something else. The model is a fake that streams words with a delay; put a real
one in its place, it is stopped in the same way: by canceling what waits for its next token.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from placet import AgentHandle, Orchestrator, StaleContextError, View
from placet.actors.policies.agent import AgentActor
from placet.actors.policies.staleness_scope import StalenessOptions
from placet.domains.world import World

SECONDS_PER_WORD = 0.04
Said = Mapping[str, str]

# What the fake model says to whom, once it has heard so many of the others.
LINES: dict[tuple[str, int], str] = {
    ("alice", 0): "Where shall we meet?",
    ("bob", 1): "At the mill. I have the key.",
    ("carol", 1): "We could meet at the old bridge by the river, it is near to all of us.",
    ("carol", 2): "Then the mill it is.",
}


async def stream(agent: str, heard: int) -> AsyncIterator[str]:
    """Stream an answer, word by word."""
    for word in LINES.get((agent, heard), "").split():
        await asyncio.sleep(SECONDS_PER_WORD)
        yield word


class Speaker:
    """Says what its model says, and thinks again when somebody else has spoken meanwhile."""

    interruptible = StalenessOptions(
        relevant=lambda change: change.entity.startswith("world.speech/"), debounce=0.005
    )

    def __init__(self, handle: AgentHandle, tell: Callable[[str], None]) -> None:
        self._handle = handle
        self._tell = tell
        self._words: list[str] = []

    async def propose(self, view: View) -> list[Any] | None:
        name, self._words = self._handle.agent_id, []
        speech = view.state.get("world.speech", {})
        if name in speech:
            return None  # each speaks once
        async for word in stream(name, len(speech)):
            self._words.append(word)
        text = " ".join(self._words)
        return [self._handle.intent("Speak", text=text)] if text else []

    def interrupted(self, error: StaleContextError) -> None:
        for change in error.changed:
            why = f"at seq {change['seq']} {change['by']} said {change['now']['said']['text']!r}"
            lost = f"{len(self._words)} words thrown away: {' '.join(self._words)} ..."
            self._tell(f"  {self._handle.agent_id} is stopped: {why}; {lost}")


async def converse(tell: Callable[[str], None]) -> None:
    async with Orchestrator(World()) as world:
        for name in ("alice", "bob", "carol"):
            handle = await world.register_agent(name)
            world.run_agent(AgentActor(handle, Speaker(handle, tell)))
        spoken = 0
        async for event in world.events():
            for intent in event.data.get("intents", ()):
                tell(f"{intent['agent_id']}: {intent['payload']['text']}")
                spoken += 1
            if spoken == 3:
                break
        counts = {name: world.agent_status(name).statistics for name in ("bob", "carol")}
        tell(f"interrupted: {', '.join(f'{n} {c.interrupted}' for n, c in counts.items() if c)}")


if __name__ == "__main__":
    asyncio.run(converse(print))
