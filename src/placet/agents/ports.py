"""The port to an open world that the agent layer needs."""

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
        """Of the intent that asked for it."""

    @property
    def succeeded(self) -> bool | None:
        """None while it is not settled."""

    @property
    def output(self) -> Json:
        """output: The executor's return value, or the reason of the failure."""

    @property
    def is_in_doubt(self) -> bool:
        """Nobody can tell whether it was done."""


class Handle(Protocol):
    """One agent's way into the world."""

    @property
    def agent_id(self) -> str:
        """Whose it is."""

    @property
    def generation(self) -> int:
        """How often its name was registered by then."""

    def intent(self, kind: str, /, **payload: Json) -> Intent:
        """Make an intent of a payload."""

    async def refresh_view(self) -> View:
        """Look."""


class Gateway(Protocol):
    """What this layer asks an open world, besides submitting."""

    @property
    def registry(self) -> Registry:
        """Its kinds and domains."""

    async def entities(
        self, collection: str, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, Json]]:
        """Copy entities of a collection that are there."""

    async def is_registered(self, agent_id: str, generation: int | None = None) -> bool:
        """Return whether there is an agent of this name, or this very one of its name."""

    async def permitted(self, agent_id: str) -> frozenset[str] | None:
        """Name the kinds that an agent may use; None is all."""

    async def executed(self) -> frozenset[str]:
        """Name the kinds of effect that have an executor."""

    async def risks(self, actions: Sequence[tuple[str, Mapping[str, Json]]]) -> list[Risk]:
        """Judge the risk of each `(kind, payload)` at the present state."""

    async def outcomes(self, verdict: Verdict, *, seconds_max: float = 60.0) -> Sequence[Outcome]:
        """Wait for the effects of an admitted batch."""


class WorldPort(Protocol):
    """An open world, such as `placet.Orchestrator`."""

    @property
    def gateway(self) -> Gateway:
        """Answers to the questions of this layer."""

    @property
    def seq(self) -> int:
        """Its durable sequence number."""

    @property
    def sim_time(self) -> float:
        """Its simulated time, seconds."""

    async def register_agent(
        self, agent_id: str, *, permissions: Iterable[str] | None = None
    ) -> Handle:
        """Register an agent, or find it."""

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
        """Return who carries out effects of a kind."""

    async def submit(
        self, batch: object, *, dry_run: bool = False, identity: Handle | None = None
    ) -> Verdict:
        """Decide a batch; refuse it where the agent for whom it is was removed."""

    async def state(self, path: str = "") -> Json:
        """Read a part of the state."""
