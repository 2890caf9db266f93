"""Routes of agents: list, register, permissions, suspension. Changes need the operator's token."""

from heapq import nsmallest
from typing import Annotated, Final

from msgspec import Meta, field, to_builtins
from starlette.requests import Request
from starlette.responses import Response

from placet.kernel.intent_visibility import speaks_for
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.agent import Agent
from placet.kernel.ledger.ledger import Ledger
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.config import FULL_BURST_NS_MAX
from placet.schemas.identity import RESERVED_IDS
from placet.schemas.limits import SECOND_NS
from placet.schemas.names import NAME_PATTERN
from placet.server.context import RequestContext, entered
from placet.server.credentials import Principal
from placet.server.http.parameters import Fields, NewName, PageLimit
from placet.server.http.problems import Problem
from placet.server.http.responses import json_response
from placet.server.http.routing import OF_WORLD, WORLD_PREFIX, Routes
from placet.server.roles import Role

table = Routes("agents", WORLD_PREFIX + "/agents")

_PRIORITY_MAX: Final = 100
_NAMES_AT_ONCE_MAX: Final = 4_096
"""Names that are compared in one pass of the event loop, about 1 ms."""

_NAMES_OF_AN_ENTITY: Final = 16
"""Names that are compared in the time of an entity."""

_METHOD_BELOW: Final = {"permissions": "PUT", "suspend": "POST", "resume": "POST"}
"""The last part of a path below an agent, and its method."""

_NewAgent = Annotated[
    NewName,
    Meta(extra_json_schema={"pattern": NAME_PATTERN, "not": {"enum": sorted(RESERVED_IDS)}}),
]


class AgentsQuery(Fields, frozen=True):
    """The query parameters of `list_agents`."""

    after: Annotated[str, Meta(max_length=128, description="Agents with a greater name.")] = ""
    limit: PageLimit = 100


class QuotaFields(Fields, frozen=True):
    """A quota of one kind: intents per simulated second, and the burst (intents at once).

    At this rate a burst is earned within 4611686018 s, or the quota is refused.
    """

    rate: Annotated[float, Meta(ge=SECOND_NS / FULL_BURST_NS_MAX, le=SECOND_NS)]
    burst: Annotated[int, Meta(ge=1, le=FULL_BURST_NS_MAX)]


class Registration(Fields, frozen=True):
    """The request body of `register_agent`; `attributes` are passed to the domain."""

    agent_id: _NewAgent
    permissions: list[str] | None = None
    owner: NewName | None = None
    priority_max: Annotated[int, Meta(ge=0, le=_PRIORITY_MAX)] = _PRIORITY_MAX
    quotas: dict[str, QuotaFields] = field(default_factory=dict)
    attributes: dict[str, Json] = field(default_factory=dict)


class Permissions(Fields, frozen=True):
    """The request body of `set_agent_permissions`: null permits all kinds, an empty array none."""

    permissions: list[str] | None


