"""Takes the pictures of the gallery and of the player's guide, of runs with seed 1, in a browser.

    TEST_CHROMIUM=$(.ci/chromium) ./dev python -m docs.screenshots           # all
    TEST_CHROMIUM=$(.ci/chromium) ./dev python -m docs.screenshots town sir  # some

Each is a panel of the player, or figures of a report, saved as WebP. The runs are functions of
their commands; the bytes of a picture depend on the browser and its fonts too. The other pictures
of the gallery are drawn by `docs/pictures.py`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Locator, ViewportSize, expect, sync_playwright

from tests.browser.conftest import Looked, looking, playing

ROOT: Final = Path(__file__).parents[1]
GALLERY: Final = ROOT / "docs" / "images"
GUIDES: Final = ROOT / "docs" / "guides" / "images"
BYTES_MAX: Final = 60_000
WIDE: Final[ViewportSize] = {"width": 1000, "height": 900}
NARROW: Final[ViewportSize] = {"width": 620, "height": 900}
GAP: Final = 12

SHOP: Final = '''
import asyncio

from placet_tools import Gate, Tools

tools = Tools("shop")


@tools.tool(risk="high", once="refund:{order}")
def refund(order: str, euro: int) -> dict:
    """Pay money back to the customer of an order."""
    return {"order": order, "paid": euro}


async def main():
    async with Gate(tools, store="sqlite:///shop.db") as gate:
        await gate.call("refund", agent="support", order="A7", euro=42)
        for request in await gate.approvals():
            await gate.decide(request, "approve", by="ann")
        await gate.call("refund", agent="support", order="A7", euro=42)


asyncio.run(main())
'''
"""The program of the README that puts a gate before a tool."""


class Studio:
    """A folder with runs, and a browser that looks at them."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        self.folder, self._browser = folder, browser

    def call(self, *arguments: str) -> None:
        """Run Python with arguments in the folder, with the modules of `examples/`."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")]),
        }
        subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            check=True,
            capture_output=True,
        )

    def run(self, scenario: str, *options: str) -> str:
        """Run a scenario by `placet run`, and return the path of its log."""
        store = self.folder / f"{Path(scenario).stem}.db"
        if not store.exists():
            self.call("-m", "placet", "run", scenario, "--seed", "1", "--no-verify",
                      "--store", str(store), *options)  # fmt: skip
        return str(store)

    @contextmanager
    def player(self, store: str, *, size: ViewportSize, tick: str = "") -> Iterator[Looked]:
        """Open a run in the player, at a tick or at its end."""
        with (
            playing(store) as played,
            looking(self._browser, played.page, viewport=size, color_scheme="light") as looked,
        ):
            looked.press("End")
            if tick:
                looked.page.select_option("#jump-to", "tick")
                looked.page.fill("#jump-number", tick)
                looked.page.press("#jump-number", "Enter")
                expect(looked.page.locator("#at-tick")).to_have_text(re.compile(f"^{tick} of "))
            looked.page.wait_for_load_state("networkidle")
            yield looked

    @contextmanager
    def report(self, target: str, *, size: ViewportSize) -> Iterator[Callable[[str], Locator]]:
        """Write the report of a log or of a study, and open it; yield a finder of its figures."""
        page_file = self.folder / f"{Path(target).stem}-report.html"
        self.call("-m", "placet", "report", target, "--to", str(page_file))
        context = self._browser.new_context(viewport=size, color_scheme="light")
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_load_state("networkidle")
        try:
            yield page.locator
        finally:
            context.close()


def joined(*shots: bytes) -> Image.Image:
    """Return screenshots below each other in one picture."""
    images = [Image.open(BytesIO(shot)).convert("RGB") for shot in shots]
    width = max(image.width for image in images)
    height = sum(image.height for image in images) + GAP * (len(images) - 1)
    whole = Image.new("RGB", (width, height), images[0].getpixel((0, 0)))
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height + GAP
    return whole


def player_colors(studio: Studio) -> Image.Image:
    """Take the colored map of the player's guide."""
    with studio.player(studio.run("sir"), size={"width": 1280, "height": 900}, tick="12") as looked:
        return joined(looked.page.locator("#map-panel").screenshot())


def town(studio: Studio) -> Image.Image:
    """Take the time line, the series and the map of the town."""
    with studio.player(studio.run("town"), size=NARROW, tick="150") as looked:
        panels = ("#line-panel", "#map-panel")
        return joined(*(looked.page.locator(panel).screenshot() for panel in panels))


