"""An agent run by a policy: read the view, propose, submit, react to the verdict.

A policy is an object with `propose(view)`, or a plain or async function of a view; an object with
`observe(observation)` is called instead whenever there is a new observation. If the policy
raises, the supervisor restarts it after a pause; when its restart budget is spent, the agent is
suspended. Other agents are not affected.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from contextvars import copy_context
from inspect import isawaitable
from itertools import islice
from threading import Thread
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import anyio

from placet.actors.effects.executor import is_canceled
from placet.actors.observation.observer import Observer
from placet.actors.policies.contention import Contention, LeasingPort, RunningLease, enter_lease
from placet.actors.policies.staleness_scope import StalenessOptions, StalenessScope
from placet.kernel.prng import random_unit
from placet.schemas.codec import Json
from placet.schemas.errors import (
    INTERRUPTS,
    ClosedError,
    PermissionDeniedError,
    StaleContextError,
    StoreError,
    TimeStalledError,
)
from placet.schemas.limits import Limits
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import Observation, View

S = TypeVar("S")
T = TypeVar("T")

Proposal: TypeAlias = Iterable[Mapping[str, Json]] | Mapping[str, Json]
"""Intents that are admitted or refused together; a single intent is a batch of one."""

Answer: TypeAlias = Proposal | Awaitable[Proposal | None] | None
"""A proposal, an awaitable of one, or None for no proposal."""


class PolicyCall(Generic[S]):
    """A policy, called with limits on the time and the size of its answer.

    An awaitable is canceled at the deadline. A plain function cannot be canceled: it blocks the
    event loop while it runs and is reported as too slow afterwards. With `threaded` it runs in a
    separate thread and blocks only itself.

    Args:
        think: The policy, as a function of a view or an observation.
        name: Its name in error messages.
        seconds_max: Deadline of one answer, real seconds.
        intents_max: Maximum intents taken from an iterator; a list goes to the gate unchecked.
        threaded: Call the policy in a thread.
    """

    def __init__(
        self,
        think: Callable[[S], Answer],
        name: str,
        *,
        seconds_max: float,
        intents_max: int,
        threaded: bool,
    ) -> None:
        self._think = think
        self._name = name
        self._seconds_max = seconds_max
        self._intents_max = intents_max
        self._thread = PolicyThread(name) if threaded else None

    async def ask(self, seen: S) -> Sequence[Mapping[str, Json]] | None:
        """Call the policy once with a view or an observation; return its batch.

        None: the policy wants its agent to stop.

        Raises:
            TimeoutError: The policy took longer than `seconds_max`.
            ValueError: An iterator yielded more than `intents_max` intents, or has no end.
            Exception: Whatever the policy raises.
        """
        began = anyio.current_time()
        with anyio.fail_after(self._seconds_max):
            if self._thread is None:
                answer = self._answer(seen)
            else:
                answer = await self._thread.call(lambda: self._answer(seen))
            if isawaitable(answer):
                answer = self._gather(await answer)
        took_s = anyio.current_time() - began
        if took_s > self._seconds_max:
            raise TimeoutError(
                f"{self._name} held up the event loop for {took_s:.3g} s, at most "
                f"{self._seconds_max:g} s is allowed; write it with async def, or set threaded=True"
            )
        return answer

    def _answer(self, seen: S) -> Sequence[Mapping[str, Json]] | Awaitable[Proposal | None] | None:
        answer = self._think(seen)
        return answer if isawaitable(answer) else self._gather(answer)

    def _gather(self, proposal: Proposal | None) -> Sequence[Mapping[str, Json]] | None:
        """Convert an answer into a batch; iterators run here, within the policy's deadline."""
        if proposal is None or isinstance(proposal, list | tuple):
            return proposal
        if isinstance(proposal, Mapping):
            return [proposal]
        batch = list(islice(proposal, self._intents_max + 1))
        if len(batch) > self._intents_max:
            raise ValueError(
                f"{self._name} proposed more than {self._intents_max} intents at once; "
                "propose fewer at a time, or raise intents_max and the world's batch_intents_max"
            )
        return batch


_TRIES_MAX = 5
_INTERRUPTIONS_MAX = 2
_LEASE_AFTER: Final = 2
_BACKOFF_FIRST_S = 0.01
_BACKOFF_MAX_S = 1.0
_PASS_PAUSE_S = 0.01
"""Minimum pause after a pass, so that an idle policy does not poll in a busy loop."""


