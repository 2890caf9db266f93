"""ReplayAdapter: repeats a session from the answers recorded in its log; no model is called."""

from collections.abc import AsyncIterator, Iterable, Iterator

from placet.agents.loop.model_calls import raw_of
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput, PlannerUnavailable
from placet.domains.session import PROPOSE
from placet.schemas.codec import Json
from placet.schemas.event import Event


class ReplayAdapter:
    """An adapter that returns recorded answers in their order, without a model.

    Args:
        answers: The recorded answers, in order; a recorded failure is raised again.
    """

    is_priced = True

    def __init__(self, answers: Iterable[PlannerOutput | PlannerUnavailable]) -> None:
        self._answers: Iterator[PlannerOutput | PlannerUnavailable] = iter(answers)

    @classmethod
    async def of(
        cls, events: AsyncIterator[Event], until_seq: int, session: str
    ) -> "ReplayAdapter":
        """Build an adapter from the answers of a session that a world's log has recorded.

        Args:
            events: `world.events(since=0)`.
            until_seq: Last seq to read, such as the world's present seq.
            session: Name of the session.
        """
        # In the order in which they were asked: one that was stopped may end after the next.
        answers: dict[tuple[int, int], PlannerOutput | PlannerUnavailable] = {}
        async for event in events:
            if event.type == "batch":
                for k, (seq, kind, payload, _) in enumerate(event.data["effects"]):
                    if kind == PROPOSE and payload["session"] == session:
                        answers[seq, k] = PlannerUnavailable("there was no answer")
            elif event.type == "settled":
                key = (event.data["effect_seq"], event.data["effect_index"])
                if key in answers:
                    answers[key] = _answered(event.data["output"], event.data["succeeded"])
            if event.seq >= until_seq:
                break
        return cls(answers.values())

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the next recorded answer.

        Raises:
            PlannerUnavailable: There are no more answers, or the record is of a failure.
        """
        answer = next(self._answers, None)
        if answer is None:
            raise PlannerUnavailable("the recording is over")
        if isinstance(answer, PlannerUnavailable):
            raise answer
        return answer


def _answered(output: Json, succeeded: bool) -> PlannerOutput | PlannerUnavailable:
    try:
        return raw_of(output, succeeded)
    except PlannerUnavailable as error:
        return error
