"""The shop of the tests, and its gate."""

import pytest
from tests.tools.shop import QUIET, Shop

from placet_tools import Gate


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
async def gate(shop):
    async with Gate(shop.tools, config=QUIET) as gate:
        yield gate
