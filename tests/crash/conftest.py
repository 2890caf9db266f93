"""Fixtures of the crash tests."""

import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.crash.process_forker import ProcessForker

_MEMORY: Final = Path("/dev/shm")  # a folder of the system's, in memory
_ROLES: Final = [
    "tests.crash.fixed_scenario",
    "tests.crash.load_scenario",
    "tests.crash.single_client",
    "tests.crash.effect_scenario",
]
# Loaded late in a child, and by a child that may have become a user who may not read them.
_LATE: Final = ["anyio._backends._asyncio", "placet.runtime.telemetry.world_logger"]


@pytest.fixture(scope="session")
def forker():
    """A process with the package imported, from which children are forked."""
    with ProcessForker([*_ROLES, *_LATE]) as forker:
        yield forker


@pytest.fixture
def folder():
    """A folder in memory, where there is one.

    A killed process loses nothing that it gave to the system, whatever it is stored on; so the
    disk would only make these tests wait.
    """
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def disk_folder():
    """A folder on a disk, where a write takes time: a kill at random finds it under way."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="placet-") as name:
        yield Path(name)
