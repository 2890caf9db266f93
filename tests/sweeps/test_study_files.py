"""Files and locks of a study: none is kept open, and none is held by a forked worker."""

import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from placet.lab import run_scenarios
from placet.sweeps import half_run
from placet.sweeps import study as study_module
from placet.sweeps.errors import LabError
from tests.sweeps.sweeping import InlineExecutor, agents_left, short_town


def open_files(folder):
    """Return the files in a folder that this process has open."""
    links = list(Path("/proc/self/fd").iterdir())
    paths = [link.readlink() for link in links if link.is_symlink()]
    return sorted(path for path in paths if path.is_relative_to(folder))


def test_forked_workers_do_not_keep_the_lock_of_a_study(tmp_path):
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as executor:
        first = run_scenarios(short_town(), seeds=[1], executor=executor, to=tmp_path)
        second = run_scenarios(short_town(), seeds=[2], executor=executor, to=tmp_path)
    assert [*first.column("seed"), *second.column("seed")] == [1, 2]


def test_a_process_forked_during_a_sweep_does_not_keep_its_lock(tmp_path):
    with study_module.Study(tmp_path).locked():
        assert open_files(tmp_path / "lock")
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.write(write, b"open" if open_files(tmp_path / "lock") else b"none")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 4) == b"none"
        os.close(read)
        os.close(write)


def test_threads_of_sweeps_leave_no_file_open(tmp_path):
    for number in range(3):
        with ThreadPoolExecutor(2) as executor:
            run_scenarios(
                short_town(), replications=4, executor=executor, to=tmp_path / str(number)
            )
    assert open_files(tmp_path) == []


def test_a_thread_that_lives_on_has_the_files_of_one_sweep_at_most(tmp_path):
    for number in range(3):
        run_scenarios(short_town(), executor=InlineExecutor(), to=tmp_path / str(number))
    assert open_files(tmp_path / "0") == []
    assert open_files(tmp_path / "1") == []


def test_a_failed_run_leaves_no_count_open(tmp_path, monkeypatch):
    monkeypatch.setattr(half_run, "WORTH_S", 0.0)
    town = short_town().with_values({"agents.folk.policy": f"{__name__}:Failing", "ticks": 3})
    (row,) = run_scenarios(town, executor=InlineExecutor(), to=tmp_path, logs="failed")
    assert "at the second tick" in row["error"]
    assert list((tmp_path / "logs").glob("*.counts"))
    assert open_files(tmp_path / "logs") == []


class Failing:
    """A policy that raises at its second tick."""

    def __init__(self, member, scenario, intent):
        self._ticks = 0

    def propose(self, view):
        self._ticks += 1
        if self._ticks > 1:
            raise RuntimeError("at the second tick")
        return []


@pytest.mark.parametrize("timeout_s", [-1, 0, float("nan"), float("inf"), 1e300])
def test_a_timeout_that_is_no_time_is_refused_before_a_run(tmp_path, timeout_s):
    with pytest.raises(LabError, match="timeout_s must be a number of seconds above 0"):
        run_scenarios(short_town(), timeout_s=timeout_s, outcome=agents_left, to=tmp_path / "s")
    assert not (tmp_path / "s").exists()
