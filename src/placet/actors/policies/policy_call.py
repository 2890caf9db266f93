"""Asks a policy what it proposes, and bounds what the answer may take.

What is awaited is stopped at the deadline. A plain function cannot be stopped: in the event loop's
own turn it holds up everybody for as long as it runs, and is found too slow afterwards; `threaded`
gives it a thread of its own, in which it holds up nobody but itself.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

import anyio

from placet.actors.policies.thread import PolicyThread
from placet.schemas.codec import Json

S = TypeVar("S")

Proposal: TypeAlias = Iterable[Mapping[str, Json]] | Mapping[str, Json]
"""Intents that pass or fail together; one intent is a batch of its own."""

Answer: TypeAlias = Proposal | Awaitable[Proposal | None] | None


class PolicyCall(Generic[S]):
    """One agent's way to ask its policy.

    Args:
        think: The policy, as a function of what the agent sees.
        name: For people.
        seconds_max: How long one answer may take.
        intents_max: How many intents are taken from an iterator; a list goes to the gate as it is.
        threaded: Call it in a thread.
    """

    def __init__(
        self,
        think: Callable[[S], Answer],
        name: str,
        *,
        seconds_max: float,
        intents_max: int,
        threaded: bool,
    ) -> None:
        self._think = think
        self._name = name
        self._seconds_max = seconds_max
        self._intents_max = intents_max
        self._thread = PolicyThread(name) if threaded else None

    async def ask(self, seen: S) -> Sequence[Mapping[str, Json]] | None:
        """Ask once.

        Raises:
            TimeoutError: It took longer than it may.
            ValueError: An iterator gave more intents than it may, or has no end.
            Exception: Whatever the policy raises.
        """
        began = anyio.current_time()
        with anyio.fail_after(self._seconds_max):
            if self._thread is None:
                answer = self._answer(seen)
            else:
                answer = await self._thread.call(lambda: self._answer(seen))
            if isawaitable(answer):
                answer = self._gather(await answer)
        took_s = anyio.current_time() - began
        if took_s > self._seconds_max:
            raise TimeoutError(
                f"{self._name} held up the event loop for {took_s:.3g} s, at most "
                f"{self._seconds_max:g} s is allowed; write it with async def, or set threaded=True"
            )
        return answer

    def _answer(self, seen: S) -> Sequence[Mapping[str, Json]] | Awaitable[Proposal | None] | None:
        answer = self._think(seen)
        return answer if isawaitable(answer) else self._gather(answer)

    def _gather(self, proposal: Proposal | None) -> Sequence[Mapping[str, Json]] | None:
        """Make a batch of an answer; an iterator is run here, in the policy's own time."""
        if proposal is None or isinstance(proposal, list | tuple):
            return proposal
        if isinstance(proposal, Mapping):
            return [proposal]
        batch = list(islice(proposal, self._intents_max + 1))
        if len(batch) > self._intents_max:
            raise ValueError(
                f"{self._name} proposed more than {self._intents_max} intents at once; "
                "give less at a time, or raise intents_max and the world's batch_intents_max"
            )
        return batch
