"""Buffer for the edits of a batch: reads fall through to the state.

Written when all edits are valid.
"""

from collections.abc import Callable
from dataclasses import replace

from placet.kernel.state.tree import State
from placet_program.functions import Function, Functions
from placet_program.payloads import FUNCTIONS


class EditBuffer(Functions):
    """The functions of a state, with edits that are not written yet.

    Attributes:
        edited: Edited functions, None where removed; in order of first edit.
    """

    __slots__ = ("edited",)

    def __init__(self, state: State, charge: Callable[[int], None] | None = None) -> None:
        super().__init__(state, charge)
        self.edited: dict[str, Function | None] = {}

    def find(self, name: str) -> Function | None:
        """Return a function as edited so far; None if it does not exist."""
        return self.edited[name] if name in self.edited else super().find(name)

    def names(self) -> list[str]:
        """Return the names of all functions, including the batch's edits, sorted."""
        known = set(super().names()) - self.edited.keys()
        return sorted(
            known.union(name for name, function in self.edited.items() if function is not None)
        )

    def callers(self, name: str) -> list[str]:
        """Return the names of the functions that call this one, without itself, sorted."""
        before = [caller for caller in super().callers(name) if caller not in self.edited]
        edited = [
            function
            for function in self.edited.values()
            if function is not None and function.name != name
        ]
        return sorted(
            [*before, *(function.name for function in edited if name in function.calls())]
        )

    def node_count(self) -> int:
        """Count the nodes of all functions. O(functions)."""
        before = (name for name in super().names() if name not in self.edited)
        counts = [len(self.state.get(FUNCTIONS, name, "nodes")) for name in before]
        return sum(counts) + sum(
            len(function.nodes) for function in self.edited.values() if function is not None
        )

    # editing

    def put(self, function: Function) -> None:
        """Add or replace a function."""
        self.edited[function.name] = function

    def remove(self, name: str) -> None:
        """Remove a function."""
        self.edited[name] = None

    def edit(self, name: str) -> Function | None:
        """Return an editable function, or None if it does not exist."""
        function = self.find(name)
        if function is not None and name not in self.edited:
            self.charge(len(function.nodes) // 32)
            function = self.edited[name] = replace(function, nodes=dict(function.nodes))
        return function
