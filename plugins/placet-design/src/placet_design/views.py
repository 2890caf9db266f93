"""The visibility of a design, and the design as one value.

A design is visible to every agent that works on it.
"""

from placet.kernel.state.tree import State, entity_hash
from placet_design.payloads import ABOUT, DESIGN, LOCKS, PARAMETERS
from placet_design.phase_results import ASSUMPTIONS, shown_phases
from placet_design.state.design_json import DesignState
from placet_design.state.parameters import lock_of


def read_design(tree: State, now_ns: int) -> DesignState:
    """Read a design from a world's state. O(design)."""
    values = {path: tree.get(PARAMETERS, path, "value") for path in paths_of(tree)}
    phases = {
        n: result for n, result in shown_phases(tree).items() if result["status"] != "pending"
    }
    return DesignState(
        version_of(tree),
        locked_paths(tree, now_ns),
        tree.get(ABOUT, DESIGN, "design_id"),
        {p: v for p, v in values.items() if v is not None and p not in ASSUMPTIONS},
        {p: v for p, v in values.items() if v is not None and p in ASSUMPTIONS},
        phases,
    )


def paths_of(tree: State) -> tuple[str, ...]:
    """List the paths of the design, in the order of the whitelist, assumptions last."""
    paths: tuple[str, ...] = tree.get(ABOUT, DESIGN, "paths")
    return paths


def version_of(tree: State) -> int:
    """Return the design's version."""
    version: int = tree.get(ABOUT, DESIGN, "version")
    return version


def locked_paths(tree: State, now_ns: int) -> set[str]:
    """Return the paths that are locked at a time."""
    return {path for path in tree.ids(LOCKS) if lock_of(tree, path, now_ns) is not None}


def design_digest(tree: State) -> str:
    """Hash the parameters and locks: the part that an undo restores while the version increases.

    Equal content has an equal digest, whatever the version.
    """
    content = {
        kind: {path: dict(tree.entity(kind, path) or {}) for path in tree.ids(kind)}
        for kind in (PARAMETERS, LOCKS)
    }
    return f"{entity_hash(ABOUT, DESIGN, content):032x}"
