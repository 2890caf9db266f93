"""The page of scenario files names every key, and no other."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from placet.scenarios.policies import BUNDLED
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import AgentCohort, Collect, ColumnPopulation, ObjectSort
from placet.schemas.portrayal import Portrayal

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "scenarios.md").read_text()
NAMES = ["", *re.findall(r"^## `\[(\w+)", PAGE, re.MULTILINE)]
SECTIONS = dict(zip(NAMES, re.split(r"^## ", PAGE, flags=re.MULTILINE), strict=True))


@pytest.mark.parametrize(
    ("section", "table"),
    [
        ("", Scenario),
        ("agents", AgentCohort),
        ("populations", ColumnPopulation),
        ("objects", ObjectSort),
        ("collect", Collect),
        ("portrayal", Portrayal),
    ],
)
def test_every_key_of_a_table_is_on_the_page(section, table):
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", SECTIONS[section], re.MULTILINE))
    assert list(rows) == [field.name for field in fields(table)]
    for field in fields(table):
        is_required = field.default is MISSING and field.default_factory is MISSING
        assert ("required" in rows[field.name]) == (is_required and field.name != "name")
        if type(field.default) in {int, float} or field.default in {"world", "stepped", "reject"}:
            assert str(field.default) in rows[field.name].partition(",")[2]


def test_every_bundled_policy_is_on_the_page():
    assert all(f"`{name}`" in PAGE for name in BUNDLED)
