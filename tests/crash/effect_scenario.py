"""A world whose batches are all effects; the handlers write to a file outside, which counts them.

The file only grows: each execution appends one line with its key, in one write, whatever becomes of
the process. A child resumes where an earlier one was killed, finishes open effects, and ends.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from placet import Orchestrator, OrchestratorConfig
from placet.actors.committer import Committer, CycleOutput
from placet.actors.effects import dispatcher as executors
from placet.actors.effects.dispatcher import Executors
from placet.errors import OutcomeUnknown
from placet.kernel.control import outbox as outbox_module
from placet.kernel.control.outbox import Outbox
from placet.runtime.executors import Backoff, Delivery, Effect, EffectKey
from placet.schemas.effect import EffectMark, Settlement
from placet.schemas.limits import Limits
from placet.schemas.log.record import Settled
from tests.crash.compiled import use_compiled_lab
from tests.crash.crash_points import CrashPoints
from tests.crash.fixed_scenario import watch_log
from tests.crash.process_forker import Report
from tests.kernel.builders import intent
from tests.kernel.domains import MAIL, Lab

LETTERS: Final = (2, 1, 3)
"""Effects of each batch of the fixed scenario."""
SETTLING_SECONDS_MAX: Final = 10.0
SOON: Final = Backoff(first_s=0.0, max_s=0.0)


class Outside:
    """The world outside: a file that counts executions.

    Args:
        path: Of the file.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def carry(self, effect: Effect) -> None:
        os.write(self._file, f"{effect.key.seq} {effect.key.effect_index}\n".encode())


def executions(path: str) -> list[tuple[int, int]]:
    """Read which effects were executed, as often as they were."""
    if not os.path.exists(path):  # noqa: PTH110  # a path from a URL
        return []
    with open(path, encoding="utf-8") as lines:  # noqa: PTH123  # likewise
        return [(int(seq), int(k)) for seq, k in (line.split() for line in lines)]


def config_of(store: str) -> OrchestratorConfig:
    # No answer is forgotten, and a machine that stands still is no overload.
    limits = Limits(window_ids_max=1_000_000, loop_lag_ms_max=600_000)
    return OrchestratorConfig(store=store, limits=limits, log_level="critical")


async def serve(
    world: Orchestrator, points: CrashPoints, delivery: Delivery, outside: Outside
) -> None:
    """Register the executor; its handlers sometimes fail, as a function of the key."""

    async def post_letter(effect: Effect) -> str:
        points.reach("effect begun")
        outside.carry(effect)
        points.reach("effect done")
        await asyncio.sleep(0)
        whim = (effect.key.seq + effect.key.effect_index) % 4
        if whim == 1 and effect.attempt == 1:
            raise OSError("the outside world said no")
        if whim == 2 and effect.attempt == 1:
            raise OutcomeUnknown("the line went dead")
        return "posted"

    await world.register_executor(MAIL, post_letter, delivery=delivery, concurrency=2, backoff=SOON)


def run(
    report: Report,
    *,
    store: str,
    outside: str,
    delivery: Delivery,
    started: bool = False,
    faults: Sequence[str] = (),
    crash_at: int | None = None,
    plant: str | None = None,
) -> None:
    """Send letters in a child, until a crash point or until no work is left."""
    use_compiled_lab(faults)
    points = CrashPoints(crash_at, report)
    points.watch_sqlite()
    watch_log(points)
    if plant is not None:
        PLANTED_BUGS[plant]()
    asyncio.run(_live(report, points, store, delivery, Outside(outside), started))


async def _live(
    report: Report,
    points: CrashPoints,
    store: str,
    delivery: Delivery,
    outside: Outside,
    started: bool,
) -> None:
    async with Orchestrator(Lab(), config_of(store)) as world:
        await world.register_agent("alice")
        await serve(world, points, delivery, outside)
        for number, count in enumerate(LETTERS):
            letters = {"count": count, "started": started}
            await world.submit([intent("Mail", letters, f"a:{number}")])
        with suppress(TimeoutError):  # what then is open is complained of
            async with asyncio.timeout(SETTLING_SECONDS_MAX):
                await world.wait_effects()
    report.send("ended", points=points.reached)


