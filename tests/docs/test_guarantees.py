"""The page of guarantees names tests; they exist, and no guarantee is left out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`([a-z0-9_/-]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids="::".join)
def test_a_named_test_exists(path, name):
    folder = ROOT if path.startswith(("plugins/", "src/")) else ROOT / "tests"
    text = (folder / path).read_text()
    assert re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE), f"no {name} in {path}"


def test_every_guarantee_has_a_row():
    numbers = [int(n) for n in re.findall(r"^\| G(\d+) \|", PAGE, re.MULTILINE)]
    assert numbers[:24] == list(range(1, 25))
    assert 27 in numbers
    assert numbers == sorted(set(numbers))


def test_every_guarantee_names_a_test():
    for row in re.findall(r"^\| G\d+ \|.*$", PAGE, re.MULTILINE):
        _, number, _, holds, tests, _ = (cell.strip() for cell in row.split("|"))
        assert tests or holds.startswith("not yet"), f"{number} holds and names no test"
