"""The dashboard: pages that look at a world through this API, with its reader's own token.

The page holds no data, so it is public; its data comes from the same API as any client's. It loads
nothing from elsewhere, and text of agents never becomes markup: it is inserted as text, and the
content security policy forbids inline scripts and evaluated code.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from placet.server.http.problems import Problem

PAGE: Final = "page.html"
PLAYER: Final = "player.html"
APPROVALS: Final = "approvals.html"
RUNS: Final = "runs.html"
COMPARE: Final = "compare.html"
_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES: Final = """
    style.css player.css icon.svg main.js api.js approval_card.js approvals.js approvals_page.js
    chart.js events.js format.js map.js metrics.js panels.js player.js player_axes.js
    player_card.js player_colors.js player_dots.js player_feed.js player_inspect.js player_line.js
    player_map.js player_marks.js player_series.js player_settings.js player_state.js player_view.js
    tree.js map_layers.js runs.css runs.js runs_note.js sign_in.js compare.js compare_chart.js
    compare_map.js reading.js doubts.js
"""
PARTS: Final = {name: _MEDIA_TYPES[name.rpartition(".")[2]] for name in _NAMES.split()}
"""What the page loads, by name, and its media type. Nothing else in this folder is served."""

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
    "cache-control": "no-cache",  # the page and its script are of one release
}


async def page(_request: Request) -> Response:
    """Return the response with the page of the dashboard; it needs no token."""
    return Response(_read(PAGE), headers=HEADERS, media_type="text/html; charset=utf-8")


async def part(request: Request) -> Response:
    """Return the response with a file that the dashboard loads, such as a script."""
    name = request.path_params["name"]
    media_type = PARTS.get(name)
    if media_type is None:
        raise Problem("not_found", f"the dashboard has no {name!r:.80}")
    return Response(_read(name), headers=HEADERS, media_type=media_type)


async def player(_request: Request) -> Response:
    """Return the response with the page of the player; it needs no token."""
    return Response(_read(PLAYER), headers=HEADERS, media_type="text/html; charset=utf-8")


async def approvals(_request: Request) -> Response:
    """Return the response with the page of the requests for approval; it needs no token."""
    return Response(_read(APPROVALS), headers=HEADERS, media_type="text/html; charset=utf-8")


async def runs(_request: Request) -> Response:
    """Return the response with the page of the runs of a folder; it needs no token."""
    return Response(_read(RUNS), headers=HEADERS, media_type="text/html; charset=utf-8")


async def compare(_request: Request) -> Response:
    """Return the response with the page of two runs side by side; it needs no token."""
    return Response(_read(COMPARE), headers=HEADERS, media_type="text/html; charset=utf-8")


def routes() -> list[Route]:
    """Return the routes of the dashboard: its pages, and the files that they load."""
    pages = [Route("/", page), Route("/approvals", approvals), Route("/play", player)]
    return [*pages, Route("/dashboard/{name}", part)]


def player_routes() -> list[Route]:
    """Return the routes of a server that only plays: the player is its first page."""
    return [Route("/", player), Route("/play", player), Route("/dashboard/{name}", part)]


def folder_routes() -> list[Route]:
    """Return the routes of a server of a folder: its first page is the list of the runs."""
    pages = [Route("/", runs), Route("/compare", compare), Route("/play", player)]
    return [*pages, Route("/dashboard/{name}", part)]


@cache
def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()
