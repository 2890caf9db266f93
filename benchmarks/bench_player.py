"""How long does a person wait for a player of a long run: to open it, to jump, to ask why?

    ./dev python benchmarks/bench_player.py [--ticks 5020] [--jumps 60] [--export] [--dots 100000]

Runs `town` (200 agents, a million intents by default) into a file, plays it as `placet play` does,
and looks at it in Debian's Chromium: seconds until the first moment is shown, and until the whole
log is read; milliseconds from the input on the slider until the page shows that seq; seconds of
the first `Why`, and of others once the snapshots along the log are written. With `--export`, every
table is exported to Parquet. A million intents take two minutes. With `--dots`, only: `shepherd`
with so many birds, the rows of a table, is played at several speeds, and the pictures of the map
and the ticks that are shown in a second are counted. Without a GPU, as here, Chromium draws by
software.

It does not show: several readers, a remote server.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WAIT_MS_MAX = 180_000
SNAPSHOTS_S_MAX = 300

PLAYED_MS = 4_000
SHOWN_TICK = "parseInt(document.querySelector('#at-tick').innerText)"
DRAWN = f"() => [placetDrawnFrames(), {SHOWN_TICK}]"

JUMP = """(seq) => new Promise((shown) => {
  const slider = document.querySelector("#seek");
  const fact = document.querySelector("#at-seq");
  const began = performance.now();
  const watch = new MutationObserver(() => {
    const shows = Number(fact.textContent.replace(/[^0-9]/g, ""));
    if (Math.abs(shows - seq) > 600) return;  // the batch that holds this seq ends elsewhere
    watch.disconnect();
    requestAnimationFrame(() => shown(performance.now() - began));
  });
  watch.observe(fact, { childList: true, characterData: true, subtree: true });
  slider.value = String(seq);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def placet(*arguments: str) -> tuple[float, str]:
    """Run a command of placet to its end; return its seconds and what it prints on stdout."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "placet", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - began, done.stdout


@contextmanager
def playing(store: Path) -> Iterator[str]:
    """Run `placet play` on a log; yield the address of its page, with the token."""
    command = [sys.executable, "-m", "placet", "play", str(store), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["page"]
        finally:
            process.terminate()


def jumps(page: Page, seqs: Iterable[int]) -> str:
    """Move the slider to each seq; return the median, the 95th percentile and the longest wait."""
    waited = sorted(page.evaluate(JUMP, seq) for seq in seqs)
    at_95 = waited[min(len(waited) - 1, round(0.95 * len(waited)))]
    return f"{statistics.median(waited):.0f} ms, p95 {at_95:.0f} ms, at most {waited[-1]:.0f} ms"


def ask_why(page: Page, seq: int) -> float:
    """Go to the first refusal after a seq and ask why; return the seconds until it is answered."""
    page.evaluate(JUMP, seq)
    page.get_by_role("button", name="Next refusal").click()
    page.locator("#inspect p.refusal").first.wait_for()
    began = time.perf_counter()
    page.get_by_role("button", name="Why", exact=True).click()
    page.locator("#inspect .stages > li").nth(6).wait_for()
    took_s = time.perf_counter() - began
    page.locator("#inspect").get_by_role("button", name="Close").click()
    return took_s


def wait_for_snapshots(store: Path, written: int) -> None:
    """Wait until that many snapshots lie beside a log."""
    folder = Path(f"{store}.frames")
    until = time.monotonic() + SNAPSHOTS_S_MAX
    while time.monotonic() < until and len(list(folder.glob("*.ledger"))) < written:
        time.sleep(0.5)


def look(store: Path, last: int, jump_count: int, seed: int) -> None:
    """Play a log that ends at seq `last`, and print what a person waits for."""
    draw = random.Random(seed)
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        chromium = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        began = time.perf_counter()
        address = stack.enter_context(playing(store))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(WAIT_MS_MAX)
        page.goto(address)
        page.wait_for_selector("#at-seq:not(:empty)")
        print(f"first moment shown: {time.perf_counter() - began:.2f} s, the command's start too")
        page.wait_for_function(
            "(last) => Number(document.querySelector('#seek').max) >= last", arg=last
        )
        page.wait_for_selector("#progress-row", state="hidden")
        print(f"whole log read: {time.perf_counter() - began:.1f} s")
        seqs = [draw.randrange(1, last) for _ in range(2 * jump_count)]
        print(f"first Why, in the middle: {ask_why(page, last // 2):.1f} s")
        print(f"{jump_count} jumps, snapshots being written: {jumps(page, seqs[:jump_count])}")
        wait_for_snapshots(store, last // 50_000)
        print(f"snapshots written: {time.perf_counter() - began:.0f} s after the start")
        asked = sorted(ask_why(page, draw.randrange(last * 9 // 10)) for _ in range(10))
        print(f"10 Why: median {statistics.median(asked):.2f} s, at most {asked[-1]:.2f} s")
        print(f"{jump_count} jumps: {jumps(page, seqs[jump_count:])}")


def play_dots(store: Path) -> None:
    """Play a log of a table with many rows; print pictures and ticks shown in a second."""
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        chromium = os.environ.get("TEST_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(WAIT_MS_MAX)
        page.goto(stack.enter_context(playing(store)))
        page.wait_for_selector("#at-seq:not(:empty)")
        page.wait_for_function("() => /of 100$/.test(document.querySelector('#at-tick').innerText)")
        page.wait_for_selector("#progress-row", state="hidden")
        for speed in ("2", "5", "15"):
            page.get_by_label("Speed").select_option(speed)
            page.get_by_role("button", name="Play", exact=True).click()
            page.wait_for_function(f"() => {SHOWN_TICK} > 1")
            first, began = page.evaluate(DRAWN), time.perf_counter()
            page.wait_for_timeout(PLAYED_MS)
            last, took_s = page.evaluate(DRAWN), time.perf_counter() - began
            pictures, ticks = ((last[at] - first[at]) / took_s for at in (0, 1))
            print(f"at {speed} a second: {pictures:.0f} pictures and {ticks:.1f} ticks in a second")
            page.get_by_role("button", name="Pause", exact=True).click()
            page.keyboard.press("Home")
            page.wait_for_function(f"() => {SHOWN_TICK} === 0")


def main() -> None:
    """Make the run, and look at it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ticks", type=int, default=5020, help="200 intents each")
    parser.add_argument("--jumps", type=int, default=60)
    parser.add_argument("--export", action="store_true", help="export every table, too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dots", type=int, help="play a table of so many rows, only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.dots:
            store = Path(folder) / "shepherd.db"
            count = f"populations.birds.count={options.dots}"
            options_of_run = ("--ticks", "100", "--no-verify", "--set", count)
            placet("run", "shepherd", *options_of_run, "--store", str(store))
            play_dots(store)
            return
        store = Path(folder) / "town.db"
        ticks = str(options.ticks)
        run = ("run", "town", "--agents", "200", "--ticks", ticks, "--no-verify", "--json")
        took_s, report = placet(*run, "--store", str(store))
        last = json.loads(report)["seq"]
        print(f"town, 200 agents, {ticks} ticks, {last} seqs: {took_s:.1f} s", flush=True)
        look(store, last, options.jumps, options.seed)
        if options.export:
            took_s, _ = placet("export", str(store), "--to", str(Path(folder) / "tables"))
            print(f"export of every table to Parquet: {took_s:.1f} s")


if __name__ == "__main__":
    main()
