"""Grids and networks for authors of domains: cells, neighbors, capacity, layers and links.

It declares no kinds. A `Grid` or a `Network` is a value that rules, hooks and policies share; a
`CellTable` holds the agents of columns, an `Occupancy` the agents of objects. Cells and nodes are
numbers from 0. Methods on a number are plain Python, and those on arrays load numpy.
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
