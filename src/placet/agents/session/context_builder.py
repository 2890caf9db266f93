"""Builds the planner input, anew for each request of a turn."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal

from placet.agents.loop.planning_loop import TurnUsage
from placet.agents.ports import Handle
from placet.agents.proposal.adapter import Media, PlannerInput
from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.context_text import build
from placet.agents.proposal.limits import AgentLimits
from placet.agents.proposal.view_json import changes_between, cut, facts_in, plain_view
from placet.schemas.codec import Json


class ContextBuilder:
    """A builder of planner inputs from one agent's view; it remembers the previous view.

    Args:
        agent: Handle of the agent.
        limits: Limits of the planner input.
    """

    def __init__(self, agent: Handle, limits: AgentLimits) -> None:
        self._agent = agent
        self._limits = limits
        self._seen: dict[str, Json] | None = None

    def begin(
        self,
        message: str,
        catalogue: Catalogue,
        past: Sequence[Mapping[str, Json]],
        media: Sequence[Media],
    ) -> Callable[[TurnUsage], Awaitable[PlannerInput]]:
        """Start a turn; return the function that builds the planner input of each request."""
        limits, before = self._limits, self._seen
        history = _history(past, limits)
        results = [result for turn in past for result in turn["results"]]

        async def look(counters: TurnUsage) -> PlannerInput:
            view = await self._agent.refresh_view()
            self._seen = state = plain_view(view)
            diffs, facts = changes_between(before, state), facts_in(state)
            repairs = tuple(counters.repairing)
            used = counters.usage.input_tokens + counters.usage.output_tokens
            left = limits.tokens_max - used
            text = build(
                domain=catalogue,
                state=state,
                diffs=diffs,
                turns=history,
                results=results,
                facts=facts[-limits.facts_max :] if limits.facts_max else (),
                issues=repairs[-1].issues if repairs else (),
                budget={"tokens": left},  # no time: equal requests have equal texts
                last_turns=len(history),
                last_results=limits.results_last,
                tokens_max=limits.context_tokens_max,
                tools_max=limits.tools_max,
            )
            return PlannerInput(
                message=message,
                text=text,
                base_seq=view.view_seq,
                catalogue=catalogue,
                state=state,
                history=history,
                results=results,
                facts=facts,
                diffs=diffs,
                media=media,
                repairs=repairs,
                tokens_left=left,
                seconds_left=counters.seconds_left,
                tools_max=limits.tools_max,
                usd_left=_usd_left(limits, counters),
            )

        return look


def _usd_left(limits: AgentLimits, counters: TurnUsage) -> Decimal | None:
    """Return the money that is left of a turn; None without a limit, or if its cost is unknown."""
    used = counters.usage.cost_usd
    return None if limits.cost_usd_max is None or used is None else limits.cost_usd_max - used


def _history(turns: Sequence[Mapping[str, Json]], limits: AgentLimits) -> list[dict[str, Json]]:
    """Return the last of the conversation as two lines for each turn, none of them too long."""
    bytes_max = limits.line_bytes_max
    lines: list[dict[str, Json]] = []
    for turn in turns[max(0, len(turns) - limits.turns_last) :]:
        message, answer = cut(turn["message"], bytes_max), cut(turn["text"], bytes_max)
        lines.append({"role": "user", "text": message})
        lines.append({"role": "agent", "outcome": turn["outcome"], "text": answer})
    return lines