def refusal(studio: Studio) -> Image.Image:
    """Take the explanation of a refusal in the town."""
    with studio.player(studio.run("town"), size=NARROW, tick="150") as looked:
        looked.page.click("#refusal-back")
        looked.page.wait_for_selector("#inspect-close:visible")
        looked.page.get_by_role("button", name="Why").click()
        expect(looked.page.locator("#inspect-body")).not_to_contain_text(
            "Asking why", timeout=60_000
        )
        return joined(looked.page.locator("#inspect").screenshot())


def sir(studio: Studio) -> Image.Image:
    """Take the series and the map of the epidemic, while it spreads."""
    with studio.player(studio.run("sir"), size=NARROW, tick="12") as looked:
        panels = ("#series", "#map-panel")
        return joined(*(looked.page.locator(panel).screenshot() for panel in panels))


def shepherd(studio: Studio) -> Image.Image:
    """Take the map of dogs among birds."""
    options = (
        "--agents",
        "30",
        "--set",
        "populations.birds.count=4000",
        "--set",
        "settings.side=150",
    )
    with studio.player(studio.run("shepherd", *options), size=NARROW) as looked:
        return joined(looked.page.locator("#map-panel").screenshot())


def figures_of(studio: Studio, target: str, *wanted: str) -> Image.Image:
    """Take figures of the report of a log or of a study."""
    with studio.report(target, size=NARROW) as find:
        return joined(*(find(each).first.screenshot() for each in wanted))


def wealth(studio: Studio) -> Image.Image:
    """Take the Gini coefficient along a run, from its report."""
    return figures_of(
        studio, studio.run("wealth"), "figure[data-name=gini]", "figure[data-name=most]"
    )


def rush(studio: Studio) -> Image.Image:
    """Take the figures of fairness of the rush."""
    return figures_of(
        studio,
        studio.run("rush", "--agents", "500"),
        "figure[data-name=held]",
        "figure[data-name=admitted-intents-over-the-agents]",
    )


def wolf_sheep(studio: Studio) -> Image.Image:
    """Take the two populations along a run, from its report."""
    store = studio.run(str(ROOT / "examples" / "wolf_sheep.toml"))
    return figures_of(studio, store, "figure[data-name=sheep]", "figure[data-name=wolves]")


def bank_run(studio: Studio) -> Image.Image:
    """Take the cash of the bank and its deposits along a run, from its report."""
    columns = '{ cash = "sum(bank.banks/cash)", deposits = "sum(bank.banks/deposits)" }'
    scenario = str(ROOT / "examples" / "bank_run.toml")
    store = studio.run(scenario, "--set", f"collect={{ world = {columns} }}")
    return figures_of(studio, store, "figure[data-name=cash]", "figure[data-name=deposits]")


def sweep(studio: Studio) -> Image.Image:
    """Take the segregation under three demands for like neighbors, from a study's report."""
    studio.call(
        *("-m", "placet", "sweep", "segregation", "--seeds", "1..6", "--to", "study"),
        *("--set", "populations.people.options.homophily=0.2,0.4,0.6", "--set", "ticks=40"),
    )
    with studio.report("study", size=WIDE) as find:
        return joined(find("section:has(h2:text('Collected series over options'))").screenshot())


def gate(studio: Studio) -> Image.Image:
    """Take what happened at the gate before a tool."""
    (studio.folder / "shop.py").write_text(SHOP, encoding="utf-8")
    studio.call("shop.py")
    with studio.player(str(studio.folder / "shop.db"), size=NARROW) as looked:
        return joined(looked.page.locator("#happening").screenshot())


PICTURES: Final[dict[str, tuple[Path, Callable[[Studio], Image.Image]]]] = {
    "player-colors": (GUIDES, player_colors),
    **{
        taken.__name__: (GALLERY, taken)
        for taken in (town, refusal, sir, shepherd, wealth, rush, wolf_sheep, bank_run, sweep, gate)
    },
}


def save(image: Image.Image, path: Path) -> None:
    """Save a picture as WebP of at most `BYTES_MAX`, as good as that allows."""
    data = BytesIO()
    for quality in range(85, 20, -5):
        data = BytesIO()
        image.save(data, "WEBP", quality=quality, method=6)
        if data.tell() <= BYTES_MAX:
            break
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.getvalue())


def main(names: list[str]) -> None:
    """Take the named pictures, or all."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = os.environ["TEST_CHROMIUM"]
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        studio = Studio(Path(folder), browser)
        for name in names or PICTURES:
            target, take = PICTURES[name]
            save(take(studio), target / f"{name}.webp")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
