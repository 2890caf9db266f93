"""The protocols of visibility: a policy of a domain, and the interest index beside it."""

from collections.abc import Collection, Iterable, Set
from typing import TYPE_CHECKING, Protocol

from placet.schemas.identity import Ref

if TYPE_CHECKING:
    from placet.kernel.state.tree import State


class InterestIndex(Protocol):
    """Finds quickly which agents a change may concern, such as those near it.

    Its answers are supersets: each candidate is checked by the policy's `may_see` afterwards. So an
    answer may hold too many agents or entities, never too few.
    """

    def observers_of(self, ref: Ref) -> Set[str] | None:
        """Return all agents that may see an entity, and perhaps others; None is every agent."""

    def candidates_for(self, agent_id: str) -> Set[Ref] | None:
        """Return all entities that an agent may see, and perhaps others; None is every entity."""

    def update(self, state: "State", refs: Iterable[Ref]) -> None:
        """Update the index for changed entities; `state` is the state after the change."""


class VisibilityPolicy(Protocol):
    """A visibility policy: which agent may see which entity and field.

    `placet.kernel.visibility` has policies to compose. Pure: it depends on the state alone.

    Attributes:
        agent_collection: Collection in which each agent has one entity, named like the agent.
        depends_on: Fields of the agent's entity that decide its visibility: if one changes, all
            that the agent may see is checked again. None is any part of the state.
        indexed_by: Fields fully covered by the interest index: when one changes, the entities
            that are in `candidates_for` both before and after keep their visibility, and only
            the others are checked again.
        is_indexed: Whether the interest index narrows the candidates; if not, all are checked.
        hides_fields: `hidden_fields` may return fields.
        hides: Collections of which it may hide an entity or a field. All others are shown whole
            to every agent, and it is not asked about them. None is any collection, and so is a
            policy without this attribute.
        position_field: Field of the domain's entities with their positions, for `View.near` and
            `View.at`: one to three finite numbers. None: the domain has no positions; so is a
            policy without this attribute.
    """

    agent_collection: str
    depends_on: frozenset[str] | None
    indexed_by: frozenset[str]
    is_indexed: bool
    hides_fields: bool
    hides: frozenset[str] | None
    position_field: str | None

    def may_see(self, state: "State", agent_id: str, ref: Ref) -> bool:
        """Return whether an agent may see that an entity exists.

        It is also asked about deleted entities and about names that were never used: return True
        there only if the name alone tells that the agent may know of it. Else the refusals of
        intents that name it would tell that it was there.
        """

    def hidden_fields(self, state: "State", agent_id: str, ref: Ref) -> Collection[str]:
        """Return the fields of an entity that an agent may not see."""

    def relevance(self, state: "State", agent_id: str, ref: Ref) -> float:
        """Return the relevance of an entity to an agent, from 0 to 1.

        Higher is sent first where not all fits.
        """

    def distance(self, state: "State", agent_id: str, ref: Ref) -> float | None:
        """Return an entity's distance from an agent, in the world's unit; None if it has none."""

    def dependents_of(self, state: "State", ref: Ref) -> Iterable[Ref]:
        """Return the entities whose visibility derives from an entity, such as carried objects."""

    def new_index(self) -> InterestIndex:
        """Build an empty index for one published state."""
