"""A real browser, and a player of a small run, for the tests of the pages.

`TEST_CHROMIUM` names the browser; else Debian's `chromium` on PATH. Without one the tests skip;
with `TEST_CHROMIUM_REQUIRED=1`, which CI sets, they fail.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect, sync_playwright

START_MS_MAX = 60_000
"""Patience with a process that begins and with a page, on a busy machine."""
expect.set_options(timeout=START_MS_MAX)

THIN_SPACE = "\u202f"
"""Between the thousands of a number on the page."""


# Of a module, not of the session: while it is open an event loop runs in this thread, and the
# asynchronous tests of other modules could not start one.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium")
    if path is None:
        if os.environ.get("TEST_CHROMIUM_REQUIRED") == "1":
            pytest.fail("no Chromium on this machine: install Debian's, or set TEST_CHROMIUM")
        pytest.skip("no Chromium on this machine: install Debian's, or set TEST_CHROMIUM")
    with sync_playwright() as playwright:
        # A container's root has no sandbox for the browser; the pages are our own. Debian's browser
        # would emulate a graphics processor to draw them, for a third of the time of these tests.
        flags = ["--no-sandbox", "--disable-gpu"]
        opened = playwright.chromium.launch(executable_path=path, args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with refusals of several codes."""
    store = tmp_path_factory.mktemp("played") / "town.db"
    arguments = [
        "run",
        "town",
        "--agents",
        "30",
        "--ticks",
        "20",
        "--store",
        str(store),
        "--no-verify",
    ]
    subprocess.run([sys.executable, "-m", "placet", *arguments], check=True, capture_output=True)
    return store


class Played:
    """A running `placet play`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        self.url: str = told["url"]
        self.page: str = told["page"]
        self.token: str = told["operator_token"]


@contextmanager
def playing(store: Path | str, *options: str) -> Iterator[Played]:
    """Run `placet play` on a store."""
    command = [sys.executable, "-m", "placet", "play", str(store), "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Played(process)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def played_town(town: Path) -> Iterator[Played]:
    with playing(town) as played:
        yield played


class Looked:
    """A page, and all that went wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.errors: list[str] = []
        self.requested: set[str] = set()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(START_MS_MAX)
        self.page.on(
            "console",
            lambda m: self.errors.append(m.text) if m.type in {"error", "warning"} else None,
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requested.add(request.url))
        self.page.goto(url)
        self.page.wait_for_selector("#at-seq:not(:empty)")

    def _dismiss(self, dialog: Dialog) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def fact(self, name: str) -> str:
        return self.page.inner_text(f"#at-{name}").replace(THIN_SPACE, "")

    def wait_fact(self, name: str, value: str) -> None:
        """Wait until a fact of the moment has a value."""
        grouped = re.sub(
            r"\d{4,}", lambda found: f"{int(found[0]):,}".replace(",", THIN_SPACE), value
        )
        expect(self.page.locator(f"#at-{name}")).to_have_text(grouped)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)


@contextmanager
def looking(browser: Browser, url: str, **options: object) -> Iterator[Looked]:
    """Open a page in a context of its own, and check that nothing went wrong in it."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
    try:
        looked = Looked(context, url)
        yield looked
        assert looked.errors == []
        origin = url.partition("#")[0]
        assert [one for one in looked.requested if not one.startswith(origin)] == []
    finally:
        context.close()
