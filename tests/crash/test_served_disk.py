"""A server on a disk that is full: it goes on by itself once there is space."""

import os
import subprocess

import pytest

from placet.stores.sqlite.log import SqliteEventLog
from tests.cli.command_line import run_process
from tests.crash.test_disk_faults import mounted
from tests.server.load import Load
from tests.server.process import running

KB = 1024


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ("-t", "tmpfs", "-o", "size=512k", "tmpfs")
    if not (os.geteuid() == 0 and mounted(*options, str(folder))):
        pytest.skip("mounting a file system takes the right to")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_server_goes_on_by_itself_once_its_full_disk_has_space(small_disk, tmp_path):
    store = f"sqlite:///{small_disk}/w.db"
    with running(tmp_path, "--store", store) as server:
        load = Load(server, agents=2, payload="x" * 2 * KB)
        with load.running():
            load.wait_for_failures(5)
            ready = server.until_status("/readyz", 503)
            assert "the disk is full" in ready.json()["detail"]
            assert server.client.get("/healthz").status_code == 200
            assert mounted("-o", "remount,size=64m", str(small_disk))
            load.wait_for_more(50)
            server.until_status("/readyz", 200)
        load.check_kept()
        server.process.send_signal(15)
        assert server.process.wait() == 143
    assert run_process("verify", store, folder=tmp_path).code == 0


@pytest.mark.slow
def test_a_server_that_shall_end_when_its_store_fails_ends(small_disk, tmp_path):
    options = ("--store", f"sqlite:///{small_disk}/w.db", "--exit-on-store-failure")
    with running(tmp_path, *options) as server:
        load = Load(server, agents=2, payload="x" * 2 * KB)
        with load.running():
            load.wait_for_failures(1)
            outcome = server.process.end()
    assert outcome.code == 1
    assert "the disk is full" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_a_server_that_was_taken_over_says_that_it_needs_a_restart(tmp_path):
    with running(tmp_path, "--store", "w.db") as server:
        assert server.client.get("/readyz").status_code == 200
        heir = SqliteEventLog(tmp_path / "w.db")
        heir.open(take_over=True)
        ready = server.until_status("/readyz", 503)
        assert "this writer is fenced" in ready.json()["detail"]
        health = server.until_status("/healthz", 503)
        assert "restart it" in health.json()["detail"]
        heir.close()
