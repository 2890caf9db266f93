"""An agent as an actor: it looks, proposes, and answers what the gate says.

A policy is anything with `propose(view)`, or a function of a view, plain or async; one with
`observe(observation)` instead is asked when there is something new to see. What goes wrong in it is
its own: the supervisor restarts it with a pause, and when its budget is spent the agent is
suspended, and only that agent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import isawaitable
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import anyio

from placet.actors.effects.attempt import is_canceled
from placet.actors.observation.observer import Observer
from placet.actors.policies.staleness_scope import StalenessOptions, StalenessScope
from placet.actors.policies.thread import PolicyThread, raisable
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

Proposal: TypeAlias = Iterable[Mapping[str, Json]] | Mapping[str, Json]
"""Intents that pass or fail together; one intent is a batch of its own."""

Answer: TypeAlias = Proposal | Awaitable[Proposal | None] | None


class PolicyCall(Generic[S]):
    """One agent's way to ask its policy.

    Args:
        think: The policy, as a function of what the agent sees.
        name: For people.
        seconds_max: How long one answer may take.
        intents_max: How many intents are taken from an iterator; a list goes to the gate as it is.
        threaded: Call it in a thread.
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
        """Ask once.

        Raises:
            TimeoutError: It took longer than it may.
            ValueError: An iterator gave more intents than it may, or has no end.
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
        """Make a batch of an answer; an iterator is run here, in the policy's own time."""
        if proposal is None or isinstance(proposal, list | tuple):
            return proposal
        if isinstance(proposal, Mapping):
            return [proposal]
        batch = list(islice(proposal, self._intents_max + 1))
        if len(batch) > self._intents_max:
            raise ValueError(
                f"{self._name} proposed more than {self._intents_max} intents at once; "
                "give less at a time, or raise intents_max and the world's batch_intents_max"
            )
        return batch


_TRIES_MAX = 5
_BACKOFF_FIRST_S = 0.01
_BACKOFF_MAX_S = 1.0
_PASS_PAUSE_S = 0.01
"""After a pass, so that a policy with nothing to say does not look without end."""


class Observant(Protocol):
    """What decides for an agent whenever it sees something new, first of all a snapshot."""

    def observe(self, observation: Observation) -> Answer:
        """Propose intents; empty is a pass, None ends the agent's run.

        Where the gate says that another try may help, the same observation may come again.
        """


class Policy(Protocol):
    """What decides for an agent.

    It may have `interruptible = True`, or a `StalenessOptions`, to be stopped and asked again when what
    it was shown is no longer true; and a method `interrupted(error)`, which is told why.
    """

    def propose(self, view: View) -> Answer:
        """Propose intents on the ground of a view; empty is a pass, None ends the agent's run."""


AnyPolicy: TypeAlias = Policy | Observant | Callable[[View], Answer]


class AgentPort(Protocol):
    """What an agent actor needs of the world: its own handle."""

    agent_id: str
    generation: int
    view_seq: int

    async def refresh_view(self) -> View:
        """Look."""

    async def submit(self, batch: object) -> Verdict:
        """Propose."""

    async def sleep(self, seconds: float) -> None:
        """Wait in simulated time."""

    def fresh_context(
        self, freshness: StalenessOptions, /
    ) -> AbstractAsyncContextManager[StalenessScope]:
        """Look, and be stopped when what was seen is no longer true."""

    def observer(self) -> AbstractAsyncContextManager[Observer]:
        """Return the agent's eyes."""


class AgentStatistics(NamedTuple):
    """What an agent has done, in batches, and how often its policy was interrupted."""

    proposed: int
    admitted: int
    refused: int
    interrupted: int = 0


