"""The Model Context Protocol: kinds as tools, verdicts as results, approvals as elicitation.

The client's model is the proposer. Its call is a plan of one action in the session's name, and
passes the same mode, policy, approval and gate as any other; `propose_plan` takes several actions,
applied all or none. No value of a client grants a permission: of a confirmation only the yes or no
is used, and the content applied is the one in the log.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.applications import Starlette

from placet.agents.loop.recorder import SessionError
from placet.agents.proposal.catalogue import kind_name, wire_name
from placet.agents.proposal.legacy import ChatIntent, ExecutionPlan
from placet.agents.proposal.plan import IF_UNCHANGED
from placet.agents.proposal.turn_result import ApprovalRequest, Turn
from placet.agents.session.session import Session
from placet.cli.app import installed_version
from placet.frontends.client_turn import failed_turn, visible_part
from placet.frontends.mcp.resources import Resources
from placet.frontends.mcp.results import confirmation, plan_tool, refused, result_of, tool_of
from placet.frontends.world_factory import catalogue_of
from placet.schemas.codec import Json, canonical
from placet.schemas.json_value import format_value, pointer
from placet.schemas.portable_error import PortableError
from placet.server.config import ServeConfig

PLAN_TOOL: Final = "propose_plan"
_CONFIRM: Final = "confirm"
_MODERN: Final = "2026-07-28"
"""From this protocol on a server asks by its answer, and is asked again."""

_GOAL_CHARS_MAX: Final = 2_000
_INSTRUCTIONS: Final = (
    "Each tool proposes; a gate decides. A result says `applied`, `held` (it waits for a person), "
    "or is an error with codes and suggestions. Look at placet://view before you propose; "
    "`if_unchanged` names values of it on which the proposal rests."
)

Asked = ServerRequestContext[Any]


class McpServer:
    """Serves one session to MCP clients.

    Args:
        session: The session whose agent the clients propose as.
        person: The person who confirms through a client; None disables confirmation there.
    """

    def __init__(self, session: Session, person: str | None = None) -> None:
        self._session = session
        self._person = person
        self._resources = Resources(session)

    def server(self) -> Server[Any]:
        """Build the MCP protocol server; it may serve any number of clients."""
        return Server(
            "placet",
            version=installed_version(),
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._resources.list,
            on_list_resource_templates=self._resources.list_templates,
            on_read_resource=self._resources.read,
        )

    async def _list_tools(
        self, _request: Asked, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        catalogue = await catalogue_of(self._session)
        schemas = catalogue.tool_schemas()
        tools = [tool_of(kind, schemas[kind.name]) for kind in catalogue]
        if PLAN_TOOL not in catalogue.kinds:
            tools.append(plan_tool(PLAN_TOOL, [wire_name(name) for name in catalogue.kinds]))
        return types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, request: Asked, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            return await self._called(request, params)
        except SessionError as error:
            return result_of(failed_turn(self._session, error))

    async def _called(
        self, request: Asked, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            actions, goal = _actions_of(params, await self._takes_conditions(params))
        except _PlanFault as fault:
            message = f"{params.name}: {fault.message}"
            return refused(self._session, "payload_invalid", message, fault.at)
        if params.request_state is not None:
            return await self._answered(params, actions)
        plan = ExecutionPlan(goal=goal, actions=actions)
        turn = await self._session.hand_off(plan, state=self._resources.state)
        if turn.outcome != "held" or not self._may_ask(request):
            return await self._result(turn)
        approval = await self._approval(turn.approval_id)
        if approval is None or approval.needs != "confirm":
            return await self._result(turn)
        form = confirmation(approval, turn.diff, _CONFIRM)
        if request.protocol_version >= _MODERN:
            return types.InputRequiredResult(
                request_state=approval.id,
                input_requests={_CONFIRM: types.ElicitRequest(params=form)},
            )
        answer = await request.session.elicit_form(
            form.message, form.requested_schema, request.request_id
        )
        return await self._resolved(approval, turn, answer)

    async def _takes_conditions(self, params: types.CallToolRequestParams) -> bool:
        """Return whether `if_unchanged` in a call is a condition, and no field of its payload."""
        if IF_UNCHANGED not in (params.arguments or {}):
            return True
        return (await catalogue_of(self._session)).takes_conditions(kind_name(params.name))

    def _may_ask(self, request: Asked) -> bool:
        """Return whether the client can ask its user, and its user may confirm."""
        capabilities = request.session.client_capabilities
        asks = None if capabilities is None else capabilities.elicitation
        if self._person is None or asks is None:
            return False
        return asks.form is not None or asks.url is None

    async def _answered(
        self, params: types.CallToolRequestParams, actions: Sequence[ChatIntent]
    ) -> types.CallToolResult:
        """Take a call that comes again with its user's answer.

        The client names the approval request; it must be one of this very call, still open.
        """
        approval = await self._approval(str(params.request_state))
        is_same = approval is not None and canonical(
            [
                [action["kind"], action["payload"], action.get(IF_UNCHANGED, [])]
                for action in approval.actions
            ]
        ) == canonical([[one.action_id, one.inputs, one.if_unchanged] for one in actions])
        if approval is None or not is_same or self._person is None:
            message = "the answer is not about what this call proposed; call again"
            return refused(self._session, "session.approval_changed", message)
        answer = (params.input_responses or {}).get(_CONFIRM)
        if not isinstance(answer, types.ElicitResult):
            message = f"approval request {approval.id!r} still waits for a person"
            return refused(self._session, "confirmation_required", message)
        return await self._resolved(approval, None, answer)

    async def _resolved(
        self, approval: ApprovalRequest, turn: Turn | None, answer: types.ElicitResult
    ) -> types.CallToolResult:
        """Apply the person's decision. A canceled form leaves the plan held."""
        assert self._person is not None, "asked only where somebody may confirm"
        if answer.action == "cancel":
            if turn is None:
                message = f"approval request {approval.id!r} still waits for a person"
                return refused(self._session, "confirmation_required", message)
            return await self._result(turn)
        is_yes = answer.action == "accept" and (answer.content or {}).get(_CONFIRM) is True
        done = await self._session.resolve(
            approval.id, "approve" if is_yes else "deny", self._person
        )
        return await self._result(done)

    async def _result(self, turn: Turn) -> types.CallToolResult:
        """Return a turn without the parts that the agent may not see: the client acts for it."""
        return result_of(await visible_part(turn, self._session))

    async def _approval(self, approval_id: str) -> ApprovalRequest | None:
        approvals = await self._session.approvals()
        return next((approval for approval in approvals if approval.id == approval_id), None)


