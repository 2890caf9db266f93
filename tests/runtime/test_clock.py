"""Clocks: time moves forward or stands still."""

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.actors.admission.time_scaled_queue import Dilation
from placet.runtime.clock import DilatedClock, RealtimeClock, SteppedClock
from tests.actors.virtual_time import ManualClock

if TYPE_CHECKING:
    from placet.actors.ports import Clock


def test_every_clock_implements_the_port():
    clocks: list[Clock] = [RealtimeClock(), SteppedClock(), ManualClock()]
    for clock in clocks:
        assert clock.now_ns() >= 0
        assert clock.monotonic_ns() <= clock.monotonic_ns()


@given(start_ns=st.integers(0, 2**62), steps=st.lists(st.integers(0, 2**40)))
def test_realtime_clock_continues_at_the_end_of_the_log_and_never_goes_back(start_ns, steps):
    machine = [123_456]
    clock = RealtimeClock(start_ns, monotonic_ns=lambda: machine[0])
    assert clock.now_ns() == start_ns
    for step in steps:
        before = clock.now_ns()
        machine[0] += step
        assert clock.now_ns() == before + step
        assert clock.monotonic_ns() == machine[0]


def test_realtime_clock_advances_without_steps():
    clock = RealtimeClock(7)
    first, machine = clock.now_ns(), time.monotonic_ns()
    while time.monotonic_ns() == machine:
        pass
    assert 7 <= first < clock.now_ns()


@given(
    start_ns=st.integers(0, 2**62),
    steps=st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40) | st.none())),
)
def test_dilated_time_never_jumps_goes_back_or_runs_faster(start_ns, steps):
    machine = [987_654]
    clock = DilatedClock(start_ns, Dilation(100, 0.05), monotonic_ns=lambda: machine[0])
    assert clock.now_ns() == start_ns
    for step, wait_ns in steps:
        before, factor = clock.now_ns(), clock.dilation.factor
        machine[0] += step
        now = clock.now_ns()
        assert now - before == pytest.approx(step * factor, rel=2e-5, abs=2)
        assert before <= now <= before + step
        if wait_ns is not None:
            assert clock.follow(wait_ns) == (clock.dilation.factor < 1.0)
            assert clock.now_ns() == now
        assert clock.behind_ns == machine[0] - 987_654 - (clock.now_ns() - start_ns)


def test_dilated_time_equals_machine_time_without_load():
    machine = [5]
    clock = DilatedClock(7, monotonic_ns=lambda: machine[0])
    for step in (1, 3, 10**9 + 1, 10**18 + 7):
        machine[0] += step
        assert clock.follow(0) is False
        assert clock.now_ns() == 7 + machine[0] - 5
        assert clock.behind_ns == 0


def test_dilation_is_reported_with_the_wait_that_caused_it():
    machine, told = [0], []
    clock = DilatedClock(
        0, monotonic_ns=lambda: machine[0], on_change=lambda d, wait: told.append((d.factor, wait))
    )
    for wait_ms in (50, 1000, 1000, 1000, 0, 0):
        machine[0] += 2 * 10**9
        clock.follow(wait_ms * 10**6)
    assert told == [
        (pytest.approx(0.1), 10**9),
        (1.0, 0),
    ]


@given(start_ns=st.integers(0, 2**62), steps=st.lists(st.integers(0, 2**40)))
def test_stepped_time_is_the_sum_of_its_steps(start_ns, steps):
    clock = SteppedClock(start_ns)
    for step in steps:
        assert clock.advance(step) == clock.now_ns()
    assert clock.now_ns() == start_ns + sum(steps)


@pytest.mark.parametrize("make", [SteppedClock, ManualClock])
def test_negative_step_is_refused_and_moves_nothing(make):
    clock = make(5)
    with pytest.raises(ValueError, match=r"expected a step >= 0 ns, got -1"):
        clock.advance(-1)
    assert clock.now_ns() == 5


def test_deadlines_use_real_time_except_on_a_manual_clock():
    before = time.monotonic_ns()
    assert SteppedClock().monotonic_ns() >= before
    manual = ManualClock()
    manual.advance(9)
    assert manual.monotonic_ns() == manual.now_ns() == 9
