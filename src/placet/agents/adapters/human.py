"""HumanAdapter: questions wait in a list until a person answers them."""

from typing import NamedTuple

import anyio

from placet.agents.adapters.scripted import Answer, raw_of_step
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput


class Question(NamedTuple):
    """A request for a proposal that waits for a person's answer.

    Attributes:
        number: Number of the question, to be passed to `HumanAdapter.answer`.
        context: The planner input: message, view and permitted kinds.
    """

    number: int
    context: PlannerInput


class HumanAdapter:
    """An adapter whose answers come from a person.

    A person's proposal passes through the same gate as a model's.
    """

    is_priced = True

    def __init__(self) -> None:
        self._question_count = 0
        self._open: dict[int, tuple[PlannerInput, anyio.Event]] = {}
        self._answers: dict[int, PlannerOutput] = {}
        self._opened = anyio.Event()

    @property
    def questions(self) -> list[Question]:
        """The open questions, oldest first."""
        return [Question(number, context) for number, (context, _) in self._open.items()]

    async def wait_question(self) -> Question:
        """Wait until a question is open, and return the oldest open question."""
        while not self._open:
            await self._opened.wait()
        return self.questions[0]

    def answer(self, number: int, step: Answer) -> None:
        """Answer the open question of a number.

        An answer is a plan, a list of `(kind, payload)`, or `PlannerOutput(text=…)`.

        Raises:
            KeyError: No open question has this number.
            TypeError, ValueError: The answer is invalid; the question stays open.
        """
        context, event = self._open[number]
        self._answers[number] = raw_of_step(step, context)
        del self._open[number]
        event.set()

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Open a question, wait for the person's answer, and return it."""
        self._question_count += 1
        number, event = self._question_count, anyio.Event()
        self._open[number] = (context, event)
        self._opened.set()
        self._opened = anyio.Event()
        try:
            await event.wait()
        finally:
            self._open.pop(number, None)
        return self._answers.pop(number)
