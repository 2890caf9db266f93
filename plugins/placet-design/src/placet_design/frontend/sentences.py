"""Sentences about a design, for `placet chat` without a model (entry point `placet.sentences`)."""

from collections.abc import Mapping
from typing import Final

from placet.agents.proposal.adapter import PlannerInput, PlannerOutput
from placet.agents.proposal.catalogue import wire_name
from placet.agents.proposal.plan import Stop
from placet.agents.proposal.plan_parser import Call
from placet.frontends.offline_adapter import stopped
from placet.kernel.plugin.domain import Domain
from placet.schemas.codec import Json, to_json
from placet_design.actions.plans import payload_of
from placet_design.domain import Design
from placet_design.refinable_fields import RefinableField
from placet_design.text import Clarification, parse_text, rewordings

_CHOICES_MAX: Final = 8
_CHOICE_CHARS_MAX: Final = 120
_MESSAGE_CHARS_MAX: Final = 500


def read(domain: Domain, context: PlannerInput) -> PlannerOutput:
    """Return the calls that a sentence about a design means, or a question."""
    assert isinstance(domain, Design), "the entry point has the domain's name"
    current = _values(context.state)
    fields = domain.setup.fields
    parsed = parse_text(context.message, fields=fields, current=current)
    if isinstance(parsed, Clarification):
        return stopped(context, _question(parsed, fields, current))
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
    unclear: Clarification, fields: Mapping[str, RefinableField], current: Mapping[str, Json]
) -> Stop:
    """Ask back: with whole sentences to say instead, else with the candidates."""
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
