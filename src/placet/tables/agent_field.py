"""A field of the agents, as a collector names it: in any collection, or in one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from placet.kernel.state.collection import Entity
from placet.kernel.state.tree import State

if TYPE_CHECKING:
    from placet.kernel.state.table import TableData


class AgentField(NamedTuple):
    """A field of the agents: `position`, or `world.agents/position` with its collection.

    A member of a population has the fields of its row of the population's table.
    """

    name: str

    @property
    def field(self) -> str:
        """The name of the field, without a collection."""
        return self.name.rpartition("/")[2]

    def is_in(self, table: "TableData") -> bool:
        """Return whether the members of a population have the field in their table."""
        named, slash, field = self.name.rpartition("/")
        return field in table.fields and (not slash or named == table.name)

    def alternatives(self, state: State, agents: Sequence[str]) -> tuple[str, list[str]]:
        """Return the unknown part of the name, and the known names for it. O(agents).

        It is the collection if no agent has an entity there, and else the field.
        """
        named, slash, field = self.name.rpartition("/")
        fields_of = {
            name: {
                field
                for agent in agents
                if agent in of.entities
                for field in of.entities[agent].fields
            }
            for name, of in sorted(state.collections.items())
        }
        fields_of |= {name: set(of.fields) for name, of in state.tables.items()}
        fields_of = {name: fields for name, fields in fields_of.items() if fields}
        if slash and named not in fields_of:
            return named, [*fields_of]
        chosen = [fields_of[named]] if slash else fields_of.values()
        return field, sorted({field for fields in chosen for field in fields})

    def entities(self, state: State, agents: Sequence[str]) -> Mapping[str, Entity]:
        """Return the entities that have the field of the agents, by id.

        Of several collections, the first by name in which an agent has the field is used.
        """
        named, slash, field = self.name.rpartition("/")
        for name in [named] if slash else sorted(state.collections):
            collection = state.collections.get(name)
            entities: Mapping[str, Entity] = {} if collection is None else collection.entities
            for agent in agents:
                entity = entities.get(agent)
                if entity is not None and field in entity.fields:
                    return entities
        return {}
