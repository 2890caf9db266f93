"""Grids and networks for authors of domains: cells, neighbors, capacity, layers and links.

It declares no kinds. Rules, hooks and policies share a `Grid` or a `Network`, which never changes.
`CellTable` places the members of a population (columns) in cells, `Occupancy` places agents with
ordinary entities. Cells and nodes are numbers from 0. Methods on one number are plain Python;
methods on arrays load numpy.
"""

from placet.domains.space.cell_table import CellTable
from placet.domains.space.generators import random_network, ring_lattice, scale_free, small_world
from placet.domains.space.grid import Grid
from placet.domains.space.network import Network
from placet.domains.space.occupancy import Occupancy

__all__ = [
    "CellTable",
    "Grid",
    "Network",
    "Occupancy",
    "random_network",
    "ring_lattice",
    "scale_free",
    "small_world",
]
