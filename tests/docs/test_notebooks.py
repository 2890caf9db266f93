"""The notebooks of examples/ run; those of the tutorials have their text and their pictures."""

import nbformat
import pytest

from tests.docs.notebooks import NAMES, PLAYER, cells_of, executed, notebook_of, page_of
from tests.levels import soak_between


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


# One runs here, the other at night: their code runs as that of the tutorials, too.
@pytest.mark.slow
@pytest.mark.parametrize("name", soak_between(NAMES[::-1], 2))
def test_a_notebook_runs(name, tmp_path):
    assert pictures(executed(name, tmp_path))


def pages(notebook):
    """Return the self-contained pages that the notebook shows."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {}).get("text/html", "") for output in outputs]
    return [html for html in shown if html.startswith("<iframe srcdoc=")]


def test_the_notebook_of_the_player_shows_its_page():
    notebook = nbformat.read(notebook_of(PLAYER), as_version=4)
    assert len(pages(notebook)) == 1
    assert notebook_of(PLAYER).stat().st_size < 200_000


@pytest.mark.slow
def test_the_notebook_of_the_player_runs(tmp_path):
    (page,) = pages(executed(PLAYER, tmp_path))
    assert "id=&quot;run&quot;" in page
