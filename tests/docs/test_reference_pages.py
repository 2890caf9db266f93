"""The reference pages that are generated from the code are current, and leave nothing out."""

import re

import pytest

from docs import reference_pages
from placet.schemas.refusal import STAGE_OF, RefusalCode
from placet.server.settings import load_settings


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_generated_page_is_current(name):
    kept = (reference_pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert kept == reference_pages.PAGES[name](), "run ./dev python -m docs.reference_pages"


def test_every_refusal_code_is_explained_at_its_stage():
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| \d+ \| (?:yes|no) \| (\S.*) \|$",
                      reference_pages.refusals(), re.MULTILINE)  # fmt: skip
    assert [code for _, code, _ in rows] == [code.value for code in RefusalCode]
    assert all(STAGE_OF[code].value == stage for stage, code, _ in rows)


def test_every_key_of_the_configuration_is_on_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {key for key, _ in load_settings(None, arguments={}).values() if "limits." not in key}
    shown = set(re.findall(r"^\| `([\w.]+)` \|", reference_pages.configuration(), re.MULTILINE))
    assert keys - shown == {"domain", "people", "settings"}
    assert shown <= keys
