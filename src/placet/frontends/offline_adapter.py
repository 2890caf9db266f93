"""A proposer without a model: it reads sentences by the parsers that domains bring, or asks back.

The default of `placet chat` without a model; it needs no network. It does not guess: a sentence
that it does not understand is answered with an explanation, and no proposal. A domain's parser is
an entry point of the group `placet.sentences`, under the domain's name.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, cast

from placet.agents.adapters.scripted import plan_of
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.codes import facts_of
from placet.agents.proposal.plan import Stop
from placet.kernel.plugin.domain import Domain
from placet.plugins.entry_points import SENTENCES, plugins

_MESSAGE_CHARS_MAX: Final = 500

SentenceReader: TypeAlias = Callable[[Domain, PlannerInput], PlannerOutput]
"""Reads the message of a planner's input as calls of the domain's kinds, or asks back."""


class OfflineAdapter:
    """A proposer without a model: parses the message where a domain reads sentences."""

    is_priced = True

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Return the actions that the message means, or a stop with the reason.

        It is parsed by the first domain that reads sentences.
        """
        unsound = _unsound_plan(context)
        if unsound is not None:
            return unsound
        readers = plugins(SENTENCES)
        for domain in context.catalogue.registry.domains:
            if domain.name in readers:
                read = cast("SentenceReader", readers[domain.name].load())
                return read(domain, context)
        text = (
            "no domain here reads free sentences, and there is no model; propose a kind with "
            "`/kind key=value`, or let a model propose"
        )
        return stopped(context, Stop(code="unsupported_goal", message=text))


def stopped(context: PlannerInput, stop: Stop) -> PlannerOutput:
    """Return the proposal of nothing, with the reason why the planner stops."""
    return PlannerOutput(plan={**plan_of(context, []), "stop": stop.model_dump(mode="json")})


def _unsound_plan(context: PlannerInput) -> PlannerOutput | None:
    """Stop where the plan that a sentence comes to is none here: reading it again mends nothing."""
    issues = context.repairs[-1].issues if context.repairs else ()
    if not any(facts_of(issue.code).stage == "contract" for issue in issues):
        return None
    message = f"{issues[0].message}; say less at once"[:_MESSAGE_CHARS_MAX]
    return stopped(context, Stop(code="unsupported_goal", message=message))
