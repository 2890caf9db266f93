"""Fixtures of the tests of the shared log."""

import pytest

from tests.crash.process_forker import Zygote


@pytest.fixture(scope="session")
def zygote():
    """A process with the package and the driver imported, from which lives are forked."""
    late = ["anyio._backends._asyncio", "placet.runtime.telemetry.world_logger"]
    roles = ["tests.crash.load_scenario", "tests.crash.single_client", "tests.postgres.heir"]
    with Zygote([*roles, "placet.runtime.stores.postgres.log", *late]) as zygote:
        yield zygote
