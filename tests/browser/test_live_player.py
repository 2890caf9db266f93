"""The player beside a writer: a run in progress, a compacted log, held plans, hostile names."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import expect

from placet.domains.world import World
from placet.kernel import Kernel, KernelConfig
from placet.schemas.log.record import LogAppend
from placet.server.player_page import PlayerPage, play
from placet.stores.sqlite.log import SqliteEventLog
from tests.browser.conftest import looking, playing
from tests.history.timeline.played_logs import move, world_records
from tests.history.timeline.test_timeline import sqlite_log

pytestmark = pytest.mark.slow

HOSTILE = ["<img src=x onerror=alert(1)>", "a\u202eb\u2066c", "</td><script>alert(1)</script>"]
THOUSANDS = re.compile("\u202f")


@contextmanager
def running(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "placet", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def number(looked, name):
    return int(looked.fact(name).split()[0].partition(",")[0])


@pytest.mark.parametrize("engine", ["kernel", "actors"])
def test_a_run_is_watched_paused_stepped_and_an_agent_suspended(browser, tmp_path, engine):
    store = tmp_path / "town.db"
    options = ["--agents", 20, "--ticks", 100_000, "--store", store, "--no-verify", "--watch"]
    options += ["--ticks-per-second", 2]
    options += ["--metrics-port", free_port()] if engine == "actors" else []
    with running("run", "town", *options) as run:
        assert run.stderr is not None
        lines = iter(run.stderr.readline, "")
        address = next(line for line in lines if "watch it at" in line).split()[-1]
        with looking(browser, address) as looked:
            page = looked.page
            expect(page.get_by_label("at most")).to_have_value("2")
            page.get_by_label("at most").select_option("as fast as it can")
            expect(page.get_by_label("at most")).to_have_value("")
            page.wait_for_timeout(1000)
            page.get_by_role("button", name="Pause the world").click()
            expect(page.get_by_role("button", name="Resume the world")).to_be_visible()
            looked.press("End")
            page.wait_for_selector("#standing:text('at the end')")
            page.wait_for_timeout(1500)  # the tick that was begun is completed
            looked.press("End")
            page.wait_for_timeout(500)
            before = number(looked, "tick")
            page.get_by_role("button", name="Step it").click()
            looked.wait_fact("tick", f"{before + 1} of {before + 1}")  # the page follows the end
            page.get_by_role("button", name="folk_1", exact=True).first.click()
            page.get_by_role("button", name="Suspend", exact=True).click()
            page.get_by_role("button", name="Step it").click()
            looked.wait_fact("tick", f"{before + 2} of {before + 2}")
            row = page.locator("#agents tbody tr").filter(
                has=page.get_by_role("button", name="folk_1", exact=True)
            )
            expect(row).to_contain_text("suspended")
            page.get_by_role("button", name="Resume the world").click()
            expect(page.get_by_role("button", name="Pause the world")).to_be_visible()
            expect(page.locator("#at-tick")).not_to_have_text(f"{before + 2} of {before + 2}")
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130
        with pytest.raises(httpx.ConnectError):  # the player ends with the run
            httpx.get(looked.page.url)


def test_a_log_that_is_compacted_while_it_is_played_goes_on_and_says_so(browser, tmp_path):
    store = tmp_path / "town.db"
    options = ["--agents", 20, "--ticks", 40, "--store", store, "--no-verify"]
    with running("run", "town", *options) as run:
        run.communicate()
    with playing(store) as played, looking(browser, played.page) as looked:
        looked.press("ArrowRight")
        looked.wait_fact("tick", "1 of 40")
        with running("compact", store, "--keep", 200) as compact:
            compact.communicate()
            assert compact.returncode == 0
        notice = looked.page.locator("#notice")
        expect(notice).to_contain_text("compacted while it was played")
        start = json.loads(
            looked.page.request.get(
                f"{played.url}/api/v1/worlds/town/history",
                headers={"authorization": f"Bearer {played.token}"},
            ).text()
        )["start"]
        assert start["seq"] > 0
        looked.wait_fact("seq", str(start["seq"]))
        looked.press("End")
        looked.page.wait_for_selector("#standing:text('at the end')")


def test_hostile_names_are_shown_as_text(browser, tmp_path, monkeypatch):
    # An older log may have a name that is refused for new agents.
    monkeypatch.setattr("placet.kernel.kernel.require_clear_name", lambda *_: None)
    log = SqliteEventLog(tmp_path / "hostile.db")
    records: list[bytes] = []
    kernel = Kernel(World(), KernelConfig(world=HOSTILE[0]), sink=records.append)
    for at, name in enumerate(HOSTILE):
        kernel.register_agent(name, position=[float(at), 0.0])
    speak = {"text": "<script>alert(2)</script>\u202e", "channel": "public"}
    kernel.step(
        1.0,
        [[move(name, "1", [0.0, 1.0])] for name in HOSTILE]
        + [[{**move(HOSTILE[0], "2", []), "kind": "Speak", "payload": speak}]],
    )
    log.append(LogAppend(0, 0, kernel.seq, tuple(records)), log.open())
    log.close()
    with playing(tmp_path / "hostile.db") as played, looking(browser, played.page) as looked:
        page = looked.page
        looked.press("End")
        page.wait_for_selector("#standing:text('at the end')")
        page.locator("#agents button").first.click()
        expect(page.locator("#inspect .tree").first).to_be_visible()
        page.get_by_role("button", name="What it saw").click()
        expect(page.locator("#inspect .answer h3")).to_be_visible()
        text = page.inner_text("body")
        assert HOSTILE[0] in text
        assert "a\\u202eb\\u2066c" in text
        assert not set(text) & {"\u202e", "\u2066"}
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1  # the page's own


def test_a_page_of_a_notebook_plays_without_a_server(browser, tmp_path):
    sqlite_log(tmp_path, world_records(ticks=12))
    page = play(tmp_path / "run.db")
    assert isinstance(page, PlayerPage)
    frame = tmp_path / "notebook.html"
    frame.write_text(f"<!doctype html><body>{page._repr_html_()}", "utf-8")
    for shown in (page.save(tmp_path / "run.html"), frame):
        context = browser.new_context(offline=True)
        tab = context.new_page()
        errors: list[str] = []
        tab.on("pageerror", lambda error, to=errors: to.append(str(error)))
        tab.goto(shown.as_uri())
        inner = tab if shown != frame else tab.frame_locator("iframe")
        expect(inner.locator("#at-tick")).to_have_text("0 of 12")
        inner.get_by_role("button", name="One step on").click()
        expect(inner.locator("#at-tick")).to_have_text("1 of 12")
        inner.get_by_role("button", name="Next refusal").click()
        inner.get_by_role("button", name="Why", exact=True).click()
        expect(inner.locator("#inspect .answer")).to_contain_text("placet play STORE")
        assert errors == []
        context.close()
