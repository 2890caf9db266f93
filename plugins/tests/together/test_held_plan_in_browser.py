"""A held plan of a design is approved in a browser."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import expect


@contextmanager
def running(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "placet", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_held_plan_is_approved_in_the_browser(browser):
    with running("serve", "--domain", "design", "--sessions", "--port", 0, "--json") as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        headers = {"authorization": f"Bearer {told['operator_token']}"}
        world = f"{told['url']}/api/v1/worlds/{told['world']}"
        opened = httpx.post(f"{world}/sessions", json={"mode": "interactive"}, headers=headers)
        assert opened.status_code == 201, opened.text
        message = {"message": "set the length to 24 m"}
        held = httpx.post(f"{world}/sessions/main/messages", json=message, headers=headers)
        assert held.status_code == 202, held.text
        page_url = f"{told['url']}/play#token={told['operator_token']}"
        with looking_at_served(browser, page_url) as page:
            panel = page.get_by_role("region", name="Requests for approval")
            expect(panel).to_be_visible()
            panel.get_by_role("button", name=re.compile("^Approve")).click()
            expect(panel.get_by_role("status")).to_have_text("approved by operator")
            expect(panel.locator(".plan-changes")).to_contain_text("hull.loa")
            expect(panel.get_by_role("button")).to_have_count(0)
        approvals = httpx.get(f"{world}/sessions/main/approvals", headers=headers).json()
        assert [one["state"] for one in approvals["approvals"]] == ["approved"]


@contextmanager
def looking_at_served(browser, url):
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#at-seq:not(:empty)")
    yield page
    assert errors == []
    context.close()
