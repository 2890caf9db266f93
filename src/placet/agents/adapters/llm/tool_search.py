"""Two fixed tools in place of many: search the kinds, then propose one by its name.

The list of tools is the same for any number of kinds, so it is small and stays in a provider's
prompt cache. A proposal through it is unwrapped into the call that it stands for, and read by the
one parser.
"""

import re
from typing import Final

from pydantic import Field, JsonValue

from placet.agents.proposal.catalogue import Catalogue, wire_name
from placet.agents.proposal.plan import Paths, Strict
from placet.agents.proposal.plan_parser import Call
from placet.agents.proposal.tool_schema import tool_schema
from placet.agents.proposal.tools import TALKING, ToolDefinition
from placet.kernel.plugin.domain import Kind
from placet.schemas.codec import Json, from_json, to_json

FIND: Final = "find_kinds"
PROPOSE: Final = "propose"
ROUNDS_MAX: Final = 3
"""Searches, one after the other, before something must be proposed."""

_FOUND_MAX: Final = 8
_WORD: Final = re.compile(r"[a-z0-9]+")


class _Search(Strict):
    """Arguments of the tool `find_kinds`."""

    query: str = Field(max_length=200, description="Words of the names or summaries of the kinds.")


class _Proposal(Strict):
    """Arguments of the tool `propose`."""

    kind: str = Field(description="Name of a kind that was found.")
    payload: dict[str, JsonValue] = Field(
        description=f"The payload, as {FIND} describes it for this kind."
    )
    if_unchanged: Paths = ()


TOOLS: Final = (
    ToolDefinition(
        FIND,
        "Search the kinds that may be proposed, by words of their names and summaries. "
        "Gives each with the JSON Schema of its payload. Proposes nothing.",
        tool_schema(_Search.model_json_schema()),
    ),
    ToolDefinition(
        PROPOSE,
        "Propose one action of a kind that was found. The calls of one answer are one plan.",
        tool_schema(_Proposal.model_json_schema()),
    ),
    *TALKING,
)


def found(catalogue: Catalogue, arguments: str) -> dict[str, Json]:
    """Return the result of a model's search for kinds: the best matches, and the number of others.

    Args:
        catalogue: The kinds that may be proposed.
        arguments: Arguments of the search call, as the model wrote them.
    """
    try:
        value = from_json(arguments)
    except ValueError:
        value = None
    query = value.get("query") if isinstance(value, dict) else None
    if not isinstance(query, str):
        return {"error": f'call {FIND} with {{"query": "words"}}'}
    words = _WORD.findall(query.lower())
    scores = sorted((-_score(kind, words), kind.name) for kind in catalogue)
    fitting = [name for score, name in scores if score]
    if not fitting:
        return {"kinds": [], "more": 0, "names": catalogue.kind_names()}
    schemas = catalogue.payload_schemas()
    shown = [catalogue.kinds[name] for name in fitting[:_FOUND_MAX]]
    kinds = [
        {
            "kind": kind.name,
            "summary": kind.summary,
            "risk": kind.risk,
            "payload": schemas[kind.name],
        }
        for kind in shown
    ]
    return {"kinds": kinds, "more": len(fitting) - len(shown)}


def unwrapped(call: Call) -> Call:
    """Return the call of a kind that a `propose` tool call contains; other calls unchanged."""
    if call.name != PROPOSE:
        return call
    try:
        value = from_json(call.arguments)
    except ValueError:
        return call  # the parser names the fault
    if not isinstance(value, dict):
        return call
    kind = value.pop("kind", "")
    payload = value.pop("payload", {})
    if value and isinstance(payload, dict):  # a field beside them is one too many in the payload
        payload = {**payload, **value}
    name = wire_name(kind) if isinstance(kind, str) else to_json(kind).decode()
    return Call(name, to_json(payload).decode(), call.call_id)


def _score(kind: Kind, words: list[str]) -> int:
    named = _WORD.findall(kind.name.lower())
    described = _WORD.findall(kind.summary.lower())
    return sum(
        4 * (word in named) + 2 * any(word in name for name in named) + (word in described)
        for word in words
    )
