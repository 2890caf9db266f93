"""The dashboard of a world with sessions: held plans, and the page of a person who decides."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from placet.schemas.identity import OPERATOR
from placet.server.credentials import KnownToken, entry_text, hash_of

pytestmark = pytest.mark.slow

TOKENS = {name: f"token-of-{name}-{'x' * 20}" for name in (OPERATOR, "ann")}
SESSION = {"session": "main", "agent": "alice", "people": {"ann": ""}}


class Server:
    """A running `placet serve` with an open session, in which ann decides."""

    def __init__(self, url: str) -> None:
        self.url = f"{url.rstrip('/')}/"
        self.world = f"{self.url}api/v1/worlds/world"
        self.post("agents", {"agent_id": "alice"})
        self.post("sessions", SESSION)

    def post(self, path: str, body: object, token: str = OPERATOR) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKENS[token]}"}
        return httpx.post(f"{self.world}/{path}", json=body, headers=headers, timeout=60)

    def say(self, amount: int) -> httpx.Response:
        return self.post("sessions/main/messages", {"message": f"/till.put amount={amount}"}, "ann")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    entries = [entry_text(KnownToken(name, hash_of(token))) for name, token in TOKENS.items()]
    (tmp_path / "tokens.toml").write_text("".join(entries))
    (tmp_path / "placet.toml").write_text("[people.ann]\nroles = []\n")
    command = [sys.executable, "-m", "placet", "serve", "--json", "--port", "0", "--tokens"]
    command += [str(tmp_path / "tokens.toml"), "--domain", "tests.agents.till:Till"]
    command += ["--set", "serve.sessions=true", "--config", str(tmp_path / "placet.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()


@contextmanager
def page_of(browser: Browser, server: Server, token: str, path: str = "") -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.url}{path}#token={TOKENS[token]}")
    yield page
    assert errors == []
    context.close()


def test_a_person_decides_on_the_dashboard_and_signs_out(browser, server):
    server.say(500)
    server.say(-1)
    with page_of(browser, server, "ann") as page:
        expect(page.locator("#limits")).to_contain_text(
            "nothing but requests for approval is shown"
        )
        expect(page.locator(".plan-changes")).to_have_text("till.box/box/sum 0 → 500")
        page.get_by_role("button", name="Deny: /till.put amount=500").click()
        expect(page.locator("#approvals").get_by_role("button")).to_have_count(0)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    server.say(600)
    with page_of(browser, server, "ann") as page:
        page.get_by_role("button", name="Approve: /till.put amount=600").click()
        expect(page.get_by_role("status").filter(has_text="approved by ann")).to_be_visible()
        expect(page.locator(".plan.approved")).to_contain_text("till.box/box/sum 0 → 600")
    server.say(700)
    with page_of(browser, server, OPERATOR) as page:
        expect(page.locator("#plans")).to_have_text("1 request waits for your decision")
        marks = {"held": "waits", "denied": "failed", "till.negative": "failed"}
        for text, mark in marks.items():
            line = page.locator("#feed li").filter(has_text=re.compile(rf"session\.end.*{text}"))
            expect(line.first).to_have_class(mark)


def test_the_player_keeps_its_ways_out_for_a_token_that_may_not_play(browser, server):
    with page_of(browser, server, "ann", "play") as page:
        expect(page.locator("#notice")).to_contain_text("needs the operator's token")
        expect(page.locator("#standing")).to_have_text("refused")
        page.get_by_role("link", name="Dashboard").click()
        expect(page.locator("#limits")).to_contain_text("appear here")


def test_the_player_of_a_served_world_opens_at_the_present(browser, server):
    server.say(5)
    with page_of(browser, server, OPERATOR, "play") as page:
        expect(page.locator("#standing")).to_have_text("at the end")
        expect(page.locator("#at-seq")).not_to_have_text("0")
