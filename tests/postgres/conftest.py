"""Fixtures of the tests of the shared log."""

import pytest

from tests.crash.process_forker import ProcessForker


@pytest.fixture(scope="session")
def forker():
    """A process with the package and the driver imported, from which children are forked."""
    late = ["anyio._backends._asyncio", "placet.runtime.telemetry.world_logger"]
    roles = ["tests.crash.load_scenario", "tests.crash.single_client", "tests.postgres.heir"]
    with ProcessForker([*roles, "placet.stores.postgres.log", *late]) as forker:
        yield forker
