"""The dashboard: a page without data that shows what its reader's token may read."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from placet.domains.session import Sessions
from placet.domains.world import World
from placet.server import create_app, dashboard
from placet.server.config import ServeConfig
from placet.server.dashboard import pages
from placet.server.dashboard.pages import (
    API,
    APPROVALS,
    COMPARE,
    DASHBOARD,
    PLAYER,
    ServedPage,
    render,
)
from placet.server.dashboard.routes import (
    HEADERS,
    PARTS,
    POLICY,
    dashboard_routes,
    folder_routes,
    player_routes,
)
from placet.server.routes import run_control, runs
from tests.cli.command_line import move
from tests.kernel.builders import add
from tests.server.served import TOKENS, serving

SCRIPTS = sorted(name for name in PARTS if name.endswith(".js"))
PAGES = {one.name: one for one in vars(pages).values() if isinstance(one, ServedPage)}
OF_THE_PLAYER = {"player_colors.js", "player_marks.js", "player_view.js"}
"""Of these the comparison calls functions that draw on a given canvas, and no element by its id."""

LINKS = {"openapi.json"} | {one.address or "./" for one in PAGES.values()}
RUNS_PATH = "/api/v1/runs"
HOSTILE = "<img src=x onerror=alert(1)>"

# What makes markup or a program of a text, or brings in what is not ours.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|setHTML|srcdoc|\beval\b|new Function|setTimeout\(\s*[\"'`]|setAttribute\(\s*[\"'`]on"
    r"|localStorage|document\.cookie|https?://(?!www\.w3\.org/2000/svg)"
)


def text_of(name):
    return files(dashboard).joinpath(name).read_text("utf-8")


def html_of(name):
    """Return a page as each server of it sends it: the navigation has all of them."""
    return render(PAGES[name], tuple(PAGES.values())).decode()


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


async def test_the_page_and_its_files_need_no_token_and_have_their_headers():
    async with serving() as served:
        for path, media_type in {
            "/": "text/html; charset=utf-8",
            "/play": "text/html; charset=utf-8",
            "/docs": "text/html; charset=utf-8",
            **{f"/dashboard/{name}": media_type for name, media_type in PARTS.items()},
        }.items():
            answer = await served.get(path, token=None)
            assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            assert (await served.ask("HEAD", path, token=None)).status_code == 200


def test_the_content_policy_allows_no_other_origin_and_no_frame():
    assert POLICY.startswith("default-src 'none';")
    for part in ("frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"):
        assert part in POLICY
    assert "unsafe" not in POLICY
    assert "*" not in POLICY
    assert HEADERS["referrer-policy"] == "no-referrer"
    assert HEADERS["x-content-type-options"] == "nosniff"


async def test_the_page_is_the_same_for_all_and_holds_no_world_data():
    async with serving() as served:
        before = (await served.get("/", token=None)).text
        await served.register(HOSTILE)
        await served.submit(add("r", agent_id=HOSTILE))
        for token in (None, "operator", "alice"):
            assert (await served.get("/", token=token)).text == before
            player = render(PLAYER, (DASHBOARD, APPROVALS, PLAYER, API)).decode()
            assert (await served.get("/play", token=token)).text == player
        assert not any(token in before for token in TOKENS.values())


@pytest.mark.parametrize(
    "name", ["__init__.py", "page.html", "..%2fapp.py", "%2e%2e%2fapp.py", "nothing.js", ""]
)
async def test_no_other_file_of_the_folder_is_served(name):
    async with serving() as served:
        answer = await served.get(f"/dashboard/{name}", token=None)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_dashboard_can_be_disabled():
    async with serving(serve=ServeConfig(dashboard=False)) as served:
        for path in ("/", "/play", "/docs", "/dashboard/main.js"):
            assert (await served.get(path)).status_code == 404


async def test_the_openapi_document_omits_the_dashboard():
    async with serving() as served:
        paths = (await served.get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if path in {"/", "/play", "/docs"} or "dashboard" in path]


def test_every_file_of_the_folder_is_served_and_every_reference_exists():
    there = {one.name for one in files(dashboard).iterdir() if one.is_file()}
    contents = {file for one in PAGES.values() for file in (one.content, one.control) if file}
    assert {one for one in there if not one.endswith(".py")} == {"frame.html", *contents, *PARTS}


def test_each_server_has_a_navigation_of_its_own_pages():
    for routes, addresses in (
        (dashboard_routes(), ["./", "approvals", "play", "docs"]),
        (player_routes(), ["play", "docs"]),
        (folder_routes(), ["./", "play", "docs"]),
    ):
        paths = {route.path for route in routes}
        with TestClient(Starlette(routes=routes)) as client:
            for path in paths - {"/dashboard/{name}"}:
                elements = Elements(client.get(path).text).found
                links = [one["href"] for tag, one in elements if tag == "a"]
                assert links[: len(addresses)] == addresses, path
                assert {"/" + one.removeprefix("./") for one in addresses} <= paths
                current = [one for tag, one in elements if "aria-current" in one]
                assert len(current) == (path != "/compare")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_no_inline_script_and_calls_this_server_only(name):
    page, styles = html_of(name), {"style.css", *PAGES[name].styles}
    loaded = set()
    for tag, attributes in Elements(page).found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        assert tag not in {"style", "iframe", "object", "embed", "base"}
        assert tag != "a" or attributes["href"] in LINKS
        if tag in {"script", "link"}:
            loaded.add(attributes.get("src") or attributes.get("href"))
    assert loaded == {f"dashboard/{part}" for part in (PAGES[name].script, "icon.svg", *styles)}
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    for style in styles:
        assert "url(" not in text_of(style)
        assert "@import" not in text_of(style)


@pytest.mark.parametrize("name", PAGES)
def test_every_field_has_a_label_and_every_id_is_unique(name):
    elements = Elements(html_of(name)).found
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = {attributes.get("for") for tag, attributes in elements if tag == "label"}
    for tag, attributes in elements:
        if tag in {"input", "select"} and attributes.get("type") != "checkbox":
            assert attributes["id"] in named or attributes.get("aria-label")
        for reference in attributes.get("aria-labelledby", "").split():
            assert reference in ids


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_inserts_text_as_markup(name):
    assert FORBIDDEN.findall(text_of(name)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "row.innerHTML = name",
        'node.setAttribute("onclick", name)',
        "fetch('https://example.org/x')",
        'setTimeout("go()", 1)',
    ],
)
def test_planted_markup_from_text_is_detected(planted):
    assert FORBIDDEN.search(planted)


def loaded_by(script):
    """Return a script and those that it imports, directly or not."""
    loaded, waiting = set(), [script]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded.add(name)
            waiting += re.findall(r'from "\./([^"]+)"', text_of(name))
    return loaded


def test_every_script_belongs_to_a_page():
    assert set().union(*(loaded_by(one.script) for one in PAGES.values())) == set(SCRIPTS)


@pytest.mark.parametrize("page", PAGES)
def test_every_element_a_script_names_exists(page):
    known = set(re.findall(r'\bid="([^"]+)"', html_of(page)))
    others = OF_THE_PLAYER if page == COMPARE.name else set()
    for name in loaded_by(PAGES[page].script) - others:
        ids = re.findall(r'\b(?:byId|write|show)\("([^"]+)"', text_of(name))
        assert set(ids) <= known, name


def test_the_page_has_the_rates_that_a_script_names_by_outcome():
    known = set(re.findall(r'\bid="([^"]+)"', html_of(DASHBOARD.name)))
    for outcome in ("admitted", "refused"):
        assert {f"rate-{outcome}", f"line-{outcome}", f"count-{outcome}"} <= known


def asked_paths():
    """Return each path that a script requests, as the application's routes name it."""
    for name in SCRIPTS:
        script = text_of(name)
        for _, path in re.findall(r"\b(ask|askText|askLong)\(\s*[\"`]([^\"`?]+)", script):
            yield "/" + path
        for path in re.findall(r"\bworldPath\(\s*(?:[\"`]([^\"`?]*)[^)]*)?\)", script):
            if "rest" not in path and "$" not in path:
                yield "/api/v1/worlds/{world}" + path
        for path in re.findall(r"\bpath\(\s*(?:[\"`]([^\"`?]*)[^)]*)?\)", script):
            if "$" not in path:
                yield "/api/v1/worlds/{world}/history" + path


