"""The shop of the tests, and its gate."""

import tempfile
from pathlib import Path

import pytest
from tests.tools.mailroom import MailRoom
from tests.tools.shop import QUIET, Shop

from placet_tools import Gate
from tests.crash.process_forker import ProcessForker


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
async def gate(shop):
    async with Gate(shop.tools, config=QUIET) as gate:
        yield gate


@pytest.fixture
def room():
    return MailRoom()


@pytest.fixture
def log():
    """Return the path of a log on a disk."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as name:
        yield Path(name) / "mail.db"


@pytest.fixture(scope="session")
def mail_forker():
    with pytest.MonkeyPatch.context() as patch:  # `tests.tools` is in the folder of the plug-in
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        with ProcessForker(["tests.tools.mailroom", "anyio._backends._asyncio"]) as forker:
            yield forker