class Observant(Protocol):
    """A policy that decides for an agent from observations: a snapshot, then changes."""

    def observe(self, observation: Observation) -> Answer:
        """Return the intents to propose; empty to submit nothing, None to stop the agent.

        The same observation may come again, where the verdict says that a retry may succeed.
        """


class Policy(Protocol):
    """A policy that decides for an agent from its view.

    It may have an attribute `interruptible`, True or a `StalenessOptions`: the call is then
    canceled and repeated when its view is no longer true. It may have a method
    `interrupted(error)`, which is called with the reason.
    """

    def propose(self, view: View) -> Answer:
        """Return the intents to propose; empty to submit nothing, None to stop the agent."""


AnyPolicy: TypeAlias = Policy | Observant | Callable[[View], Answer]


class AgentPort(Protocol):
    """The part of an agent handle that an agent actor uses."""

    agent_id: str
    generation: int
    view_seq: int

    async def refresh_view(self) -> View:
        """Return the agent's view at the latest durable seq."""

    async def submit(self, batch: object) -> Verdict:
        """Submit a batch of the agent and return its verdict, also if it is refused."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of simulated seconds."""

    def fresh_context(
        self, options: StalenessOptions, /
    ) -> AbstractAsyncContextManager[StalenessScope]:
        """Return an async context manager whose block is canceled once its view is stale."""

    def observer(self) -> AbstractAsyncContextManager[Observer]:
        """Return an observer of the agent, as an async context manager."""


class AgentStatistics(NamedTuple):
    """Counts of one agent: batches proposed, admitted, refused; interruptions of its policy."""

    proposed: int
    admitted: int
    refused: int
    interrupted: int = 0


