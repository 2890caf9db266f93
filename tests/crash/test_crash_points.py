"""A world is killed at each step that it takes, and nobody can tell (G1 to G5, G17, G19).

Every life of the story passes numbered points (`points.py`). It is killed at the first, then at the
second, and so on, until a life is not killed any more because it has no further point. What the
killed life told is checked against the log; then the story is lived on, and must end as it does
when nobody is killed.
"""

import sys
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash import audit
from tests.crash.audit import ENDED_OTHERWISE
from tests.crash.fixed_scenario import config_of
from tests.crash.planted_bugs import PLANTS
from tests.crash.process_forker import Told, Zygote

LIVE = "tests.crash.fixed_scenario:live"
RECOVERY_POINTS = 19
"""A life that finds the story told passes so many: what opening and closing takes."""


def end_of(told: list[Told]) -> dict[str, Any]:
    """Give what a life came to: its last words, and every answer that it found."""
    *_, last = told
    assert last["what"] == "ended", f"a life ended with {last}"
    ends = {name: last[name] for name in ("seq", "digest", "world_digest")}
    return ends | {"answers": [line for line in told if line["what"] == "found"]}


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    """What the story comes to when nobody is killed."""
    store = f"sqlite:///{tmp_path_factory.mktemp('whole')}/a.db"
    return end_of(zygote.fork(LIVE, store=store).wait())


class Crashes:
    """Kills lives on one store, and keeps what they told."""

    def __init__(self, zygote: Zygote, store: str, **how: object) -> None:
        self._zygote = zygote
        self._store = store
        self._how = how
        self.told: list[Told] = []

    def live(self, crash_at: int | None = None) -> bool:
        """Live until a crash or the end; tell which it was."""
        life = self._zygote.fork(LIVE, store=self._store, crash_at=crash_at, **self._how)
        self.told += life.wait()
        return bool(self.told[-1]["what"] == "ended")

    def complaints(self) -> list[str]:
        config = config_of(self._store).kernel_config()
        return audit.audit(self._store, config, self.told)

    def ends_as(self, whole: dict[str, Any]) -> list[str]:
        """Live on to the end, and complain if it is another one."""
        began = len(self.told)
        assert self.live()
        end = end_of(self.told[began:])
        odd = [name for name in whole if end[name] != whole[name]]
        return [*([f"{ENDED_OTHERWISE}: {odd}"] if odd else []), *self.complaints()]


def complaints_of_a_crash(
    zygote: Zygote, store: str, whole: dict[str, Any], crash_at: int, **how: object
) -> list[str] | None:
    """Kill a life at a point, and the next while it recovers; None if there is no such point."""
    crashes = Crashes(zygote, store, **how)
    if crashes.live(crash_at):
        return None
    if complaints := crashes.complaints():
        return complaints
    crashes.live(crash_at % RECOVERY_POINTS + 1)
    return crashes.complaints() or crashes.ends_as(whole)


def exhaust(zygote: Zygote, folder: Path, whole: dict[str, Any], **how: object) -> int:
    """Kill at the first point, the second, and so on; give how many there were."""
    for crash_at in count(1):
        store = f"sqlite:///{folder}/{crash_at}.db"
        complaints = complaints_of_a_crash(zygote, store, whole, crash_at, **how)
        if complaints is None:
            return crash_at - 1
        assert complaints == [], f"after a crash at point {crash_at}"
    raise AssertionError("a story has an end")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_crash_at_any_point_loses_nothing_and_does_nothing_twice(zygote, folder, whole):
    points = exhaust(zygote, folder, whole)
    sys.stdout.write(f"{points} crash points\n")
    assert points > 130, "the story has become short"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_crash_while_a_snapshot_is_taken_or_the_log_compacted(zygote, folder, whole):
    points = exhaust(zygote, folder, whole, keeps_house=True)
    sys.stdout.write(f"{points} crash points\n")
    assert points > 100, "the house has become small"


EXPECTED = {
    "tell_before_append": audit.UNTOLD,
    "write_behind": audit.UNTOLD,
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


def test_each_plant_has_a_test():
    assert EXPECTED.keys() == PLANTS.keys() - ELSEWHERE


@pytest.mark.slow
@pytest.mark.parametrize("plant", EXPECTED)
def test_a_planted_bug_is_found(zygote, folder, whole, plant):
    """The control: the same crashes, in an order drawn by chance, until one complaint is of it."""
    points = list(range(1, 150))
    Random(plant).shuffle(points)
    for crash_at in points:
        store = f"sqlite:///{folder}/{crash_at}.db"
        how = {"plant": plant, "keeps_house": plant in OF_THE_HOUSE}
        complaints = complaints_of_a_crash(zygote, store, whole, crash_at, **how) or []
        if any(complaint.startswith(EXPECTED[plant]) for complaint in complaints):
            return
    pytest.fail(f"{plant} was not found")
