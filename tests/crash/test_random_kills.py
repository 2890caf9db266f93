"""A world under load is killed repeatedly at random moments (G1 to G5, G17, G19).

The crash points of `test_crash_points.py` are those that somebody thought of. These moments are
nobody's: also inside a system call of the committer's thread, and while the log is being recovered.
The folder is on a disk, so most kills find a write under way.
"""

import os
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from placet.stores.sqlite.log import SqliteEventLog
from tests.crash import audit
from tests.crash.load_scenario import config_of
from tests.crash.process_forker import ChildProcess, Message, ProcessForker

if TYPE_CHECKING:
    from pathlib import Path

KILLS: Final = int(os.environ.get("PLACET_KILLS", "20"))
KILLS_PER_STORE: Final = 10
LIFE_SECONDS_MAX: Final = 0.15
RIPENING_SECONDS: Final = 0.02
RIPE_ANSWERS: Final = 20


def has_answered(child: ChildProcess) -> bool:
    answers = [line for line in child.messages if line["what"] == "answer"]
    return len(answers) >= RIPE_ANSWERS


class Killer:
    """Kills children on one store, each a random while after it was forked."""

    def __init__(
        self,
        forker: ProcessForker,
        store: str,
        seed: int,
        *,
        has_ripened: Callable[[ChildProcess], bool] = has_answered,
        **how: object,
    ) -> None:
        self._zygote = forker
        self._store = store
        self._seed = seed
        self._has_ripened = has_ripened
        self._how = how
        self._rng = Random(seed)
        self.messages: list[Message] = []
        self.begin: dict[str, int] = {}

    def kill_one(self) -> list[str]:
        """Fork a child, listen, kill it, and check the log that it left."""
        child = self._zygote.fork(
            "tests.crash.load_scenario:run",
            store=self._store,
            seed=self._seed,
            begin=self.begin,
            **self._how,
        )
        # Half of the children are killed in any case, half only when they have come to something.
        if self._rng.random() < 0.5:
            while not (child.is_over or self._has_ripened(child)):
                child.listen_for(RIPENING_SECONDS)
        child.listen_for(self._rng.random() * LIFE_SECONDS_MAX)
        assert not child.is_over, f"a child ended by itself: {child.messages[-1]}"
        messages = child.kill()
        self.messages += messages
        for line in messages:
            if line["what"] == "answer":
                self.begin[line["by"]] = line["n"] + 1
        config = config_of(self._store).kernel_config()
        return audit.audit(self._store, config, self.messages)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_kills_lose_no_answer_and_repeat_nothing(forker, disk_folder, record_property):
    answers = intents = 0
    for seed in range(-(-KILLS // KILLS_PER_STORE)):
        killer = Killer(forker, f"sqlite:///{disk_folder}/{seed}.db", seed)
        for kill in range(KILLS_PER_STORE):
            assert killer.kill_one() == [], f"seed {seed}, kill {kill}"
        messages = [line for line in killer.messages if line["what"] == "answer"]
        answers += len(messages)
        intents += sum(len(line["ids"]) for line in messages)
    record_property("figures", f"{KILLS} kills, {answers} answers of {intents} intents")
    assert answers > RIPE_ANSWERS // 4 * KILLS


class NewSnapshot:
    """Watches a folder of snapshots."""

    def __init__(self, folder: "Path") -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def since_asked(self, _: ChildProcess) -> bool:
        """Return whether a new snapshot was written since the last call."""
        there = {path.name for path in self._folder.glob("*.snapshot")}
        news = there - self._seen
        self._seen |= news
        return bool(news)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_kills_during_maintenance_lose_nothing(forker, disk_folder):
    """Snapshots by its own process, and compaction behind them, while it is killed.

    Half of the children are killed after a new snapshot, about when the log is
    being compacted.
    """
    is_compacted = False
    for seed in range(-(-KILLS // 100)):
        path = disk_folder / f"{seed}.db"
        has_come = NewSnapshot(disk_folder / f"{seed}.db.snapshots")
        killer = Killer(
            forker,
            f"sqlite:///{path}",
            seed,
            has_ripened=has_come.since_asked,
            has_maintenance=True,
        )
        for kill in range(KILLS_PER_STORE):
            assert killer.kill_one() == [], f"seed {seed}, kill {kill}"
        is_compacted = is_compacted or SqliteEventLog(path).start().record > 0
    assert is_compacted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        ("tell_before_append", audit.UNSENT),
        ("write_behind", audit.UNSENT),
        ("dispatch_before_append", audit.EARLY),
        ("forget_windows", audit.TWICE),
        ("forget_settlements", audit.RESETTLED),
    ],
)
def test_random_kills_find_a_planted_bug(forker, disk_folder, plant, complaint):
    """The control."""
    for seed in range(10):
        killer = Killer(forker, f"sqlite:///{disk_folder}/{seed}.db", seed, plant=plant)
        for _ in range(KILLS_PER_STORE):
            complaints = killer.kill_one()
            if any(one.startswith(complaint) for one in complaints):
                return
            if complaints:
                break
    pytest.fail(f"{plant} was not found")
