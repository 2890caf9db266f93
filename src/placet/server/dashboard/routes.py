"""The routes of the pages and of their files, on each kind of server: static bytes, no token."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.server.dashboard.pages import (
    API,
    APPROVALS,
    COMPARE,
    DASHBOARD,
    PLAYER,
    RUNS,
    ServedPage,
    file_text,
    render,
)
from placet.server.http.problems import Problem

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES: Final = """
    style.css player.css icon.svg main.js api.js approval_card.js approvals.js approvals_page.js
    chart.js events.js failures.js format.js map.js metrics.js panels.js player.js
    player_axes.js player_bands.js player_card.js player_colors.js player_dots.js player_failure.js
    player_feed.js player_inspect.js player_line.js player_map.js player_marks.js
    player_series.js player_settings.js player_state.js player_story.js player_view.js tree.js
    map_layers.js runs.css runs.js runs_note.js sign_in.js compare.js compare_chart.js
    compare_map.js compare_work.js reading.js feed_line.js worlds.js docs.css docs.js
    docs_operation.js docs_schema.js docs_try.js doubts.js decision_form.js exact_json.js values.js
"""
PARTS: Final = {name: _MEDIA_TYPES[name.rpartition(".")[2]] for name in _NAMES.split()}
"""What the pages load, by name, and its media type. Nothing else in this folder is served."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",  # for browsers without frame-ancestors
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # a page and its script are of one release
}


async def part(request: Request) -> Response:
    """Return the response with a file that the pages load, such as a script."""
    name = request.path_params["name"]
    media_type = PARTS.get(name)
    if media_type is None:
        raise Problem("not_found", f"the dashboard has no {name!r:.80}")
    return Response(file_text(name), headers=HEADERS, media_type=media_type)


def dashboard_routes() -> list[Route]:
    """Return the routes of the dashboard: its pages, and the files that they load."""
    return _routes(DASHBOARD, APPROVALS, PLAYER, API)


def player_routes() -> list[Route]:
    """Return the routes of a server that only plays: the player is its first page."""
    return _routes(PLAYER, API)


def folder_routes() -> list[Route]:
    """Return the routes of a server of a folder: its first page is the list of the runs."""
    return _routes(RUNS, PLAYER, API, unlisted=(COMPARE,))


def _routes(*pages: ServedPage, unlisted: tuple[ServedPage, ...] = ()) -> list[Route]:
    """Return the routes of the pages of a navigation, the first at `/`, of others, and of files."""
    shown = {"": pages[0]} | {one.address: one for one in (*pages, *unlisted)}
    served = [Route(f"/{address}", _serving(one, pages)) for address, one in shown.items()]
    return [*served, Route("/dashboard/{name}", part)]


def _serving(page: ServedPage, pages: tuple[ServedPage, ...]) -> _Endpoint:
    async def serve_page(_request: Request) -> Response:
        """Return the response with a page; it needs no token."""
        html = render(page, pages)
        return Response(html, headers=HEADERS, media_type="text/html; charset=utf-8")

    return serve_page
