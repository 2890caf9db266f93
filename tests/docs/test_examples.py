"""The documentation runs: every `python` block of every page is executed, top to bottom.

The blocks of one page share their names and one event loop, in an empty working directory. They
may `await` at the top level, as in a notebook, so that an example need not be wrapped for us.
A block that cannot run says so: `<!--- skip: next "needs a network" -->` above it.
A block whose first line is a comment with a file name, `# model.py`, is saved under that name.
"""

import asyncio
import contextlib
import inspect
import re
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
BY_NOTEBOOK = {ROOT / "docs" / "tutorials" / "bank_run.md"}
"""Pages of which the notebook, with the same code, is executed instead, because they are slow."""
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "plugins/*/docs/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path not in BY_NOTEBOOK
]
SLOW_PAGES = {
    ROOT / "docs" / "tutorials" / page for page in ("from_mesa.md", "writing_a_domain.md")
}
FILE_BLOCK = re.compile(
    r"^```(?:python|toml)\n(?=# (\w+\.(?:py|toml))\n)(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Page:
    """The examples of one page."""

    def __init__(self, path: Path, runner: asyncio.Runner) -> None:
        self._runner = runner
        blocks = CodeBlockParser(language="python", evaluator=self._run_block)
        self._document: Document = Sybil([blocks, SkipParser()]).parse(path)
        # pydantic and dataclasses ask the module of a class for its names.
        self._document.namespace["__name__"] = "__main__"

        for name, text in FILE_BLOCK.findall(path.read_text(encoding="utf-8")):
            Path(name).write_text(text, encoding="utf-8")

    def run(self) -> None:
        """Run the examples in order; one that is skipped does not skip those after it."""
        for example in self._document.examples():
            with contextlib.suppress(SkipTest):
                example.evaluate()

    def _run_block(self, example: Example) -> None:
        # The blank lines make a traceback name the line of the page.
        padding = "\n" * (example.line + example.parsed.line_offset)
        code = compile(
            padding + example.parsed,
            example.path,
            "exec",
            flags=PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        outcome = eval(code, example.namespace)
        if inspect.iscoroutine(outcome):
            self._runner.run(outcome)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=str(path.relative_to(ROOT)),
            marks=[pytest.mark.slow] if path in SLOW_PAGES else [],
        )
        for path in PAGES
    ],
)
def test_examples_of_a_page_run(path, runner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Page(path, runner).run()


@pytest.mark.parametrize("page", ["bank_run", "from_mesa", "births_and_deaths"])
def test_the_files_of_a_tutorial_are_those_of_the_examples(page):
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    files = FILE_BLOCK.findall(text)
    assert len(files) == 2
    for name, content in files:
        assert content == (ROOT / "examples" / name).read_text(encoding="utf-8"), name


def test_a_wrong_example_fails_at_its_own_line(runner, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nn = 1\n```\n\n```sh\nfalse\n```\n\n"
        "```python\nimport asyncio\nawait asyncio.sleep(0)\nassert n == 2\n```\n"
    )
    with pytest.raises(AssertionError) as failure:
        Page(page, runner).run()
    assert failure.traceback[-1].path == page
    assert failure.traceback[-1].lineno + 1 == 14


def test_a_skipped_example_does_not_run_and_the_next_one_does(runner, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '<!--- skip: next "shown, not run" -->\n\n```python\n1 / 0\n```\n\n'
        "```python\nraise LookupError\n```\n"
    )
    with pytest.raises(LookupError):
        Page(page, runner).run()


def test_the_readme_shows_the_example_file():
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "counter.py").read_text(encoding="utf-8")
    assert f"```python\n{example.rstrip()}\n```" in shown
