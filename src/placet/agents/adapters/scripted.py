"""Answers that were written beforehand: for tests, schedules and demonstrations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from placet.agents.proposal.adapter import PlannerInput, PlannerOutput, PlannerUnavailable
from placet.agents.proposal.plan import plan_json
from placet.schemas.codec import Json

Answer: TypeAlias = (
    PlannerOutput | str | Mapping[str, Json] | Sequence[tuple[str, Mapping[str, Json]]]
)
"""An answer, a plan as text or object, or a list of `(kind, payload)`."""
Step: TypeAlias = Answer | Exception


class ScriptedAdapter:
    """An adapter that returns the steps of a script one after the other, whatever the message is.

    Args:
        steps: Each step is an answer, a plan as text or object, a list of `(kind, payload)`, or an
            exception to raise.
        is_looping: Start again after the last step.
    """

    def __init__(self, steps: Iterable[Step], *, is_looping: bool = False) -> None:
        self._steps = list(steps)
        self._is_looping = is_looping
        self._next: Iterator[Step] = iter(self._steps)

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the next step as an answer.

        Raises:
            PlannerUnavailable: The script is over.
            Exception: Any exception in the script.
        """
        step = next(self._next, None)
        if step is None and self._is_looping and self._steps:
            self._next = iter(self._steps)
            step = next(self._next)
        if step is None:
            raise PlannerUnavailable("the script is over")
        if isinstance(step, Exception):
            raise step
        return raw_of_step(step, context)


def raw_of_step(step: Answer, context: PlannerInput) -> PlannerOutput:
    """Convert a step of a script, or the result of a function, to an answer."""
    if isinstance(step, PlannerOutput):
        return step
    if isinstance(step, str | Mapping):
        return PlannerOutput(plan=step if isinstance(step, str) else dict(step))
    return PlannerOutput(plan=plan_of(context, step))


def plan_of(
    context: PlannerInput, actions: Iterable[tuple[str, Mapping[str, Json]]], *, goal: str = ""
) -> dict[str, Json]:
    """Build a plan as plain JSON: actions `(kind, payload)` that refer to a context's seq."""
    return plan_json(goal or context.message or "(no message)", context.base_seq, actions)
