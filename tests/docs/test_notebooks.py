"""The notebooks of examples/ have the text of the tutorials, their pictures, and they run."""

import nbformat
import pytest

from tests.docs.notebooks import NAMES, cells_of, executed, notebook_of, page_of


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [o for o in outputs if "image/png" in o.get("data", {})]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_tutorial_with_pictures(name):
    notebook = nbformat.read(notebook_of(name), as_version=4)
    sources = [(cell.cell_type, cell.source) for cell in notebook.cells]
    page = page_of(name).read_text(encoding="utf-8")
    assert sources == list(cells_of(page)), "run ./dev python -m tests.docs.notebooks"
    assert pictures(notebook)
    assert notebook_of(name).stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path):
    assert pictures(executed(name, tmp_path))
