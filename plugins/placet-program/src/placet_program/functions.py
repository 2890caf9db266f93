"""A function as the rules use it, and access to the functions of a state."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from placet.kernel.state.tree import State
from placet.schemas.codec import Json, canonical
from placet_program.payloads import CALLS, FUNCTIONS

Node: TypeAlias = Mapping[str, Json]
"""`op` `inputs`, of a const `value`, of a param and a call `target`."""


@dataclass(slots=True)
class Function:
    """One function of the program: a graph of nodes that computes a result.

    Attributes:
        params: Name -> type, in order.
        nodes: Name -> node; a value read from a state is immutable.
        result: The node that it returns; None if unset.
    """

    name: str
    params: Mapping[str, str]
    returns: str
    is_exported: bool
    nodes: dict[str, Node]
    result: str | None

    @classmethod
    def read(cls, name: str, content: Mapping[str, Json]) -> "Function":
        """Build a function from the output of `content`."""
        params = {param["name"]: param["type"] for param in content["params"]}
        fields = (content["returns"], content["exported"], content["nodes"], content["result"])
        return cls(name, params, *fields)

    def content(self) -> dict[str, Json]:
        """Return the function as plain values, without its name."""
        return {
            "params": tuple([{"name": name, "type": kind} for name, kind in self.params.items()]),
            "returns": self.returns,
            "exported": self.is_exported,
            "nodes": self.nodes,
            "result": self.result,
        }

    def remove_node(self, name: str) -> None:
        """Remove a node, and disconnect the ports that it was connected to. O(nodes)."""
        del self.nodes[name]
        for other, node in self.nodes.items():
            if name in node["inputs"]:
                inputs = tuple([None if source == name else source for source in node["inputs"]])
                self.nodes[other] = {**node, "inputs": inputs}
        if self.result == name:
            self.result = None

    def calls(self) -> set[str]:
        """Return the names of the functions that this function calls. O(nodes)."""
        return {node["target"] for node in self.nodes.values() if node["op"] == "call"}


def encoded(content: Mapping[str, Json]) -> bytes:
    """Encode a function's content, for its hash and its size."""
    return canonical(content)


def hash_of(data: bytes) -> str:
    """Hash an encoded content or a source to 16 hexadecimal digits."""
    return blake2b(data, digest_size=8).hexdigest()


class Functions:
    """The functions of a state, each decoded once.

    Args:
        state: The state.
        charge: Charges units of work; None charges nothing.
    """

    __slots__ = ("_read", "charge", "state")

    def __init__(self, state: State, charge: Callable[[int], None] | None = None) -> None:
        self.state = state
        self.charge: Callable[[int], None] = charge or _charge_nobody
        self._read: dict[str, Function | None] = {}

    def find(self, name: str) -> Function | None:
        """Return a function by its name; None if it does not exist."""
        if name not in self._read:
            fields = self.state.entity(FUNCTIONS, name)
            self._read[name] = None if fields is None else Function.read(name, fields)
        return self._read[name]

    def names(self) -> list[str]:
        """Return the names of all functions, sorted."""
        return list(self.state.ids(FUNCTIONS))

    def hash(self, name: str) -> str | None:
        """Return the hash of a function in the state; None if it does not exist."""
        digest: str | None = self.state.get(FUNCTIONS, name, "hash")
        return digest

    def callers(self, name: str) -> list[str]:
        """Return the names of the functions that call this one, without itself, sorted.

        O(functions).
        """
        self.charge(len(self.names()))
        callers = (caller for caller in self.names() if caller != name)
        return [caller for caller in callers if self.state.exists(CALLS, edge(caller, name))]

    def reachable(self, name: str) -> Iterator[Function]:
        """Yield a function and all that it calls, directly or indirectly, each once."""
        todo, seen = [name], {name}
        while todo:
            function = self.find(todo.pop())
            assert function is not None, "what is called is there"
            yield function
            fresh = sorted(function.calls() - seen)
            seen.update(fresh)
            todo += fresh


def _charge_nobody(_units: int) -> None:
    """Charge nothing: the functions are read outside of a batch."""


def edge(caller: str, callee: str) -> str:
    """Return the id of the entity which records that one function calls another."""
    return f"{caller}>{callee}"