@table.on("GET", "", "List agents", "Agents", 401, 404, 503)
async def list_agents(world: str, request: Request, query: AgentsQuery) -> Json:
    """List the agents that the token may act for, by name, a page at a time."""
    context, who, orchestrator = entered(request, world)

    count_max = min(query.limit, context.limits.page_items_max)
    ledger, names = await orchestrator.query(lambda k: (k.ledger, _names(k.ledger, who)))
    caller = context.principal(request).submitter
    context.reads.charge(caller, entities=len(names) // _NAMES_OF_AN_ENTITY)

    def first() -> list[str]:
        after, submitter = query.after, who.submitter
        own = (name for name in names if name > after and speaks_for(ledger, submitter, name))
        return nsmallest(count_max + 1, own)

    is_few = len(names) <= _NAMES_AT_ONCE_MAX
    page = first() if is_few else await context.reads.in_thread(first)

    def look(kernel: Kernel) -> dict[str, Json]:
        described = [
            _described(kernel.ledger.agents[name]) for name in page if name in kernel.ledger.agents
        ][:count_max]
        more = described[-1]["agent_id"] if len(page) > count_max and described else None
        return {"seq": kernel.seq, "agents": described, "next": more}

    return await orchestrator.query(look)


@table.on(
    "POST", "", "Register an agent", "Agent", 200, 409, *OF_WORLD, status=201, body=Registration
)
async def register_agent(world: str, request: Request) -> Response:
    """Register an agent; `attributes`, such as a position, are passed to the domain.

    For an agent that is registered already, only `permissions` are changed, if the body has them;
    an `owner` in the body must equal the registered one.
    """
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    registration = await context.read(request, Registration)
    for name in ("self", *Registration.__struct_fields__[:-1]):
        if name in registration.attributes:
            raise Problem("request_invalid", f"attributes has no {name!r}; it is the domain's")
    agent_id = registration.agent_id
    is_new = await orchestrator.query(lambda kernel: agent_id not in kernel.ledger.agents)
    try:
        await orchestrator.register_agent(
            agent_id,
            permissions=_kinds(registration.permissions),
            owner=registration.owner,
            priority_max=registration.priority_max,
            quotas=to_builtins(registration.quotas),
            **registration.attributes,
        )
    except (TypeError, ValueError) as error:  # a quota, or a keyword that no domain takes
        raise Problem("request_invalid", str(error)) from error
    return json_response(await _agent(orchestrator, agent_id, request), 201 if is_new else 200)


@table.on(
    "PUT",
    "/{agent_id:path}/permissions",
    "Set an agent's permissions",
    "Agent",
    400,
    *OF_WORLD,
    body=Permissions,
)
async def set_agent_permissions(world: str, agent_id: str, request: Request) -> Json:
    """Set the kinds that an agent may propose: null is all, an empty array is none."""
    context, orchestrator = await _as_operator(world, agent_id, request)
    body = await context.read(request, Permissions)
    try:
        await orchestrator.set_agent_permissions(agent_id, _kinds(body.permissions))
    except ValueError as error:  # a name that is no kind
        raise Problem("request_invalid", str(error)) from error
    return await _agent(orchestrator, agent_id, request)


@table.on("POST", "/{agent_id:path}/suspend", "Suspend an agent", "Agent", *OF_WORLD)
async def suspend_agent(world: str, agent_id: str, request: Request) -> Json:
    """Suspend an agent: its batches are refused until it is resumed."""
    _, orchestrator = await _as_operator(world, agent_id, request)
    await orchestrator.suspend_agent(agent_id)
    return await _agent(orchestrator, agent_id, request)


@table.on("POST", "/{agent_id:path}/resume", "Resume an agent", "Agent", *OF_WORLD)
async def resume_agent(world: str, agent_id: str, request: Request) -> Json:
    """Resume a suspended agent."""
    _, orchestrator = await _as_operator(world, agent_id, request)
    await orchestrator.resume_agent(agent_id)
    return await _agent(orchestrator, agent_id, request)


# Below the paths that are longer: an agent's name may have a slash.
@table.on("GET", "/{agent_id:path}", "Get an agent", "Agent", 405, *OF_WORLD)
async def get_agent(world: str, agent_id: str, request: Request) -> Json:
    """Return an agent: owner, permissions, priority bound, suspension."""
    context, who, orchestrator = entered(request, world)
    if not who.is_operator:
        await context.check_speaks_for(orchestrator, who, agent_id)
    return await _agent(orchestrator, agent_id, request)


@table.on("DELETE", "/{agent_id:path}", "Remove an agent", "", 405, *OF_WORLD, status=204)
async def remove_agent(world: str, agent_id: str, request: Request) -> None:
    """Remove an agent from the world. Its tokens stay valid, but act for no agent."""
    _, orchestrator = await _as_operator(world, agent_id, request)
    await orchestrator.remove_agent(agent_id)


async def _as_operator(
    world: str, agent_id: str, request: Request
) -> tuple[RequestContext, Orchestrator]:
    context, _, orchestrator = entered(request, world, Role.OPERATOR)
    if not await orchestrator.query(lambda kernel: agent_id in kernel.ledger.agents):
        raise _no_agent(agent_id, request)
    return context, orchestrator


def _no_agent(agent_id: str, request: Request) -> Problem:
    """Return the problem of an agent that is not registered, or of a method of a path below one.

    A name may have a slash, so `GET agents/a/suspend` asks for an agent `a/suspend`.
    """
    allowed = _METHOD_BELOW.get(agent_id.rpartition("/")[2])
    if allowed is None or "/" not in agent_id or request.method == allowed:
        return Problem("not_found", f"there is no agent {agent_id!r}; register it first")
    detail = f"there is no agent {agent_id!r}, and this path below an agent takes {allowed} alone"
    return Problem("method_not_allowed", detail, headers={"allow": allowed})


async def _agent(world: Orchestrator, agent_id: str, request: Request) -> dict[str, Json]:
    def look(kernel: Kernel) -> dict[str, Json] | None:
        agent = kernel.ledger.agents.get(agent_id)
        return None if agent is None else {"seq": kernel.seq, **_described(agent)}

    described = await world.query(look)
    if described is None:
        raise _no_agent(agent_id, request)
    return described


def _names(ledger: Ledger, who: Principal) -> list[str]:
    """Return the names of agents of which some are the caller's own."""
    name = who.submitter
    if who.is_operator or name in ledger.owned:
        return [*ledger.agents]
    return [name] if name in ledger.agents else []


def _described(agent: Agent) -> dict[str, Json]:
    permissions = agent.permissions
    return {
        "agent_id": agent.agent_id,
        "owner": agent.owner,
        "permissions": None if permissions is None else sorted(permissions),
        "priority_max": agent.priority_max,
        "suspended": agent.is_suspended,
    }


def _kinds(permissions: list[str] | None) -> frozenset[str] | None:
    return None if permissions is None else frozenset(permissions)
