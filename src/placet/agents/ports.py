"""The parts of an open world that the agent layer uses, as protocols.

The agent layer does not import the runtime. `placet.Orchestrator` satisfies `WorldPort`, and
`placet.Inbox` satisfies `InboxPort`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from placet.actors.policies.contention import LeasingPort
from placet.kernel.plugin.domain import Risk
from placet.kernel.plugin.registry import Registry
from placet.schemas.approval import Approval, InboxAnswer
from placet.schemas.codec import Json
from placet.schemas.effect import Effect, Settlement
from placet.schemas.intent import Intent
from placet.schemas.verdict import Verdict
from placet.schemas.view import View


class Outcome(Protocol):
    """The interface of an effect's outcome; see `placet.runtime.executors.EffectOutcome`."""

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
        """Whether it is unknown if the effect was executed in the outside world."""


class Handle(LeasingPort, Protocol):
    """The interface of the handle of a registered agent."""

    @property
    def agent_id(self) -> str:
        """Id of the agent."""

    @property
    def generation(self) -> int:
        """Number of registrations of this id so far; an agent registered later has another."""

    def intent(
        self,
        kind: str,
        /,
        *,
        if_unchanged: Iterable[str | Sequence[str]] | None = None,
        **payload: Json,
    ) -> Intent:
        """Build an intent of this agent with a payload; it is not submitted.

        It has a new req_id, and the seq of the agent's latest view as `context_seq`. It expects
        the values of that view at the paths of `if_unchanged`, if there are any.
        """

    async def refresh_view(self) -> View:
        """Return the agent's view at the latest durable seq."""


class Gateway(Protocol):
    """The interface for queries to an open world."""

    @property
    def registry(self) -> Registry:
        """The registry of the world: its domains and their kinds."""

    async def entities(
        self, collection: str, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return copies of entities of a collection as plain JSON, by name.

        None for `names` is all; names that do not exist are left out.
        """

    async def is_registered(self, agent_id: str, generation: int | None = None) -> bool:
        """Return whether an agent is registered, of this generation if one is passed."""

    async def permitted(self, agent_id: str) -> frozenset[str] | None:
        """Return the kinds that an agent may use; None for all, empty for an unknown agent."""

    async def executed(self) -> frozenset[str]:
        """Return the kinds of effect that have an executor."""

    async def risks(self, actions: Sequence[tuple[str, Mapping[str, Json]]]) -> list[Risk]:
        """Return the risk of each action `(kind, payload)` at the current state.

        Raises:
            KeyError: A kind is unknown.
        """

    async def outcomes(self, verdict: Verdict, *, seconds_max: float = 60.0) -> Sequence[Outcome]:
        """Wait for the effects of a batch and return their outcomes.

        The wait is at most `seconds_max` real seconds.
        An effect that is not settled by then has an outcome whose `succeeded` is None. A batch that
        was not admitted has no outcomes.
        """


class InboxPort(Protocol):
    """The interface of the requests for approval of an open world; see `placet.Inbox`."""

    async def ask(
        self,
        intents: Sequence[Intent],
        *,
        agent: Handle,
        role: str = "",
        seconds: float = 3_600.0,
        unshown: Sequence[str] = (),
        about: Mapping[str, Json] | None = None,
        request_id: str = "",
    ) -> InboxAnswer:
        """Request a person's approval of intents; if an equal request is open, return that one."""

    async def decide(
        self,
        request: str,
        decision: Literal["approve", "deny", "amend"],
        *,
        by: str,
        role: str = "",
        digest: str = "",
        reason: str = "",
        intents: Sequence[Intent] = (),
    ) -> InboxAnswer:
        """Record the decision of a person; with `approve` and `amend` the intents are applied.

        Raises:
            ApprovalUnknown: The state has no such request.
        """

    async def list(self, *, cursor: int = 0, limit: int = 64) -> Sequence[Approval]:
        """Return a page of the requests that the state keeps, in the order of their creation."""

    async def get(self, request: str) -> Approval:
        """Return a request.

        Raises:
            ApprovalUnknown: The state has no such request.
        """


class WorldPort(Protocol):
    """The interface of an open world, such as `placet.Orchestrator`."""

    @property
    def gateway(self) -> Gateway:
        """The interface for queries to the world."""

    @property
    def seq(self) -> int:
        """Durable sequence number of the world."""

    @property
    def sim_time(self) -> float:
        """Simulated time of the world, seconds."""

    async def register_agent(
        self, agent_id: str, *, permissions: Iterable[str] | None = None
    ) -> Handle:
        """Register an agent if it is not registered, and return its handle.

        `permissions` are the kinds that it may submit; None is the world's default for a new agent,
        and no change for a registered one.
        """

    async def register_executor(
        self,
        kind: str,
        handler: Any,  # noqa: ANN401  # a function, or a mark of the runtime on one
        *,
        delivery: Literal["at_most_once"],
        concurrency: int,
        seconds_max: float,
        on_in_doubt: Callable[[Effect], Awaitable[Settlement]],
    ) -> None:
        """Register the handler that executes effects of a kind, or a mark on a handler."""

    async def submit(
        self,
        batch: object,
        *,
        dry_run: bool = False,
        identity: Handle | None = None,
        shows_changes: bool = False,
    ) -> Verdict:
        """Submit a batch as the operator, and return its verdict, also if it is refused.

        A dry run is decided and changes nothing. Its verdict lists the changes, and so does any
        verdict if `shows_changes` is true. The batch is refused if the agent `identity` was
        removed.
        """

    async def state(self, path: str = "") -> Json:
        """Return a copy of the state at a path, as plain JSON; an empty path is the whole state.

        Raises:
            KeyError: There is nothing at the path.
        """
