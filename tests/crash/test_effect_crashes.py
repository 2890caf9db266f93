"""Effects and the world outside, through crashes: executed, settled, or in doubt (G17).

The count outside is the truth here, not a handler's report: an execution whose process was killed
before it could report is counted there.
"""

import os
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from placet.history.reader import fold
from placet.history.verify_log import verify_log
from placet.kernel.ledger.ledger import Ledger
from placet.runtime.executors.offline_settlement import settle_again
from placet.schemas.effect import Delivery
from placet.schemas.errors import StoreError
from placet.schemas.log.expand import expanded
from placet.schemas.log.record import Admitted, EffectChanged, Record, Settled, decode_record
from placet.stores.url import file_of, open_event_log
from tests.crash.effect_scenario import LETTERS, executions
from tests.crash.process_forker import ProcessForker
from tests.kernel.domains import Lab
from tests.levels import each, soak_between

LETTERS_OF: Final = "lab.letters"
KILLS: Final = int(os.environ.get("PLACET_KILLS", "20"))
KILLS_PER_STORE: Final = 10
LIFE_SECONDS_MAX: Final = 0.12
CLASSES: Final[dict[str, tuple[Delivery, bool]]] = {
    "keyed": ("keyed", False),
    "at_most_once": ("at_most_once", False),
    "started with its batch": ("at_most_once", True),
}
"""Delivery, and whether the rule emits with `started=True`."""

Place = tuple[int, int]

EARLY: Final = "an effect was executed that is not in the log"
RESETTLED: Final = "an effect was settled twice"
UNSETTLED: Final = "an effect was executed and is not settled"
LOST: Final = "an effect is settled as done that nobody executed"
TWICE: Final = "an effect that is done at most once was executed twice"
OUTCOME_LOST: Final = "an effect succeeded and the state does not have its outcome"
STILL_OPEN: Final = "a dead letter was not settled again"
UNMARKED: Final = "an effect that is done at most once was executed without a mark"


def audit(store: str, outside: str, delivery: Delivery, *, is_over: bool) -> list[str]:
    """Compare a log with the recorded executions.

    Args:
        store: Of the log.
        outside: The file that counts.
        delivery: The class of all effects in it.
        is_over: A child has lived on to the end: what is open now stays so.
    """
    try:
        log = open_event_log(store)
        records = [record for _, data in log.read() for record in expanded(decode_record(data))]
    except StoreError:  # before the first open was done there is no log yet
        records = []
    run = Counter(executions(outside))
    complaints = [f"{EARLY}: {place}" for place in run.keys() - declared(records)]
    outcomes = [record for record in records if isinstance(record, Settled)]
    settled = Counter((r.effect_seq, r.effect_index) for r in outcomes)
    complaints += [f"{RESETTLED}: {place}" for place, times in settled.items() if times > 1]
    complaints += [f"{LOST}: {place}" for place in done(records) - run.keys()]
    doubted = marked(records, "in_doubt") - settled.keys()
    if delivery == "at_most_once":
        complaints += [f"{TWICE}: {place}" for place, times in run.items() if times > 1]
        complaints += [f"{UNMARKED}: {p}" for p in run.keys() - marked(records, "started")]
    if is_over:
        left = declared(records) - settled.keys() - doubted
        complaints += [f"{UNSETTLED}: {place}" for place in left]
    return complaints


def declared(records: Sequence[Record]) -> set[Place]:
    return {
        (seq, k)
        for record in records
        if isinstance(record, Admitted)
        for k, (seq, *_) in enumerate(record.effects)
    }


def done(records: Sequence[Record]) -> set[Place]:
    return {
        (r.effect_seq, r.effect_index) for r in records if isinstance(r, Settled) and r.succeeded
    }


def dead(ledger: Ledger) -> set[Place]:
    return {place for place, mark in ledger.marks.items() if mark.what == "dead"}


def marked(records: Sequence[Record], what: str) -> set[Place]:
    return {
        (r.effect_seq, r.effect_index)
        for r in records
        if isinstance(r, EffectChanged) and r.what == what
    }


