"""The pages of the bundled models: their rules and pictures are those of the bundled files."""

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

from docs.pictures import PICTURES

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
BYTES_MAX = 100_000
COPIED = re.compile(r"^<!--- skip: next .*?-->\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def functions_in(source: str) -> set[str]:
    """Return the functions of a source, however their lines are broken."""
    nodes = ast.walk(ast.parse(source))
    return {ast.dump(node) for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", PICTURES)
def test_the_rules_on_the_page_of_a_model_are_those_of_its_file(name):
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    source = files("placet").joinpath("scenarios", "builtin", f"{name}.py").read_text("utf-8")
    shown = functions_in("".join(COPIED.findall(page)))
    assert shown
    assert shown <= functions_in(source)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_of_a_model_is_that_of_its_run(name):
    kept = (TUTORIALS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert len(kept) < BYTES_MAX
    assert kept == PICTURES[name](), "run docs/pictures.py"
