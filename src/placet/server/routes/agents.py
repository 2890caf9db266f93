"""Routes of agents: list, register, permissions, suspension. Changes need the operator's token."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Agent
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json, to_json
from placet.schemas.json_value import format_value
from placet.server.auth import speaks_for
from placet.server.context import PageLimit, RequestContext, context_of
from placet.server.http.bodies import identity
from placet.server.http.problems import Problem
from placet.server.openapi import answers, body_of

router = APIRouter(tags=["agents"])

_REGISTRATION: Final = ("agent_id", "permissions", "owner", "priority_max", "quotas", "attributes")
_PRIORITY_MAX: Final = 100


@router.get(
    "/worlds/{world}/agents",
    summary="List agents",
    responses=answers(200, "Agents", 401, 404, 422, 503),
)
async def list_agents(
    world: str,
    request: Request,
    after: Annotated[str, Query(max_length=128)] = "",
    limit: PageLimit = 100,
) -> Response:
    """List agents by name, those after a name; an agent's token sees its own."""
    context = context_of(request)
    who, asked = context.principal(request), context.world(world)

    count_max = min(limit, context.limits.page_items_max)

    def look(kernel: Kernel) -> dict[str, Json]:
        names = sorted(
            name
            for name in kernel.ledger.agents
            if name > after and speaks_for(kernel, who.submitter, name)
        )
        agents = [_described(kernel.ledger.agents[name]) for name in names[:count_max]]
        more = agents[-1]["agent_id"] if len(names) > count_max else None
        return {"seq": kernel.seq, "agents": agents, "next": more}

    return _json(await asked.query(look))


