"""Declarations of an MCP server's tools: their text, which is pinned, and their risk."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from placet.kernel.plugin.domain import RISKS, Risk
from placet.schemas.codec import Json

TOOLS_MAX: Final = 1_024
"""Tools of one server; those beyond are left out."""

DEFINITION_CHARS_MAX: Final = 64 * 1024
NAME_CHARS_MAX: Final = 128

PLAN_TOOL: Final = "placet_plan"
OUTCOME_TOOL: Final = "placet_outcome"
OWN_TOOLS: Final = frozenset({PLAN_TOOL, OUTCOME_TOOL})

_PINNED: Final = ("title", "description", "inputSchema", "outputSchema", "annotations")

_KEY: Final = {"type": "string", "description": "Key of the call, as its result has it."}


def own_tools() -> list[dict[str, Json]]:
    """Return the declarations of the gateway's own tools."""
    call = {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["tool"],
        "additionalProperties": False,
    }
    calls = {"type": "array", "items": call, "minItems": 1, "maxItems": 256}
    wait = {"type": "number", "minimum": 0, "maximum": 60, "description": "Seconds to wait."}
    return [
        {
            "name": PLAN_TOOL,
            "description": "Call several tools as one plan: all calls are admitted, held for a "
            "person, or refused together. They run in no order.",
            "inputSchema": _object({"calls": calls}, "calls"),
        },
        {
            "name": OUTCOME_TOOL,
            "description": "Return the outcome of a call that was held, was running, or whose "
            "answer was lost. It never runs the call again.",
            "inputSchema": _object({"key": _KEY, "wait_s": wait}, "key"),
            "annotations": {"readOnlyHint": True},
        },
    ]


def _object(properties: Mapping[str, Json], *required: str) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def texts_of(listed: Sequence[Json]) -> tuple[dict[str, str], list[str]]:
    """Return the text of each declared tool, and the faults of the tools that are left out.

    Args:
        listed: The tools as the server lists them.
    """
    texts: dict[str, str] = {}
    faults: list[str] = []
    for tool in listed:
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS_MAX:
            faults.append(f"a tool's name has 1 to {NAME_CHARS_MAX} characters, got {name!r:.200}")
        elif name in OWN_TOOLS or name in texts:
            faults.append(f"the name {name!r} is taken")
        elif len(text := text_of(tool)) > DEFINITION_CHARS_MAX:
            faults.append(f"the declaration of {name!r} has over {DEFINITION_CHARS_MAX} characters")
        elif len(texts) == TOOLS_MAX:
            faults.append(f"a server has at most {TOOLS_MAX} tools; {name!r} is left out")
        else:
            texts[name] = text
    return texts, faults


def text_of(tool: Mapping[str, Json]) -> str:
    """Return the text of a declaration that is pinned: all that a model reads of the tool."""
    pinned = {name: tool[name] for name in _PINNED if name in tool}
    return json.dumps(pinned, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def raised(risk: Risk, parts: Mapping[str, Json]) -> Risk:
    """Return the risk of a tool with its annotations, which never lower it: the server wrote them.

    Args:
        risk: Risk of the tool without them.
        parts: Its declaration.
    """
    hints = parts.get("annotations")
    is_destructive = isinstance(hints, Mapping) and hints.get("destructiveHint") is True
    return max(risk, "high" if is_destructive else "read", key=RISKS.index)
