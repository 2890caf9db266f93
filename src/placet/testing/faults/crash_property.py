"""The crash property: crashes between steps change neither the final state nor the ledger.

A crash loses the memory of the process, and either the last record (the append failed) or the last
answer (the append succeeded). Then the same batch is submitted again with the clock set back, and
the same settlement is sent again. State and ledger must equal those of a world without crashes.
"""

from collections.abc import Iterator
from typing import Final

from placet.kernel.log.snapshot import world_digest
from placet.schemas.effect import Settlement
from placet.schemas.verdict import Verdict
from placet.testing.trace import (
    Factory,
    Propose,
    Settle,
    Step,
    Trace,
    TraceRunner,
    Wait,
    one_by_one,
)
from placet.testing.tree_diff import difference, whole

_ADVICE: Final = (
    "A domain must keep all of its data in the state: after a crash, a new object of its class "
    "is created."
)


def crash_breach(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    """Run a trace with and without crashes; describe the first difference, or return None."""
    for lost_first in (0, 1):
        sound = runner if lost_first == 0 else TraceRunner(factory)
        finding = _compare(sound, TraceRunner(factory), trace, lost_first)
        if finding is not None:
            return f"{finding} {_ADVICE}"
    return None


def _compare(sound: TraceRunner, crashed: TraceRunner, trace: Trace, lost_first: int) -> str | None:
    for number, step in enumerate(_timed(trace), start=lost_first):
        verdicts = sound.run(step)
        again = _lose_record(crashed, step) if number % 2 else _lose_answer(crashed, step)
        if list(map(_outcome, verdicts)) != list(map(_outcome, again)):
            return (
                f"The last batch is {_texts(verdicts)}; after a crash, submitted again, it is "
                f"{_texts(again)}."
            )
        live, after = whole(sound.kernel.tree), whole(crashed.kernel.tree)
        if live != after:
            return f"{difference(live, after)} after crashes between the steps."
    digests = [world_digest(one.kernel.tree, one.kernel.ledger).hex() for one in (sound, crashed)]
    return None if digests[0] == digests[1] else "The ledgers differ after crashes."


def _timed(trace: Trace) -> Iterator[Step]:
    """Yield steps of one batch each; simulated time passes in separate steps, which are logged.

    A refused batch may have no record, so the time that passed with it would be lost in a crash.
    """
    for step in one_by_one(trace):
        if isinstance(step, Propose) and step.seconds:
            yield Wait(step.seconds)
            yield step._replace(seconds=0.0)
        else:
            yield step


def _lose_record(crashed: TraceRunner, step: Step) -> list[Verdict]:
    """Run a step whose records are lost in a crash, and run it again."""
    records, now, lines = len(crashed.log), crashed.now, len(crashed.story)
    crashed.run(step)
    crashed.restart(records)
    crashed.now = now
    del crashed.story[lines:]
    return crashed.run(step)


def _lose_answer(crashed: TraceRunner, step: Step) -> list[Verdict]:
    """Run a step, crash, and send the same batch or settlement again."""
    sent = crashed.intents(step.batches[0]) if isinstance(step, Propose) else []
    effects = crashed.kernel.open_effects()[:1] if isinstance(step, Settle) else []
    verdicts = crashed.run(step)
    crashed.restart(len(crashed.log))
    for effect in effects:
        crashed.kernel.settle(Settlement(effect.key, succeeded=False, output="late"), 0.0)
    return crashed.kernel.decide_group([sent], 0.0) if sent else verdicts


def _outcome(verdict: Verdict) -> tuple[bool, tuple[str, ...]]:
    return verdict.admitted, tuple(verdict.codes)


def _texts(verdicts: list[Verdict]) -> str:
    return "; ".join(
        "admitted" if one.admitted else f"refused, {', '.join(one.codes)}" for one in verdicts
    )
