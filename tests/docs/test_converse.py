"""The example of agents who talk: it runs, in virtual time, and the page shows what it prints."""

import runpy
from pathlib import Path

from tests.actors.virtual_time import in_virtual_time

ROOT = Path(__file__).parents[2]


@in_virtual_time
async def test_an_agent_is_interrupted_within_a_sentence_and_the_page_has_the_output():
    lines: list[str] = []
    await runpy.run_path(str(ROOT / "examples" / "converse.py"))["converse"](lines.append)
    page = (ROOT / "docs" / "guides" / "policies.md").read_text(encoding="utf-8")
    assert "```\n" + "\n".join(lines) + "\n```" in page
    (stopped,) = [line for line in lines if "is stopped" in line]
    assert "carol is stopped: at seq 6 bob said 'At the mill. I have the key.'" in stopped
    assert "words thrown away: We could meet at" in stopped
