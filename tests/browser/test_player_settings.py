"""Settings and resets while a run is watched: forks with other settings, and runs from the start."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from placet.history.reader import check_integrity
from placet.scenarios.resume import find_run
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
ticks = 60

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


def series_of(looked, world):
    """Return the values of the series `sick` of a run, which the page shows as it does."""
    page, url = looked.page, looked.page.url.partition("#")[0]
    token = page.evaluate("sessionStorage.getItem('placet.token')")
    answer = page.request.get(
        f"{url}api/v1/worlds/{world}/history/series", headers={"authorization": f"Bearer {token}"}
    )
    return answer.json()["series"][0]


def test_a_setting_is_changed_in_the_middle_and_the_fork_runs_beside_the_first(browser, folder):
    with watching(folder, "--ticks-per-second", "30") as address, looking(browser, address) as at:
        page = at.page
        page.get_by_role("button", name="Pause the world").click()
        expect(page.get_by_role("button", name="Resume the world")).to_be_visible()
        page.wait_for_selector("#standing:text('at the end')")
        at.press("Home")
        for _ in range(2):
            page.get_by_role("button", name="One step on").click()
        at.wait_fact("tick", "2 of " + page.inner_text("#at-tick").split()[-1])
        beta = page.get_by_label("infect people", exact=True)
        expect(beta).to_have_value("0.04")
        beta.fill("0.5")
        expect(page.get_by_label("Name of the fork")).to_have_value("sir@2 infect=0.5")
        page.get_by_label("At most, ticks a second").select_option("as fast as it can")
        page.get_by_role("button", name="Fork here with these settings").click()
        expect(page.locator("#run-from-says")).to_contain_text(
            re.compile(r"sir@2 infect=0.5 is a fork of sir at tick 2, with infect 0.5 \(there 0.04\)")
        )
        expect(page.locator("#run-from-says")).to_contain_text("It has ended.")
        assert page.get_by_label("World").input_value() == "sir@2 infect=0.5"
        expect(page.get_by_label("infect people", exact=True)).to_have_value("0.5")
        expect(page.locator("#series")).to_contain_text("sick")
        page.get_by_role("button", name="Back to sir").click()
        expect(page.get_by_label("World")).to_have_value("sir")
        page.get_by_role("button", name="Resume the world").click()
        expect(page.locator("#at-tick")).to_have_text("60 of 60")
        expect(page.locator("#series")).to_contain_text("sick")
        forked, first = series_of(at, "sir@2 infect=0.5"), series_of(at, "sir")
    assert forked != first
    fork = folder / "sir@2 infect=0.5.db"
    assert is_verified(folder / "sir.db")
    assert is_verified(fork)
    run = find_run(log_to_read(str(fork)))
    assert run is not None
    assert run.is_finished
    assert run.scenario.populations["people"].options["infect"] == 0.5
