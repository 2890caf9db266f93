"""How many tests run at a time, how laws are searched, and a server that several rooms share.

Laws are searched from a fixed seed, so that a run tells of the code and not of luck: it repeats the
same examples. Hence CI searches a third of them, and `HYPOTHESIS_PROFILE=nightly` all.
`HYPOTHESIS_PROFILE=explore` searches elsewhere each time, and longer.
"""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.cli.command_line import TOWN, CommandLine, run_process

WORKERS_MAX = 4
SLOW_SECONDS_MAX = 600
SOAK_SECONDS_MAX = 3600

# What a whole run of a level does, by its `-m`; durations by the processor time of 2026-11-27, on
# two cores that do nothing else.
LEVELS = {
    "not slow and not soak": "the fast tests and the examples of the documentation: 4 minutes",
    "slow": "the slow tests (kills, servers, browsers): 5 minutes",
    "traced": "the fast tests that prove schemas and kernel, which CI traces: 2 minutes",
    "not soak and not traced": "the other fast tests and the slow ones, as in CI: 8 minutes",
    "soak": "the soaks (long seeds, whole tables of kills and flipped bytes), as at night",
}

# Folders and files whose fast tests reach every branch of schemas and kernel together. A test in
# `tests/kernel` or `tests/schemas` for a new branch is the rule; a file elsewhere the exception.
TRACED = (
    "tests/kernel/",
    "tests/schemas/",
    "tests/actors/effects/test_executor_retries.py",
    "tests/actors/observation/test_convergence.py",
    "tests/actors/observation/test_delayed_observer.py",
    "tests/actors/observation/test_observers_of_tables.py",
    "tests/actors/observation/test_view_positions.py",
    "tests/actors/observation/test_views_of_tables.py",
    "tests/cli/test_effects.py",
    "tests/cli/test_explain.py",
    "tests/domains/world/test_world_interactions.py",
    "tests/history/test_column_history.py",
    "tests/history/test_counterfactual.py",
    "tests/history/test_explain_row.py",
    "tests/history/test_fork.py",
    "tests/history/test_pack.py",
    "tests/history/timeline/test_timeline.py",
    "tests/runtime/api/test_barrier.py",
    "tests/runtime/test_column_batches.py",
    "tests/runtime/test_notebook_reprs.py",
    "tests/runtime/test_read_only.py",
    "tests/runtime/test_reprs.py",
    "tests/server/test_history_routes.py",
    "tests/stores/snapshots/test_snapshots.py",
    "tests/test_common_mistakes.py",
    "tests/test_known_names.py",
    "tests/test_nobody_left.py",
)

# Long tests among them that enter no branch which the others do not: to trace one trebles its time.
# A name that is missing here costs time and no coverage.
UNTRACED = (
    "tests/actors/observation/test_convergence.py::test_clients_converge_under_every_policy[1-",
    "tests/actors/observation/test_convergence.py::test_clients_converge_under_every_policy[2-",
    "tests/actors/observation/test_convergence.py::test_clients_converge_where_a_policy",
    "tests/actors/observation/test_delayed_observer.py::test_a_random_latency",
    "tests/actors/observation/test_delayed_observer.py::test_latency_by_distance_delivers",
    "tests/actors/observation/test_delayed_observer.py::test_observations_show_the_state",
    "tests/actors/observation/test_view_positions.py::test_the_indexes_find_what_a_search",
    "tests/history/test_fork.py::test_what_if_without_a_change",
    "tests/kernel/columns/test_contention.py::test_arrays_and_rows_agree_when_every_turn_is_a_round[4]",
    "tests/kernel/columns/test_contention.py::test_arrays_and_rows_agree_when_every_turn_is_a_round[8]",
    "tests/kernel/columns/test_laws.py::",
    "tests/kernel/columns/test_planted_faults.py::",
    "tests/kernel/columns/test_snapshot_of_columns.py::test_a_snapshot_holds_all",
    "tests/kernel/columns/test_space_capacity.py::test_domain_of_cells_keeps_the_laws_of_columns[1]",
    "tests/kernel/columns/test_space_capacity.py::test_domain_of_cells_keeps_the_laws_of_columns[2]",
    "tests/kernel/columns/test_space_capacity.py::test_domain_of_cells_keeps_the_laws_of_columns[3]",
    "tests/kernel/columns/test_space_capacity.py::test_no_cell_passes_its_capacity",
    "tests/kernel/control/test_births.py::test_births_in_joined_batches",
    "tests/kernel/decide/single/test_groups.py::test_a_planted_fault_breaks_the_law[_a_sum",
    "tests/kernel/decide/single/test_groups.py::test_lives_meet_every_stage",
    "tests/kernel/decide/test_order_fairness.py::",
    "tests/kernel/gate/test_random_leases.py::test_leases_hold",
    "tests/kernel/ledger/test_token_buckets.py::test_admission_by_quota",
    "tests/kernel/log/test_replay.py::test_a_kernel_",
    "tests/kernel/log/test_replay.py::test_a_replay_gives",
    "tests/kernel/log/test_replay.py::test_the_incremental_digest",
    "tests/kernel/log/test_replay.py::test_two_kernels",
    "tests/kernel/log/test_snapshot.py::test_a_kernel_opened_from_a_snapshot",
    "tests/kernel/log/test_snapshot.py::test_a_replay_resumed",
    "tests/kernel/log/test_verify.py::test_verification_can_start",
    "tests/kernel/log/test_verify.py::test_verification_gives_the_same_world",
    "tests/kernel/reference/",
    "tests/kernel/state/test_atomicity.py::test_a_dry_run_gives_the_verdict",
    "tests/kernel/state/test_atomicity.py::test_a_rule_cannot_change_the_agent",
    "tests/kernel/visibility/test_visibility.py::test_an_index_names_every_affected_agent[0-",
    "tests/kernel/visibility/test_visibility.py::test_an_index_names_every_affected_agent[1-",
    "tests/schemas/test_identity.py::test_kind_names_and_tool_names",
    "tests/schemas/test_names.py::test_an_unseen_character",
    "tests/server/test_history_routes.py::test_a_fork_is_played",
    "tests/stores/snapshots/test_snapshots.py::test_a_separate_process_takes",
    "tests/test_known_names.py::test_another_run_does_not_continue",
    "tests/test_nobody_left.py::test_the_known_collections",
)
MEMORY = Path("/dev/shm")  # a folder of the system's, in memory
MEMORY_BYTES_MIN = 4 * 2**30

settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("fixed"), derandomize=False, max_examples=2000
)
settings.register_profile("nightly", settings.get_profile("fixed"), max_examples=100)
settings.register_profile("compatibility", settings.get_profile("fixed"), max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure() -> None:
    """Put the folders of tests into memory, and restore SIGINT for child processes.

    A store syncs its file at each commit, which takes a millisecond on a disk; a process that is
    killed loses nothing that it gave to the system, whatever it is stored on.
    A shell ignores SIGINT in background jobs, and every process started from here would inherit it.
    """
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN:
        os.environ.setdefault("TMPDIR", str(MEMORY))
        tempfile.tempdir = None  # it is asked again
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return what a whole run does and how long it takes."""
    if config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword:
        return None
    return f"placet: {LEVELS.get(config.option.markexpr, 'tests of -m')}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections, and exclude what was loaded from later ones.

    A third of the collection's time would go into walks over modules and tests that stay.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the files without a traced test where traced tests alone are asked for."""
    if config.option.markexpr != "traced" or collection_path.is_dir():
        return None
    place = collection_path.relative_to(config.rootpath).as_posix()
    return None if place.startswith(TRACED) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests a longer timeout, for a busy machine, and mark the tests that CI traces."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_traced = item.nodeid.startswith(TRACED) and not item.nodeid.startswith(UNTRACED)
        if is_traced and not marks & {"slow", "soak"}:
            item.add_marker("traced")
        if marks & {"slow", "soak"} and "timeout" not in marks:
            seconds = SOAK_SECONDS_MAX if "soak" in marks else SLOW_SECONDS_MAX
            item.add_marker(pytest.mark.timeout(seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests record: how many kills, crash points and answers there were."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "figures" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}: {value}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker per processor; none if files or keywords are given.

    Workers take about two seconds to start, and each collects for itself.
    """
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    processors = os.cpu_count() or 1
    if not is_whole or config.option.keyword or processors == 1:
        return 0
    return min(processors, WORKERS_MAX)


@pytest.fixture(scope="session", autouse=True)
def no_lag_of_this_machine():
    """Disable the event-loop lag signal of real-time worlds, so that a busy machine is no overload.

    What a lag does is tested in virtual time, or with a clock that the test moves.
    """
    from placet.actors.admission.ingress import Ingress
    from placet.actors.ports import Clock
    from placet.runtime.clock import SteppedClock
    from tests.actors.virtual_time import LoopClock

    measure_lag = Ingress.measure_lag

    def is_of_this_machine(clock: Clock) -> bool:
        if isinstance(clock, LoopClock):
            return type(asyncio.get_running_loop()).time is asyncio.BaseEventLoop.time
        return clock.monotonic_ns is time.monotonic_ns or type(clock) is SteppedClock

    def note_virtual_turn(ingress: Ingress) -> None:
        if is_of_this_machine(ingress._clock):
            ingress.woken_ns = 0
        measure_lag(ingress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ingress, "measure_lag", note_virtual_turn)
        yield


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


@pytest.fixture
def placet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys, tmp_path)


@pytest.fixture(scope="session")
def lived_town(tmp_path_factory):
    """A folder with the store of a finished town run, shared by all tests, and its report."""
    folder = tmp_path_factory.mktemp("town")
    outcome = run_process("run", *TOWN, "--json", folder=folder)
    assert outcome.code == 0, outcome.err
    return folder, outcome.json()


@pytest.fixture
def town(placet, lived_town):
    """A copy of that town, in town.db."""
    folder, placet.report = lived_town
    shutil.copytree(folder, placet.folder, dirs_exist_ok=True)
    return placet
