"""A world is killed at each of its steps, and its clients cannot tell (G1 to G5, G17, G19).

The fixed scenario passes numbered points (`crash_points.py`). It is killed at the first, then at
the second, until no point is left, and at a second point while it recovers. Every message of a
killed child is checked against the log; then the scenario is resumed, and must end as the
uninterrupted run.
"""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash import audit
from tests.crash.audit import ENDED_OTHERWISE
from tests.crash.fixed_scenario import config_of
from tests.crash.planted_bugs import PLANTED_BUGS
from tests.crash.process_forker import Message, ProcessForker
from tests.levels import each

RUN = "tests.crash.fixed_scenario:run"
RECOVERY_POINTS = 19
"""Points of a child that finds the scenario completed: those of opening and closing."""


def end_of(messages: list[Message]) -> dict[str, Any]:
    """Return the last message of a child and every answer that it found."""
    *_, last = messages
    assert last["what"] == "ended", f"a child ended with {last}"
    ends = {name: last[name] for name in ("seq", "digest", "world_digest")}
    return ends | {"answers": [line for line in messages if line["what"] == "found"]}


@pytest.fixture(scope="module")
def whole(forker, tmp_path_factory):
    """Return the end of the scenario without a crash."""
    store = f"sqlite:///{tmp_path_factory.mktemp('whole')}/a.db"
    return end_of(forker.fork(RUN, store=store).wait())


class Crashes:
    """Kills children on one store, and collects their messages."""

    def __init__(self, forker: ProcessForker, store: str, **how: object) -> None:
        self._zygote = forker
        self._store = store
        self._how = how
        self.messages: list[Message] = []

    def run(self, crash_at: int | None = None) -> bool:
        """Run until a crash or the end; return whether it ended."""
        child = self._zygote.fork(RUN, store=self._store, crash_at=crash_at, **self._how)
        self.messages += child.wait()
        return bool(self.messages[-1]["what"] == "ended")

    def complaints(self) -> list[str]:
        config = config_of(self._store).kernel_config()
        return audit.audit(self._store, config, self.messages)

    def ends_as(self, whole: dict[str, Any]) -> list[str]:
        """Resume to the end, and complain if the result differs."""
        began = len(self.messages)
        assert self.run()
        end = end_of(self.messages[began:])
        odd = [name for name in whole if end[name] != whole[name]]
        return [*([f"{ENDED_OTHERWISE}: {odd}"] if odd else []), *self.complaints()]


def complaints_of_a_crash(
    forker: ProcessForker, store: str, whole: dict[str, Any], crash_at: int, **how: object
) -> list[str] | None:
    """Kill a child at a point, and the next one during recovery; None if there is no such point."""
    crashes = Crashes(forker, store, **how)
    if crashes.run(crash_at):
        return None
    if complaints := crashes.complaints():
        return complaints
    crashes.run(crash_at % RECOVERY_POINTS + 1)
    return crashes.complaints() or crashes.ends_as(whole)


EACH_POINT = pytest.mark.parametrize("step", each(slow=13))


def exhaust(
    forker: ProcessForker, folder: Path, whole: dict[str, Any], step: int, **how: object
) -> int:
    """Kill at the first point, the next after a step, and so on; return the number of points."""
    for crash_at in count(1, step):
        store = f"sqlite:///{folder}/{crash_at}.db"
        complaints = complaints_of_a_crash(forker, store, whole, crash_at, **how)
        if complaints is None:
            return crash_at - step
        assert complaints == [], f"after a crash at point {crash_at}"
    raise AssertionError("a scenario has an end")


@EACH_POINT
def test_a_crash_at_any_point_loses_and_repeats_nothing(
    forker, folder, whole, step, record_property
):
    points = exhaust(forker, folder, whole, step)
    record_property("figures", f"{points} crash points, every {step}")
    assert points > 120, "the scenario has become short"


@EACH_POINT
def test_a_crash_while_a_snapshot_is_taken_or_the_log_compacted(
    forker, folder, whole, step, record_property
):
    points = exhaust(forker, folder, whole, step, has_maintenance=True)
    record_property("figures", f"{points} crash points, every {step}")
    assert points > 100, "the maintenance has become short"


EXPECTED = {
    "tell_before_append": audit.UNSENT,
    "write_behind": audit.UNSENT,
    "dispatch_before_append": audit.EARLY,
    "write_record_by_record": ENDED_OTHERWISE,
    "damage_a_record": audit.BROKEN,
    "forget_windows": audit.TWICE,
    "forget_outbox": ENDED_OTHERWISE,
    "forget_schedule": ENDED_OTHERWISE,
    "forget_settlements": audit.RESETTLED,
    "settle_unrun": audit.LOST_EFFECT,
    "answer_otherwise": audit.CHANGED,
    "decide_backwards": audit.DISORDER,
    "record_half": audit.SUM,
    "remove_snapshots_first": audit.BROKEN,
}
OF_THE_HOUSE = {"remove_snapshots_first"}

ELSEWHERE = {"order_by_hash", "write_unfenced"}
"""In test_determinism.py and test_two_writers.py."""


def test_each_planted_bug_has_a_test():
    assert EXPECTED.keys() == PLANTED_BUGS.keys() - ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("plant", EXPECTED)
def test_a_planted_bug_is_found(forker, folder, whole, plant):
    """The control: the same crashes in random order, until a complaint names the bug."""
    points = list(range(1, 150))
    Random(plant).shuffle(points)
    for crash_at in points:
        store = f"sqlite:///{folder}/{crash_at}.db"
        how = {"plant": plant, "has_maintenance": plant in OF_THE_HOUSE}
        complaints = complaints_of_a_crash(forker, store, whole, crash_at, **how) or []
        if any(complaint.startswith(EXPECTED[plant]) for complaint in complaints):
            return
    pytest.fail(f"{plant} was not found")
