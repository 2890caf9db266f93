"""The agent layer is optional: a program that does not use it does not load it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("placet", {"placet.agents", "placet.domains.session", "pydantic_ai", "mcp"}),
        ("placet.agents", {"placet.frontends", "pydantic_ai", "mcp", "typer", "starlette"}),
        ("placet.agents.proposal.plan_parser", {"placet.frontends", "pydantic_ai", "mcp"}),
    ],
)
def test_imports_do_not_load_other_layers(module: str, without: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(done.stdout.split()) & without == set()
