"""The page of the API: an operation is found, linked, read and tried, with and without a token."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.hostile_shop import HOSTILE

pytestmark = pytest.mark.slow

PHONE = {"width": 375, "height": 800}
DESKTOP = {"width": 1280, "height": 900}
BATCHES = "/api/v1/worlds/{world}/batches"


@pytest.fixture(scope="module")
def server() -> Iterator[SimpleNamespace]:
    command = [sys.executable, "-m", "placet", "serve", "--json", "--port", "0"]
    command += ["--domain", "tests.browser.hostile_shop:Shop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield SimpleNamespace(url=told["url"].rstrip("/"), token=told["operator_token"])
        finally:
            process.terminate()


@contextmanager
def page_of(
    browser: Browser, url: str, token: str = "", size: dict[str, int] = DESKTOP, **options: object
) -> Iterator[Page]:
    """Open a page, and check that nothing went wrong in it and nothing is wider than the screen."""
    context = browser.new_context(viewport=size, **options)  # type: ignore[arg-type]  # literals
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto(url + (f"#token={token}" if token else ""))
    expect(page.locator("#standing")).to_have_text("ready")
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert page.locator("img").count() == 0
    assert errors == []
    context.close()


def operation(page: Page, method: str, path: str) -> Locator:
    """Return the element of an operation."""
    return page.locator(".operation").filter(
        has=page.locator("summary .method", has_text=re.compile(f"^{method}$")).locator(
            f"xpath=following-sibling::code[.='{path}']"
        )
    )


def opened(page: Page, method: str, path: str) -> Locator:
    found = operation(page, method, path)
    found.locator("> summary").click()
    expect(found.locator(".inside")).to_be_visible()
    return found


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_an_operation_is_found_and_tried_with_a_token(browser, server, size):
    with page_of(browser, f"{server.url}/docs", server.token, size) as page:
        expect(page.locator("#who")).to_have_text("as the operator")
        page.keyboard.press("/")
        page.keyboard.type("registers an agent post")
        page.get_by_label("Find").fill("post register")
        expect(page.locator("#found")).to_have_text(re.compile(r"^\d of \d\d$"))
        found = opened(page, "POST", "/api/v1/worlds/{world}/agents")
        expect(found.get_by_label("world")).to_have_value("world")
        body = found.get_by_label("Body of the request")
        body.fill(json.dumps({"agent_id": f"{HOSTILE}-{size['width']}"}))
        found.get_by_role("button", name="Try it").click()
        expect(found.locator(".answer .status-of")).to_have_text("201 Created")
        expect(found.locator(".answer .shown-text")).to_contain_text(f'"agent_id": "{HOSTILE}')
        expect(found.locator(".answer dl")).to_contain_text("x-request-id")


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_without_a_token_the_page_is_whole_and_the_server_refuses(browser, server, size):
    with page_of(browser, f"{server.url}/docs", "", size) as page:
        found = opened(page, "GET", "/api/v1/worlds")
        found.get_by_role("button", name="Try it").press("Enter")
        expect(found.locator(".answer .status-of")).to_have_text("401 Unauthorized")
        expect(found.locator(".answer .shown-text")).to_contain_text('"code": "unauthenticated"')
        healthy = opened(page, "GET", "/healthz")
        expect(healthy).to_contain_text("needs no token")
        healthy.get_by_role("button", name="Try it").click()
        expect(healthy.locator(".answer .shown-text")).to_contain_text('"status": "ok"')
        page.get_by_role("button", name="Sign in").first.click()
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#sign-in-error")).to_contain_text("does not know this token")
        page.get_by_label("Token").fill(server.token)
        page.keyboard.press("Enter")
        expect(page.locator("#who")).to_have_text("as the operator")
        found.get_by_role("button", name="Try it").click()
        expect(found.locator(".answer .status-of")).to_have_text("200 OK")
        page.get_by_role("button", name="Sign out").click()
        found.get_by_role("button", name="Try it").click()
        expect(found.locator(".answer .status-of")).to_have_text("401 Unauthorized")


def test_the_line_for_a_shell_is_the_same_request_without_the_token(browser, server):
    with page_of(browser, f"{server.url}/docs", server.token) as page:
        found = opened(page, "POST", BATCHES)
        assert server.token not in page.content()
        text = {"kind": "shop.order", "payload": {"item": "it's $HOME"}, "agent_id": "bo"}
        found.get_by_label("Body of the request").fill(json.dumps([text]))
        found.get_by_label("Idempotency-Key").fill("o'1")
        line = found.get_by_label("The request for a shell").inner_text()
    shell = "curl() { printf '%s\\0' \"$@\"; }\n" + line
    done = subprocess.run(
        ["sh", "-c", shell], env={"PLACET_TOKEN": "t"}, capture_output=True, check=True, text=True
    )
    words = done.stdout.split("\0")[:-1]
    assert words[:4] == ["-i", "-X", "POST", f"{server.url}/api/v1/worlds/world/batches"]
    assert words[4:-2:2] == ["-H"] * 3
    headers = {"authorization: Bearer t", "Idempotency-Key: o'1"}
    assert {*words[5:-2:2]} == headers | {"content-type: application/json"}
    assert words[-2] == "--data-raw"
    assert json.loads(words[-1]) == [text]


def test_a_link_opens_its_operation_with_its_schemas_and_codes(browser, server):
    with page_of(browser, f"{server.url}/docs#submit_batch") as page:
        found = operation(page, "POST", BATCHES)
        expect(found.locator(".inside")).to_be_visible()
        expect(found).to_be_in_viewport()
        expect(page.locator(".operation[open]")).to_have_count(1)
        expect(found.locator(".chip.writes").first).to_have_text("may write")
        schema = found.locator("form .schema")
        schema.locator("summary").filter(has_text="form 3").click()
        order = schema.locator("summary", has_text="payload")
        order.click()
        expect(schema).to_contain_text(HOSTILE)
        expect(schema).to_contain_text("1 to 9")
        expect(schema).to_contain_text("\\u202e of the order")
        conflict = found.locator(".response", has_text="409")
        expect(conflict).to_contain_text("stale_context, condition_failed")
        conflict.locator("summary").first.click()
        expect(conflict).to_contain_text("Verdict")
        expect(found.get_by_label("Idempotency-Key")).to_be_visible()
        page.evaluate("location.hash = '#remove_agent'")
        removed = operation(page, "DELETE", "/api/v1/worlds/{world}/agents/{agent_id}")
        expect(removed.locator(".inside")).to_be_visible()
        expect(removed.locator(".method.delete")).to_be_visible()


def test_the_example_of_each_body_is_accepted_as_a_request(browser, server):
    """Examples have the form of the schema; the world may refuse them, the reader of bodies not."""
    with page_of(browser, f"{server.url}/docs", server.token) as page:
        found = opened(page, "POST", "/api/v1/worlds/{world}/dry-run")
        found.get_by_role("button", name="Try it").click()
        expect(found.locator(".answer .status-of")).to_be_visible()
        answer = json.loads(found.locator(".answer .shown-text").inner_text())
        assert "refusals" in answer


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_used_by_the_keyboard_in_both_schemes(browser, server, scheme):
    with page_of(browser, f"{server.url}/docs", server.token, color_scheme=scheme) as page:
        page.get_by_label("Find").fill("list_worlds")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".operation[open]")).to_have_count(1)
        page.wait_for_function("location.hash === '#list_worlds'")
        for _ in range(2):  # the link, then the button: the operation has no parameters
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator(".answer .status-of")).to_have_text("200 OK")


def test_the_navigation_of_every_page_has_the_api(browser, server):
    with page_of(browser, f"{server.url}/docs", server.token) as page:
        pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(pages).to_have_text(["Dashboard", "Approvals", "Player", "API"])
        for name in ("Dashboard", "Approvals", "Player"):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
            page.get_by_role("link", name="API", exact=True).click()
            expect(page.locator("#standing")).to_have_text("ready")


def test_a_server_that_only_plays_has_the_page_of_its_own_routes(browser, played_town):
    with page_of(browser, f"{played_town.url.rstrip('/')}/docs", played_town.token) as page:
        pages = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(pages).to_have_text(["Player", "API"])
        expect(operation(page, "POST", BATCHES)).to_have_count(0)
        found = opened(page, "GET", "/api/v1/worlds/{world}/history")
        found.get_by_role("button", name="Try it").click()
        expect(found.locator(".answer .status-of")).to_have_text("200 OK")
