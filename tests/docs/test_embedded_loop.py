"""The example of a loop of one's own: it ends, tells its budget, and needs no event loop."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "embedded_loop.py"


WITHOUT_A_LOOP = """
import asyncio, runpy, sys
asyncio.new_event_loop = asyncio.run = asyncio.Runner = None
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def played(*arguments: str) -> str:
    """Run the example where no event loop can be created, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_LOOP, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def output() -> str:
    return played("4", "9")


def test_the_example_reports_the_share_of_the_kernel_in_a_frame(output):
    first, *budget, last = output.splitlines()
    assert first == "4 frames of 16.67 ms, 9 intents in each"
    assert [line.split()[0] for line in budget] == ["decide", "digest", "left"]
    for line in budget:
        assert re.fullmatch(r"  \w+ +median +[\d.]+ ms, worst +[\d.]+ ms", line)
    assert re.search(r"\d frames late, \d+ intents refused, digest [0-9a-f]{32}$", last)


@pytest.mark.parametrize("arguments", [["0", "5"], ["5", "0"], ["5"], ["a", "b"], ["1", "2", "3"]])
def test_invalid_arguments_print_the_usage(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    with pytest.raises(SystemExit, match=r"^usage: "):
        runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_decisions_do_not_depend_on_elapsed_time(output):
    ends = {text.rpartition("late, ")[2] for text in (output, played("4", "9"))}
    assert len(ends) == 1
