"""The page of scenario files names every key, and no other."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from placet.scenarios.policies import BUNDLED
from placet.scenarios.scenario import Scenario
from placet.scenarios.values import AgentCohort, Collect, ColumnPopulation, ObjectSort
from placet.schemas.config import Leases
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
        if not is_required:
            shown = re.split("[,;] ", rows[field.name].strip())[-1]
            assert shown in defaults_in_words(field), field.name


def defaults_in_words(field):
    """Return the words by which the page may state the default of a key."""
    default = field.default if field.default is not MISSING else field.default_factory()
    if default is None:
        return {"none", "off", "all", "if `every` is above 1"}
    if type(default) is bool:
        return {str(default).lower()}
    if type(default) is str:
        return {f'`"{default}"`'} if default else {"empty"}
    return {"empty"} if not default and type(default) is not int else {str(default)}


def test_every_key_of_leases_is_in_their_row_and_no_other():
    (row,) = re.findall(r"^\| `leases` \| [^|]* \| (.*) of \[leases\]", SECTIONS[""], re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [field.name for field in fields(Leases)]


@pytest.mark.parametrize("key", ["clock", "backpressure", "on_rule_error"])
def test_every_choice_of_a_key_is_in_its_row_and_no_other(key):
    hint = get_type_hints(Scenario)[key]
    (row,) = re.findall(rf"^\| `{key}` \| [^|]* \| (.*) \|$", SECTIONS[""], re.MULTILINE)
    assert set(re.findall(r"`([a-z_]+)`", row)) - {"rule_error"} == set(get_args(hint))


def test_every_bundled_policy_is_on_the_page():
    assert all(f"`{name}`" in PAGE for name in BUNDLED)
