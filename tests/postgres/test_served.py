"""A server whose PostgreSQL is killed under load: clients succeed again without an operator."""

import os

import pytest

from tests.cli.command_line import run_process
from tests.postgres.server import Server
from tests.server.load import Load
from tests.server.process import running

CRASHES = int(os.environ.get("TEST_POSTGRES_SERVED_CRASHES", "2"))


@pytest.mark.slow
def test_a_server_goes_on_by_itself_after_its_postgres_was_killed(postgres, tmp_path):
    with (
        Server(postgres.programs) as database,
        running(tmp_path, "--store", database.url("world")) as server,
    ):
        load = Load(server, agents=4)
        with load.running():
            for _ in range(CRASHES):
                load.wait_for_more(50)
                database.stop("immediate")
                load.wait_for_failures(5)
                ready = server.until_status("/readyz", 503)
                assert "the store failed and is opened again" in ready.json()["detail"]
                assert server.client.get("/healthz").status_code == 200
                database.start()
                load.wait_for_more(50)
                server.until_status("/readyz", 200)
        database.stop("immediate")  # while no client submits: readiness finds it by its own write
        server.until_status("/readyz", 503)
        database.start()
        server.until_status("/readyz", 200)
        load.check_kept()
        server.process.send_signal(15)
        assert server.process.wait() == 143
        assert run_process("verify", database.url("world"), folder=tmp_path).code == 0