def toil(
    report: Report,
    *,
    store: str,
    outside: str,
    delivery: Delivery,
    first: int,
    started: bool = False,
    faults: Sequence[str] = (),
    plant: str | None = None,
) -> None:
    """Send letters forever in a child, several at a time."""
    use_compiled_lab()
    if plant is not None:
        PLANTED_BUGS[plant]()
    asyncio.run(_toil(report, store, delivery, Outside(outside), first, started))


async def _toil(
    report: Report, store: str, delivery: Delivery, outside: Outside, first: int, started: bool
) -> None:
    points = CrashPoints(None, report)
    async with Orchestrator(Lab(), config_of(store)) as world:
        await world.register_agent("alice")
        await serve(world, points, delivery, outside)
        report.send("opened")
        number = first
        while True:
            letters = {"count": 2, "started": started}
            batches = [[intent("Mail", letters, f"a:{number + one}")] for one in range(8)]
            await asyncio.gather(*(world.submit(batch) for batch in batches))
            number += len(batches)
            report.send("sent", next=number)


# Bugs, planted into a child on purpose. A plant is never undone: its process dies with it.


def begin_unmarked() -> None:
    """An at-most-once effect is started without a mark in the log."""

    async def mark(_: Executors, key: EffectKey, mark: EffectMark, why: str) -> bool:
        return True

    setattr(Executors, "_mark", mark)  # noqa: B010  # the type says that it is a method


def start_forgotten() -> None:
    """An effect that starts with its batch is started without a mark in the log."""

    def mark_started(executors: Executors, effects: list[Effect]) -> None:
        for effect in effects:
            executor = executors.by_kind[effect.kind]
            if executor.can_start:
                executor.start(effect.key)

    setattr(Executors, "mark_started", mark_started)  # noqa: B010  # likewise


def begin_before_durable() -> None:
    """The handler runs before its mark is durable."""
    marking: set[asyncio.Future[bool]] = set()
    real: Callable[..., Any] = vars(Executors)["_mark"]

    async def early(executors: Executors, key: EffectKey, mark: EffectMark, why: str) -> bool:
        marking.add(asyncio.ensure_future(real(executors, key, mark, why)))
        return True

    setattr(Executors, "_mark", early)  # noqa: B010  # likewise


def try_again() -> None:
    """An at-most-once effect is retried."""
    setattr(Outbox, "mark", lambda *_: True)  # noqa: B010  # likewise


def dispatch_early() -> None:
    """Effects are begun before their batch is durable."""
    offer: Callable[[Committer, CycleOutput], None] = vars(Committer)["offer"]

    def early(committer: Committer, output: CycleOutput) -> None:
        committer._on_durable(CycleOutput(None, [], output.effects))
        asyncio.get_running_loop().call_later(0.01, offer, committer, output)

    setattr(Committer, "offer", early)  # noqa: B010  # likewise


def forget_open() -> None:
    """An executor does not get the effects that an earlier child left open."""
    registered: Callable[..., list[Any]] = vars(executors)["_registered"]

    def forgetful(*given: Any) -> list[Any]:
        registered(*given)
        return []

    vars(executors)["_registered"] = forgetful


def settle_twice() -> None:
    """A settled effect is settled again, because the outbox keeps it."""
    settle: Callable[..., bool] = vars(Outbox)["settle"]

    def again(outbox: Outbox, settlement: Settlement, **_: bool) -> bool:
        place = (settlement.key.seq, settlement.key.effect_index)
        pending = outbox._context.ledger.outbox.get(place)
        done = settle(outbox, settlement)
        if pending is not None:
            outbox._context.ledger.add_effect(*place, pending)
            settle(outbox, settlement)
        return done

    setattr(Outbox, "settle", again)  # noqa: B010  # likewise


def drop_refused_outcome() -> None:
    """An effect whose on_settle raised is settled all the same, and its outcome goes nowhere."""

    def settled(*fields: Any) -> Settled:
        return Settled(*fields[:-1])  # all but the error

    vars(outbox_module)["SettlementFailed"] = settled


PLANTED_BUGS: Final[dict[str, Callable[[], None]]] = {
    plant.__name__: plant
    for plant in (
        begin_unmarked,
        start_forgotten,
        begin_before_durable,
        try_again,
        dispatch_early,
        forget_open,
        settle_twice,
        drop_refused_outcome,
    )
}