class AgentActor:
    """The loop that runs an agent's policy: view, propose, submit, pause.

    Args:
        handle: The agent's handle.
        policy: The policy.
        pause_s: Real seconds between two proposals.
        pause_sim_s: Minimum simulated seconds between two turns, passes included; None if the
            agent does not use simulated time, so that all its pauses are real.
        propose_seconds_max: Deadline of one call of the policy, real seconds.
        seed: Seed of the back-off jitter.
        tries_max: Maximum calls of the policy in one turn, where a refusal or an interruption
            says that a retry may succeed. The last call is not interrupted, so it completes.
        lease_after: Number of losses to other agents in a row after which the agent leases the lost
            entities before the policy is called, in a world with leases; None never leases. An
            agent whose last call took less than 20 ms does not lease.
        interruptions_max: Maximum interruptions in one turn; later calls are not interrupted, so
            that the agent can submit even if other agents change the world all the time.
        intents_max: Maximum intents taken from a policy's iterator.
        threaded: Call the policy, a plain function, in a separate thread.
        interruptible: Cancel and repeat the policy's call when its view is no longer true; None
            uses the policy's own attribute.

    Raises:
        ValueError: A policy with `observe` is to be interrupted.
    """

    def __init__(
        self,
        handle: AgentPort,
        policy: AnyPolicy,
        *,
        pause_s: float = 0.0,
        pause_sim_s: float | None = None,
        propose_seconds_max: float = 60.0,
        seed: int = 0,
        tries_max: int = _TRIES_MAX,
        intents_max: int = Limits().batch_intents_max,
        threaded: bool = False,
        interruptible: bool | StalenessOptions | None = None,
        interruptions_max: int = _INTERRUPTIONS_MAX,
        lease_after: int | None = _LEASE_AFTER,
    ) -> None:
        self._handle = handle
        self._contention = Contention(lease_after)
        self._leasing = cast("LeasingPort", handle) if hasattr(handle, "leases") else None
        self._intents_max = intents_max
        self._interruptions_max = interruptions_max
        self._pause_s = pause_s
        self._pause_sim_s = pause_sim_s
        self._seed = seed
        self._tries_max = tries_max
        if interruptible is None:
            interruptible = getattr(policy, "interruptible", False)
        self._staleness = StalenessOptions() if interruptible is True else interruptible or None
        self._on_interruption = getattr(policy, "interrupted", None)
        observe: Callable[[Any], Answer] | None = getattr(policy, "observe", None)
        if observe is not None and self._staleness is not None:
            raise ValueError(
                "a policy with observe() cannot be interrupted; use propose(view), or enter "
                "handle.fresh_context() in the policy"
            )
        self._is_observant = observe is not None
        self._observer: Observer | None = None
        self._observation: Observation | None = None
        self._policy_call: PolicyCall[Any] = PolicyCall(
            observe or cast("Callable[[Any], Answer]", getattr(policy, "propose", policy)),
            f"the policy of {handle.agent_id!r}",
            seconds_max=propose_seconds_max,
            intents_max=intents_max,
            threaded=threaded,
        )
        self._proposed = 0
        self._admitted = 0
        self._refused = 0
        self._interrupted = 0

    def __repr__(self) -> str:
        return (
            f"<AgentActor {self.agent_id!r}: {self._proposed} batches proposed, "
            f"{self._admitted} admitted, {self._refused} refused>"
        )

    @property
    def agent_id(self) -> str:
        """Name of the agent."""
        return self._handle.agent_id

    @property
    def generation(self) -> int:
        """Number of registrations of the agent's name, up to the one that the handle is for."""
        return self._handle.generation

    async def run(self) -> None:
        """Run until the policy returns None, the agent is removed, or the world or its time ends.

        Raises:
            TimeoutError: The policy took longer than it may.
            Exception: Whatever the policy raises; a `BaseException` is wrapped in a `RuntimeError`.
        """
        try:
            if self._is_observant:
                async with self._handle.observer() as self._observer:
                    await self._loop()
            else:
                await self._loop()
        except (ClosedError, StoreError, TimeStalledError):
            return
        except PermissionDeniedError as error:
            if error.code != RefusalCode.UNAUTHORIZED:
                raise
        except (Exception, *INTERRUPTS):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_canceled():
                raise
            raise raisable(error) from error  # raised by the policy

    def statistics(self) -> AgentStatistics:
        """Return the numbers of proposed, admitted and refused batches, and of interruptions."""
        return AgentStatistics(self._proposed, self._admitted, self._refused, self._interrupted)

    async def _loop(self) -> None:
        while True:
            pause_s = await self._turn()
            if pause_s is None:
                return
            if self._pause_sim_s is None:
                await anyio.sleep(max(pause_s, self._pause_s))
            else:
                await anyio.sleep(self._pause_s)
                await self._handle.sleep(self._pause_sim_s)

    async def _turn(self) -> float | None:
        """Propose once; repeat with a new view where the verdict says that this may help.

        Returns:
            Minimum seconds to wait before the next turn; None if the agent's run has ended.
        """
        last = self._interrupted + self._interruptions_max
        early: Sequence[Mapping[str, Json]] | None = None  # a batch that a lease held up
        for attempt in range(self._tries_max):
            may_interrupt = attempt + 1 < self._tries_max and self._interrupted < last
            async with self._leased() as lease:
                try:
                    batch = early or await self._think(attempt, may_interrupt=may_interrupt)
                except StaleContextError as stale:
                    self._note_interruption(stale)
                    continue
                if batch is None:
                    return None
                if not len(batch):
                    return _PASS_PAUSE_S
                refusal = await self._submit(batch, lease)
            if refusal is None:
                return 0.0
            early = batch if refusal.code == RefusalCode.LEASED else None
            pause_s = self._pause_after(refusal, attempt)
            if pause_s is None:
                return 0.0
            if refusal.stage is Stage.QUOTA and self._pause_sim_s is not None:
                await self._handle.sleep(pause_s)
            else:
                await anyio.sleep(pause_s)
        return 0.0

    @asynccontextmanager
    async def _leased(self) -> AsyncIterator[RunningLease | None]:
        """Lease the entities that `_wanted` returns; yield None if no lease is held."""
        async with AsyncExitStack() as stack:
            lease: RunningLease | None = None
            if self._leasing is not None and (wanted := self._wanted()) is not None:
                lease = await enter_lease(stack, self._leasing, *wanted)
            yield lease

    def _wanted(self) -> tuple[list[str], float] | None:
        """Return the entities to lease before the next thought, and the seconds; None for none."""
        return self._contention.wanted(None if self._leasing is None else self._leasing.leases)

    async def _think(
        self, attempt: int, *, may_interrupt: bool
    ) -> Sequence[Mapping[str, Json]] | None:
        """Call the policy, and note how long it took."""
        began = anyio.current_time()
        try:
            return await self._call_policy(attempt, may_interrupt=may_interrupt)
        finally:
            self._contention.thought_s = anyio.current_time() - began

    async def _submit(
        self, batch: Sequence[Mapping[str, Json]], lease: RunningLease | None
    ) -> Refusal | None:
        """Submit a batch, with the release of the lease; return its first refusal."""
        self._proposed += 1
        if lease is not None and len(batch) < self._intents_max:
            batch = [*batch, lease.release()]
        verdict = await self._handle.submit(batch)
        refusal = None if verdict.admitted else verdict.refusals[0]
        self._contention.note(refusal, was_leased=lease is not None)
        if refusal is None:
            self._admitted += 1
        else:
            self._refused += 1
        return refusal

    async def _call_policy(
        self, attempt: int, *, may_interrupt: bool
    ) -> Sequence[Mapping[str, Json]] | None:
        if self._observer is not None:
            observation = await self._next_observation(self._observer, is_retry=attempt > 0)
            return None if observation is None else await self._policy_call.ask(observation)
        if self._staleness is None or not may_interrupt:
            return await self._policy_call.ask(await self._handle.refresh_view())
        async with self._handle.fresh_context(self._staleness) as context:
            return await self._policy_call.ask(context.view)

    async def _next_observation(self, observer: Observer, *, is_retry: bool) -> Observation | None:
        """Wait for an observation; on a retry, return a new observation, or else the last one.

        None: the observer has ended.
        """
        if is_retry:  # the change that made the batch stale may be invisible to the agent
            await self._handle.refresh_view()
            observation = observer.look() or self._observation
        else:
            observation = await observer.next()
        if observation is not None:
            self._handle.view_seq = max(self._handle.view_seq, observation.view_seq)
        self._observation = observation
        return observation

    def _note_interruption(self, stale: StaleContextError) -> None:
        self._interrupted += 1
        if self._on_interruption is not None:
            self._on_interruption(stale)

    def _pause_after(self, refusal: Refusal, attempt: int) -> float | None:
        """Return the seconds to wait before a retry; None if a retry cannot succeed.

        Staleness is retried at once, a lease of another agent when it ends, quota after
        `retry_after`, overload and suspension after an exponential back-off with jitter. A refusal
        by structure or domain rules, or for a time beyond the schedule, is not retried, because the
        same batch would be refused again.
        """
        if refusal.stage is Stage.STALENESS:
            return 0.0
        if refusal.code == RefusalCode.LEASED:  # the same batch may pass under an own lease
            return refusal.retry_after if self._wanted() is None else 0.0
        if refusal.stage is Stage.QUOTA:
            return refusal.retry_after
        if refusal.code == RefusalCode.SIM_TIME_TOO_FAR:
            return None
        is_suspended = refusal.code == RefusalCode.AGENT_SUSPENDED
        if is_suspended or refusal.stage in {Stage.ADMISSION, Stage.BACKPRESSURE}:
            pause_s: float = min(_BACKOFF_FIRST_S * 2**attempt, _BACKOFF_MAX_S)
            jitter = random_unit(
                self._seed, 0, 0, self._proposed, "back-off", self._handle.agent_id
            )
            return max(refusal.retry_after or 0.0, pause_s * (0.5 + jitter))
        return None


