"""MCP resources: the agent's view, the kinds, and the events that it may see."""

import re
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from placet.agents.proposal.catalogue import wire_name
from placet.agents.session.session import Session
from placet.frontends.world_factory import catalogue_of
from placet.runtime.orchestrator import Orchestrator
from placet.schemas.codec import Json
from placet.schemas.printable import printable_json
from placet.server.http.problems import Problem
from placet.server.routes.state import durable_events
from placet.server.viewpoint import Viewpoint

_JSON: Final = "application/json"
_VIEW: Final = "placet://view"
_KINDS: Final = "placet://kinds"
_EVENTS: Final = "placet://events"
_EVENTS_MAX: Final = 100
_EVENTS_SINCE: Final = re.compile(r"placet://events(?:/(?P<since>\d{1,18}))?")

Asked = ServerRequestContext[Any]


class Resources:
    """The MCP resources of one session: its agent's view, kinds and events.

    Args:
        session: The session; its agent's visibility limits each resource.

    Attributes:
        state: The latest view that was read; None before.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.state: Json = None

    async def list(
        self, _request: Asked, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the list of the resources: view, kinds and events."""
        return types.ListResourcesResult(
            resources=[
                _resource(_VIEW, "view", "The view of the agent, and the seq at which it is true."),
                _resource(_KINDS, "kinds", "The kinds that may be proposed, with JSON Schemas."),
                _resource(_EVENTS, "events", f"The first {_EVENTS_MAX} events that it may see."),
            ]
        )

    async def list_templates(
        self, _request: Asked, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the list of the resource templates: the events after a seq."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    name="events-since",
                    uri_template=_EVENTS + "/{since}",
                    description="Events with a greater seq; continue with the seq of the last.",
                    mime_type=_JSON,
                )
            ]
        )

    async def read(
        self, _request: Asked, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the contents of the resource at an address, as JSON.

        Raises:
            MCPError: There is no resource at this address.
        """
        uri = str(params.uri)
        contents = types.TextResourceContents(
            uri=uri, mime_type=_JSON, text=printable_json(await self._value(uri))
        )
        return types.ReadResourceResult(contents=[contents])

    async def _value(self, uri: str) -> Json:
        if uri == _VIEW:
            return await self._view()
        if uri == _KINDS:
            return await self._kinds()
        match = _EVENTS_SINCE.fullmatch(uri)
        if match is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri!r}")
        return await self._events(int(match["since"] or 0))

    async def _view(self) -> Json:
        seq = self._session.world.seq  # read before the view, which is of this seq or a later one
        self.state = await self._session.state()
        return {"seq": seq, "view": self.state}

    async def _kinds(self) -> Json:
        catalogue = await catalogue_of(self._session)
        schemas = catalogue.schemas()
        kinds = [
            {
                "kind": kind.name,
                "tool": wire_name(kind.name),
                "summary": kind.summary,
                "risk": kind.risk,
                **({"cost": kind.cost} if catalogue.registry.charges_costs else {}),
                "schema": schemas[kind.name],
            }
            for kind in catalogue
        ]
        return {"kinds": kinds, "guides": list(catalogue.guides)}

    async def _events(self, since: int) -> Json:
        world = self._session.world
        assert isinstance(world, Orchestrator), "doors open their worlds themselves"
        if since >= world.seq:
            return {"events": [], "seq": since}
        try:
            events, _ = await durable_events(world, since, None, world.records, _EVENTS_MAX)
            eyes = Viewpoint(self._session.agent_id, self._session.agent_id)
            visible = await world.query(lambda kernel: eyes.events(kernel, events))
        except Problem as problem:
            raise MCPError(types.INVALID_PARAMS, problem.detail) from None
        return {"events": visible, "seq": events[-1].seq if events else since}


def _resource(uri: str, name: str, description: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=description, mime_type=_JSON)
