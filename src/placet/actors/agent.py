"""An agent as an actor: it looks, proposes, and answers what the gate says.

A policy is anything with `propose(view)`, plain or async. What goes wrong in it is its own: the
supervisor restarts it with a pause, and when its budget is spent the agent is suspended, and only
that agent.
"""

from collections.abc import Awaitable, Iterable, Mapping
from inspect import isawaitable
from typing import NamedTuple, Protocol, TypeAlias

import anyio

from placet.kernel.draw import draw_unit
from placet.schemas.codec import Json
from placet.schemas.errors import ClosedError, PermissionDeniedError, StoreError
from placet.schemas.refusal import Refusal, RefusalCode, Stage
from placet.schemas.verdict import Verdict
from placet.schemas.view import View

Proposal: TypeAlias = Iterable[Mapping[str, Json]]

_TRIES_MAX = 5
_BACKOFF_FIRST_S = 0.01
_BACKOFF_MAX_S = 1.0


class Policy(Protocol):
    """What decides for an agent."""

    def propose(self, view: View) -> "Proposal | Awaitable[Proposal | None] | None":
        """Propose intents on the ground of a view; empty is a pass, None ends the agent's run."""


class AgentPort(Protocol):
    """What an agent actor needs of the world: its own handle."""

    agent_id: str

    async def refresh_view(self) -> View:
        """Look."""

    async def submit(self, batch: object) -> Verdict:
        """Propose."""


class AgentStatistics(NamedTuple):
    """What an agent has done."""

    proposed: int
    admitted: int
    refused: int


class AgentActor:
    """Runs a policy: look, propose, submit, pause.

    Args:
        handle: The agent's own way to the world.
        policy: Decides.
        pause_s: Real seconds between two proposals.
        propose_seconds_max: How long the policy may think.
        seed: For the jitter of back-off.
    """

    def __init__(
        self,
        handle: AgentPort,
        policy: Policy,
        *,
        pause_s: float = 0.0,
        propose_seconds_max: float = 60.0,
        seed: int = 0,
    ) -> None:
        self._handle = handle
        self._policy = policy
        self._pause_s = pause_s
        self._propose_seconds_max = propose_seconds_max
        self._seed = seed
        self._proposed = 0
        self._admitted = 0
        self._refused = 0

    @property
    def agent_id(self) -> str:
        """The agent."""
        return self._handle.agent_id

    async def run(self) -> None:
        """Go on until the policy returns None, the agent is removed, or the world is closed.

        Raises:
            TimeoutError: The policy thought longer than it may.
            Exception: Whatever the policy raises.
        """
        while True:
            try:
                goes_on = await self._turn()
            except (ClosedError, StoreError):
                return
            except PermissionDeniedError as error:
                if error.code == RefusalCode.UNAUTHORIZED:
                    return
                raise
            if not goes_on:
                return
            await anyio.sleep(self._pause_s)

    def statistics(self) -> AgentStatistics:
        """Tell what was proposed and what became of it, in batches."""
        return AgentStatistics(self._proposed, self._admitted, self._refused)

    async def _turn(self) -> bool:
        """Propose once; look and propose again where the gate says that this may help."""
        for attempt in range(_TRIES_MAX):
            view = await self._handle.refresh_view()
            intents = await self._propose(view)
            if intents is None:
                return False
            batch = list(intents)
            if not batch:
                return True
            self._proposed += 1
            verdict = await self._handle.submit(batch)
            if verdict.admitted:
                self._admitted += 1
                return True
            self._refused += 1
            pause_s = self._pause_after(verdict.refusals[0], attempt)
            if pause_s is None:
                return True
            await anyio.sleep(pause_s)
        return True

    async def _propose(self, view: View) -> Proposal | None:
        with anyio.fail_after(self._propose_seconds_max):
            proposal = self._policy.propose(view)
            if isawaitable(proposal):
                return await proposal
            return proposal

    def _pause_after(self, refusal: Refusal, attempt: int) -> float | None:
        """Say how long to wait before another try: stale at once, quota as told, else with jitter.

        None is no other try: the domain or the structure said no, and would say it again.
        """
        if refusal.stage is Stage.STALENESS:
            return 0.0
        if refusal.stage is Stage.QUOTA:
            return refusal.retry_after
        is_suspended = refusal.code == RefusalCode.AGENT_SUSPENDED
        if is_suspended or refusal.stage in {Stage.DOOR, Stage.BACKPRESSURE}:
            pause_s: float = min(_BACKOFF_FIRST_S * 2**attempt, _BACKOFF_MAX_S)
            jitter = draw_unit(self._seed, self._proposed, self._handle.agent_id, "back-off")
            return max(refusal.retry_after or 0.0, pause_s * (0.5 + jitter))
        return None