class EffectRuns:
    """Successive children on one store, and the file that counts executions."""

    def __init__(
        self,
        forker: ProcessForker,
        folder: Path,
        name: object,
        delivery: Delivery,
        plant: str | None,
        faults: Sequence[str] = (),
        *,
        started: bool = False,
    ) -> None:
        self._zygote = forker
        self._how: dict[str, Any] = {
            "store": f"sqlite:///{folder}/{name}.db",
            "outside": f"{folder}/{name}.outside",
            "delivery": delivery,
            "started": started,
            "faults": list(faults),
        }
        self._plant = plant
        self._delivery: Delivery = delivery
        self._next = 100

    def run(self, crash_at: int | None = None) -> bool:
        """Run until a crash or the end; return whether it ended."""
        child = self._zygote.fork(
            "tests.crash.effect_scenario:run", crash_at=crash_at, plant=self._plant, **self._how
        )
        return bool(child.wait()[-1]["what"] == "ended")

    def kill_one(self, rng: Random) -> None:
        """Run a child for a while and kill it."""
        child = self._zygote.fork(
            "tests.crash.effect_scenario:toil", first=self._next, plant=self._plant, **self._how
        )
        # Half of the children are killed in any case, half only when they have come to something.
        ripe = rng.choice(["began", "began", "opened", "sent"])
        if ripe != "began":
            child.wait_for(ripe)
        child.listen_for(rng.random() * LIFE_SECONDS_MAX)
        assert not child.is_over, f"a child ended by itself: {child.messages[-1]}"
        for line in child.kill():
            if line["what"] == "sent":
                self._next = line["next"]

    def complaints(self, *, is_over: bool = False) -> list[str]:
        store, outside = self._how["store"], self._how["outside"]
        return audit(store, outside, self._delivery, is_over=is_over)

    def after_a_crash(self, crash_at: int) -> list[str] | None:
        """Crash at a point, then resume to the end; None if there is no such point."""
        if self.run(crash_at):
            return None
        complaints = self.complaints()
        assert self.run()
        return complaints + self.complaints(is_over=True)

    def after_a_mend(self, crash_at: int) -> list[str] | None:
        """Crash at a point, resume to the end, and settle the dead letters with mended rules."""
        complaints = self.after_a_crash(crash_at)
        return None if complaints is None else complaints + self.lost_outcomes()

    def lost_outcomes(self) -> list[str]:
        """Settle the dead letters again; list the effects whose outcome the state does not have."""
        log = open_event_log(self._how["store"])
        first = verify_log(log, [Lab("on_settle")]).integrity.first_divergence
        complaints = [] if first is None else [f"the log does not verify: {first}"]
        outcomes = settle_again(
            log, file_of(log), None, ("tests.kernel.domains:Lab",), on_kept_version=print
        )
        complaints += [f"{key} is not settled: {why}" for key, why in outcomes.items() if why]
        state = fold(log)
        decided = [record for _, data in log.read() for record in expanded(decode_record(data))]
        complaints += [f"{STILL_OPEN}: {place}" for place in dead(state.ledger)]
        letters = {tuple(map(int, name.split("/")[1:])) for name in state.state.ids(LETTERS_OF)}
        return complaints + [f"{OUTCOME_LOST}: {place}" for place in done(decided) - letters]

    def after_kills(self, rng: Random, kills: int) -> list[str]:
        complaints = []
        for _ in range(kills):
            self.kill_one(rng)
            complaints += self.complaints()
        assert self.run()
        return complaints + self.complaints(is_over=True)

    def executed(self) -> int:
        return len(executions(self._how["outside"]))


@pytest.mark.parametrize(("delivery", "started"), CLASSES.values(), ids=CLASSES)
def test_an_uninterrupted_run_executes_and_settles_every_effect(forker, folder, delivery, started):
    runs = EffectRuns(forker, folder, "whole", delivery, None, started=started)
    assert runs.run()
    assert runs.complaints(is_over=True) == []
    assert runs.executed() >= sum(LETTERS)
    before = runs.executed()
    assert runs.run()  # what is settled, or in doubt, is not run again
    assert runs.executed() == before


