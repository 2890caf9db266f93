"""The report in a real browser: it draws, shows its data, and fits a phone, without a network."""

import csv
import io

import pytest
from playwright.sync_api import Browser, Page, expect

from placet.lab import report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(town, tmp_path_factory):
    return report(town, tmp_path_factory.mktemp("report") / "town.html")


def opened(browser: Browser, path, **options) -> tuple[Page, list[str]]:
    """Open a page offline; return it, and the list of its errors."""
    page = browser.new_context(offline=True, **options).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on(
        "request",
        lambda request: None if request.url.startswith("file:") else errors.append(request.url),
    )
    page.goto(path.as_uri())
    return page, errors


def test_all_charts_are_drawn_without_a_network_or_an_error(browser, path):
    page, errors = opened(browser, path)
    charts = page.locator(".chart.lines")
    expect(charts.locator("canvas")).to_have_count(charts.count())
    assert charts.count() >= 6
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("canvas")].map((canvas) => {
            const { width, height } = canvas;
            return new Set(canvas.getContext("2d").getImageData(0, 0, width, height).data).size;
        })"""
    )
    assert min(drawn) > 2, "every canvas has a line"
    assert errors == []


def test_the_data_of_a_chart_is_shown_as_a_table_and_saved_as_csv(browser, path):
    page, errors = opened(browser, path)
    figure = page.locator("figure", has=page.get_by_role("heading", name="Intents per tick"))
    figure.get_by_text("Data (20 rows)").click()
    rows_shown = figure.locator(".scroll").get_by_role("row")
    expect(rows_shown).to_have_count(21)
    shown = [cell.inner_text() for cell in rows_shown.nth(3).get_by_role("cell").all()]
    with page.expect_download() as download:
        figure.get_by_role("button", name="Download Intents per tick as CSV").click()
    assert download.value.suggested_filename == "intents-per-tick.csv"
    rows = list(csv.reader(io.StringIO(download.value.path().read_text())))
    assert len(rows) == 21
    assert rows[3] == shown
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_in_both_color_schemes(browser, path, scheme):
    page, _ = opened(browser, path, color_scheme=scheme)
    ratios = page.evaluate(
        """() => {
            const luminance = (color) => {
                const [r, g, b] = color.match(/[\\d.]+/g).map((v) => v / 255)
                    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const ground = (element) => {
                for (let e = element; e; e = e.parentElement) {
                    const color = getComputedStyle(e).backgroundColor;
                    if (color !== "rgba(0, 0, 0, 0)") return color;
                }
            };
            return [...document.querySelectorAll("h1, h2, h3, p, dt, dd, summary, th, td")]
                .filter((e) => e.checkVisibility()).map((e) => {
                    const [a, b] = [getComputedStyle(e).color, ground(e)].map(luminance);
                    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                });
        }"""
    )
    assert min(ratios) >= 4.5


def test_a_phone_needs_no_sideways_scrolling(browser, path):
    page, errors = opened(browser, path, viewport={"width": 390, "height": 844})
    expect(page.locator("canvas").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.evaluate("[...document.querySelectorAll('canvas')].map((c) => c.clientWidth)")
    assert max(widths) <= 390
    assert errors == []