def http_app(server: McpServer, serve: ServeConfig) -> Starlette:
    """Return the application of an MCP server over HTTP; its sessions are bounded, and expire."""
    limits = serve.limits
    return server.server().streamable_http_app(
        host=serve.host,
        max_request_body_size=limits.body_bytes_max,
        max_sessions=limits.mcp_sessions_max,
        session_idle_timeout=limits.mcp_session_idle_seconds_max,
    )


def _actions_of(
    params: types.CallToolRequestParams, takes_conditions: bool
) -> tuple[list[ChatIntent], str]:
    """Read a call as actions and a goal.

    Args:
        params: The call.
        takes_conditions: `if_unchanged` beside the payload of a kind is no field of it.

    Raises:
        _PlanFault: An argument is missing or of another form.
    """
    arguments = dict(params.arguments or {})
    if params.name != PLAN_TOOL:
        paths = _paths(arguments, (IF_UNCHANGED,)) if takes_conditions else []
        if takes_conditions:
            arguments.pop(IF_UNCHANGED, None)
        action = _action(kind_name(params.name), arguments, paths)
        return [action], f"call {params.name}"[:_GOAL_CHARS_MAX]
    goal = _argument(arguments, ("goal",), str)
    items = _argument(arguments, ("actions",), list)
    actions = []
    for number, item in enumerate(items):
        at = ("actions", number)
        action = _of_type(item, at, dict)
        unknown = [name for name in action if name not in {"kind", "payload", IF_UNCHANGED}]
        if unknown:
            fault = f"is unknown; an action has kind, payload and {IF_UNCHANGED}"
            raise _PlanFault((*at, unknown[0]), fault)
        payload = _argument(action, (*at, "payload"), dict) if "payload" in action else {}
        kind = kind_name(_argument(action, (*at, "kind"), str))
        actions.append(_action(kind, payload, _paths(action, (*at, IF_UNCHANGED))))
    return actions, goal[:_GOAL_CHARS_MAX]


def _action(kind: str, payload: Mapping[str, Json], paths: list[str]) -> ChatIntent:
    return ChatIntent(type="action_call", action_id=kind, inputs=dict(payload), if_unchanged=paths)


def _paths(values: Mapping[str, Json], at: tuple[str | int, ...]) -> list[str]:
    """Read the paths of an action; none if it has none.

    Raises:
        _PlanFault: They are no array of strings.
    """
    if values.get(IF_UNCHANGED) is None:
        return []
    paths: list[Json] = _of_type(values[IF_UNCHANGED], at, list)
    return [_of_type(path, (*at, number), str) for number, path in enumerate(paths)]


class _PlanFault(PortableError):  # noqa: N818  # it names a fault of a client's call
    """A fault in the arguments of `propose_plan`, or in `if_unchanged`.

    Attributes:
        at: JSON pointer to the argument.
        message: The argument, the expected form, and the remedy.
    """

    def __init__(self, path: Sequence[object], fault: str) -> None:
        self.at = pointer(path)
        self.message = f"{self.at} {fault}"
        super().__init__(self.message)


_NAMES: Final[Mapping[type, str]] = {str: "a string", list: "an array", dict: "an object"}


def _argument(values: Mapping[str, Json], path: tuple[str | int, ...], form: type) -> Json:
    """Return an argument of the expected form.

    Raises:
        _PlanFault: It is missing, or of another form.
    """
    name = str(path[-1])
    if name not in values:
        raise _PlanFault(path, f"is missing; it must be {_NAMES[form]}")
    return _of_type(values[name], path, form)


def _of_type(value: Json, path: tuple[str | int, ...], form: type) -> Json:
    if isinstance(value, form):
        return value
    text = "; pass the value itself, not its JSON text" if isinstance(value, str) else ""
    raise _PlanFault(path, f"must be {_NAMES[form]}, got {format_value(value)}{text}")
