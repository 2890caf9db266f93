"""Exceptions in the pages: their text, their place, and the traceback that opens."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import playing

pytestmark = pytest.mark.slow

AGENT = "alice"


class Server:
    """A running `placet serve` of the faulty domain, with an agent."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.url, self.token = f"{told['url'].rstrip('/')}/", told["operator_token"]
        self.count = 0
        self.post("agents", {"agent_id": AGENT})

    def post(self, path: str, body: object) -> None:
        headers = {"authorization": f"Bearer {self.token}"}
        url = f"{self.url}api/v1/worlds/world/{path}"
        assert httpx.post(url, json=body, headers=headers, timeout=60).status_code < 600

    def propose(self, kind: str) -> None:
        self.count += 1
        req_id = f"{AGENT}:{self.count}"
        self.post("batches", [{"agent_id": AGENT, "req_id": req_id, "kind": kind, "payload": {}}])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    command = [sys.executable, "-m", "placet", "serve", "--json", "--port", "0"]
    command += ["--domain", "tests.browser.faulty:Faulty"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(json.loads(process.stdout.readline()))
        finally:
            process.terminate()


@contextmanager
def page_of(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    yield page
    expect(page.locator("#forged")).to_have_count(0)
    assert "\u202e" not in page.locator("body").inner_text()
    assert errors == []
    context.close()


def test_the_dashboard_shows_an_exception_with_its_traceback(browser: Browser, server: Server):
    server.propose("Spoil")
    server.propose("Send")
    with page_of(browser, f"{server.url}#token={server.token}") as page:
        spoiled = page.locator("#failures details").filter(has_text="the cask of alice")
        expect(spoiled).to_contain_text("rule of Spoil")
        expect(spoiled).to_contain_text("faulty.py:")
        expect(page.locator("#failures details")).to_have_count(2)
        expect(page.locator("#failures-say")).to_contain_text("Of this process alone")
        expect(spoiled.locator("pre")).to_be_hidden()
        spoiled.locator("summary").click()
        expect(spoiled.locator("pre")).to_contain_text("Traceback (most recent call last)")
        server.propose("Spoil")
        expect(spoiled).to_contain_text("2 times")
        expect(spoiled.locator("pre")).to_be_visible()
        spoiled.get_by_role("link").click()
        expect(page.locator("#at-seq")).not_to_have_text("0")
        expect(page.locator("#failures details")).to_have_count(2)


def test_each_line_of_the_story_of_an_agent_leads_to_its_moment(browser: Browser, server: Server):
    for kind in ("Count", "Spoil", "Send", "Count"):
        server.propose(kind)
    with page_of(browser, f"{server.url}#token={server.token}") as page:
        page.locator("#agents").get_by_role("link", name=AGENT).click()
        story = page.locator(".story")
        expect(page.locator("#inspect h3")).to_have_text("The story of alice")
        expect(story.locator("li").last).to_contain_text("joined")
        sent = story.locator("li").filter(has_text="effect faulty.post")
        expect(sent.first).to_contain_text("failed ConnectionError: no answer")
        page.get_by_label("newest first").uncheck()
        expect(story.locator("li").first).to_contain_text("joined")
        page.get_by_label("failures only").check()
        expect(story.locator("li").filter(has_text="Count")).to_have_count(0)
        spoiled = story.locator("li").filter(has_text="domain/rule_error").first
        seq = spoiled.locator(".seq").inner_text()
        spoiled.get_by_role("button").click()
        expect(page.locator("#at-seq")).to_have_text(seq)
        expect(story).to_be_visible()


def test_why_of_a_rule_that_raised_has_its_traceback(browser: Browser, server: Server):
    server.propose("Spoil")
    with page_of(browser, f"{server.url}play#token={server.token}") as page:
        page.locator("#feed button").filter(has_text="domain/rule_error").first.click()
        page.get_by_role("button", name="Why").click()
        found = page.locator("#inspect details.failure")
        expect(found).to_contain_text("the cask of alice")
        found.locator("summary").click()
        expect(found.locator("pre")).to_contain_text("in _spoil")
        page.get_by_role("button", name="Story of this request").click()
        expect(page.locator(".story li")).to_have_count(1)


SCENARIO = """
title = "clerks who tire"
domain = "tests.browser.faulty:Faulty"
ticks = 9

[agents.clerk]
count = 2
policy = "tests.browser.faulty:tire"
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that an exception ended, and a finished one, which is newer."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tire.toml").write_text(SCENARIO)
    for store, ticks, code in (("tired.db", 9, 1), ("good.db", 3, 0)):
        command = [sys.executable, "-m", "placet", "run", str(folder / "tire.toml"), "--no-verify"]
        command += ["--ticks", str(ticks), "--store", str(folder / store)]
        assert subprocess.run(command, check=False, capture_output=True).returncode == code
    return folder


def test_a_failed_run_is_first_in_the_list_and_its_player_has_the_traceback(
    browser: Browser, failed: Path
):
    with playing(failed) as played, page_of(browser, played.page) as page:
        rows = page.locator("#runs tbody tr")
        expect(rows.first).to_contain_text("tired.db")
        expect(rows.first).to_contain_text("failed")
        expect(page.locator("#runs .error")).to_contain_text("clerk_1 is tired")
        page.get_by_role("link", name="tired.db").click()
        failure = page.locator("#run-failure")
        expect(failure).to_contain_text("raised ValueError")
        failure.locator("summary").click()
        expect(failure.locator("pre")).to_contain_text("in tire")
        expect(page.locator("#failures")).to_be_hidden()
