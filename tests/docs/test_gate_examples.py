"""The examples of gates before agents of frameworks run, with the real packages."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["pydantic_ai", "langgraph", "openai_agents"])
def test_an_agent_reads_why_it_was_refused_and_waits_for_the_person(name, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [f"gate_{name}.py"])
    runpy.run_path(str(EXAMPLES / f"gate_{name}.py"), run_name="__main__")
    asked, found, refused, paid, said = capsys.readouterr().out.splitlines()
    assert asked == (
        "support asks manager: shop.refund(order='B2', euro=150), "
        "because refund (risk medium): more than 100 euro"
    )
    assert "300" in found
    assert "payload_invalid" in refused
    assert "150" in paid
    assert said == "150 euro are paid back."
