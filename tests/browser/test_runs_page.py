"""The list of runs and the comparison in a real browser: sort, filter, note, compare, phone."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from placet.history.position import Position
from placet.scenarios import Scenario
from placet.scenarios.engine import run_scenario
from placet.scenarios.fork import fork_run
from tests.browser.conftest import Played, playing
from tests.server.runs_of_folder import damage

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 844}
TICKS = 30
HOSTILE = "<img src=x onerror=alert(1)>"


def run_sir(store: Path, **values: object) -> None:
    """Run a small `sir`, whose log is the file."""
    sir = Scenario.load("sir", overrides=[f"ticks={TICKS}"])
    run_scenario(sir.with_values(values), store=f"sqlite:///{store}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    key = "populations.people.options.infect"
    run_sir(folder / "base.db")
    run_sir(folder / "mild.db", **{key: 0.04})
    run_sir(folder / "fast.db", **{key: 0.16, "seed": 3})
    shutil.copy(folder / "base.db", folder / f"{HOSTILE}.db")
    shutil.copy(folder / "base.db", folder / "broken.db")
    damage(folder / "broken.db")
    return folder


@pytest.fixture(scope="module")
def played(folder: Path) -> Iterator[Played]:
    with playing(folder) as served:
        yield served


def is_fault(message: ConsoleMessage) -> bool:
    """Return whether a message of the console is none of a refused query, which the page tells."""
    return message.type in {"error", "warning"} and "status of 422" not in message.text


@contextmanager
def opened(browser: Browser, url: str, **options: object) -> Iterator[Page]:
    """Open a page, and check that nothing went wrong in it and nothing came from elsewhere."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
    faults: list[str] = []
    requested: set[str] = set()
    page = context.new_page()
    page.on("console", lambda m: faults.append(m.text) if is_fault(m) else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("request", lambda request: requested.add(request.url))
    try:
        page.goto(url)
        yield page
        assert faults == []
        origin = url.partition("#")[0]
        assert [one for one in requested if not one.startswith(origin)] == []
    finally:
        context.close()


def names(page: Page) -> list[str]:
    return page.locator("#runs tr.run .of-run").all_inner_texts()


def test_the_list_is_sorted_and_filtered(browser, played):
    with opened(browser, played.page) as page:
        expect(page.locator("#runs tr.run")).to_have_count(5)
        assert "token" not in page.url
        expect(page.locator("#standing")).to_have_text("ready")
        assert names(page)[0] == "broken.db", "failures are first"
        page.get_by_label("failures first").uncheck()
        page.get_by_role("button", name="infect", exact=True).click()
        assert names(page)[0] == "fast.db"
        assert page.locator("th[aria-sort=descending]").inner_text().startswith("infect")
        page.get_by_role("button", name=re.compile("^infect")).press("Enter")
        assert names(page)[0] == "mild.db"
        assert names(page)[-1] == "broken.db", "what has no value is last"
        page.get_by_label("failures first").check()
        assert names(page)[0] == "broken.db"
        expect(page.locator("#runs tr.why")).to_contain_text("damaged")
        find = page.get_by_label("Show runs")
        find.fill("infect>0.05 -seed=3")
        expect(page.locator("#runs tr.run")).to_have_count(2)
        find.fill("infekt=1")
        expect(page.locator("#find-error")).to_contain_text("did you mean 'infect'?")
        find.fill("status:damaged")
        expect(page.locator("#runs tr.run")).to_have_count(1)
        expect(page.locator("#find-error")).to_be_hidden()
        page.reload()
        expect(page.locator("#runs tr.run")).to_have_count(1)
        assert find.input_value() == "status:damaged"


def test_tags_and_a_note_are_written_with_the_keyboard(browser, played, folder):
    with opened(browser, played.page) as page:
        edit = page.get_by_role("button", name="Add tags and note of base.db")
        edit.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#note-tags")).to_be_focused()
        page.keyboard.type(f"good, {HOSTILE}")
        page.keyboard.press("Tab")
        page.keyboard.type("\u202ehidden\nsecond line")
        page.get_by_role("button", name="Save").press("Enter")
        expect(page.locator("#note-dialog")).to_be_hidden()
        cell = page.locator("#runs tr.run", has_text="base.db").locator(".of-tags").first
        expect(cell).to_contain_text(HOSTILE)
        expect(cell).to_contain_text("\\u202ehidden second line")
        kept = json.loads((folder / "runs.json").read_text("utf-8"))["runs"]["base.db"]
        assert kept == {"tags": ["good", HOSTILE], "note": "\u202ehidden\nsecond line"}
        page.get_by_role("button", name="good", exact=True).click()
        expect(page.locator("#runs tr.run")).to_have_count(1)
        assert page.get_by_label("Show runs").input_value() == "tag:good"


def test_a_run_leads_to_its_player_and_back(browser, played):
    with opened(browser, played.page) as page:
        page.get_by_role("link", name=f"{HOSTILE}.db").click()
        page.wait_for_selector("#at-seq:not(:empty)")
        assert page.locator("#worlds").input_value() == f"{HOSTILE}.db"
        expect(page.get_by_role("link", name="Approvals", exact=True)).to_have_count(0)
        page.get_by_role("link", name="Runs").click()
        expect(page.locator("#runs tr.run")).to_have_count(5)


def test_two_runs_are_compared_at_one_time(browser, played):
    with opened(browser, played.page) as page:
        button = page.locator("#compare")
        expect(button).to_be_disabled()
        page.get_by_label("compare base.db", exact=True).check()
        page.get_by_label("compare mild.db", exact=True).check()
        button.click()
        expect(page.locator("#standing")).to_have_text("ready")
        expect(page.locator("#parting")).to_contain_text("They part in tick 1")
        expect(page.locator("#differ")).to_contain_text("populations.people.options.infect")
        chart = page.locator(".chart").first
        expect(chart.locator("h3")).to_have_text("people by state")
        page.get_by_role("slider", name="Tick in both runs").fill("1")
        expect(chart.locator(".legend")).to_contain_text(re.compile(r"infectious \d+ \| \d+"))
        for says in ("#says-1", "#says-2"):
            expect(page.locator(says)).to_contain_text(re.compile(r"infectious \d+"))
        pixels = "(id) => new Uint32Array(document.getElementById(id).getContext('2d')"
        pixels += ".getImageData(100, 100, 100, 100).data.buffer).some((one) => one)"
        assert page.evaluate(pixels, "map-1")
        assert page.evaluate(pixels, "map-2")
        page.get_by_role("slider").fill("12")
        page.get_by_role("link", name="second", exact=True).click()
        expect(page.locator("#at-tick")).to_have_text(f"12 of {TICKS}")
        assert page.locator("#worlds").input_value() == "mild.db"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_fit_a_phone(browser, played, scheme):
    wide = "document.documentElement.scrollWidth"
    with opened(browser, played.page, viewport=PHONE, color_scheme=scheme) as page:
        expect(page.locator("#runs tr.run")).to_have_count(5)
        assert page.evaluate(wide) <= PHONE["width"]
        page.get_by_label("compare base.db", exact=True).check()
        page.get_by_label("compare fast.db", exact=True).check()
        page.locator("#compare").click()
        expect(page.locator("#standing")).to_have_text("ready")
        assert page.evaluate(wide) <= PHONE["width"]


def test_an_unknown_token_asks_for_another(browser, played):
    with opened(browser, f"{played.url}/") as page:
        expect(page.locator("#sign-in")).to_be_visible()
        page.get_by_label("Token").fill(played.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#runs tr.run")).to_have_count(5)


def test_a_fork_has_a_line_that_leads_to_its_run(browser, tmp_path):
    key = "populations.people.options.infect"
    run_sir(tmp_path / "base.db")
    fork_run(tmp_path / "base.db", tmp_path / "hot.db", {key: 0.2}, at=Position(tick=4))
    with playing(tmp_path) as served, opened(browser, served.page) as page:
        line = page.locator(".lineage")
        expect(line).to_have_text("fork of base.db at tick 4: infect 0.2 (there 0.08)")
        line.get_by_role("link").click()
        expect(page.locator("#at-tick")).to_have_text(f"0 of {TICKS}")


SLOW_WORK = """
const fetched = window.fetch;
window.fetch = async (path, options) => {
  if (String(path).includes("/series?")) {
    await new Promise((resolve) => { window.goOn = resolve; });
  }
  if (String(path).includes("runs-work/") && (options?.method ?? "GET") === "GET") {
    const found = { run: "base.db", record: 30, records: 90, passes: 2 };
    return new Response(JSON.stringify(found), { headers: { "content-type": "application/json" } });
  }
  return fetched(path, options);
};
"""


def test_a_long_comparison_says_how_far_it_is_and_is_canceled(browser, played):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(played.page)
        page.get_by_label("compare base.db", exact=True).check()
        page.get_by_label("compare mild.db", exact=True).check()
        page.add_init_script(SLOW_WORK)  # as on a log that takes minutes
        page.locator("#compare").click()
        expect(page.locator("#work-says")).to_have_text(
            "Reading the series: base.db, record 30 of 90, reading 2"
        )
        assert page.locator("#work-bar").evaluate("(bar) => bar.value") == pytest.approx(1 / 3)
        expect(page.locator("#maps")).to_be_visible()  # the states are shown before
        with page.expect_request(lambda asked: asked.method == "DELETE"):
            page.locator("#work-cancel").click()
        page.evaluate("window.goOn()")
        expect(page.locator("#work-says")).to_have_text(re.compile("^The comparison was canceled"))
        expect(page.locator("#series-says")).to_have_text("The series were not read.")
        expect(page.locator("#parting")).to_have_text("Where they part was not found.")
        page.get_by_role("button", name="Compare again").click()
        expect(page.locator("#work-says")).to_have_text(re.compile("^Reading the series"))
    finally:
        context.close()
