"""Settings and resets in a watched run: forks with other settings, and runs from the start."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from placet.history.reader import check_integrity
from placet.scenarios.resume import find_run
from placet.server.history.series import series_of
from placet.stores.reading import log_to_read
from tests.browser.conftest import looking

pytestmark = pytest.mark.slow

COUNTS = """
def sick(state):
    return sum(row["state"] == 1 for row in state["sir.people"].values())
"""
SIR = """
domain = "placet.scenarios.builtin.sir:Sir"
seed = 1
ticks = 40

[settings]
links = 600
outbreak = 3

[populations.people]
count = 200
table = "sir.people"
policy = "placet.scenarios.builtin.sir:spread"
options = { infect = 0.04, recover = 0.05 }

[collect]
world = { sick = "sick_counts:sick" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sick_counts.py").write_text(COUNTS)
    (tmp_path / "sir.toml").write_text(SIR)
    return tmp_path


@contextmanager
def watching(folder: Path, *options: str) -> Iterator[str]:
    """Watch a run of sir; yield the address of its page."""
    command = [sys.executable, "-m", "placet", "run", "./sir.toml", "--watch", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True) as run:
        assert run.stderr is not None
        try:
            yield next(line for line in run.stderr if "watch it at" in line).split()[-1]
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        finally:
            run.kill()


def is_verified(path: Path) -> bool:
    return check_integrity(log_to_read(str(path))).is_ok


def sick_in(path: Path) -> list[float]:
    """Return the values of the series `sick` that is beside a log."""
    (series,) = series_of(log_to_read(str(path)))["series"]
    return list(series["lines"][0]["values"])


def test_a_setting_is_changed_in_the_middle_and_the_fork_runs_beside_the_first(browser, folder):
    with watching(folder, "--ticks-per-second", "1") as address, looking(browser, address) as at:
        page = at.page
        expect(page.locator("#at-tick")).not_to_have_text("0 of 0")
        page.get_by_role("button", name="Pause the world").click()
        expect(page.get_by_role("button", name="Resume the world")).to_be_visible()
        page.get_by_label("Jump to a").select_option("tick")
        page.get_by_label("Number to jump to").fill("1")
        page.get_by_role("button", name="Go", exact=True).click()
        expect(page.locator("#settings-of")).to_have_text("of sir; a fork begins at tick 1")
        beta = page.get_by_label("infect people", exact=True)
        expect(beta).to_have_value("0.04")
        beta.fill("0.5")
        expect(page.get_by_label("Name of the fork")).to_have_value("sir@1 infect=0.5")
        page.get_by_label("At most, ticks a second").select_option("as fast as it can")
        page.get_by_role("button", name="Fork here with these settings").click()
        expect(page.locator("#run-from-says")).to_contain_text(
            "sir@1 infect=0.5 is a fork of sir at tick 1, with infect 0.5 (there 0.04)."
        )
        expect(page.locator("#run-from-says")).to_contain_text("It has ended.")
        expect(page.locator("#worlds")).to_have_value("sir@1 infect=0.5")
        expect(page.get_by_label("infect people", exact=True)).to_have_value("0.5")
        expect(page.locator("#series")).to_contain_text("sick")
        page.get_by_role("button", name="Back to sir").click()
        expect(page.locator("#worlds")).to_have_value("sir")
        expect(page.get_by_role("button", name="Resume the world")).to_be_visible()  # as it was
    command = [sys.executable, "-m", "placet", "run", "--resume", "sir.db"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    first, fork = folder / "sir.db", folder / "sir@1 infect=0.5.db"
    assert max(sick_in(fork)) > max(sick_in(first))
    assert is_verified(first)
    assert is_verified(fork)
    run = find_run(log_to_read(str(fork)))
    assert run is not None
    assert run.is_finished
    assert run.scenario.populations["people"].options["infect"] == 0.5


def test_a_refused_value_stands_beside_its_control_and_a_reset_is_a_log_of_its_own(browser, folder):
    phone = {"width": 390, "height": 844}
    options = ("--ticks-per-second", "0.5")
    with watching(folder, *options) as address, looking(browser, address, viewport=phone) as at:
        page = at.page
        page.get_by_text("Settings", exact=True).click()  # folded on a phone
        links, fork = page.locator("#setting-0"), page.locator("#run-fork")
        for value, problem in (
            ("-5", "links is a number of links of at least 1, got -5"),
            ("", "expected a number"),
        ):
            links.fill(value)
            fork.focus()
            at.press("Enter")
            expect(page.locator("#setting-0-says")).to_contain_text(problem)
            expect(links).to_be_focused()
            expect(links).to_have_attribute("aria-invalid", "true")
        links.fill("300")
        fork.click()
        expect(page.locator("#setting-0-says")).to_contain_text("run again from the start")
        page.get_by_label("Seed", exact=True).select_option("the next seed")
        name = page.get_by_label("Name of the run from the start")
        expect(name).to_have_value("sir links=300 seed=2")
        (folder / "sir links=300 seed=2.db").touch()  # somebody was faster
        reset = page.get_by_role("button", name="Reset: run again from the start")
        reset.click()
        expect(page.locator("#again-says")).to_contain_text("already")
        expect(name).to_have_value("sir links=300 seed=2 2")
        reset.click()
        expect(page.locator("#run-from-says")).to_contain_text(
            "is a run of sir from the start, seed 2, with links 300 (there 600)."
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= phone["width"]
        page.get_by_role("button", name="End this run").click()
        expect(page.locator("#run-from-says")).to_contain_text("It has ended.")
        page.get_by_role("button", name="Back to sir").click()
        expect(page.get_by_role("button", name="Pause the world")).to_be_visible()  # it went on
        assert len(at.errors) == 3, at.errors  # the browser reports the refused requests
        at.errors.clear()
    assert is_verified(folder / "sir.db")
    assert is_verified(folder / "sir links=300 seed=2 2.db")
    run = find_run(log_to_read(str(folder / "sir links=300 seed=2 2.db")))
    assert run is not None
    assert (run.scenario.seed, run.scenario.settings["links"]) == (2, 300)


def test_the_card_is_there_before_its_settings_and_says_that_a_value_is_beyond_its_slider(
    browser, folder
):
    held: list[Route] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        with watching(folder, "--ticks-per-second", "1") as address:
            page = context.new_page()
            page.route("**/settings", lambda route: held.append(route))  # noqa: PLW0108  # as it is one
            page.goto(address)
            expect(page.locator("#settings-of")).to_have_text("of sir: reading them …")
            expect(page.locator("#at-seq")).not_to_be_empty()  # the moment does not wait for them
            expect(page.locator("#settings-form")).to_be_hidden()
            held.pop().continue_()
            sick = page.get_by_label("outbreak", exact=True)
            says = page.locator(".setting", has=sick).get_by_role("status")
            sick.fill("-3")
            expect(says).to_have_text(
                re.compile("^was 3; -3 is below the slider.s least, 0: the run")
            )
            sick.fill("9")
            expect(says).to_have_text(re.compile("9 is above the slider.s most, 6"))
            sick.fill("")
            expect(says).to_have_text("expected a number; was 3")
            sick.fill("4")
            expect(says).to_have_text("was 3")
            sick.fill("-3")
            page.get_by_role("button", name="Reset: run again from the start").click()
            expect(says).to_contain_text("outbreak is a number of people of at least 0, got -3")
            expect(sick).to_be_focused()
    finally:
        context.close()
