"""The gallery: each entry has a picture, a command and a source, and each source is run by a test.

The runs of the pictures are not repeated here: the tests named in `RUN_BY` execute the sources.
"""

import re
from pathlib import Path

import pytest

from docs import pictures, screenshots
from placet.scenarios import bundled
from tests.docs.test_examples import ROOT

PAGE = ROOT / "docs" / "gallery.md"
ENTRIES = dict(
    re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
)
PAGE_BYTES_MAX = 1_000_000
RUN_BY = {
    "bank_run.toml": "tests/docs/notebooks.py",
    "flock": "tests/scenarios/test_models.py",
    "gate_pydantic_ai.py": "tests/docs/test_gate_examples.py",
    "rush": "tests/scenarios/test_collected_runs.py",
    "segregation": "tests/scenarios/test_models.py",
    "shepherd": "tests/scenarios/test_models.py",
    "sir": "tests/scenarios/test_models.py",
    "town": "tests/cli/test_run.py",
    "wealth": "tests/scenarios/test_models.py",
    "wolf_sheep.toml": "tests/scenarios/test_births.py",
}
"""What an entry of the gallery runs -> the file of the test that executes it."""


def pictures_of(entry: str) -> list[tuple[str, Path]]:
    found = re.findall(r"!\[(.*?)\]\((.+?)\)", entry)
    return [(alt, PAGE.parent / path) for alt, path in found]


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_has_a_picture_with_its_text_a_command_and_links(name):
    entry = ENTRIES[name]
    ((alt, path),) = pictures_of(entry)
    assert len(alt) > 20
    assert 0 < path.stat().st_size <= screenshots.BYTES_MAX
    assert "```sh\n" in entry
    assert re.search(r"^(Source|More): \[", entry, re.MULTILINE)


@pytest.mark.parametrize("title", ENTRIES)
def test_every_run_of_an_entry_is_executed_by_a_test(title):
    runs = re.findall(
        r"(?:placet run|placet sweep|placet play|python) (?:\./|examples/)?([\w.]+)", ENTRIES[title]
    )
    assert runs
    for what in (run.removesuffix(".db") for run in runs):
        name = what.partition(".")[0].removeprefix("gate_")
        test = (ROOT / RUN_BY[what]).read_text(encoding="utf-8")
        assert name in test or (what in bundled() and "bundled()" in test)


def test_there_are_twelve_entries_in_the_bytes_of_a_page_and_every_picture_is_shown():
    assert len(ENTRIES) == 12
    shown = {path.resolve() for entry in ENTRIES.values() for _, path in pictures_of(entry)}
    assert sum(path.stat().st_size for path in shown) + PAGE.stat().st_size <= PAGE_BYTES_MAX
    assert set((ROOT / "docs" / "images").iterdir()) <= shown


def test_every_picture_has_the_script_that_makes_it():
    made = {folder / f"{name}.webp" for name, (folder, _) in screenshots.PICTURES.items()}
    made |= {pictures.FOLDER / f"{name}.svg" for name in pictures.PICTURES}
    shown = {path for entry in ENTRIES.values() for _, path in pictures_of(entry)}
    assert shown <= made


def test_the_program_of_the_gate_is_that_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tool = screenshots.SHOP.partition("@tools")[2].partition("async def")[0].strip()
    assert f"@tools{tool}" in readme