class PolicyThread:
    """A caller of plain functions in threads, so that they do not block the event loop.

    A thread cannot be stopped. A call whose caller was canceled runs on, and no second call starts
    before it ends: an agent has at most one such thread, new for each call. The threads are
    daemons, so they do not keep the process alive.

    Args:
        name: Name of the threads, and of the policy in error messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_busy = False

    async def call(self, think: Callable[[], T]) -> T:
        """Call a function in a thread and return its result; canceling stops only the wait.

        Raises:
            TimeoutError: A previous call, whose caller was canceled, is still running.
            Exception: Whatever the function raises.
        """
        if self._is_busy:
            raise TimeoutError(
                f"{self._name} is still running its previous call and cannot be stopped; "
                "make it return, or write it with async def"
            )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        context = copy_context()

        def deliver(result: T | None, error: BaseException | None) -> None:
            self._is_busy = False
            if outcome.done():
                return
            if error is None:
                outcome.set_result(result)  # type: ignore[arg-type]  # None only if T has it
            else:
                outcome.set_exception(error)

        def run() -> None:
            result, fault = None, None
            try:
                result = context.run(think)
            except BaseException as error:  # noqa: BLE001  # the thread's boundary: raised where the call is awaited
                fault = raisable(error)
            with suppress(RuntimeError):  # the loop was closed, so no caller waits
                loop.call_soon_threadsafe(deliver, result, fault)

        Thread(target=run, name=self._name, daemon=True).start()
        self._is_busy = True
        return await outcome


def raisable(error: BaseException) -> BaseException:
    """Return an exception that is safe to raise in a task: `error` itself, or a wrapper of it.

    `StopIteration` and exceptions that are no `Exception` would end an iterator, a task or the
    program; they are wrapped in a `RuntimeError`.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    fault = RuntimeError(f"the policy raised {error!r}")
    fault.__cause__ = error
    return fault


__all__ = [
    "AgentActor",
    "AgentPort",
    "AgentStatistics",
    "Answer",
    "Observant",
    "Policy",
    "Proposal",
]
