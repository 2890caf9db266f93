"""A server that tests of several rooms share."""

import pytest


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server; skips, or fails, where there is none."""
    from tests.postgres.server import Server, binaries, is_required

    programs = binaries()
    if programs is None:
        reason = "no PostgreSQL on this machine: install it, or set TEST_POSTGRES_BIN"
        if is_required():
            pytest.fail(reason)
        pytest.skip(reason)
    with Server(programs) as server:
        yield server
