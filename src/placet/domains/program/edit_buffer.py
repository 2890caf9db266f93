"""Where a batch edits functions: over the state, which is written when all of it is sound."""

from dataclasses import replace

from placet.domains.program.functions import Function, Functions
from placet.domains.program.payloads import FUNCTIONS
from placet.kernel.state.tree import State


class EditBuffer(Functions):
    """The functions of a state, with edits that are not written yet.

    Attributes:
        edited: Edited functions, None where removed; in order of first edit.
    """

    __slots__ = ("edited",)

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.edited: dict[str, Function | None] = {}

    def find(self, name: str) -> Function | None:
        """Find a function as the batch has made it so far."""
        return self.edited[name] if name in self.edited else super().find(name)

    def names(self) -> list[str]:
        """Name all functions that there are now, sorted."""
        known = set(super().names()) - self.edited.keys()
        return sorted(known.union(name for name, one in self.edited.items() if one is not None))

    def callers(self, name: str) -> list[str]:
        """Name the functions that call one now, itself left out, sorted."""
        before = [caller for caller in super().callers(name) if caller not in self.edited]
        edited = [one for one in self.edited.values() if one is not None and one.name != name]
        return sorted([*before, *(one.name for one in edited if name in one.calls())])

    def node_count(self) -> int:
        """Count the nodes of all functions. O(functions)."""
        before = (name for name in super().names() if name not in self.edited)
        counts = [len(self.state.get(FUNCTIONS, name, "nodes")) for name in before]
        return sum(counts) + sum(len(one.nodes) for one in self.edited.values() if one is not None)

    # editing

    def put(self, function: Function) -> None:
        """Have a new function, or one in the place of another."""
        self.edited[function.name] = function

    def remove(self, name: str) -> None:
        """Have a function no more."""
        self.edited[name] = None

    def edit(self, name: str) -> Function | None:
        """Return a function that may be changed, or None if there is none."""
        function = self.find(name)
        if function is not None and name not in self.edited:
            function = self.edited[name] = replace(function, nodes=dict(function.nodes))
        return function
