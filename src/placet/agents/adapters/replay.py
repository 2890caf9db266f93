"""A session again, by what the log says that was answered: no model is called."""

from collections.abc import AsyncIterator, Iterable, Iterator

from placet.agents.adapter import Context, PlannerUnavailable, Raw
from placet.agents.model_calls import raw_of
from placet.domains.session import PROPOSE
from placet.schemas.event import Event


class Replay:
    """Gives recorded answers in their order.

    Args:
        answers: What was answered.
    """

    is_priced = True

    def __init__(self, answers: Iterable[Raw]) -> None:
        self._answers: Iterator[Raw] = iter(answers)

    @classmethod
    async def of(cls, events: AsyncIterator[Event], until_seq: int, session: str) -> "Replay":
        """Read the answers of a session out of a world's events.

        Args:
            events: `world.events(since=0)`.
            until_seq: Where to stop reading: the world's present seq.
            session: Its name.
        """
        asked: dict[tuple[int, int], bool] = {}
        answers = []
        async for event in events:
            if event.type == "batch":
                for k, (seq, kind, payload, _) in enumerate(event.data["effects"]):
                    if kind == PROPOSE:
                        asked[seq, k] = payload["session"] == session
            elif event.type == "settled":
                key = (event.data["effect_seq"], event.data["k"])
                output = event.data["output"]
                if asked.get(key) and event.data["succeeded"] and "calls" in output:
                    answers.append(raw_of(output))
            if event.seq >= until_seq:
                break
        return cls(answers)

    async def propose(self, context: Context) -> Raw:
        """Give the next recorded answer.

        Raises:
            PlannerUnavailable: There is no more.
        """
        answer = next(self._answers, None)
        if answer is None:
            raise PlannerUnavailable("the recording is over")
        return answer
