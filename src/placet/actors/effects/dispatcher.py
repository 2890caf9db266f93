"""The executors of a world, one for each kind of effect, between the commits and the gate."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from placet.actors.effects.executor import Executor, ExecutorFault, RetryPolicy
from placet.actors.effects.outcomes import EffectOutcome, Outcomes, Place
from placet.actors.metrics import EFFECT_COUNTS, Counters
from placet.actors.orchestrator_actor import OrchestratorActor
from placet.actors.ports import AsyncEffectHandler, Clock
from placet.actors.supervisor import Supervisor, ignore
from placet.kernel.kernel import Kernel
from placet.kernel.ledger.ledger import Mark
from placet.schemas.codec import Json, thaw
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
        self._outcomes = Outcomes(kernel.ledger.seq)
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
            on_left=self._on_left,
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
        """Mark effects as started, before their batches are written.

        Only effects that were emitted with `started=True`, and for which their executor has a free
        credit. Any other effect is marked just before its attempt: until then it was certainly not
        run, so a crash must not leave it in doubt.

        Args:
            effects: Effects of the batches that were just decided.
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
        self._outcomes.end(self._ending())
        self.notify()

    async def outcomes(self, seqs: Iterable[int], seconds_max: float) -> list[EffectOutcome] | None:
        """Wait for the effects of a batch, and return their outcomes.

        Args:
            seqs: Seqs of the intents of the batch, ascending.
            seconds_max: Maximum wait, real seconds. An effect that is not settled by then has the
                outcome None for `succeeded`.

        Returns:
            The outcomes, in the order of the effects; None if an outcome is no longer kept in
            memory, so that the caller must read the log.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        places: list[Place] = []
        for seq in seqs:
            if seq <= self._outcomes.forgotten_seq:
                return None
            while self._kind((seq, len(places))) is not None:
                places.append((seq, len(places)))
        return await self._awaited(places, seconds_max)

    async def outcome(self, place: Place) -> EffectOutcome:
        """Wait until an effect is settled or in doubt, and return its outcome.

        Raises:
            LookupError: The effect is not open, and its outcome is no longer kept in memory.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if self._kind(place) is None:
            raise LookupError(f"no effect {place} is open; its outcome is in the log")
        return (await self._awaited([place], None))[0]

    async def _awaited(
        self, places: Sequence[Place], seconds_max: float | None
    ) -> list[EffectOutcome]:
        outcomes = [self._outcome_now(place) for place in places]
        # All waiters are made before the first wait: during a wait another effect may settle, and
        # its outcome may be dropped from memory.
        waiters = {
            number: self._outcomes.expect(places[number])
            for number, now in enumerate(outcomes)
            if now.succeeded is None and not now.is_in_doubt
        }
        try:
            async with asyncio.timeout(seconds_max):
                for number, waiter in waiters.items():
                    if self._ending is not None:
                        raise self._ending()
                    outcomes[number] = await waiter
        except TimeoutError:
            for number, waiter in waiters.items():
                if waiter.done() and not waiter.cancelled():
                    outcomes[number] = waiter.result()
        finally:
            for number, waiter in waiters.items():
                self._outcomes.dismiss(places[number], waiter)
        return outcomes

    def _kind(self, place: Place) -> str | None:
        """Return the kind of an effect that is open, or whose outcome is kept; else None."""
        pending = self._kernel.ledger.outbox.get(place)
        return self._outcomes.kind(place) if pending is None else pending.kind

    def _outcome_now(self, place: Place) -> EffectOutcome:
        """Return the durable outcome of an effect; one without `succeeded` if there is none."""
        known = self._outcomes.durable(place)
        if known is not None:
            return known
        ledger = self._kernel.ledger
        unsettled = EffectOutcome(place[0], self._kind(place) or "", None, None)
        if self._outcomes.is_decided(place) or place not in ledger.outbox or self._moves(place):
            return unsettled
        mark = ledger.marks[place]
        if mark.what == "dead":
            return unsettled._replace(succeeded=mark.succeeded, output=thaw(mark.output))
        return unsettled._replace(is_in_doubt=True)

    def _on_left(self, key: EffectKey) -> None:
        """Wake the tasks that wait for an effect: it is settled, or an operator must settle it."""
        place = (key.seq, key.effect_index)
        now = self._outcome_now(place)
        if now.is_in_doubt:
            self._outcomes.resolve(place, now)
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

    async def resolve(self, settlement: Settlement) -> bool:
        """Settle an effect by hand; return False if it is settled already, or unknown.

        Raises:
            ValidationError: The effect is a dead letter, and `on_settle` raised again.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return (await self._settle([settlement], again=True))[0]

    async def _settle(
        self, settlements: Sequence[Settlement], *, again: bool = False
    ) -> list[bool]:
        now = self._clock.now_ns() / SECOND_NS
        settled = await self._actor.command(
            lambda kernel: [self._settle_one(kernel, one, now, again) for one in settlements]
        )
        self._outcomes.release((one.key.seq, one.key.effect_index) for one in settlements)
        return settled

    def _settle_one(self, kernel: Kernel, settlement: Settlement, now: float, again: bool) -> bool:
        place = (settlement.key.seq, settlement.key.effect_index)
        pending = kernel.ledger.outbox.get(place)
        if not kernel.settle(settlement, now, again=again):
            return False
        record = kernel.latest_settled
        assert pending is not None, "only an open effect is settled"
        assert record is not None, "a settlement has a record"
        outcome = EffectOutcome(place[0], pending.kind, record.succeeded, thaw(record.output))
        self._outcomes.note(place, outcome)
        if not again and kernel.ledger.mark_of(*place) == "dead":
            self._counters.count_effect(pending.kind, "dead_letters")
        return True

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
