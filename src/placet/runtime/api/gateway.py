"""The gateway of the agent layer: its queries to an open world, besides submitting."""

from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from placet.actors.effects.outcomes import EffectOutcome
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.domain import Kind, Risk
from placet.kernel.plugin.registry import Registry
from placet.kernel.state.tree import WorldState
from placet.runtime.world import WorldRuntime
from placet.schemas.codec import Json, thaw
from placet.schemas.effect import EffectKey
from placet.schemas.verdict import Verdict

RISKS: Final[tuple[Risk, ...]] = ("read", "low", "medium", "high")
"""From the least to the greatest."""


class AgentGateway:
    """The queries of the agent layer to an open world (`placet.agents.ports.Gateway`).

    Args:
        world: The open world.
    """

    __slots__ = ("_opened",)

    def __init__(self, world: WorldRuntime) -> None:
        self._opened = world

    @property
    def _open(self) -> WorldRuntime:
        """The world, whose event loop runs the caller."""
        self._opened.home.require()
        return self._opened

    @property
    def registry(self) -> Registry:
        """The registry of this world: its domains and their kinds."""
        return self._opened.kernel.registry

    async def permitted(self, agent_id: str) -> frozenset[str] | None:
        """Return the kinds that an agent may use; None for all, an empty set for an unknown agent.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """

        def kinds(kernel: Kernel) -> frozenset[str] | None:
            agent = kernel.ledger.agents.get(agent_id)
            return frozenset() if agent is None else agent.permissions

        return await self._open.actor.command(kinds)

    async def is_registered(self, agent_id: str, generation: int | None = None) -> bool:
        """Return whether an agent is registered.

        Args:
            agent_id: Name of the agent.
            generation: Required generation, as of a handle; None accepts any.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """

        def fn(kernel: Kernel) -> bool:
            agent = kernel.ledger.agents.get(agent_id)
            return agent is not None and generation in {None, agent.generation}

        return await self._open.actor.command(fn)

    async def entities(
        self, collection: str, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return copies of the entities of a collection as plain JSON, by name.

        O(size of the copies).

        Args:
            collection: Name of the collection; it need not exist.
            names: Names of the entities; missing ones are left out. None for all.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """

        def copied(kernel: Kernel) -> dict[str, dict[str, Json]]:
            rows = kernel.state.get(collection, {})
            wanted = sorted(rows) if names is None else names
            return {name: thaw(dict(rows[name])) for name in wanted if name in rows}

        return await self._open.actor.command(copied)

    async def executed(self) -> frozenset[str]:
        """Return the kinds of effect that have an executor.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._open.actor.command(lambda kernel: frozenset(kernel.ledger.executors))

    async def risks(self, actions: Sequence[tuple[str, Mapping[str, Json]]]) -> list[Risk]:
        """Return the risk of each action `(kind, payload)` at the present state: `read` to `high`.

        If a kind's own risk function raises, the risk is `high`.

        Raises:
            KeyError: A kind is unknown.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        kinds = [(self.registry.kinds[kind], payload) for kind, payload in actions]
        return await self._open.actor.command(
            lambda kernel: [_risk(kind, payload, kernel.state) for kind, payload in kinds]
        )

    async def outcomes(self, verdict: Verdict, *, seconds_max: float = 60.0) -> list[EffectOutcome]:
        """Wait for the effects of an admitted batch, and return their outcomes.

        Args:
            verdict: The verdict of the batch.
            seconds_max: Maximum wait in real seconds; an unsettled effect is reported as such.

        Raises:
            ClosedError, StoreError: The world is closed, or has failed.
        """
        if not verdict.admitted or verdict.seq is None or verdict.dry_run:
            return []
        seqs = sorted(result.seq for result in verdict.results if result.seq is not None)
        outcomes = await self._open.executors.outcomes(seqs, seconds_max)
        return await self._logged(verdict, seqs, seconds_max) if outcomes is None else outcomes

    async def outcome(self, key: EffectKey) -> EffectOutcome:
        """Wait until an open effect is settled or in doubt, and return its outcome.

        Raises:
            LookupError: The effect is not open, and its outcome is no longer kept in memory.
            ClosedError, StoreError: The world is closed, or has failed.
        """
        return await self._open.executors.outcome((key.seq, key.effect_index))

    async def _logged(
        self, verdict: Verdict, seqs: Sequence[int], seconds_max: float
    ) -> list[EffectOutcome]:
        """Wait for the effects of a batch whose outcomes are read from the log. O(log)."""
        first = min(seqs, default=0)
        outcomes: dict[tuple[int, int], EffectOutcome] = {}
        with anyio.move_on_after(seconds_max):
            async for event in self._open.publisher.events(since=max(0, first - 1)):
                if event.type == "batch" and event.data["batch_id"] == verdict.batch_id:
                    for k, (seq, kind, _, _) in enumerate(event.data["effects"]):
                        outcomes[seq, k] = EffectOutcome(seq, kind, None, None)
                    if not outcomes:
                        return []
                elif event.type == "settled":
                    key = (event.data["effect_seq"], event.data["effect_index"])
                    if key in outcomes:
                        outcomes[key] = outcomes[key]._replace(
                            succeeded=event.data["succeeded"], output=event.data["output"]
                        )
                elif event.type == "effect_changed" and event.data["what"] == "in_doubt":
                    key = (event.data["effect_seq"], event.data["effect_index"])
                    if key in outcomes:
                        doubtful = await self._is_in_doubt_for_good(key)
                        outcomes[key] = outcomes[key]._replace(is_in_doubt=doubtful)
                if outcomes and all(
                    outcome.is_in_doubt or outcome.succeeded is not None
                    for outcome in outcomes.values()
                ):
                    break
        return list(outcomes.values())

    async def _is_in_doubt_for_good(self, key: tuple[int, int]) -> bool:
        """Wait for the executor's hook; return False if that settled the effect."""
        world = self._open
        await world.executors.settled([key])
        return key in world.kernel.ledger.outbox


def _risk(kind: Kind, payload: Mapping[str, Json], state: WorldState) -> Risk:
    if kind.risk_of is None:
        return kind.risk
    try:
        judged = kind.risk_of(payload, state)
        return max(kind.risk, judged, key=RISKS.index)
    except Exception:  # noqa: BLE001  # plug-in code: without its judgement, the greatest care
        return "high"
