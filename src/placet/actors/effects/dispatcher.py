"""The executors of a world, one for each kind of effect, between the commits and the gate."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from placet.actors.effects.executor import Executor, ExecutorFault, RetryPolicy
from placet.actors.metrics import EFFECT_COUNTS, Counters
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.actors.ports import AsyncEffectHandler, Clock
from placet.actors.supervisor import Supervisor, ignore
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Mark
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, EffectKey, EffectMark, EffectStatus, Settlement
from placet.schemas.errors import ClosedError
from placet.schemas.limits import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable


_LEFT: Final = frozenset({"in_doubt", "dead"})
"""Marks of effects that may wait for an operator."""


class Executors:
    """The executors of a world: passes durable effects to them, and tracks each effect's state.

    Args:
        kernel: Read for the open effects.
        actor: Executes the commands that record marks and settlements.
        supervisor: Owns the executors' tasks.
        clock: The simulated time of settlements.
        counters: Metrics, shared by all executors.
        on_fault: Called with the exceptions of handlers.

    Attributes:
        by_kind: The executors by the kind of effect that they run.
        is_awaited: A task waits for settlements, so `notify` has a receiver.
    """

    def __init__(
        self,
        kernel: Kernel,
        actor: OrchestratorActor,
        supervisor: Supervisor,
        clock: Clock,
        counters: Counters,
        *,
        on_fault: ExecutorFault,
    ) -> None:
        self.by_kind: dict[str, Executor] = {}
        self._kernel = kernel
        self._actor = actor
        self._supervisor = supervisor
        self._clock = clock
        self._counters = counters
        self._on_fault = on_fault
        self._settlement: anyio.Event | None = None
        self.is_awaited = False
        self._ending: Callable[[], Exception] | None = None
        actor.start_effects = self.mark_started

    async def register(
        self, kind: str, handler: AsyncEffectHandler, retry_policy: RetryPolicy
    ) -> None:
        """Start an executor for a kind of effect, and pass it the open effects of the kind.

        It is registered with the gate. If a part fails, nothing is.

        Raises:
            ValueError: The kind has an executor, or is not a valid name.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if kind in self.by_kind:
            raise ValueError(f"effects of kind {kind!r} have an executor already")
        executor = Executor(
            kind,
            handler,
            retry_policy,
            self._settle,
            self._mark,
            clock=self._clock,
            counters=self._counters,
            seed=self._kernel.config.seed,
            on_fault=self._on_fault,
            on_left=self.notify,
        )
        self.by_kind[kind] = (
            executor  # first, so that it gets the effects that become durable meanwhile
        )
        try:
            open_effects = await self._actor.command(
                lambda kernel: _registered(kernel, kind, retry_policy)
            )
        except BaseException:
            del self.by_kind[kind]
            raise
        ledger = self._kernel.ledger
        self._counters.watch("outbox_depth", lambda: ledger.outbox_depth.get(kind, 0), kind)
        for effect, mark in open_effects:
            if (effect.key.seq, effect.key.effect_index) in ledger.outbox:
                executor.take(effect, mark)
        self._supervisor.start(f"executor {kind}", executor.run, ignore)

    async def unregister(self, kind: str) -> None:
        """Remove the executor of a kind: the gate refuses its effects, and running attempts finish.

        Queued effects stay in the log until the kind has an executor again.

        Raises:
            ValueError: The kind has no executor.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        executor = self.by_kind.get(kind)
        if executor is None:
            raise ValueError(f"effects of kind {kind!r} have no executor")
        await self._actor.command(lambda kernel: kernel.change_executor(kind, None))
        await executor.finish()
        if self.by_kind.get(kind) is executor:
            del self.by_kind[kind]
            self.notify()

    def mark_started(self, effects: Iterable[Effect]) -> None:
        """Mark the effects of batches that are not written yet, if emitted with `started=True`.

        An effect for which its executor has no place is marked later, before its attempt: until
        then it was certainly not run, so a crash must not leave it in doubt.
        """
        for effect in effects:
            executor = self.by_kind.get(effect.kind) if effect.starts_with_batch else None
            if executor is not None and executor.can_start:
                is_marked = self._kernel.mark_effect(effect.key, "started")
                assert is_marked, "an effect of a batch that was just decided has no mark"
                executor.start(effect.key)

    def take(self, effects: Iterable[Effect]) -> None:
        """Pass durable effects to the executors of their kinds.

        Without an executor, keep it in the log.
        """
        for effect in effects:
            executor = self.by_kind.get(effect.kind)
            if executor is not None:
                executor.take(effect)

    async def finish(self) -> None:
        """Start no further attempts in any executor, and wait until the running ones have ended."""
        async with anyio.create_task_group() as group:
            for executor in self.by_kind.values():
                group.start_soon(executor.finish)

    # the state of effects

    async def statuses(self) -> list[EffectStatus]:
        """Return the state of each effect that is not settled, oldest first."""
        return await self._actor.command(
            lambda kernel: [
                EffectStatus(
                    effect.key,
                    effect.kind,
                    kernel.ledger.mark_of(effect.key.seq, effect.key.effect_index) or "open",
                    effect.agent_id,
                    effect.payload,
                    self._why(effect),
                    outcome_of(kernel.ledger.marks.get((effect.key.seq, effect.key.effect_index))),
                )
                for effect in kernel.open_effects()
            ]
        )

    async def settled(
        self, places: Iterable[tuple[int, int]] | None = None, *, run_only: bool = False
    ) -> None:
        """Wait until effects are durably settled, or are left to an operator.

        Args:
            places: `(seq, effect_index)` of each effect; None for the effects that are open now.
            run_only: Wait only for effects that an executor has taken.

        Raises:
            ClosedError, StoreError: The world is closed or fails before that.
        """
        ledger = self._kernel.ledger
        if places is None:
            places = await self._actor.command(lambda kernel: list(kernel.ledger.outbox))
        awaited, moves = list(places), self._is_run if run_only else self._moves
        while awaited:
            if awaited[-1] not in ledger.outbox or not moves(awaited[-1]):
                awaited.pop()
                continue
            if self._ending is not None:
                raise self._ending()
            self._settlement = self._settlement or anyio.Event()
            self.is_awaited = True
            await self._settlement.wait()
        await self._actor.command(nothing)

    def notify(self) -> None:
        """Wake every task that waits in `settled`."""
        if self._settlement is not None:
            self._settlement.set()
            self._settlement, self.is_awaited = None, False

    def end(self, failure: Exception | None) -> None:
        """Make every wait in `settled` raise: `failure`, or `ClosedError` if it is None."""
        self._ending = lambda: (
            failure
            or ClosedError("the world was closed before all effects were settled; open it again")
        )
        for executor in self.by_kind.values():
            executor.end()
        self.notify()

    def _moves(self, place: tuple[int, int]) -> bool:
        """Return whether an open effect may settle without an operator."""
        return self._kernel.ledger.mark_of(*place) not in _LEFT or self._is_run(place)

    def _is_run(self, place: tuple[int, int]) -> bool:
        executor = self.by_kind.get(self._kernel.ledger.outbox[place].kind)
        return executor is not None and executor.has(EffectKey(self._kernel.config.world, *place))

    def _why(self, effect: Effect) -> str:
        mark = self._kernel.ledger.marks.get((effect.key.seq, effect.key.effect_index))
        if mark is not None:
            return mark.why
        executor = self.by_kind.get(effect.kind)
        return "" if executor is None else executor.why(effect.key)

    def statistics(self) -> dict[str, Json]:
        """Return `by_kind`: event counts per kind; `unresolved`: effects that need an operator."""
        marks = self._kernel.ledger.marks.values()
        counted: dict[str, Json] = {}
        for (kind, outcome), count in sorted(self._counters.effect_counts.items()):
            counted.setdefault(kind, dict.fromkeys(EFFECT_COUNTS, 0))[outcome] = count
        return {"unresolved": sum(mark.what in _LEFT for mark in marks), "by_kind": counted}

    # commands

    async def _settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        now = self._clock.now_ns() / SECOND_NS
        return await self._actor.command(
            lambda kernel: [self._settle_one(kernel, one, now) for one in settlements]
        )

    def _settle_one(self, kernel: Kernel, settlement: Settlement, now: float) -> bool:
        key = settlement.key
        is_recorded = kernel.settle(settlement, now)
        if is_recorded and kernel.ledger.mark_of(key.seq, key.effect_index) == "dead":
            kind = kernel.ledger.outbox[key.seq, key.effect_index].kind
            self._counters.count_effect(kind, "dead_letters")
        return is_recorded

    async def _mark(self, key: EffectKey, mark: EffectMark, why: str) -> bool:
        now = self._clock.now_ns() / SECOND_NS
        return await self._actor.command(lambda kernel: kernel.mark_effect(key, mark, why, now))


def _registered(
    kernel: Kernel, kind: str, retry_policy: RetryPolicy
) -> list[tuple[Effect, EffectMark | None]]:
    """Register the executor with the gate, and pass it the open effects.

    Read in the same cycle, so all of them are durable.
    """
    kernel.change_executor(kind, retry_policy.outbox_max)
    return [
        (effect, kernel.ledger.mark_of(effect.key.seq, effect.key.effect_index))
        for effect in kernel.open_effects()
        if effect.kind == kind
    ]


def outcome_of(mark: Mark | None) -> Json:
    """Return the outcome recorded for a dead letter, as JSON; None for any other effect.

    `mark` is the effect's mark in the log; None if it has none.
    """
    if mark is None or mark.what != "dead":
        return None
    return {"succeeded": mark.succeeded, "output": mark.output}


def nothing(kernel: Kernel) -> None:
    """Command nothing: its answer says that everything before it is durable."""
