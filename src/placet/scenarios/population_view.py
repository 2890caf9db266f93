"""The view of a population, with which its policy is called: columns, draws, and neighbors."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placet.kernel.arrays.words import Array, Words, below_array, mix_array, unit_array
from placet.kernel.kernel import Kernel
from placet.kernel.plugin.rows import BOUND_MAX, ColumnReader
from placet.kernel.prng import draw_bound, draw_state
from placet.scenarios.neighbors import Numbers, Pairs, neighbors
from placet.schemas.codec import Json
from placet.schemas.missing_key import MissingKeyError

Unit: TypeAlias = NDArray[np.float64]


class Some(NamedTuple):
    """Intents of some members: their numbers, and the payload arrays with an item for each."""

    agents: Numbers
    payload: Mapping[str, object]


class PopulationView:
    """A population and its world as its policy reads them, at one moment.

    The arrays are read-only, and are the present ones of the world: copy one to keep it.

    Args:
        kernel: The kernel of the world.
        population: Name of the population.
        options: Options of the policy in the scenario.

    Attributes:
        name: Name of the population.
        count: Number of its members.
        tick: Number of completed ticks.
        sim_time: Simulated time, seconds.
        seq: Seq of the state.
        options: Options of the policy in the scenario.
        settings: The settings of the domains, such as the size of a plane.
        state: The state, in which tables are collections too.
    """

    __slots__ = (
        *("_kernel", "_members", "count", "name", "options", "seq", "settings", "sim_time"),
        *("state", "tick"),
    )

    def __init__(self, kernel: Kernel, population: str, options: Mapping[str, Json]) -> None:
        self._kernel, self._members = kernel, kernel.ledger.populations[population]
        self.name, self.count, self.options = population, self._members.count, options
        self.settings = settings_of(kernel)
        self.state = kernel.state
        self.tick, self.sim_time, self.seq = kernel.ledger.tick, kernel.sim_time, kernel.seq

    def __repr__(self) -> str:
        return f"<PopulationView of {self.name!r}: {self.count} agents at tick {self.tick}>"

    def __getitem__(self, field: str) -> Array:
        """Return a field of the members, `(count, *field.shape)`.

        Raises:
            KeyError: Their table has no such field.
        """
        return self.table(self._members.table)[field]

    def table(self, name: str) -> Mapping[str, Array]:
        """Return the columns of a table of the world.

        Raises:
            KeyError: There is no such table.
        """
        tables = self._kernel.tree.tables
        if name not in tables:
            raise MissingKeyError(name, "table", tables)
        return ColumnReader(tables[name], None)

    @property
    def numbers(self) -> Numbers:
        """Numbers of the members, `0..count - 1`."""
        return self._members.all

    @property
    def suspended(self) -> NDArray[np.bool_]:
        """Whether each member is suspended."""
        mask: NDArray[np.bool_] = self._members.suspended_mask()
        return mask

    def only(self, agents: ArrayLike, **payload: object) -> Some:
        """Return the intents of some members, for the mapping that a policy returns.

        Args:
            agents: Their numbers, or a mask of all members.
            **payload: Array of each field of the payload: an item for each of `agents`.

        Raises:
            ValueError: A mask has not an item for each member.
        """
        given = np.asarray(agents)
        if given.dtype == np.bool_:
            if given.shape != (self.count,):
                raise ValueError(f"a mask of {self.name} has {self.count} items, got {given.shape}")
            given = np.flatnonzero(given)
        return Some(given, payload)

    # draws

    def random_u64(self, purpose: str) -> Words:
        """Draw 64 bits for each member.

        They are `placet.kernel.random_u64(seed, tick, now_ns, 0, purpose, "<name>:<number>")` at
        the time of the view, so they depend on no other draw, and are drawn again from a log.
        """
        kernel = self._kernel
        seed, now_ns = kernel.config.seed, kernel.ledger.now_ns
        return mix_array(draw_state(seed, self.tick, now_ns, 0, purpose), self._members.keys)

    def random_unit(self, purpose: str) -> Unit:
        """Draw a number in [0, 1) for each member."""
        return unit_array(self.random_u64(purpose))

    def randint_below(self, bound: int, purpose: str) -> Numbers:
        """Draw an int in 0..bound-1 for each member, for a bound of at most 2**32.

        Raises:
            TypeError: Bound and purpose are swapped.
            ValueError: The bound is out of range.
        """
        bound = draw_bound(bound, purpose)
        if not 1 <= bound <= BOUND_MAX:
            raise ValueError(f"a draw needs a bound in 1..2**32, got {bound!r}")
        return below_array(bound, self.random_u64(purpose))

    # neighbors

    def neighbors(self, field: str, radius: float, box: Any = None) -> Pairs:  # noqa: ANN401  # a size
        """Return the pairs of members whose values of a field are at most `radius` apart.

        Args:
            field: Field of positions, such as `position`.
            radius: Greatest distance.
            box: Size of a torus, one number or one an axis; None is a plane.

        Raises:
            KeyError: The table has no such field.
            ValueError: The radius, the box or the field does not fit.
        """
        return neighbors(self[field], radius, box)


def settings_of(kernel: Kernel) -> dict[str, Json]:
    """Return the settings of the domains of a world as one mapping; the last of a name counts."""
    settings: dict[str, Json] = {}
    for domain in kernel.registry.domains:
        settings.update(domain.settings() or {})
    return settings
