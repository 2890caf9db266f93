"""The player in a real browser, on runs with tables: dots, colors, the row under the pointer."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from placet import scenarios
from tests.browser.conftest import Played, looking, playing

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 844}
INKS = """(map) => {
  const options = { willReadFrequently: true };
  const copy = new OffscreenCanvas(map.width, map.height).getContext("2d", options);
  copy.drawImage(map, 0, 0);
  const [wide, high] = [map.width / 2, map.height / 2]; // the middle: the axes are around it
  const { data } = copy.getImageData(wide / 2, high / 2, wide, high);
  const inks = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) inks.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
  }
  return inks.size;
}"""

BANDS = """(plot) => {
  const context = plot.getContext("2d");
  const { data } = context.getImageData(0, Math.round(plot.height / 2), plot.width, 1);
  const bands = [];
  for (let at = 0; at < data.length; at += 4) {
    const ink = [...data.slice(at, at + 3)].join();
    const next = [...data.slice(at + 4, at + 7)].join();
    if (data[at + 3] > 250 && ink === next && bands.at(-1) !== ink) bands.push(ink);
  }
  const inkOf = (dot) => getComputedStyle(dot, "::before").backgroundColor.match(/\\d+/g).join();
  const inks = (dots) => [...dots].slice(0, 3).map(inkOf);
  const legend = inks(plot.previousElementSibling.querySelectorAll(".dot"));
  return { bands, legend, map: inks(document.querySelectorAll("#map-legend .dot")) };
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def played(folder: Path, name: str, *options: str) -> Iterator[Played]:
    store = str(folder / f"{name}.db")
    command = [sys.executable, "-m", "placet", "run", name, "--store", store, "--no-verify"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    with playing(store) as play:
        yield play


@pytest.fixture(scope="module")
def flock(folder: Path) -> Iterator[Played]:
    yield from played(folder, "flock", "--ticks", "8", "--set", "populations.birds.count=5000")


@pytest.fixture(scope="module")
def segregation(folder: Path) -> Iterator[Played]:
    yield from played(folder, "segregation", "--ticks", "60")


@pytest.fixture(scope="module")
def sir(folder: Path) -> Iterator[Played]:
    yield from played(folder, "sir", "--ticks", "10")


def point_at_a_dot(page: Page) -> None:
    """Move the pointer over the map until it is at a dot."""
    box = page.locator("#map").bounding_box()
    assert box is not None
    for across in range(9, 20):
        page.mouse.move(box["x"] + box["width"] * across / 20, box["y"] + box["height"] / 2)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        if page.locator("#map").evaluate("(map) => map.style.cursor") == "pointer":
            return
    pytest.fail("no dot was found on the map")


def test_many_rows_are_drawn_as_pixels_in_the_colors_of_a_field(browser, flock):
    with looking(browser, flock.page) as looked:
        page = looked.page
        expect(page.locator("#map-of")).to_have_text("5 000 from above".replace(" ", "\u202f", 1))
        expect(page.get_by_label("Color by")).to_have_value("flock.birds/heading")
        expect(page.locator("#map-legend")).to_contain_text("heading")
        assert page.locator("#map").evaluate(INKS) > 100
        page.get_by_label("Color by").select_option("")
        expect(page.locator("#map-legend")).to_be_hidden()
        assert page.locator("#map").evaluate(INKS) == 1


def test_playing_moves_the_rows_and_tells_of_the_batches(browser, flock):
    with looking(browser, flock.page) as looked:
        page = looked.page
        before = page.locator("#map").evaluate("(map) => map.toDataURL()")
        page.get_by_label("Speed").select_option("15")
        page.get_by_role("button", name="Play", exact=True).click()
        looked.wait_fact("tick", "8 of 8")
        assert page.locator("#map").evaluate("(map) => map.toDataURL()") != before
        line = page.locator("#feed li").first
        expect(line).to_contain_text("birds Fly: 5 000 rows".replace("5 000", "5\u202f000"))
        line.locator("button").click()
        expect(page.locator("#inspect-body")).to_contain_text("each admitted or refused by itself")


def test_the_pointer_tells_a_row_and_its_fields(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        point_at_a_dot(page)
        card = page.locator("#map-card")
        expect(card.locator("b")).to_have_text(re.compile(r"^people:\d+$"))
        expect(card.locator("dt")).to_have_text(["cell", "group"])
        expect(card.locator("dd").last).to_have_text(re.compile("^(0: majority|1: minority)$"))
        page.mouse.move(0, 0)
        expect(card).to_be_hidden()


def test_cells_are_colored_by_their_category_and_the_feed_is_not_empty_at_a_quiet_end(
    browser, segregation
):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        assert page.locator("#map").evaluate(INKS) >= 2
        expect(page.locator("#map-legend .dot")).to_have_count(2)
        looked.press("End")
        looked.wait_fact("tick", "60 of 60")
        expect(page.locator("#feed li").first).to_contain_text("people Settle:")


def test_the_stages_of_a_members_row_are_shown(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        page.locator("#find-agent").fill("people:142")
        page.get_by_role("button", name="people:142", exact=True).last.click()
        page.get_by_role("button", name=re.compile("^intent")).click()
        page.wait_for_selector("#feed li")
        page.locator("#inspect").get_by_role("button", name="Why", exact=True).click()
        expect(page.locator("#inspect .stages > li")).to_have_count(7)


def test_people_without_a_place_stand_in_rows(browser, sir):
    with looking(browser, sir.page, viewport=PHONE) as looked:
        page = looked.page
        expect(page.locator("#map-of")).to_have_text("500 in rows, by their number")
        expect(page.locator("#map-legend")).to_contain_text("state")
        looked.press("End")
        looked.wait_fact("tick", "10 of 10")
        expect(page.locator("#map-legend")).to_contain_text("infectious (")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


COLOR_OF = """(map) => {
  const copy = new OffscreenCanvas(map.width, map.height).getContext("2d");
  copy.drawImage(map, 0, 0);
  const { data } = copy.getImageData(0, 0, map.width, map.height);
  const counts = {};
  for (let at = 0; at < data.length; at += 4) {
    const ink = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
    if (data[at + 3] > 200) counts[ink] = (counts[ink] ?? 0) + 1;
  }
  return counts;
}"""
KEYS = """(keys) => keys.map(
  (key) => [key.textContent, getComputedStyle(key, "::before").backgroundColor]
)"""


def test_cohorts_have_colors_of_their_own_and_a_menu_chooses_a_field(browser, folder):
    for town in played(folder, "town", "--agents", "30", "--ticks", "3"):
        with looking(browser, town.page) as looked:
            page = looked.page
            looked.press("End")
            looked.wait_fact("tick", "3 of 3")
            legend = page.locator("#map-legend")
            expect(legend).to_contain_text("folk (")
            keys = dict(page.locator("#map-legend .dot").evaluate_all(KEYS))
            assert [key.partition(" (")[0] for key in keys] == [
                *("folk", "merchant", "child", "crier"),
                *("apple", "lamp", "well"),
            ]
            assert len(set(keys.values())) == 7
            page.get_by_label("Color by").select_option("world.objects/sort")
            expect(legend).to_contain_text("sort")


def test_the_colors_of_cells_are_those_of_the_legend(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        expect(page.locator("#map-legend")).to_contain_text("majority (")
        keys = page.locator("#map-legend .dot").evaluate_all(KEYS)
        shown = page.locator("#map").evaluate(COLOR_OF)
        for text, ink in keys:  # cells are drawn with an opacity of 0.9, over nothing
            count = int(text.partition("(")[2].rstrip(")"))
            channels = [int(one) for one in re.findall(r"\d+", ink)]
            near = [
                pixels
                for color, pixels in shown.items()
                if all(
                    abs(int(one) - other) <= 2
                    for one, other in zip(re.findall(r"\d+", color), channels, strict=True)
                )
            ]
            assert sum(near) > 50 * count


SOIL = """
domain = "tests.browser.soil:Soil"
ticks = 6

[populations.folk]
count = 12
table = "soil.people"
policy = "tests.browser.soil:go"

[portrayal."soil.cells"]
width = 30
"""
PIXEL = """(map, [across, up]) => {
  const copy = new OffscreenCanvas(map.width, map.height).getContext("2d");
  copy.drawImage(map, 0, 0);
  return [...copy.getImageData(map.width * across, map.height * up, 1, 1).data];
}"""


def test_the_cells_of_a_grid_are_areas_under_the_people_colored_by_a_layer(browser, folder):
    (folder / "soil.toml").write_text(SOIL)
    store = str(folder / "soil.db")
    run = [sys.executable, "-m", "placet", "run", str(folder / "soil.toml"), "--store", store]
    subprocess.run(run, check=True, capture_output=True)
    with (
        playing(store, "--portrayal", str(folder / "soil.toml")) as play,
        looking(browser, play.page) as looked,
    ):
        page = looked.page
        expect(page.get_by_label("Color cells by")).to_have_value("soil.cells/water")
        expect(page.locator("#map-of")).to_have_text("12 from above")
        expect(page.locator("#map-legend")).to_have_text("water019")
        looked.press("Home")
        looked.wait_fact("tick", "0 of 6")
        map_ = page.locator("#map")
        low, high = (map_.evaluate(PIXEL, [0.5, up]) for up in (0.85, 0.1))
        assert sum(low[:3]) > sum(high[:3]) + 150  # dry soil is light, and the rows go up
        looked.press("End")
        looked.wait_fact("tick", "6 of 6")
        dried = map_.evaluate(PIXEL, [0.5, 0.1])
        assert sum(dried[:3]) > sum(high[:3]) + 150
        box = map_.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.1)
        expect(page.locator("#map-card b")).to_have_text(re.compile(r"^cells:5\d\d$"))
        expect(page.locator("#map-card dt")).to_have_text(["kind", "water", "who"])
        page.get_by_label("Color cells by").select_option("soil.cells/kind")
        expect(page.locator("#map-legend")).to_contain_text("kind0 (200)1 (200)2 (200)")
        page.get_by_label("Color cells by").select_option("")
        expect(page.locator("#map-legend")).to_be_hidden()


FRIENDS = """
domain = "tests.browser.friends:Friends"
ticks = 3

[agents.friend]
count = 3
policy = "tests.browser.friends:move"

[portrayal."friends.people"]
links = "friends"
"""
OF_HOSTS = '[portrayal."friends.hosts"]\nnetwork = "tests.browser.friends:RING"\n'


@pytest.mark.parametrize(
    ("portrayal", "says"), [(FRIENDS, "3 from above"), (OF_HOSTS, "20, laid out by their links")]
)
def test_links_are_lines_between_dots(browser, folder, portrayal, says):
    model, look = folder / "friends.toml", folder / "look.toml"
    model.write_text(FRIENDS)
    look.write_text(portrayal)
    store = str(folder / f"{len(portrayal)}.db")
    run = [sys.executable, "-m", "placet", "run", str(model), "--store", store]
    subprocess.run(run, check=True, capture_output=True)
    with (
        playing(store, "--portrayal", str(look)) as play,
        looking(browser, play.page) as looked,
    ):
        map_ = looked.page.locator("#map")
        if portrayal == OF_HOSTS:  # the friends have a place too
            says = says.replace("20", "23")
        expect(looked.page.locator("#map-of")).to_have_text(says)
        linked = map_.evaluate(LINES)
        assert linked > 50
        looked.press("End")
        looked.wait_fact("tick", "3 of 3")
        assert map_.evaluate(LINES) > 50


LINES = """(map) => {
  const copy = new OffscreenCanvas(map.width, map.height).getContext("2d");
  copy.drawImage(map, 0, 0);
  const { data } = copy.getImageData(50, 0, map.width - 50, map.height - 40); // without the axes
  let faint = 0;
  for (let at = 3; at < data.length; at += 4) faint += data[at] > 20 && data[at] < 200;
  return faint;
}"""


COLUMNS = """(bars, top) => {
  const copy = new OffscreenCanvas(bars.width, bars.height).getContext("2d");
  copy.drawImage(bars, 0, 0);
  const { data } = copy.getImageData(0, top ? 0 : bars.height - 1, bars.width, 1);
  return Array.from({ length: bars.width }, (_, at) => data[4 * at] > 120 && data[4 * at + 1] < 90)
    .filter((isRed, at, all) => isRed && !all[at - 1]).length;
}"""


def test_refusals_are_thin_marks_on_a_scale_of_their_own(browser, segregation):
    with looking(browser, segregation.page) as looked:
        looked.wait_fact("tick", "0 of 60")
        expect(looked.page.locator("#refused-most")).to_have_text("max 44")
        assert looked.page.locator("#bars").evaluate(COLUMNS, False) == 6


FUNCTIONS = """
def sick(state):
    return sum(row["state"] == 1 for row in state["sir.people"].values())


def by_state(state):
    rows = state["sir.people"].values()
    named = {"infectious": 1, "recovered": 2}
    return {name: sum(row["state"] == at for row in rows) for name, at in named.items()}
"""
COLLECT = (
    'collect={ world = { sick = "sir_counts:sick", by_state = "sir_counts:by_state" }, '
    'agents = ["sir.people/state"] }'
)


def test_collected_series_have_names_values_and_a_click_goes_there(browser, folder, monkeypatch):
    (folder / "sir_counts.py").write_text(FUNCTIONS)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    store = folder / "counted.db"
    command = [
        sys.executable,
        "-m",
        "placet",
        "run",
        "sir",
        "--set",
        COLLECT,
        "--store",
        str(store),
        "--no-verify",
    ]
    subprocess.run([*command, "--ticks", "20"], check=True, capture_output=True)
    with playing(store) as play, looking(browser, play.page) as looked:
        page = looked.page
        looked.press("End")
        looked.wait_fact("tick", "20 of 20")
        names = page.locator("#series .says > bdi:first-child")
        expect(names).to_have_text(["sick", "by_state", "sir.people/state"])
        sick = page.locator("#series canvas").first
        expect(sick).to_have_attribute(
            "aria-label", re.compile(r"^sick: \d+ at this moment; \d+ …")
        )
        now = int(re.findall(r"\d+", sick.get_attribute("aria-label") or "")[0])
        expect(page.locator("#map-legend")).to_contain_text(f"infectious ({now})")
        keys = page.locator("#series .dot").evaluate_all(KEYS)
        values = ["infectious", "recovered", "susceptible", "infectious", "recovered"]
        assert [text.split()[0] for text, _ in keys] == values
        of_map = {
            text.split()[0]: ink
            for text, ink in page.locator("#map-legend .dot").evaluate_all(KEYS)
        }
        assert [ink for _, ink in keys] == [of_map[name] for name in values]
        assert len(set(of_map.values())) == 3
        box = sick.bounding_box()
        assert box is not None
        sick.click(position={"x": box["width"] / 2, "y": 5})
        expect(page.locator("#at-tick")).to_have_text(re.compile(r"^(9|10|11) of 20$"))


def test_a_portrayal_sets_size_marker_and_label(browser, folder):
    for _ in played(folder, "wealth", "--ticks", "20", "--seed", "1"):
        pass
    marked = folder / "marked.toml"
    wealth = Path(scenarios.__file__).parent / "builtin" / "wealth.toml"
    marks = 'size = "coins"\nmarker = "coins"\nlabel = "coins"\n'
    marked.write_text(wealth.read_text() + marks)
    inked = {}
    for portrayal in ("wealth", str(marked)):
        with (
            playing(folder / "wealth.db", "--portrayal", portrayal) as play,
            looking(browser, play.page) as looked,
        ):
            page = looked.page
            looked.press("End")
            looked.wait_fact("tick", "20 of 20")
            expect(page.locator("#map-legend")).to_contain_text("coins")
            legend = page.locator("#map-marks")
            if portrayal == "wealth":
                expect(legend).to_be_hidden()
            else:
                expect(legend).to_contain_text("▲")
                expect(legend).to_contain_text("● ")
            page.wait_for_function("() => placetDrawnFrames() > 2")
            inked[portrayal] = sum(page.locator("#map").evaluate(COLOR_OF).values())
    assert inked[str(marked)] > 2 * inked["wealth"]


def test_the_states_of_a_row_are_bands_over_time_in_the_colors_of_the_map(browser, sir):
    with looking(browser, sir.page) as looked:
        page = looked.page
        looked.press("End")
        looked.wait_fact("tick", "10 of 10")
        page.get_by_label("Show entities whose id contains").fill("people:1")
        names = page.locator("#state td.name button").all_inner_texts()
        told, plot = "", page.locator("#inspect .answer canvas")
        for name in names:  # until one that fell ill and recovered
            page.get_by_role("button", name=name, exact=True).first.click()
            page.get_by_role("button", name="Over time").click()
            expect(plot).to_have_attribute("aria-label", re.compile("^state: "))
            told = plot.get_attribute("aria-label") or ""
            if "infectious from" in told and "recovered from" in told:
                break
        assert re.fullmatch(
            r"state: recovered at this moment; susceptible from seq \d+, "
            r"infectious from seq \d+, recovered from seq \d+",
            told,
        )
        legend = page.locator("#inspect .answer .says")
        expect(legend.locator(".dot")).to_have_text(["susceptible", "infectious", "recovered"])
        looked.press("Home")
        expect(plot).to_have_attribute("aria-label", re.compile("^state: . at this moment"))
        inks = plot.evaluate(BANDS)
        assert inks["bands"] == inks["legend"] == inks["map"]


FOREST = """
name = "forest"
domain = "tests.browser.forest:Forest"
ticks = 3

[agents.fox]
count = 5
policy = "tests.browser.forest:go"
"""


def test_agents_of_an_occupancy_are_on_the_map_without_a_portrayal(browser, folder):
    (folder / "forest.toml").write_text(FOREST, "utf-8")
    store = folder / "forest.db"
    options = ["--store", str(store), "--no-verify"]
    command = [sys.executable, "-m", "placet", "run", str(folder / "forest.toml"), *options]
    subprocess.run(command, check=True, capture_output=True)
    with playing(store) as play, looking(browser, play.page) as looked:
        page = looked.page
        expect(page.locator("#map-of")).to_have_text("5 from above")
        expect(page.locator("#map-note")).to_have_text(
            "forest.foxes: drawn by the grid of the model, 7 cells wide."
        )
        looked.press("End")
        looked.wait_fact("tick", "3 of 3")
        expect(page.locator("#map-says")).to_have_text("forest.foxes 5")
