"""FunctionAdapter: an adapter over a function, such as an RL policy, a rule, or a custom client."""

import collections.abc
from inspect import isawaitable
from typing import TypeAlias

from placet.agents.adapters.scripted import Step, raw_of_step
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.schemas.keywords import explain_keywords

Function: TypeAlias = collections.abc.Callable[
    [PlannerInput], Step | collections.abc.Awaitable[Step]
]


@explain_keywords
class FunctionAdapter:
    """An adapter that calls a plain or async function and returns its answer.

    Args:
        function: Called with the planner input; returns an answer as a step of `ScriptedAdapter`.
        is_priced: False if the cost of a call is unknown.
    """

    def __init__(self, function: Function, *, is_priced: bool = True) -> None:
        self._function = function
        self.is_priced = is_priced

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Call the function, and return its answer.

        Raises:
            Exception: An exception that the function raises, or returns.
        """
        answer = self._function(context)
        step = await answer if isawaitable(answer) else answer
        if isinstance(step, Exception):
            raise step
        return raw_of_step(step, context)
