"""The speed of a watched run: when the next tick is due, by a clock of the test."""

from queue import Empty

import pytest

from placet.cli import watch as module
from placet.cli.watch import Watch


class Commands:
    """A queue whose waiting moves the clock; commands come at given times."""

    def __init__(self):
        self.now = 0.0
        self.coming = []

    def get(self, timeout):
        if self.coming and self.coming[0][0] <= self.now + timeout:
            self.now, command = self.coming.pop(0)
            return command
        self.now += timeout
        raise Empty

    def get_nowait(self):
        if self.coming and self.coming[0][0] <= self.now:
            return self.coming.pop(0)[1]
        raise Empty


@pytest.fixture
def watched(monkeypatch):
    """Return a function that makes a watch with a speed, and its queue."""

    def make(speed=None, is_stopped=lambda: False):
        commands = Commands()
        monkeypatch.setattr(module, "monotonic", lambda: commands.now)
        watch = Watch("town.db", is_stopped, ticks_per_second=speed)
        monkeypatch.setattr(watch, "_commands", commands)
        return watch, commands

    return make


def times_of(watched, count, tick_s=0.01):
    """Return the times at which ticks begin, each of which takes some time."""
    watch, commands = watched
    times = []
    for _ in range(count):
        assert not watch.is_stopped()
        times.append(round(commands.now, 3))
        commands.now += tick_s
        watch.note_tick()
    return times


def test_a_run_without_a_speed_waits_for_nothing(watched):
    assert times_of(watched(), 3) == [0, 0.01, 0.02]


def test_a_tick_begins_no_earlier_than_its_speed_allows(watched):
    assert times_of(watched(2.0), 3) == [0, 0.51, 1.02]
    assert times_of(watched(2.0), 3, tick_s=0.7) == [0, 1.2, 2.4]


def test_registrations_before_the_first_tick_are_not_slowed(watched):
    watch, commands = watched(0.1)
    assert [watch.is_stopped() for _ in range(3)] == [False] * 3
    assert commands.now == 0


def test_the_page_changes_the_speed_in_the_middle_of_a_wait(watched):
    _, commands = run = watched(0.1)
    assert times_of(run, 1) == [0]
    commands.coming = [(1.0, {"command": "speed", "ticks_per_second": None})]
    assert times_of(run, 2) == [1.0, 1.01]
    commands.coming = [(1.02, {"command": "speed", "ticks_per_second": 1.0})]
    assert times_of(run, 2) == [2.02, 3.03]


def test_a_paused_run_takes_a_speed_and_steps_at_once(watched):
    _, commands = run = watched(0.5)
    assert times_of(run, 1) == [0]
    commands.coming = [
        (0.1, {"command": "pause"}),
        (5.0, {"command": "speed", "ticks_per_second": 0.25}),
        (9.0, {"command": "step"}),
        (30.0, {"command": "resume"}),
    ]
    assert times_of(run, 2) == [9.0, 30.0]


def test_a_signal_ends_a_wait(watched):
    clock: list[Commands] = []
    watch, commands = run = watched(0.001, is_stopped=lambda: bool(clock) and clock[0].now > 3)
    clock.append(commands)
    times_of(run, 1)
    assert watch.is_stopped()
    assert commands.now < 4


def test_a_run_ends_at_its_command_also_while_it_is_paused(watched):
    watch, commands = run = watched(0.5)
    assert times_of(run, 1) == [0]
    commands.coming = [(0.1, {"command": "pause"}), (5.0, {"command": "end"})]
    assert watch.is_stopped()
    assert commands.now == 5.0
