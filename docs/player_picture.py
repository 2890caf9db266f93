"""Takes the picture of the colored map of the player's guide, from a run of `sir` with seed 1.

TEST_CHROMIUM=$(.ci/chromium) ./dev python docs/player_picture.py
"""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.browser.conftest import looking, playing

TARGET = Path(__file__).parent / "guides" / "images" / "player-colors.webp"
TICKS = "12"


def main() -> None:
    """Run the scenario, open its last moment in the player, and save the map as WebP."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = str(Path(folder, "sir.db"))
        command = [sys.executable, "-m", "placet", "run", "sir", "--ticks", TICKS, "--seed", "1"]
        subprocess.run([*command, "--store", store, "--no-verify"], check=True, capture_output=True)
        path = os.environ["TEST_CHROMIUM"]
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with playing(store) as played, looking(browser, played.page) as looked:
            looked.press("End")
            looked.wait_fact("tick", f"{TICKS} of {TICKS}")
            shot = looked.page.locator("#map-panel").screenshot()
        browser.close()
    Image.open(BytesIO(shot)).save(TARGET, quality=80)


if __name__ == "__main__":
    main()
