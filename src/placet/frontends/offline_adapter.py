"""A proposer without a model: it reads sentences by the parsers that domains bring, or asks back.

The default of `placet chat` without a model; it needs no network. It does not guess: a sentence
that it does not understand is answered with an explanation, and no proposal.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from placet.agents.adapters.scripted import plan_of
from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.codes import facts_of
from placet.agents.proposal.plan import Stop
from placet.agents.proposal.plan_parser import Call
from placet.agents.proposal.tools import wire_name
from placet.schemas.codec import Json, to_json

if TYPE_CHECKING:
    from placet_design.refinable_fields import RefinableField
    from placet_design.text import Clarification

_DESIGN: Final = "design"
_CHOICES_MAX: Final = 8
_CHOICE_CHARS_MAX: Final = 120
_MESSAGE_CHARS_MAX: Final = 500


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
        for domain in context.catalogue.registry.domains:
            if domain.name == _DESIGN:
                return _read_of_design(context)
        text = (
            "no domain here reads free sentences, and there is no model; propose a kind with "
            "`/kind key=value`, or let a model propose"
        )
        return _stop(context, Stop(code="unsupported_goal", message=text))


def _unsound_plan(context: PlannerInput) -> PlannerOutput | None:
    """Stop where the plan that a sentence comes to is none here: reading it again mends nothing."""
    issues = context.repairs[-1].issues if context.repairs else ()
    if not any(facts_of(issue.code).stage == "contract" for issue in issues):
        return None
    message = f"{issues[0].message}; say less at once"[:_MESSAGE_CHARS_MAX]
    return _stop(context, Stop(code="unsupported_goal", message=message))


def _read_of_design(context: PlannerInput) -> PlannerOutput:
    """Make calls of a sentence about a design (`placet_design.text.parse_text`)."""
    # Imported here: loading the domain takes 0.17 s, which other conversations should not pay.
    from placet_design import Design  # noqa: PLC0415
    from placet_design.actions.plans import payload_of  # noqa: PLC0415
    from placet_design.text import Clarification, parse_text  # noqa: PLC0415

    design = next(
        domain for domain in context.catalogue.registry.domains if isinstance(domain, Design)
    )
    current = _values(context.state)
    fields = design.setup.fields
    parsed = parse_text(context.message, fields=fields, current=current)
    if isinstance(parsed, Clarification):
        return _stop(context, _question(parsed, fields, current))
    if not parsed.actions:
        return PlannerOutput(
            text="That is a question; without a model I only apply changes. `/state` shows the "
            "state."
        )
    calls = []
    for action in parsed.actions:
        kind, payload = payload_of(action)
        calls.append(Call(wire_name(kind), to_json(payload).decode()))
    return PlannerOutput(calls=tuple(calls))


def _question(
    unclear: "Clarification", fields: "Mapping[str, RefinableField]", current: Mapping[str, Json]
) -> Stop:
    """Ask back: with whole sentences to say instead, else with the candidates."""
    from placet_design.text import rewordings  # noqa: PLC0415  # above

    ways = rewordings(unclear, fields=fields, current=current) or unclear.candidates
    choices = tuple(way for way in ways if len(way) <= _CHOICE_CHARS_MAX)
    return Stop(
        code="clarification_needed",
        message=unclear.question[:_MESSAGE_CHARS_MAX],
        choices=choices[:_CHOICES_MAX],
    )


def _values(state: Json) -> dict[str, Json]:
    """Return the design's values by path, as the agent sees them."""
    rows: Mapping[str, Mapping[str, Json]] = (state or {}).get("design.parameters", {})
    return {path: fields["value"] for path, fields in rows.items() if "value" in fields}


def _stop(context: PlannerInput, stop: Stop) -> PlannerOutput:
    return PlannerOutput(plan={**plan_of(context, []), "stop": stop.model_dump(mode="json")})
