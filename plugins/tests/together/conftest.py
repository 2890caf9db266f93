"""The fixtures of placet's tests that are needed here."""

from tests.browser.conftest import browser

__all__ = ["browser"]
