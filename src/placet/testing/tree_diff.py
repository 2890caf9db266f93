"""Copies of state trees, and the first difference between two of them."""

from collections.abc import Mapping
from typing import Final

from placet.kernel.state.tree import State
from placet.schemas.codec import Json

Tree = Mapping[str, Mapping[str, Mapping[str, Json]]]

_ABSENT: Final = "absent"


def whole(state: State) -> dict[str, dict[str, dict[str, Json]]]:
    """Return a copy of all values of a tree, computed without its caches. O(state)."""
    return state.as_dict()


def difference(first: Tree, second: Tree) -> str:
    """Describe the first difference of two different trees: `a.b/c d is 1, which was 2,`."""
    ours, theirs = _leaves(first), _leaves(second)
    place = min(
        p for p in ours.keys() | theirs.keys() if ours.get(p, _ABSENT) != theirs.get(p, _ABSENT)
    )
    was, now = ours.get(place, _ABSENT), theirs.get(place, _ABSENT)
    return f"{place} is {now!r}, which was {was!r},"


def _leaves(tree: Tree) -> dict[str, Json]:
    """Return every value by its path; an entity has an entry too, so that empty ones count."""
    leaves: dict[str, Json] = {}
    for collection, entities in tree.items():
        for entity, fields in entities.items():
            leaves[f"{collection}/{entity}"] = "there"
            leaves |= {f"{collection}/{entity} {name}": value for name, value in fields.items()}
    return leaves
