"""Examples of a policy: a call, and the answer that its author expects."""

from collections.abc import Iterable, Mapping
from typing import Final

from placet.schemas.codec import Json
from placet_tools.policy.codes import POLICY_CODES
from placet_tools.policy.errors import fault, require_name
from placet_tools.policy.expressions import AGENT
from placet_tools.policy.rules import GIVES, EarlierCall, Example
from placet_tools.policy.values import list_of, table_of, text_of
from placet_tools.tool import DeclaredTool

_TOOL: Final = "tool"
_RESULT: Final = "result"


def example_of(tools: Mapping[str, DeclaredTool], table: Mapping[str, Json], place: str) -> Example:
    """Parse one example.

    Args:
        tools: The tools by name.
        table: `{call, gives, given}`.
        place: Place in the policy.

    Raises:
        ToolPolicyError: It does not fit.
    """
    for name in table:
        require_name(name, ("call", "gives", "given"), "key", f"{place}.{name}")
    for name in ("call", "gives"):
        if name not in table:
            raise fault(place, f"it needs {name!r}")
    require_name(table["gives"], (*GIVES, *POLICY_CODES), "answer", f"{place}.gives")
    given = [
        _given(table_of(one, f"{place}.given[{n}]"), tools, f"{place}.given[{n}]")
        for n, one in enumerate(list_of(table.get("given", []), f"{place}.given"))
    ]
    call = _call(table["call"], tools, f"{place}.call")
    return Example(place, call, str(table["gives"]), tuple(given))


def _given(table: Mapping[str, Json], tools: Mapping[str, DeclaredTool], place: str) -> EarlierCall:
    for name in table:
        require_name(name, ("call", _RESULT), "key", f"{place}.{name}")
    if "call" not in table:
        raise fault(place, "it needs 'call'")
    return _call(table["call"], tools, f"{place}.call", table.get(_RESULT))


def _call(
    value: Json, tools: Mapping[str, DeclaredTool], place: str, result: Json = None
) -> EarlierCall:
    """Parse a call: its tool, its agent, and its arguments."""
    table = dict(table_of(value, place))
    if _TOOL not in table:
        raise fault(place, f"it needs {_TOOL!r}")
    tool = table.pop(_TOOL)
    require_name(tool, tools, "tool", f"{place}.{_TOOL}")
    agent = text_of(table.pop(AGENT, AGENT), f"{place}.{AGENT}")
    known = _arguments_of(tools[tool])
    for name in table if known is not None else ():
        require_name(name, known or (), f"field of {tool}", f"{place}.{name}")
    return EarlierCall(tool, table, agent, result)


def _arguments_of(tool: DeclaredTool) -> Iterable[str] | None:
    """Return the names of a tool's arguments; None if its schema lists none and permits all."""
    if not tool.takes_mapping:
        return tool.payload.model_fields
    schema = tool.payload.model_json_schema()
    return schema.get("properties")
