"""The example of a session with a model runs offline, and the page shows its output."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]


async def test_the_page_has_the_output_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_MODEL", raising=False)
    lines: list[str] = []
    await runpy.run_path(str(ROOT / "examples" / "llm_session.py"))["converse"](lines.append)
    page = (ROOT / "docs" / "guides" / "llm.md").read_text(encoding="utf-8")
    assert "```\n" + "\n".join(lines) + "\n```" in page
    assert lines[-1].endswith("the same")