@router.post(
    "/worlds/{world}/agents",
    summary="Register an agent",
    status_code=201,
    responses=answers(201, "Agent", 200, 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=body_of("Registration"),
)
async def register(world: str, request: Request) -> Response:
    """Register an agent; the domain places it by `attributes`.

    For an agent that is registered already, only `permissions` are changed, if the body has them;
    an `owner` in the body must equal the registered one.
    """
    context = context_of(request)
    context.operator(request)
    asked = context.world(world)
    given = _Registration(await context.document(request, fields=frozenset(_REGISTRATION)))
    is_new = not await asked.query(lambda kernel: given.agent_id in kernel.ledger.agents)
    try:
        await asked.register_agent(
            given.agent_id,
            permissions=given.permissions,
            owner=given.owner,
            priority_max=given.priority_max,
            quotas=given.quotas,
            **given.attributes,
        )
    except (TypeError, ValueError) as error:  # a quota, or a keyword that no domain takes
        raise Problem("request_invalid", str(error)) from error
    return await _agent(asked, given.agent_id, 201 if is_new else 200)


@router.get(
    "/worlds/{world}/agents/{agent_id:path}",
    summary="Get an agent",
    responses=answers(200, "Agent", 401, 403, 404, 503),
)
async def agent(world: str, agent_id: str, request: Request) -> Response:
    """Return an agent: owner, permissions, priority bound, suspension."""
    context = context_of(request)
    who, asked = context.principal(request), context.world(world)
    await context.check_speaks_for(asked, who, agent_id)
    return await _agent(asked, agent_id)


@router.put(
    "/worlds/{world}/agents/{agent_id:path}/permissions",
    summary="Set an agent's permissions",
    responses=answers(200, "Agent", 401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=body_of("Permissions"),
)
async def set_permissions(world: str, agent_id: str, request: Request) -> Response:
    """Set the kinds that an agent may propose: null is all, an empty array is none."""
    context, asked = await _as_operator(world, agent_id, request)
    given = await context.document(request, fields=frozenset({"permissions"}))
    if "permissions" not in given:
        raise Problem("request_invalid", "the body must have 'permissions'")
    await asked.set_agent_permissions(agent_id, _kinds(given["permissions"]))
    return await _agent(asked, agent_id)


@router.post(
    "/worlds/{world}/agents/{agent_id:path}/suspend",
    summary="Suspend an agent",
    responses=answers(200, "Agent", 401, 403, 404, 422, 503),
)
async def suspend(world: str, agent_id: str, request: Request) -> Response:
    """Suspend an agent: its batches are refused until it is resumed."""
    _, asked = await _as_operator(world, agent_id, request)
    await asked.suspend_agent(agent_id)
    return await _agent(asked, agent_id)


@router.post(
    "/worlds/{world}/agents/{agent_id:path}/resume",
    summary="Resume an agent",
    responses=answers(200, "Agent", 401, 403, 404, 422, 503),
)
async def resume(world: str, agent_id: str, request: Request) -> Response:
    """Resume a suspended agent."""
    _, asked = await _as_operator(world, agent_id, request)
    await asked.resume_agent(agent_id)
    return await _agent(asked, agent_id)


@router.delete(
    "/worlds/{world}/agents/{agent_id:path}",
    summary="Remove an agent",
    status_code=204,
    responses=answers(204, "", 401, 403, 404, 422, 503),
)
async def remove(world: str, agent_id: str, request: Request) -> Response:
    """Remove an agent from the world. Its tokens stay valid, but act for no agent."""
    _, asked = await _as_operator(world, agent_id, request)
    await asked.remove_agent(agent_id)
    return Response(status_code=204)


async def _as_operator(
    world: str, agent_id: str, request: Request
) -> tuple[RequestContext, Orchestrator]:
    context = context_of(request)
    context.operator(request)
    asked = context.world(world)
    if not await asked.query(lambda kernel: agent_id in kernel.ledger.agents):
        raise Problem("not_found", f"there is no agent {agent_id!r}; register it first")
    return context, asked


async def _agent(world: Orchestrator, agent_id: str, status: int = 200) -> Response:
    def look(kernel: Kernel) -> dict[str, Json] | None:
        found = kernel.ledger.agents.get(agent_id)
        return None if found is None else {"seq": kernel.seq, **_described(found)}

    described = await world.query(look)
    if described is None:
        raise Problem("not_found", f"there is no agent {agent_id!r}; register it first")
    return _json(described, status)


def _described(found: Agent) -> dict[str, Json]:
    permissions = found.permissions
    return {
        "agent_id": found.agent_id,
        "owner": found.owner,
        "permissions": None if permissions is None else sorted(permissions),
        "priority_max": found.priority_max,
        "suspended": found.is_suspended,
    }


class _Registration:
    """The parsed body of a registration.

    Raises:
        Problem: A field has a value that is not permitted.
    """

    def __init__(self, given: Mapping[str, Json]) -> None:
        self.agent_id = identity(given.get("agent_id"), "agent_id")
        owner = given.get("owner")
        self.owner = None if owner is None else identity(owner, "owner")
        self.permissions = _kinds(given.get("permissions"))
        self.priority_max: int = given.get("priority_max", _PRIORITY_MAX)
        if type(self.priority_max) is not int or not 0 <= self.priority_max <= _PRIORITY_MAX:
            raise Problem("request_invalid", f"priority_max must be 0 to {_PRIORITY_MAX}")
        self.quotas = _object(given, "quotas")
        if not all(isinstance(one, dict) for one in self.quotas.values()):
            raise Problem("request_invalid", "quotas must be an object of quotas by kind")
        self.attributes = _object(given, "attributes")
        for name in ("self", *_REGISTRATION[:-1]):
            if name in self.attributes:
                raise Problem("request_invalid", f"attributes has no {name!r}; it is the domain's")


def _object(given: Mapping[str, Json], field: str) -> dict[str, Json]:
    value = given.get(field, {})
    if type(value) is not dict:
        raise Problem("request_invalid", f"{field} must be an object, got {format_value(value)}")
    return value


def _kinds(value: Json) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(kind, str) for kind in value):
        raise Problem("request_invalid", "permissions must be null or an array of kinds")
    return frozenset(value)


def _json(value: Json, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")