def test_every_path_a_script_requests_is_in_the_openapi_document():
    paths = create_app([World(), Sessions()]).state.openapi()["paths"]
    asked = set(asked_paths()) - {"/openapi.json"}
    of_folder = {re.sub(r"\$\{.*\}", "{run}", path) for path in asked if path.startswith(RUNS_PATH)}
    of_folder = {path.replace("-work/{run}", "-work/{key}") for path in of_folder}
    assert of_folder == {route.path for route in runs.table.routes()}  # `placet play FOLDER`
    asked -= {path for path in asked if path.startswith(RUNS_PATH)}
    of_watched_runs = {route.path for route in run_control.table.routes()}
    assert asked <= set(paths) | of_watched_runs
    asked &= set(paths)
    assert {"/readyz", "/metrics", "/api/v1/worlds", "/api/v1/worlds/{world}/events"} <= asked
    assert {"/api/v1/history", "/api/v1/worlds/{world}/history/moment"} <= asked
    posted = {"/api/v1/worlds/{world}/history/forks"}
    assert all(("post" if path in posted else "get") in paths[path] for path in asked)


async def test_every_metric_a_script_reads_exists():
    names = {name for one in SCRIPTS for name in re.findall(r'"(placet_\w+)"', text_of(one))}
    async with serving() as served:
        told = (await served.get("/metrics")).text
    assert "placet_intents_total" in names
    assert [name for name in sorted(names) if f"# HELP {name} " not in told] == []


async def test_a_logged_refusal_has_the_fields_the_page_shows():
    """`format.js` reads them by their places."""
    async with serving(World(max_step=5.0), agents=()) as served:
        await served.register("ann", attributes={"position": [0, 0]})
        assert (await served.submit(move("ann", 1, to=[90, 0]))).status_code == 422
        events = (await served.get("events")).json()["events"]
    [refused] = [event for event in events if event["type"] == "refused"]
    [(index, stage, code, message)] = refused["refusals"]
    assert (index, stage, code) == (0, "domain", "world.step_too_long")
    assert "90" in message
