"""Kinds, turns and approval requests in the words of the Model Context Protocol."""

from collections.abc import Sequence
from typing import Final

import mcp_types as types

from placet.agents.proposal.catalogue import wire_name
from placet.agents.proposal.plan import IF_UNCHANGED
from placet.agents.proposal.tool_schema import CONDITIONS
from placet.agents.proposal.tools import description_of
from placet.agents.proposal.turn_result import ApprovalRequest, StateChange, Turn
from placet.agents.session.session import Session
from placet.frontends.client_turn import unrecorded_turn
from placet.frontends.render import action_line, changed
from placet.kernel.plugin.domain import Kind
from placet.schemas.codec import Json, from_json
from placet.schemas.printable import printable
from placet.server.wire_schemas import array_schema

_CHANGES_ASKED: Final = 20
_TURN_SCHEMA: Final = Turn.model_json_schema(mode="serialization")
_DESTRUCTIVE: Final = frozenset({"medium", "high"})


def tool_of(kind: Kind, schema: Json) -> types.Tool:
    """Return a kind of intent as an MCP tool, with hints derived from the kind's risk.

    Args:
        kind: The kind.
        schema: JSON Schema of its payload as that of a tool.
    """
    is_read = kind.risk == "read"
    return types.Tool(
        name=wire_name(kind.name),
        title=kind.name,
        description=description_of(kind),
        input_schema=schema,
        output_schema=_TURN_SCHEMA,
        annotations=types.ToolAnnotations(
            read_only_hint=is_read,
            destructive_hint=not is_read
            and (kind.risk in _DESTRUCTIVE or kind.risk_of is not None),
            idempotent_hint=is_read,
            open_world_hint=bool(kind.effects),
        ),
    )


def plan_tool(name: str, kinds: Sequence[str]) -> types.Tool:
    """Return the MCP tool that proposes several actions, of which all are done or none.

    Args:
        name: Name of the tool.
        kinds: Names of the kinds that an action may have.
    """
    action: dict[str, Json] = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": list(kinds), "description": "Name of a tool."},
            "payload": {"type": "object", "description": "As the tool of that name takes it."},
            IF_UNCHANGED: CONDITIONS,
        },
        "required": ["kind"],
    }
    goal = {"type": "string", "minLength": 1, "maxLength": 2000}
    goal["description"] = "The purpose of the plan, in words."
    actions = array_schema(action, minItems=1, maxItems=32)
    actions["description"] = "The actions, in the order in which they are done."
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"goal": goal, "actions": actions},
        "required": ["goal", "actions"],
    }
    return types.Tool(
        name=name,
        description="Propose several actions in order: all of them are done, or none.",
        input_schema=schema,
        output_schema=_TURN_SCHEMA,
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
    )


def result_of(turn: Turn) -> types.CallToolResult:
    """Return a turn as the result of a tool call: the turn as data, and a text for the model."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text="\n".join(map(printable, _words(turn))))],
        structured_content=from_json(turn.model_dump_json()),
        is_error=turn.outcome in {"refused", "failed"},
    )


def refused(session: Session, code: str, message: str, at: str = "") -> types.CallToolResult:
    """Return the result of a tool call that was refused before it became a turn."""
    return result_of(unrecorded_turn(session, code, message, at))


def confirmation(
    approval: ApprovalRequest, diff: Sequence[StateChange], name: str
) -> types.ElicitRequestFormParams:
    """Return the MCP form that asks a person to confirm a held plan.

    Args:
        approval: The approval request, with the actions.
        diff: Changes that the actions would make.
        name: Name of the form's yes-or-no field.
    """
    lines = [f"{approval.proposer} proposes:"]
    lines += [f"  {action_line(action)}" for action in approval.actions]
    lines.append("It would change:" if diff else "It would change nothing that is seen now.")
    lines += [changed(change) for change in diff[:_CHANGES_ASKED]]
    if len(diff) > _CHANGES_ASKED:
        lines.append(f"    and {len(diff) - _CHANGES_ASKED} more")
    return types.ElicitRequestFormParams(
        message="\n".join(map(printable, lines)),
        requested_schema={
            "type": "object",
            "properties": {name: {"type": "boolean", "title": "Apply it"}},
            "required": [name],
        },
    )


def _words(turn: Turn) -> list[str]:
    words = [f"{turn.outcome} ({turn.stop}): {turn.message}"]
    if turn.outcome == "held":
        words.append(
            f"approval request {turn.approval_id} waits for a person; do not propose it again"
        )
    for issue in turn.attempts[-1].issues if turn.attempts else ():
        at = f" at {issue.at}" if issue.at else ""
        instead = f" Did you mean {', '.join(issue.suggestions)}?" if issue.suggestions else ""
        words.append(f"{issue.code}{at}: {issue.message}.{instead}")
    words += [
        f"{result.kind} gave: {result.output}"
        for result in turn.results
        if result.output is not None
    ]
    return words
