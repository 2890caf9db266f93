"""The parts of an open world that the agent layer uses, as protocols.

The layer imports no runtime; `placet.Orchestrator` satisfies `WorldPort`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from placet.kernel.domain import Risk
from placet.kernel.registry import Registry
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict
from placet.schemas.view import View


class Outcome(Protocol):
    """The outcome of one effect; see `placet.runtime.api.gateway.EffectOutcome`."""

    @property
    def seq(self) -> int:
        """Sequence number of the intent that emitted the effect."""

    @property
    def succeeded(self) -> bool | None:
        """Whether the effect succeeded; None until it is settled."""

    @property
    def output(self) -> Json:
        """The executor's return value, or the reason of the failure."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is unknown if the effect was executed."""


class Handle(Protocol):
    """The handle of one registered agent."""

    @property
    def agent_id(self) -> str:
        """Id of the agent."""

    @property
    def generation(self) -> int:
        """Number of registrations of this id so far; tells a later agent of the id apart."""

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload."""

    async def refresh_view(self) -> View:
        """Return a fresh view of the world."""


class Gateway(Protocol):
    """Queries to an open world."""

    @property
    def registry(self) -> Registry:
        """The kinds and domains of the world."""

    async def entities(
        self, collection: str, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return copies of the named entities that exist; None is all of the collection."""

    async def is_registered(self, agent_id: str, generation: int | None = None) -> bool:
        """Return whether an agent is registered, of this generation if one is passed."""

    async def permitted(self, agent_id: str) -> frozenset[str] | None:
        """Return the kinds that an agent may use; None is all."""

    async def executed(self) -> frozenset[str]:
        """Return the kinds of effect that have an executor."""

    async def risks(self, actions: Sequence[tuple[str, Mapping[str, Json]]]) -> list[Risk]:
        """Return the risk of each `(kind, payload)` at the current state."""

    async def outcomes(self, verdict: Verdict, *, seconds_max: float = 60.0) -> Sequence[Outcome]:
        """Wait for the effects of an admitted batch, at most `seconds_max` real seconds."""


class WorldPort(Protocol):
    """An open world, such as `placet.Orchestrator`."""

    @property
    def gateway(self) -> Gateway:
        """The queries of the world."""

    @property
    def seq(self) -> int:
        """Its durable sequence number."""

    @property
    def sim_time(self) -> float:
        """Its simulated time, seconds."""

    async def register_agent(
        self, agent_id: str, *, permissions: Iterable[str] | None = None
    ) -> Handle:
        """Register an agent, or return the handle of the registered one."""

    async def register_executor(
        self,
        kind: str,
        handler: Callable[[Effect], Awaitable[Json]],
        *,
        delivery: Literal["at_most_once"],
        concurrency: int,
        seconds_max: float,
        on_in_doubt: Callable[[Effect], Awaitable[Settlement]],
    ) -> None:
        """Register the handler that executes effects of a kind."""

    async def submit(
        self, batch: object, *, dry_run: bool = False, identity: Handle | None = None
    ) -> Verdict:
        """Decide a batch; refuse it if the agent `identity` was removed."""

    async def state(self, path: str = "") -> Json:
        """Read a part of the state."""
