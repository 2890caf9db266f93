"""The notebooks of examples/, with their outputs and pictures.

    ./dev python -m tests.docs.notebooks      # after a change of a tutorial or of a cell

A tutorial is the source of its notebook, which has the same text and code, and is never edited by
hand. The notebook of the player has its own cells; its outputs alone are made here.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ("bank_run", "from_mesa")
"""Notebooks that are made of the tutorial of the same name."""

PLAYER: Final = "player"
"""The notebook that shows `placet.play`."""

_BLOCK: Final = re.compile(r"^```(python|toml)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (\w+\.(?:py|toml))\n")
_WITHOUT_A_SCREEN: Final = re.compile(
    r"import matplotlib\n\nmatplotlib\.use\([^\n]*\n(?=import matplotlib\.pyplot)"
)


def page_of(name: str) -> Path:
    """Return the tutorial of a notebook."""
    return ROOT / "docs" / "tutorials" / f"{name}.md"


def notebook_of(name: str) -> Path:
    """Return the path of a notebook."""
    return ROOT / "examples" / f"{name}.ipynb"


def cells_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield the type and the text of each cell of a page's notebook."""
    end = 0
    for block in _BLOCK.finditer(page):
        if text := page[end : block.start()].strip():
            yield "markdown", text
        end = block.end()
        code = block[2]
        if (file := _FILE.match(code)) is None:
            yield "code", _WITHOUT_A_SCREEN.sub("", code).strip()
            continue
        yield "code", f"%%writefile {file[1]}\n{code}".strip()
        if block[1] == "python":
            yield "code", f"%run {file[1]}"
    if text := page[end:].strip():
        yield "markdown", text


def made_of_page(name: str) -> Any:
    """Return the notebook of a tutorial, without outputs."""
    notebook = nbformat.v4.new_notebook()
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    for number, (kind, text) in enumerate(cells_of(page_of(name).read_text(encoding="utf-8"))):
        cell = make[kind](text)
        cell["id"] = f"cell-{number}"
        notebook.cells.append(cell)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return notebook


def executed(name: str, folder: Path) -> Any:
    """Return a notebook, executed in a folder.

    Raises:
        CellExecutionError: A cell raised.
    """
    own = name == PLAYER
    notebook = nbformat.read(notebook_of(name), as_version=4) if own else made_of_page(name)
    client = NotebookClient(notebook, timeout=110, resources={"metadata": {"path": str(folder)}})
    return client.execute()


def main() -> None:
    """Write all notebooks anew."""
    for name in (*NAMES, PLAYER):
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(name, Path(folder))
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # its times differ with every execution
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, notebook_of(name))


if __name__ == "__main__":
    main()
