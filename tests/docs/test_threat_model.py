"""The threat model names tests; they exist, and every attack has one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "threat_model.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|(?! what is tried| who | channel |---) (.*) \|$", PAGE, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`([a-z0-9_/-]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids="::".join)
def test_a_named_test_exists(path, name):
    folder = ROOT if path.startswith("plugins/") else ROOT / "tests"
    text = (folder / path).read_text(encoding="utf-8")
    assert re.search(rf"^ *(async )?def {name}\(", text, re.MULTILINE), f"no {name} in {path}"


@pytest.mark.parametrize("row", ROWS)
def test_every_attack_has_a_test(row):
    tried, *stands, shown = row.removeprefix("| ").split(" | ")
    assert tried
    assert all(stands)
    assert 1 <= len(stands) <= 2  # the second table has what one may, and what not
    assert re.search(r"`[a-z0-9_/-]+\.py::test_\w+`", shown), f"{tried} names no test"


@pytest.mark.parametrize(
    "threat",
    [
        "Prompt injection",
        "Smuggled fields",
        "A replayed approval",
        "Swapped content",
        "Path traversal",
        "Zip bombs",
        "Cost runaway",
    ],
)
def test_every_required_attack_is_listed(threat):
    assert f"**{threat}**" in PAGE
