"""A process that is killed while it creates a file leaves the whole file or none (G19)."""

import pytest

from tests.crash.creation import CREATORS
from tests.crash.syscall_killer import IS_SUPPORTED

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="needs ptrace of Linux on x86-64")


def faults_of(forker, folder, name, kills_max):
    function = "tests.crash.creation:killed_creations"
    child = forker.fork(function, name=name, folder=str(folder), kills_max=kills_max)
    messages = child.wait()
    assert messages[-1]["what"] == "done"
    assert messages[-1]["changes"] >= 3
    return [line for line in messages if line["what"] == "fault"]


@pytest.mark.soak
@pytest.mark.parametrize("name", CREATORS)
def test_a_kill_before_any_change_leaves_a_whole_thing_or_none(forker, folder, name):
    assert faults_of(forker, folder, name, 80) == []


QUICK = ["log", "snapshot", "page"]
OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in CREATORS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_a_kill_before_some_changes_leaves_a_whole_thing_or_none(forker, folder, name):
    assert faults_of(forker, folder, name, 8 if name in QUICK else 4) == []


def test_a_file_that_is_written_in_place_is_found(forker, folder):
    """The control."""
    faults = {fault["fault"] for fault in faults_of(forker, folder, "in place", 8)}
    assert faults == {
        "AssertionError: it is there in part",
        "AssertionError: others may read ['p.html']",
    }
