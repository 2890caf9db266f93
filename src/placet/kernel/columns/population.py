"""A population as its user holds it: the name of like agents, and their columns."""

from typing import TYPE_CHECKING, Any, Protocol

from placet.schemas.missing_key import MissingKeyError

if TYPE_CHECKING:
    from placet.kernel.arrays.words import Array
    from placet.kernel.ledger.ledger import Ledger
    from placet.kernel.ledger.members import Members
    from placet.kernel.plugin.rows import Rows64
    from placet.kernel.state.tree import State


class TableWorld(Protocol):
    """The kernel of a population, as far as the population reads it."""

    ledger: "Ledger"

    @property
    def tree(self) -> "State":
        """The state tree."""


class PopulationHandle:
    """The agents `<name>:0` to `<name>:<count - 1>` of one kernel, and their rows of its table.

    Made by `Kernel.register_population`, or by `Kernel.population` in a world that has it.

    Attributes:
        name: Its name.
        table: Name of its table.
        count: Number of its members.
    """

    __slots__ = ("_world", "count", "name", "table")

    def __init__(self, world: TableWorld, members: "Members") -> None:
        self._world = world
        self.name, self.table, self.count = members.name, members.table, members.count

    def __repr__(self) -> str:
        return f"<PopulationHandle {self.name!r}: {self.count} agents of {self.table}>"

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, field: str) -> "Array":
        """Return the present values of a field as a read-only array `(count, *field.shape)`.

        It keeps its values: a later change writes into a copy.

        Raises:
            KeyError: The table has no such field.
        """
        table = self._world.tree.tables[self.table]
        if field not in table.fields:
            raise MissingKeyError(field, f"field of {self.table}", table.fields)
        return table.shown(field)

    @property
    def numbers(self) -> "Rows64":
        """Numbers of the members, `0..count - 1`."""
        return self._world.ledger.populations[self.name].all

    @property
    def suspended(self) -> Any:  # noqa: ANN401  # an array of booleans
        """Whether each member is suspended."""
        return self._world.ledger.populations[self.name].suspended_mask()
