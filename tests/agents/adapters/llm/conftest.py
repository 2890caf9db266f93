"""Fixtures of the tests of models."""

import pytest

from placet.agents.adapters.llm import requests


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less before another try, where the provider has named no time."""
    monkeypatch.setattr(requests, "_WAIT_SECONDS", 0.02)