@pytest.mark.parametrize("step", each(slow=23))
@pytest.mark.parametrize(("delivery", "started"), CLASSES.values(), ids=CLASSES)
def test_a_crash_at_any_point_leaves_no_effect_unaccounted_for(
    forker, folder, delivery, started, step, record_property
):
    for crash_at in count(1, step):
        runs = EffectRuns(forker, folder, crash_at, delivery, None, started=started)
        complaints = runs.after_a_crash(crash_at)
        if complaints is None:
            break
        assert complaints == [], f"after a crash at point {crash_at}"
    record_property("figures", f"{crash_at - step} crash points, every {step}")
    assert crash_at > 60, "the scenario has become short"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("delivery", "started"), CLASSES.values(), ids=CLASSES)
def test_no_kill_repeats_an_at_most_once_effect_or_loses_an_effect(
    forker, disk_folder, delivery, started, record_property
):
    executed = 0
    for seed in range(-(-KILLS // 2 // KILLS_PER_STORE)):
        runs = EffectRuns(forker, disk_folder, seed, delivery, None, started=started)
        assert runs.after_kills(Random(seed), KILLS_PER_STORE) == [], f"seed {seed}"
        executed += runs.executed()
    record_property("figures", f"{KILLS // 2} kills, {executed} executions")
    assert executed > KILLS


@pytest.mark.slow
@pytest.mark.parametrize(("delivery", "started"), CLASSES.values(), ids=CLASSES)
def test_an_outcome_that_on_settle_refused_is_kept_and_settled_again(
    forker, folder, delivery, started
):
    runs = EffectRuns(forker, folder, "refused", delivery, None, ["on_settle"], started=started)
    assert runs.run()
    before = runs.executed()
    assert runs.run()  # a dead letter is not run again
    assert (runs.executed(), runs.complaints(is_over=True)) == (before, [])
    assert runs.lost_outcomes() == []


@pytest.mark.parametrize("step", each(slow=23))
@pytest.mark.parametrize(("delivery", "started"), CLASSES.values(), ids=CLASSES)
def test_a_crash_at_any_point_keeps_the_outcomes_that_on_settle_refused(
    forker, folder, delivery, started, step
):
    for crash_at in count(1, step):
        runs = EffectRuns(forker, folder, crash_at, delivery, None, ["on_settle"], started=started)
        complaints = runs.after_a_mend(crash_at)
        if complaints is None:
            break
        assert complaints == [], f"after a crash at point {crash_at}"
    assert crash_at > 60, "the scenario has become short"


@pytest.mark.slow
def test_a_planted_loss_of_refused_outcomes_is_found(forker, folder):
    runs = EffectRuns(forker, folder, "lost", "keyed", "drop_refused_outcome", ["on_settle"])
    assert runs.run()
    complaints = runs.lost_outcomes()
    assert any(one.startswith(OUTCOME_LOST) for one in complaints), complaints


EXPECTED: Final[dict[str, tuple[Delivery, bool, str]]] = {
    "begin_unmarked": ("at_most_once", False, UNMARKED),
    "start_forgotten": ("at_most_once", True, UNMARKED),
    "begin_before_durable": ("at_most_once", False, UNMARKED),
    "try_again": ("at_most_once", False, TWICE),
    "dispatch_early": ("keyed", False, EARLY),
    "forget_open": ("keyed", False, UNSETTLED),
    "settle_twice": ("keyed", False, RESETTLED),
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", soak_between([*EXPECTED], 2))
def test_a_planted_bug_is_found(forker, folder, plant):
    """The control: the same crashes in random order, until a complaint names the bug."""
    delivery, started, complaint = EXPECTED[plant]
    points = list(range(1, 150))
    Random(plant).shuffle(points)
    for crash_at in points:
        runs = EffectRuns(forker, folder, crash_at, delivery, plant, started=started)
        complaints = runs.after_a_crash(crash_at) or []
        if any(one.startswith(complaint) for one in complaints):
            return
    pytest.fail(f"{plant} was not found")