class AgentActor:
    """Runs a policy: look, propose, submit, pause.

    Args:
        handle: The agent's own way to the world.
        policy: Decides.
        pause_s: Real seconds between two proposals.
        pause_sim_s: Simulated seconds between two turns at least, the passes too; None is that the
            agent does not live in simulated time, and all its pauses are real.
        propose_seconds_max: How long the policy may think.
        seed: For the jitter of back-off.
        tries_max: How often it is asked in one turn, where the gate or an interruption says that
            another try may help. The last try is not interrupted: it comes to an end.
        intents_max: How many intents a policy's iterator may give at a time.
        threaded: Call the policy, a plain function, in a thread of its own.
        interruptible: Stop the policy and ask it again when its view is no longer true; None is
            what the policy says of itself.

    Raises:
        ValueError: A policy that observes is to be interrupted.
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
    ) -> None:
        self._handle = handle
        self._pause_s = pause_s
        self._pause_sim_s = pause_sim_s
        self._seed = seed
        self._tries_max = tries_max
        if interruptible is None:
            interruptible = getattr(policy, "interruptible", False)
        self._freshness = StalenessOptions() if interruptible is True else interruptible or None
        self._on_interruption = getattr(policy, "interrupted", None)
        observe: Callable[[Any], Answer] | None = getattr(policy, "observe", None)
        if observe is not None and self._freshness is not None:
            raise ValueError(
                "a policy that observes is not interrupted; give it propose(view), or let it enter "
                "handle.fresh_context() by itself"
            )
        self._is_observant = observe is not None
        self._observer: Observer | None = None
        self._observation: Observation | None = None
        self._thinking: PolicyCall[Any] = PolicyCall(
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

    @property
    def agent_id(self) -> str:
        """The agent."""
        return self._handle.agent_id

    @property
    def generation(self) -> int:
        """Of the agent's name, for which the handle speaks."""
        return self._handle.generation

    async def run(self) -> None:
        """Go on until the policy returns None, the agent is removed, or the world or its time ends.

        Raises:
            TimeoutError: The policy thought longer than it may.
            Exception: Whatever the policy raises; of what is no `Exception`, a fault.
        """
        try:
            if self._is_observant:
                async with self._handle.observer() as self._observer:
                    await self._live()
            else:
                await self._live()
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
            raise raisable(error) from error  # the policy's own, such as of what it awaited

    def statistics(self) -> AgentStatistics:
        """Tell what was proposed and what became of it."""
        return AgentStatistics(self._proposed, self._admitted, self._refused, self._interrupted)

    async def _live(self) -> None:
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
        """Propose once; look and propose again where the gate says that this may help.

        Returns:
            How long to wait before the next turn at least; None if there is none.
        """
        for attempt in range(self._tries_max):
            try:
                batch = await self._look_and_think(attempt)
            except StaleContextError as stale:
                self._note_interruption(stale)
                continue
            if batch is None:
                return None
            if not len(batch):
                return _PASS_PAUSE_S
            self._proposed += 1
            verdict = await self._handle.submit(batch)
            if verdict.admitted:
                self._admitted += 1
                return 0.0
            self._refused += 1
            pause_s = self._pause_after(verdict.refusals[0], attempt)
            if pause_s is None:
                return 0.0
            is_quota = verdict.refusals[0].stage is Stage.QUOTA
            if is_quota and self._pause_sim_s is not None:
                await self._handle.sleep(pause_s)
            else:
                await anyio.sleep(pause_s)
        return 0.0

    async def _look_and_think(self, attempt: int) -> Sequence[Mapping[str, Json]] | None:
        if self._observer is not None:
            observation = await self._see(self._observer, is_again=attempt > 0)
            return None if observation is None else await self._thinking.ask(observation)
        if self._freshness is None or attempt + 1 == self._tries_max:
            return await self._thinking.ask(await self._handle.refresh_view())
        async with self._handle.fresh_context(self._freshness) as context:
            return await self._thinking.ask(context.view)

    async def _see(self, observer: Observer, *, is_again: bool) -> Observation | None:
        """Wait for something new; asked again, take what is new by now, or what was seen before.

        None: there will be nothing new.
        """
        if is_again:  # what made the thought stale may be nothing that the agent sees
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
        """Return how long to wait before another try: stale at once, quota as told, else with jitter.

        None is no other try: the domain or the structure said no, and would say it again.
        """
        if refusal.stage is Stage.STALENESS:
            return 0.0
        if refusal.stage is Stage.QUOTA:
            return refusal.retry_after
        is_suspended = refusal.code == RefusalCode.AGENT_SUSPENDED
        if is_suspended or refusal.stage in {Stage.ADMISSION, Stage.BACKPRESSURE}:
            pause_s: float = min(_BACKOFF_FIRST_S * 2**attempt, _BACKOFF_MAX_S)
            jitter = random_unit(self._seed, self._proposed, self._handle.agent_id, "back-off")
            return max(refusal.retry_after or 0.0, pause_s * (0.5 + jitter))
        return None


__all__ = [
    "AgentActor",
    "AgentPort",
    "AgentStatistics",
    "Answer",
    "Observant",
    "Policy",
    "Proposal",
]
