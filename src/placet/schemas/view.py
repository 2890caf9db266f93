"""Views, true at one seq, and observations, which keep a view up to date."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, NoReturn, Protocol, TypeAlias

import msgspec

from placet.schemas.codec import Json, to_json
from placet.schemas.html_table import html_table
from placet.schemas.identity import Ref
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.printable import printable


class Places(Protocol):
    """The positions of the entities in a view."""

    def near(self, position: Sequence[float], radius: float) -> list[Ref]:
        """Return the entities within a radius of a position, sorted."""

    def at(self, cell: Sequence[float]) -> list[Ref]:
        """Return the entities in a cell, sorted."""


class Draws(Protocol):
    """The random numbers of a moment of a world."""

    def random(self, purpose: str, agent_id: str) -> float:
        """Draw a number in [0, 1)."""

    def randint_below(self, bound: int, purpose: str, agent_id: str) -> int:
        """Draw an int in 0..bound-1."""


class View(msgspec.Struct, frozen=True):
    """A consistent state of the world, as one agent may see it.

    Attributes:
        view_seq: Sequence number of the state; an agent sends it back as `context_seq`.
        sim_time: Simulated seconds.
        agent_id: The agent that may see it.
        state: `collection -> entity -> field -> value`, restricted to the agent's visibility.
        places: The positions in `state`; None in a view that was made by hand.
        leases: Running leases of entities that the agent sees: `collection/entity` to
            `{"until": simulated seconds, "own": whether the agent holds it}`.
        draws: The random numbers of its moment; None in a view that was made by hand.
    """

    view_seq: int
    sim_time: float
    agent_id: str
    state: Mapping[str, Mapping[str, Mapping[str, Json]]]
    places: Places | None = None
    leases: Mapping[str, Mapping[str, Json]] = {}
    draws: Draws | None = None

    def __getattr__(self, name: str) -> NoReturn:
        """Explain an attribute that a view does not have."""
        if name in {"settings", "options", "model"}:
            raise AttributeError(
                f"a view has no {name!r}: a policy that is a class, made with (member, scenario, "
                "intent), reads scenario.settings and scenario.agents[member.cohort].options; the "
                "view of a population has both",
                name=name,
                obj=self,
            )
        known = [own for own in dir(type(self)) if not own.startswith("_")]
        raise AttributeError(
            f"a view has no {name!r}; {did_you_mean(name, known)}", name=name, obj=self
        )

    def ids(self, collection: str) -> tuple[str, ...]:
        """Return the ids of the visible entities of a collection, sorted.

        Empty if none is visible, or there is no such collection, which an agent cannot distinguish.
        O(visible entities) if the domain's policy has an index, and for a collection of which
        nothing is hidden; else the policy is asked about every entity of the collection.
        """
        return tuple(sorted(self.state.get(collection, ())))

    def near(self, position: Sequence[float], radius: float) -> list[Ref]:
        """Return the visible entities within a radius of a position, as sorted `Ref`s.

        An entity is there by the position field that the agent sees: one without a position, such
        as a carried object, is nowhere, and so is one whose position is hidden from the agent.
        O(entities around the position), once what changed since the last use is taken in.

        Args:
            position: One to three finite numbers, in the unit of the world; missing coordinates
                are 0.
            radius: Largest Euclidean distance, in the same unit, finite and at least 0. An entity
                at this very distance, by `math.dist`, belongs to the result.

        Returns:
            `(collection, entity)` pairs, the agent's own entity included, sorted by collection and
            id and not by distance. The list is the caller's.

        Raises:
            ValueError: An argument is invalid, or no domain of the world has positions.
        """
        return self._positions().near(position, radius)

    def at(self, cell: Sequence[float]) -> list[Ref]:
        """Return the visible entities in a cell, as sorted `Ref`s.

        A cell is a cube of side 1 in the unit of the world. It is named by its lowest corner, or by
        any position in it: cell [3, 4] holds x from 3 to below 4, y from 4 to below 5 and z from 0
        to below 1. On a grid of whole numbers, a cell is a place of the grid.

        Args:
            cell: One to three finite numbers, rounded down; missing coordinates are 0.

        Returns:
            As `near`: `(collection, entity)` pairs, sorted.

        Raises:
            ValueError: The cell is invalid, or no domain of the world has positions.
        """
        return self._positions().at(cell)

    def random(self, purpose: str) -> float:
        """Draw a number in [0, 1) for a decision of the agent.

        The number is a function of the world's seed, the tick, the simulated time, the agent and
        the purpose, so a run can be repeated, and no draw shifts another. Draws of one view with
        different purposes are independent; a purpose that is used again gives the same number.

        Args:
            purpose: Name of the draw, such as `"step"`.

        Raises:
            ValueError: The view was made by hand.

        Example:
            `if view.random("panic") < 0.1: ...`
        """
        return self._draws().random(purpose, self.agent_id)

    def randint_below(self, bound: int, purpose: str) -> int:
        """Draw an int in 0..bound-1 for a decision of the agent, from the same words as `random`.

        Raises:
            TypeError: Bound and purpose are swapped.
            ValueError: The bound is no int of at least 1, or the view was made by hand.

        Example:
            `[[0, 1], [1, 0], [0, -1], [-1, 0]][view.randint_below(4, "step")]`
        """
        return self._draws().randint_below(bound, purpose, self.agent_id)

    def _draws(self) -> Draws:
        if self.draws is None:
            raise ValueError(
                "this view was made by hand and has no random numbers; random and randint_below "
                "need a view of a world, such as `refresh_view` returns"
            )
        return self.draws

    def _positions(self) -> Places:
        if self.places is None:
            raise ValueError(
                "this view was made by hand and has no positions; near and at need a view of a "
                "world, such as `refresh_view` returns"
            )
        return self.places

    def __repr__(self) -> str:
        count = sum(map(len, self.state.values()))
        return printable(f"<View of {self.agent_id} at seq {self.view_seq}, {count} entities>")

    def _repr_html_(self) -> str:
        caption = f"view of {self.agent_id} at seq {self.view_seq}, {self.sim_time:g} s"
        rows = ((name, len(entities)) for name, entities in self.state.items())
        return html_table(caption, ("collection", "entities"), rows)


ChangeOp: TypeAlias = Literal["added", "changed", "removed"]
"""`added` has all visible fields of an entity and replaces earlier ones; `changed` has the fields
with new values; `removed` means deleted or no longer visible, which an agent cannot distinguish."""


class Change(msgspec.Struct, frozen=True, dict=True):
    """The visible change of one entity. Observers with the same visibility share it.

    Attributes:
        entity: `collection/entity`.
        op: `added`, `changed` or `removed`.
        seq: Sequence number of the entity's latest change. An entity can become visible or
            invisible without a change.
        by: The agent that made the latest change; empty if the observer may not see that agent.
        fields: Field -> value; None for `removed`.
    """

    entity: str
    op: ChangeOp
    seq: int
    by: str
    fields: Mapping[str, Json] | None

    @cached_property
    def encoded(self) -> bytes:
        """The change as JSON, encoded once for all observers."""
        return to_json(self)


class DeliveredEvent(msgspec.Struct, frozen=True, dict=True):
    """An applied intent that is delivered to an agent even if a later change overwrote its result.

    Attributes:
        seq: Sequence number of the world after its batch.
        agent_id: The agent of the intent.
        kind: Kind of the applied intent.
        payload: Payload as applied, after a rule's normalization.
    """

    seq: int
    agent_id: str
    kind: str
    payload: Mapping[str, Json]

    @cached_property
    def encoded(self) -> bytes:
        """The event as JSON, encoded once for all observers."""
        return to_json(self)


class Observation(msgspec.Struct, frozen=True):
    """One consistent update of an agent's view.

    Attributes:
        view_seq: All visible changes up to this seq were delivered; the `context_seq` of intents
            that are based on it.
        sim_time: Simulated seconds.
        agent_id: The agent that receives it.
        kind: `snapshot` replaces the view, `delta` updates it.
        changes: Changes of entities, at most one for each entity.
        events: Delivered events since the last observation, in order.
        events_dropped: Number of events lost because the buffer was full; the oldest are dropped.
        deferred_count: Number of changes deferred by a byte budget or a latency: those entities are
            shown older than the rest of the view, as of before `view_seq`.
    """

    view_seq: int
    sim_time: float
    agent_id: str
    kind: Literal["snapshot", "delta"]
    changes: tuple[Change, ...]
    events: tuple[DeliveredEvent, ...] = ()
    events_dropped: int = 0
    deferred_count: int = 0

    @property
    def encoded(self) -> bytes:
        """The observation as one JSON object; its changes are encoded once for all observers."""
        return to_json(
            {
                "type": "observation",
                **msgspec.structs.asdict(self),
                "changes": [msgspec.Raw(change.encoded) for change in self.changes],
                "events": [msgspec.Raw(event.encoded) for event in self.events],
            }
        )

    def __repr__(self) -> str:
        return printable(
            f"<Observation {self.kind} for {self.agent_id} at seq {self.view_seq}, "
            f"{len(self.changes)} changes, {len(self.events)} events>"
        )


LocalView: TypeAlias = dict[str, dict[str, dict[str, Json]]]
"""The view that a client keeps: `collection -> entity -> field -> value`."""


def apply_observation(view: LocalView, observation: Observation) -> None:
    """Apply an observation to a local view; it then equals the view at the observation's seq."""
    if observation.kind == "snapshot":
        view.clear()
    for change in observation.changes:
        collection, _, entity = change.entity.partition("/")
        rows = view.setdefault(collection, {})
        match change.op:
            case "added":
                rows[entity] = dict(change.fields or {})
            case "changed":
                rows[entity].update(change.fields or {})
            case _:  # removed
                del rows[entity]
        if not rows:
            del view[collection]
