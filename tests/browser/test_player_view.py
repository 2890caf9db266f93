"""The view of the player's map in a real browser: zoom, moves, axes, by pointer and by keys."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Played, looking
from tests.browser.test_player_tables import played

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def segregation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("view")
    yield from played(folder, "segregation", "--ticks", "5", "--seed", "1")


def picture(page: Page) -> str:
    """Return the map as it is after the next picture."""
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    found: str = page.locator("#map").evaluate("(map) => map.toDataURL()")
    return found


def middle(page: Page) -> tuple[float, float]:
    box = page.locator("#map").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_wheel_zooms_a_drag_moves_and_a_double_click_shows_all(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        page.mouse.move(0, 0)
        whole = picture(page)
        x, y = middle(page)
        page.mouse.move(x, y)
        page.mouse.wheel(0, -600)
        expect(page.get_by_role("button", name="Whole")).to_be_visible()
        assert page.evaluate("scrollY") == 0
        zoomed = picture(page)
        page.mouse.down()
        page.mouse.move(x + 60, y + 30, steps=4)
        page.mouse.up()
        assert len({whole, zoomed, picture(page)}) == 3
        expect(page.locator("#h-inspect")).to_have_text("Details")  # a drag is no click
        page.mouse.dblclick(x, y)
        expect(page.get_by_role("button", name="Whole")).to_be_hidden()
        page.locator("#inspect-close").click()  # a double click is on a cell too
        page.mouse.move(0, 0)
        assert picture(page) == whole


def test_the_wheel_at_the_whole_map_scrolls_the_page(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        page.mouse.move(*middle(page))
        page.mouse.wheel(0, 300)
        page.wait_for_function("() => scrollY > 0")


def test_the_map_is_zoomed_and_moved_by_keys_and_steps_stay_elsewhere(browser, segregation):
    with looking(browser, segregation.page) as looked:
        page = looked.page
        whole = picture(page)
        page.locator("#map").focus()
        looked.press("ArrowRight")  # nothing to move: a step
        looked.wait_fact("tick", "1 of 5")
        stepped = picture(page)
        assert stepped != whole
        looked.press("+")
        looked.press("+")
        zoomed = picture(page)
        looked.press("ArrowRight")
        assert len({stepped, zoomed, picture(page)}) == 3
        assert looked.fact("tick") == "1 of 5"
        looked.press("0")
        assert picture(page) == stepped
        for _ in range(12):
            page.get_by_role("button", name="Zoom in").click(force=True)
        expect(page.get_by_role("button", name="Zoom in")).to_be_disabled()


def test_rows_by_number_have_no_axes_and_places_do(browser, segregation, tmp_path):
    inked = """() => {
      const map = document.querySelector("#map");
      const copy = new OffscreenCanvas(map.width, map.height).getContext("2d");
      copy.drawImage(map, 0, 0);
      const { data } = copy.getImageData(0, map.height - 20, map.width, 20);
      return data.some((value) => value > 0);
    }"""
    for sir in played(tmp_path, "sir", "--ticks", "1"):
        for of, expected in ((segregation, True), (sir, False)):
            with looking(browser, of.page) as looked:
                picture(looked.page)
                assert looked.page.evaluate(inked) is expected
